//! A spec as Docker's container configuration. Pure.

use std::collections::{BTreeMap, HashMap};

use bollard::models::{
    ContainerCreateBody, DeviceRequest, HealthConfig, HostConfig, Mount, MountType,
    MountVolumeOptions, PortBinding, ResourcesUlimits, RestartPolicy, RestartPolicyNameEnum,
};
use secrecy::ExposeSecret;
use serde::{Deserialize, Serialize};

use super::spec::{
    ContainerSpec, HealthCheck, LABEL_PREFIX, PortSpec, Probe, Restart, VISIBLE_DEVICES, VolumeSpec,
};
use crate::capacity::server::CardUuid;

pub(crate) const LABEL_MANAGED: &str = "io.loomplane.managed";
pub(crate) const LABEL_SERVICE: &str = "io.loomplane.service";
pub(crate) const LABEL_RUN: &str = "io.loomplane.run";
pub(crate) const LABEL_ASKED: &str = "io.loomplane.asked";
pub(crate) const LABEL_POOL: &str = "io.loomplane.pool";
pub(crate) const LABEL_GPU_KIND: &str = "io.loomplane.gpu-kind";
pub(crate) const LABEL_SECRET_VERSION: &str = "io.loomplane.secret-env-version";

/// MiB in bytes.
pub(crate) const MIB: u64 = 1 << 20;
/// A second in Docker's nanoseconds.
pub(crate) const SECOND: i64 = 1_000_000_000;

/// Tries an URL with what the image has. The URL is an argument, never part of the text.
pub(crate) const HTTP_PROBE: &str = concat!(
    r#"if command -v curl >/dev/null 2>&1; then exec curl -fsS -o /dev/null "$1"; fi; "#,
    r#"if command -v wget >/dev/null 2>&1; then exec wget -q -O /dev/null "$1"; fi; "#,
    r#"if command -v python3 >/dev/null 2>&1; then exec python3 -c 'import sys,urllib.request; urllib.request.urlopen(sys.argv[1])' "$1"; fi; "#,
    r#"echo "the image has neither curl, wget nor python3 for health_check.http_path; use health_check.command"; exit 1"#
);

/// What was asked, beyond what Docker's configuration tells apart from the image's own.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Asked {
    pub(crate) env: Vec<String>,
    pub(crate) secret_env: Vec<String>,
    pub(crate) labels: Vec<String>,
    pub(crate) command: bool,
    pub(crate) args: bool,
    pub(crate) working_dir: bool,
    pub(crate) user: bool,
    pub(crate) health: bool,
    pub(crate) ports: Vec<PortSpec>,
    pub(crate) volumes: BTreeMap<String, VolumeSpec>,
}

impl Asked {
    fn of(spec: &ContainerSpec) -> Self {
        Self {
            env: spec.env.keys().cloned().collect(),
            secret_env: spec.secret_env.keys().cloned().collect(),
            labels: spec.labels.keys().cloned().collect(),
            command: spec.command.is_some(),
            args: spec.args.is_some(),
            working_dir: spec.working_dir.is_some(),
            user: spec.user.is_some(),
            health: spec.health.is_some(),
            ports: spec.ports.clone(),
            volumes: spec.volumes.clone(),
        }
    }
}

/// How the engine hands GPUs around unless asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DefaultRuntime {
    /// Not at all.
    Plain,
    /// NVIDIA's runtime: an image that says so would get every card.
    Nvidia,
}

/// The configuration of a container for `spec` with `devices`, made by run `run`.
pub(crate) fn render(
    spec: &ContainerSpec,
    devices: &[CardUuid],
    run: &str,
    default_runtime: DefaultRuntime,
) -> ContainerCreateBody {
    let gpu_environment = if !devices.is_empty() {
        // The device request says the same; this holds where NVIDIA's runtime is the default and the image asks for all.
        Some(list(devices))
    } else if default_runtime == DefaultRuntime::Nvidia {
        Some("void".to_owned())
    } else {
        None
    };
    let mut env: Vec<String> = spec
        .env
        .iter()
        .map(|(key, value)| format!("{key}={value}"))
        .collect();
    env.extend(
        spec.secret_env
            .iter()
            .map(|(key, value)| format!("{key}={}", value.expose_secret())),
    );
    env.extend(gpu_environment.map(|value| format!("{VISIBLE_DEVICES}={value}")));
    ContainerCreateBody {
        image: Some(spec.image.clone()),
        entrypoint: spec.command.clone(),
        cmd: spec.args.clone(),
        working_dir: spec.working_dir.clone(),
        user: spec.user.clone(),
        env: Some(env),
        exposed_ports: Some(spec.ports.iter().map(port_key).collect()),
        healthcheck: spec.health.as_ref().map(health),
        labels: Some(labels(spec, run)),
        stop_timeout: spec.stop_grace_seconds.map(i64::from),
        host_config: Some(host_config(spec, devices)),
        ..ContainerCreateBody::default()
    }
}

