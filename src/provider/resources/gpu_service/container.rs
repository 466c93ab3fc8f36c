//! Between the model and a container of a server's Docker Engine, both ways. What is as it was set keeps the form in which it was
//! written.

use std::collections::BTreeMap;

use secrecy::SecretString;
use tf_provider_sdk::{
    diagnostic::Diagnostic,
    field::{Maybe, Opt},
    log::redact::redact,
};

use super::{
    absorb::{UNKNOWN_KIND, cores, list, map, number, optional, strings},
    known,
    model::{self, GpuService, Size},
    spec,
};
use crate::{
    capacity::{gpu::GpuRequest, size::Cpu},
    ssh::{
        ContainerSpec, HealthCheck, HostMount, Observed, PortSpec, Probe, Protocol, Restart,
        Ulimit, VolumeSpec, volume_name,
    },
};

/// Docker's names of imported volumes, by the name that the configuration gives them.
pub(super) type VolumeNames = BTreeMap<String, String>;

/// The container of a service; called where all is known. `config` holds the secrets.
pub(super) fn to_container(
    service: &GpuService,
    config: Option<&GpuService>,
    volumes: &VolumeNames,
) -> Result<ContainerSpec, Diagnostic> {
    let size = service.size.known();
    let cpu = size
        .and_then(|size| size.cpu.known())
        .map(|cpu| Cpu::parse(&cpu.to_string()));
    let cpu = cpu
        .transpose()
        .map_err(|why| Diagnostic::error("Invalid size.cpu", why.to_string()).at("size.cpu"))?;
    let gpu = size.and_then(|size| size.gpu.known());
    let gpu = gpu.map(|gpu| {
        GpuRequest::parse(
            &known(&gpu.kind),
            gpu.count.known().copied().unwrap_or_default(),
        )
    });
    let name = known(&service.name);
    let secrets = config
        .and_then(|config| config.secret_env.known())
        .into_iter()
        .flatten();
    let secret_env = secrets.filter_map(|(name, value)| {
        let value = value.known()?;
        redact(value);
        Some((name.clone(), SecretString::from(value.clone())))
    });
    Ok(ContainerSpec {
        image: known(&service.image),
        command: spec::strings(&service.command),
        args: spec::strings(&service.args),
        working_dir: service.working_dir.known().cloned(),
        user: service.user.known().cloned(),
        env: spec::map(&service.env),
        secret_env: secret_env.collect(),
        secret_env_version: service.secret_env_version.known().map(ToString::to_string),
        ports: service
            .ports
            .known()
            .into_iter()
            .flatten()
            .map(port)
            .collect(),
        volumes: service
            .volumes
            .known()
            .into_iter()
            .flatten()
            .map(|(volume, it)| {
                let docker_name = volumes
                    .get(volume)
                    .cloned()
                    .unwrap_or_else(|| volume_name(&name, volume));
                let mounted = VolumeSpec {
                    docker_name,
                    mount_path: known(&it.mount_path),
                    read_only: false,
                    delete_on_destroy: it.delete_on_destroy,
                };
                (volume.clone(), mounted)
            })
            .collect(),
        host_mounts: service
            .host_mounts
            .known()
            .into_iter()
            .flatten()
            .map(|it| HostMount {
                host_path: known(&it.host_path),
                mount_path: known(&it.mount_path),
                read_only: it.read_only,
            })
            .collect(),
        nano_cpus: cpu.and_then(|cpu| i64::try_from(cpu.nanos()).ok()),
        memory_mib: spec::number(size.and_then(|size| size.memory.known())),
        shm_mib: spec::number(size.and_then(|size| size.shm.known())),
        gpu: gpu.transpose().map_err(|why| {
            Diagnostic::error("This GPU request can't be met anywhere", why.to_string())
                .at("size.gpu")
        })?,
        pool: None,
        restart: match service.restart.known() {
            None | Some(model::Restart::UnlessStopped) => Restart::UnlessStopped,
            Some(model::Restart::Always) => Restart::Always,
            Some(model::Restart::OnFailure) => Restart::OnFailure(0),
            Some(model::Restart::No) => Restart::No,
        },
        network: service.network.known().cloned(),
        ulimits: service
            .ulimits
            .known()
            .into_iter()
            .flatten()
            .map(|(name, it)| {
                let limit = |value: &Maybe<i64>| value.known().copied().unwrap_or(-1);
                (
                    name.clone(),
                    Ulimit {
                        soft: limit(&it.soft),
                        hard: limit(&it.hard),
                    },
                )
            })
            .collect(),
        labels: spec::map(&service.labels),
        health: service.health_check.known().map(health),
        stop_grace_seconds: spec::number(service.stop_grace_seconds.known()),
        name,
    })
}

