//! A container as Docker shows it, read back as a spec: for refresh, import and drift. Secrets stay behind.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use bollard::models::{
    ContainerInspectResponse, HealthConfig, HealthStatusEnum, HostConfig, ImageConfig,
    RestartPolicyNameEnum,
};

use super::attached;
use super::body::{
    Asked, CDI_PREFIX, HTTP_PROBE, LABEL_ASKED, LABEL_GPU_KIND, LABEL_MANAGED, LABEL_POOL,
    LABEL_RUN, LABEL_SECRET_VERSION, LABEL_SERVICE, MIB, SECOND,
};
use super::spec::{
    ContainerSpec, HealthCheck, LABEL_PREFIX, Probe, Protocol, Restart, Ulimit, VISIBLE_DEVICES,
};
use crate::capacity::gpu::GpuRequest;
use crate::capacity::ledger::ContainerState;
use crate::capacity::server::CardUuid;

/// A container that is there.
#[derive(Debug, Clone)]
pub struct Observed {
    /// Docker's id.
    pub id: String,
    /// Name, without the slash.
    pub name: String,
    /// What it is, in the terms of a spec. `secret_env` is empty, `gpu` is none where the kind is not on record (a foreign container), `pool` has budget 0.
    pub spec: ContainerSpec,
    /// Names of its secret variables.
    pub secret_env_names: BTreeSet<String>,
    /// The cards that it was given by UUID.
    pub devices: Vec<CardUuid>,
    /// What it is doing.
    pub state: ContainerState,
    /// `healthy`, `unhealthy`, `starting`; none without a check.
    pub health: Option<Health>,
    /// Exit code of its last run, where it ended.
    pub exit_code: Option<i64>,
    /// What Docker said when it could not be started.
    pub error: Option<String>,
    /// How often Docker restarted it.
    pub restarts: i64,
    /// Our mark.
    pub mark: Option<Mark>,
    /// Where its ports are now.
    pub published: Vec<Published>,
    /// `sha256:...` of its image.
    pub image_id: String,
    /// When it was last started (RFC 3339).
    pub started_at: Option<String>,
}

/// Our mark on a container.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mark {
    /// The service that it belongs to.
    pub service: String,
    /// The run that made it.
    pub run: String,
}

/// Health as Docker tells it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Health {
    /// Within the start period, or not tried yet.
    Starting,
    /// The last try passed.
    Healthy,
    /// Too many tries failed.
    Unhealthy,
}

/// A published port.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Published {
    /// Port in the container.
    pub port: u16,
    /// TCP or UDP.
    pub protocol: Protocol,
    /// Address of the server.
    pub host_ip: String,
    /// Port of the server.
    pub host_port: u16,
}

impl Observed {
    /// One word and what it means: `running`, `starting`, `unhealthy`, `restarting (exit 1)`, `stopped (exit 0)`, `created`, `paused`, `dead`.
    pub fn status(&self) -> String {
        let code = self.exit_code.unwrap_or_default();
        match (self.state, self.health) {
            (ContainerState::Running, Some(Health::Starting)) => "starting".to_owned(),
            (ContainerState::Running, Some(Health::Unhealthy)) => "unhealthy".to_owned(),
            (ContainerState::Running, _) => "running".to_owned(),
            (ContainerState::Restarting, _) => format!("restarting (exit {code})"),
            (ContainerState::Exited, _) => format!("stopped (exit {code})"),
            (ContainerState::Created, _) => "created".to_owned(),
            (ContainerState::Paused, _) => "paused".to_owned(),
            (ContainerState::Removing, _) => "removing".to_owned(),
            (ContainerState::Dead, _) => "dead".to_owned(),
        }
    }

    /// Whether this is what an interrupted replacement left: the old container under another name, perhaps stopped. The next update puts it
    /// right, so a plan must propose one even where nothing else differs.
    pub fn is_interrupted(&self) -> bool {
        self.name != self.spec.name
    }

    /// Whether it runs (healthy or not).
    pub fn runs(&self) -> bool {
        matches!(
            self.state,
            ContainerState::Running | ContainerState::Paused | ContainerState::Restarting
        )
    }
}

/// The mark among a container's labels.
pub(crate) fn mark(labels: Option<&HashMap<String, String>>) -> Option<Mark> {
    let labels = labels?;
    if labels.get(LABEL_MANAGED).map(String::as_str) != Some("true") {
        return None;
    }
    Some(Mark {
        service: labels.get(LABEL_SERVICE)?.clone(),
        run: labels.get(LABEL_RUN).cloned().unwrap_or_default(),
    })
}

/// Name without the slash that Docker puts before it.
pub(crate) fn name(container: &ContainerInspectResponse) -> &str {
    container
        .name
        .as_deref()
        .unwrap_or_default()
        .trim_start_matches('/')
}

/// What the container is doing.
pub(crate) fn state(container: &ContainerInspectResponse) -> ContainerState {
    let word = container
        .state
        .as_ref()
        .and_then(|state| state.status)
        .map(|status| status.to_string());
    ContainerState::parse(word.as_deref().unwrap_or("running"))
}