fn host_config(spec: &ContainerSpec, devices: &[CardUuid]) -> HostConfig {
    let bytes = |mib: u64| i64::try_from(mib * MIB).unwrap_or(i64::MAX);
    let mut bindings: HashMap<String, Option<Vec<PortBinding>>> = HashMap::new();
    for port in &spec.ports {
        let Some(host_port) = port.host_port else {
            continue;
        };
        bindings
            .entry(port_key(port))
            .or_default()
            .get_or_insert_default()
            .push(PortBinding {
                host_ip: Some(port.host_ip.clone().unwrap_or_default()),
                host_port: Some(host_port.to_string()),
            });
    }
    HostConfig {
        nano_cpus: spec.nano_cpus,
        memory: spec.memory_mib.map(bytes),
        // The same as memory: no swap on top of it.
        memory_swap: spec.memory_mib.map(bytes),
        shm_size: spec.shm_mib.map(bytes),
        device_requests: (!devices.is_empty()).then(|| {
            vec![DeviceRequest {
                driver: Some(String::new()),
                device_ids: Some(devices.iter().map(|uuid| uuid.0.clone()).collect()),
                capabilities: Some(vec![vec!["gpu".to_owned()]]),
                ..DeviceRequest::default()
            }]
        }),
        port_bindings: Some(bindings),
        restart_policy: Some(restart(spec.restart)),
        network_mode: spec.network.clone(),
        ulimits: (!spec.ulimits.is_empty()).then(|| {
            spec.ulimits
                .iter()
                .map(|(name, limit)| ResourcesUlimits {
                    name: Some(name.clone()),
                    soft: Some(limit.soft),
                    hard: Some(limit.hard),
                })
                .collect()
        }),
        mounts: Some(mounts(spec)),
        ..HostConfig::default()
    }
}

fn mounts(spec: &ContainerSpec) -> Vec<Mount> {
    let marks = HashMap::from([
        (LABEL_MANAGED.to_owned(), "true".to_owned()),
        (LABEL_SERVICE.to_owned(), spec.name.clone()),
    ]);
    let volumes = spec.volumes.values().map(|volume| Mount {
        typ: Some(MountType::VOLUME),
        source: Some(volume.docker_name.clone()),
        target: Some(volume.mount_path.clone()),
        read_only: Some(volume.read_only),
        volume_options: Some(MountVolumeOptions {
            labels: Some(marks.clone()),
            ..MountVolumeOptions::default()
        }),
        ..Mount::default()
    });
    let binds = spec.host_mounts.iter().map(|mount| Mount {
        typ: Some(MountType::BIND),
        source: Some(mount.host_path.clone()),
        target: Some(mount.mount_path.clone()),
        read_only: Some(mount.read_only),
        ..Mount::default()
    });
    volumes.chain(binds).collect()
}

fn labels(spec: &ContainerSpec, run: &str) -> HashMap<String, String> {
    let mut labels: HashMap<String, String> = spec.labels.clone().into_iter().collect();
    let asked = serde_json::to_string(&Asked::of(spec)).unwrap_or_default();
    let mut own = vec![
        (LABEL_MANAGED, "true".to_owned()),
        (LABEL_SERVICE, spec.name.clone()),
        (LABEL_RUN, run.to_owned()),
        (LABEL_ASKED, asked),
    ];
    own.extend(
        spec.pool
            .as_ref()
            .map(|pool| (LABEL_POOL, pool.pool.clone())),
    );
    own.extend(
        spec.gpu
            .map(|gpu| (LABEL_GPU_KIND, gpu.kind.id().to_owned())),
    );
    own.extend(
        spec.secret_env_version
            .clone()
            .map(|version| (LABEL_SECRET_VERSION, version)),
    );
    labels.extend(own.into_iter().map(|(key, value)| (key.to_owned(), value)));
    debug_assert!(
        labels
            .keys()
            .filter(|key| key.starts_with(LABEL_PREFIX))
            .count()
            >= 4
    );
    labels
}

/// `8000/tcp`.
pub(crate) fn port_key(port: &PortSpec) -> String {
    format!("{}/{}", port.port, port.protocol.as_str())
}

pub(crate) fn restart(policy: Restart) -> RestartPolicy {
    let (name, retries) = match policy {
        Restart::No => (RestartPolicyNameEnum::NO, None),
        Restart::Always => (RestartPolicyNameEnum::ALWAYS, None),
        Restart::UnlessStopped => (RestartPolicyNameEnum::UNLESS_STOPPED, None),
        Restart::OnFailure(most) => (RestartPolicyNameEnum::ON_FAILURE, Some(i64::from(most))),
    };
    RestartPolicy {
        name: Some(name),
        maximum_retry_count: retries,
    }
}

fn health(check: &HealthCheck) -> HealthConfig {
    let seconds = |seconds: u32| Some(i64::from(seconds) * SECOND);
    let test = match &check.probe {
        Probe::Http { port, path } => {
            let url = format!("http://127.0.0.1:{port}{path}");
            ["CMD", "/bin/sh", "-c", HTTP_PROBE, "loomplane", &url]
                .map(str::to_owned)
                .to_vec()
        }
        Probe::Command(words) => std::iter::once("CMD".to_owned())
            .chain(words.iter().cloned())
            .collect(),
    };
    HealthConfig {
        test: Some(test),
        interval: seconds(check.interval_seconds),
        timeout: seconds(check.timeout_seconds),
        retries: Some(i64::from(check.retries)),
        start_period: seconds(check.startup_seconds),
        // Engines before API 1.44 don't know it and go by the interval.
        start_interval: seconds(check.interval_seconds.min(2)),
    }
}

fn list(devices: &[CardUuid]) -> String {
    devices
        .iter()
        .map(|uuid| uuid.0.as_str())
        .collect::<Vec<_>>()
        .join(",")
}