fn port(it: &model::Port) -> PortSpec {
    PortSpec {
        name: known(&it.name),
        port: spec::number(it.port.known()).unwrap_or_default(),
        host_port: spec::number(it.host_port.known()),
        host_ip: it.host_ip.known().cloned(),
        protocol: match it.protocol.known() {
            Some(model::Protocol::Udp) => Protocol::Udp,
            _ => Protocol::Tcp,
        },
    }
}

fn health(it: &model::HealthCheck) -> HealthCheck {
    let seconds = |value: &i64| spec::number(Some(value)).unwrap_or_default();
    HealthCheck {
        probe: Probe::Http {
            port: spec::number(it.port.known()).unwrap_or_default(),
            path: known(&it.http_path),
        },
        interval_seconds: seconds(&it.period_seconds),
        timeout_seconds: seconds(&it.timeout_seconds),
        retries: seconds(&it.failure_threshold),
        startup_seconds: seconds(&it.startup_seconds),
    }
}

/// Puts what differs between `set` (what the model says) and what was observed into the model.
pub(super) fn absorb(service: &mut GpuService, set: &ContainerSpec, observed: &Observed) {
    let live = &observed.spec;
    macro_rules! absorb {
        ($field:ident, $convert:expr) => {
            if set.$field != live.$field {
                service.$field = $convert(&live.$field);
            }
        };
    }
    if set.image != live.image {
        service.image = Maybe::Known(live.image.clone());
    }
    absorb!(command, strings);
    absorb!(args, strings);
    absorb!(working_dir, optional);
    absorb!(user, optional);
    absorb!(env, map);
    absorb!(labels, map);
    if network(set) != network(live) {
        service.network = optional(&live.network);
    }
    absorb!(stop_grace_seconds, number);
    absorb!(secret_env_version, |version: &Option<String>| Opt::from(
        version.as_ref().and_then(|version| version.parse().ok())
    ));
    absorb!(ports, |ports: &Vec<PortSpec>| list(ports, observed_port));
    absorb!(restart, restart);
    absorb!(host_mounts, |mounts: &Vec<HostMount>| list(mounts, |it| {
        model::HostMount {
            host_path: Maybe::Known(it.host_path.clone()),
            mount_path: Maybe::Known(it.mount_path.clone()),
            read_only: it.read_only,
        }
    }));
    if set.ulimits != live.ulimits {
        let limit = |(name, it): (&String, &Ulimit)| {
            (
                name.clone(),
                model::Ulimit {
                    soft: Maybe::Known(it.soft),
                    hard: Maybe::Known(it.hard),
                },
            )
        };
        service.ulimits = if live.ulimits.is_empty() {
            Opt::Null
        } else {
            Opt::Known(live.ulimits.iter().map(limit).collect())
        };
    }
    if set.health != live.health {
        service.health_check = Opt::from(live.health.as_ref().and_then(observed_health));
    }
    let shape = |spec: &ContainerSpec| -> BTreeMap<String, String> {
        spec.volumes
            .iter()
            .map(|(name, it)| (name.clone(), it.mount_path.clone()))
            .collect()
    };
    if shape(set) != shape(live) {
        let before = service.volumes.known().cloned().unwrap_or_default();
        let volume = |(name, it): (&String, &VolumeSpec)| {
            let deleted = before
                .get(name)
                .is_some_and(|volume| volume.delete_on_destroy);
            (
                name.clone(),
                model::Volume {
                    mount_path: Maybe::Known(it.mount_path.clone()),
                    size_gib: before.get(name).map_or(Opt::Null, |volume| volume.size_gib),
                    access_mode: Opt::Null,
                    delete_on_destroy: deleted,
                },
            )
        };
        service.volumes = if live.volumes.is_empty() {
            Opt::Null
        } else {
            Opt::Known(live.volumes.iter().map(volume).collect())
        };
    }
    size(service, set, observed);
}