/// Reads a container back. `image` is its image's own configuration, where that is still there.
pub(crate) fn observe(
    container: &ContainerInspectResponse,
    image: Option<&ImageConfig>,
) -> Observed {
    let config = container.config.clone().unwrap_or_default();
    let host = container.host_config.clone().unwrap_or_default();
    let labels = config.labels.clone().unwrap_or_default();
    let mark = mark(Some(&labels));
    let asked: Option<Asked> = mark
        .as_ref()
        .and_then(|_| labels.get(LABEL_ASKED))
        .and_then(|text| serde_json::from_str(text).ok());
    let image = image.cloned().unwrap_or_default();
    let (env, secret_env_names) = environment(
        config.env.as_deref().unwrap_or_default(),
        image.env.as_deref(),
        asked.as_ref(),
    );
    let devices = devices(&host);
    let own =
        |explicit: Option<bool>, value: Option<Vec<String>>, inherited: Option<Vec<String>>| {
            let value = value.filter(|words| !words.is_empty());
            if explicit.unwrap_or(value != inherited.filter(|words| !words.is_empty())) {
                value
            } else {
                None
            }
        };
    let own_text = |explicit: Option<bool>, value: Option<String>, inherited: Option<String>| {
        let value = value.filter(|text| !text.is_empty());
        if explicit.unwrap_or(value != inherited.filter(|text| !text.is_empty())) {
            value
        } else {
            None
        }
    };
    let flag = |get: fn(&Asked) -> bool| asked.as_ref().map(get);
    let spec = ContainerSpec {
        name: name(container).to_owned(),
        image: config.image.clone().unwrap_or_default(),
        command: own(
            flag(|asked| asked.command),
            config.entrypoint,
            image.entrypoint,
        ),
        args: own(flag(|asked| asked.args), config.cmd, image.cmd),
        working_dir: own_text(
            flag(|asked| asked.working_dir),
            config.working_dir,
            image.working_dir,
        ),
        user: own_text(flag(|asked| asked.user), config.user, image.user),
        env,
        secret_env_version: labels.get(LABEL_SECRET_VERSION).cloned(),
        ports: attached::ports(
            &host,
            config.exposed_ports.as_deref().unwrap_or_default(),
            image.exposed_ports.as_deref(),
            asked.as_ref(),
        ),
        volumes: attached::volumes(container, &host, asked.as_ref()),
        host_mounts: attached::host_mounts(container, &host),
        nano_cpus: positive(host.nano_cpus),
        memory_mib: positive(host.memory)
            .and_then(|bytes| u64::try_from(bytes).ok())
            .map(|bytes| bytes / MIB),
        shm_mib: shm(&host, flag(|asked| asked.shm)),
        gpu: labels.get(LABEL_GPU_KIND).and_then(|kind| {
            GpuRequest::parse(kind, i64::try_from(devices.len()).unwrap_or_default()).ok()
        }),
        pool: labels.get(LABEL_POOL).map(|pool| super::spec::PoolBudget {
            pool: pool.clone(),
            gpus: 0,
        }),
        restart: restart(&host),
        network: host
            .network_mode
            .clone()
            .filter(|mode| !matches!(mode.as_str(), "" | "default" | "bridge")),
        ulimits: host
            .ulimits
            .iter()
            .flatten()
            // The engine adds the defaults of its daemon.json.
            .filter(|limit| {
                asked.as_ref().is_none_or(|asked| {
                    limit
                        .name
                        .as_ref()
                        .is_some_and(|name| asked.ulimits.contains(name))
                })
            })
            .filter_map(|limit| {
                Some((
                    limit.name.clone()?,
                    Ulimit {
                        soft: limit.soft?,
                        hard: limit.hard?,
                    },
                ))
            })
            .collect(),
        labels: user_labels(&labels, image.labels.as_ref(), asked.as_ref()),
        health: config
            .healthcheck
            .as_ref()
            .filter(|check| {
                flag(|asked| asked.health).unwrap_or(Some(*check) != image.healthcheck.as_ref())
            })
            .and_then(health_check),
        stop_grace_seconds: config
            .stop_timeout
            .and_then(|seconds| u32::try_from(seconds).ok()),
        ..ContainerSpec::default()
    };
    let container_state = container.state.clone().unwrap_or_default();
    Observed {
        id: container.id.clone().unwrap_or_default(),
        name: spec.name.clone(),
        published: attached::published(container),
        spec,
        secret_env_names,
        devices,
        state: state(container),
        health: container_state
            .health
            .and_then(|health| health.status)
            .and_then(health_status),
        exit_code: container_state.exit_code,
        error: container_state.error.filter(|error| !error.is_empty()),
        restarts: container.restart_count.unwrap_or_default(),
        mark,
        image_id: container.image.clone().unwrap_or_default(),
        started_at: container_state
            .started_at
            .filter(|time| !time.starts_with("0001-")),
    }
}

fn positive(value: Option<i64>) -> Option<i64> {
    value.filter(|value| *value > 0)
}

/// Docker writes its default (64 MiB, or what its daemon.json says) into the container: that one was not asked for.
fn shm(host: &HostConfig, asked: Option<bool>) -> Option<u64> {
    let mib = u64::try_from(positive(host.shm_size)?).ok()? / MIB;
    asked.unwrap_or(mib != 64).then_some(mib)
}

/// Splits a container's environment: what was asked for, without the image's own, ours and secrets.
fn environment(
    all: &[String],
    image: Option<&[String]>,
    asked: Option<&Asked>,
) -> (BTreeMap<String, String>, BTreeSet<String>) {
    let secret: BTreeSet<String> = asked
        .map(|asked| asked.secret_env.iter().cloned().collect())
        .unwrap_or_default();
    let mut env = BTreeMap::new();
    let mut secret_found = BTreeSet::new();
    for entry in all {
        let (key, value) = entry.split_once('=').unwrap_or((entry, ""));
        if secret.contains(key) {
            secret_found.insert(key.to_owned());
            continue;
        }
        let explicit = asked.is_some_and(|asked| asked.env.iter().any(|name| name == key));
        // Without the image there is no telling, so what was not asked for is taken as the image's.
        let inherited = image.map_or(asked.is_some(), |image| image.contains(entry));
        if key != VISIBLE_DEVICES && (explicit || !inherited) {
            env.insert(key.to_owned(), value.to_owned());
        }
    }
    (env, secret_found)
}

fn user_labels(
    all: &HashMap<String, String>,
    image: Option<&HashMap<String, String>>,
    asked: Option<&Asked>,
) -> BTreeMap<String, String> {
    all.iter()
        .filter(|(key, value)| {
            let explicit = asked.is_some_and(|asked| asked.labels.contains(*key));
            let inherited = image.map_or(asked.is_some(), |image| image.get(*key) == Some(*value));
            !key.starts_with(LABEL_PREFIX) && (explicit || !inherited)
        })
        .map(|(key, value)| (key.clone(), value.clone()))
        .collect()
}

fn devices(host: &HostConfig) -> Vec<CardUuid> {
    host.device_requests
        .iter()
        .flatten()
        .flat_map(|request| request.device_ids.iter().flatten())
        .map(|id| id.strip_prefix(CDI_PREFIX).unwrap_or(id))
        .filter(|id| id.starts_with("GPU-"))
        .map(|id| CardUuid(id.to_owned()))
        .collect()
}

fn restart(host: &HostConfig) -> Restart {
    let policy = host.restart_policy.clone().unwrap_or_default();
    match policy.name {
        Some(RestartPolicyNameEnum::ALWAYS) => Restart::Always,
        Some(RestartPolicyNameEnum::UNLESS_STOPPED) => Restart::UnlessStopped,
        Some(RestartPolicyNameEnum::ON_FAILURE) => Restart::OnFailure(
            policy
                .maximum_retry_count
                .and_then(|most| u32::try_from(most).ok())
                .unwrap_or_default(),
        ),
        _ => Restart::No,
    }
}

fn health_status(status: HealthStatusEnum) -> Option<Health> {
    match status {
        HealthStatusEnum::STARTING => Some(Health::Starting),
        HealthStatusEnum::HEALTHY => Some(Health::Healthy),
        HealthStatusEnum::UNHEALTHY => Some(Health::Unhealthy),
        HealthStatusEnum::EMPTY | HealthStatusEnum::NONE => None,
    }
}

fn health_check(config: &HealthConfig) -> Option<HealthCheck> {
    let words: Vec<&str> = config.test.iter().flatten().map(String::as_str).collect();
    let probe = match words.as_slice() {
        ["CMD", "/bin/sh", "-c", script, "loomplane", url] if *script == HTTP_PROBE => {
            let (port, path) = url
                .strip_prefix("http://127.0.0.1:")
                .and_then(|rest| Some(rest.split_at(rest.find('/')?)))?;
            Probe::Http {
                port: port.parse().ok()?,
                path: path.to_owned(),
            }
        }
        ["CMD", words @ ..] => {
            Probe::Command(words.iter().map(|word| (*word).to_owned()).collect())
        }
        ["CMD-SHELL", text] => Probe::Command(["/bin/sh", "-c", text].map(str::to_owned).to_vec()),
        _ => return None,
    };
    let seconds = |nanoseconds: Option<i64>, default: u32| match nanoseconds {
        None | Some(0) => default,
        Some(value) => u32::try_from(value / SECOND).unwrap_or(default),
    };
    Some(HealthCheck {
        probe,
        interval_seconds: seconds(config.interval, 30),
        timeout_seconds: seconds(config.timeout, 30),
        retries: config
            .retries
            .and_then(|retries| u32::try_from(retries).ok())
            .filter(|retries| *retries > 0)
            .unwrap_or(3),
        startup_seconds: seconds(config.start_period, 0),
    })
}

#[cfg(test)]
#[path = "observed_tests.rs"]
mod tests;