/// The network, where it is not the engine's default, which has several names.
fn network(spec: &ContainerSpec) -> Option<&str> {
    let name = spec.network.as_deref();
    name.filter(|name| !matches!(*name, "" | "default" | "bridge"))
}

fn size(service: &mut GpuService, set: &ContainerSpec, observed: &Observed) {
    let live = &observed.spec;
    let same = set.nano_cpus == live.nano_cpus
        && set.memory_mib == live.memory_mib
        && set.shm_mib == live.shm_mib
        && set.gpu == live.gpu;
    if same && (live.gpu.is_some() || observed.devices.is_empty()) {
        return;
    }
    let mut size = service.size.known().cloned().unwrap_or(Size {
        cpu: Opt::Null,
        memory: Opt::Null,
        shm: Opt::Null,
        gpu: Opt::Null,
    });
    if set.nano_cpus != live.nano_cpus {
        size.cpu = Opt::from(
            live.nano_cpus
                .and_then(|nanos| cores(u64::try_from(nanos).ok()? / 1_000_000)),
        );
    }
    if set.memory_mib != live.memory_mib {
        size.memory = number(&live.memory_mib);
    }
    if set.shm_mib != live.shm_mib {
        size.shm = number(&live.shm_mib);
    }
    if set.gpu != live.gpu || live.gpu.is_none() {
        size.gpu = match live.gpu {
            Some(request) => Opt::Known(model::Gpu {
                kind: Maybe::Known(request.kind.id().to_owned()),
                count: Maybe::Known(i64::from(request.count.get())),
            }),
            None if observed.devices.is_empty() => Opt::Null,
            // A container that others started has cards, and their kind is not on record.
            None => Opt::Known(model::Gpu {
                kind: Maybe::Known(UNKNOWN_KIND.to_owned()),
                count: Maybe::Known(i64::try_from(observed.devices.len()).unwrap_or(1)),
            }),
        };
    }
    let empty =
        size.cpu.is_null() && size.memory.is_null() && size.shm.is_null() && size.gpu.is_null();
    service.size = if empty && service.size.is_null() {
        Opt::Null
    } else {
        Opt::Known(size)
    };
}

fn restart(it: &Restart) -> Opt<model::Restart> {
    Opt::Known(match it {
        Restart::UnlessStopped => model::Restart::UnlessStopped,
        Restart::Always => model::Restart::Always,
        Restart::OnFailure(_) => model::Restart::OnFailure,
        Restart::No => model::Restart::No,
    })
}

fn observed_port(it: &PortSpec) -> model::Port {
    model::Port {
        name: Maybe::Known(it.name.clone()),
        port: Maybe::Known(i64::from(it.port)),
        protocol: match it.protocol {
            Protocol::Tcp => Opt::Null,
            Protocol::Udp => Opt::Known(model::Protocol::Udp),
        },
        host_port: number(&it.host_port),
        host_ip: optional(&it.host_ip),
    }
}

/// A probe that is a command has no form here; it stays as it is.
fn observed_health(it: &HealthCheck) -> Option<model::HealthCheck> {
    let Probe::Http { port, path } = &it.probe else {
        return None;
    };
    Some(model::HealthCheck {
        http_path: Maybe::Known(path.clone()),
        port: Maybe::Known(i64::from(*port)),
        startup_seconds: i64::from(it.startup_seconds),
        period_seconds: i64::from(it.interval_seconds),
        timeout_seconds: i64::from(it.timeout_seconds),
        failure_threshold: i64::from(it.retries),
    })
}
