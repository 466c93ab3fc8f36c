//! From what lives on a cluster back into the model. What is as it was set keeps the form in which it was written; only what differs
//! is replaced, so that nothing shows as a difference but drift.

use std::collections::BTreeMap;

use tf_provider_sdk::{
    field::{Maybe, Opt},
    number::Number,
};

use super::model::{self, Gpu, GpuService, Size};
use crate::kubernetes::workload::{
    AccessMode, HealthCheck, Port, Protocol, ServiceSpec, Toleration, TolerationOperator, Volume,
};

/// Puts what differs between `set` (what the model says, as a spec) and `live` into the model.
pub(super) fn absorb(service: &mut GpuService, set: &ServiceSpec, live: &ServiceSpec) {
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
    absorb!(env, map);
    absorb!(labels, map);
    absorb!(annotations, map);
    absorb!(node_selector, map);
    absorb!(image_pull_secret, optional);
    absorb!(runtime_class, optional);
    absorb!(service_account, optional);
    absorb!(priority_class, optional);
    absorb!(secret_env_version, |version: &Option<i64>| Opt::from(
        *version
    ));
    absorb!(replicas, number);
    absorb!(stop_grace_seconds, number);
    absorb!(ports, |ports: &Vec<Port>| list(ports, port));
    absorb!(tolerations, |items: &Vec<Toleration>| list(
        items, toleration
    ));
    absorb!(health_check, |check: &Option<HealthCheck>| Opt::from(
        check.as_ref().map(health_check)
    ));
    if set.user != live.user {
        service.user = Opt::from(live.user.map(|user| user.to_string()));
    }
    if set.env_from != live.env_from {
        service.env_from = list(&live.env_from, |it| model::EnvFrom {
            name: Maybe::Known(it.name.clone()),
            secret: Maybe::Known(it.secret.clone()),
            key: Maybe::Known(it.key.clone()),
        });
    }
    if set.service_type != live.service_type {
        service.service_type = Opt::from(live.service_type.as_deref().and_then(service_type));
    }
    if set.rollout != live.rollout {
        service.rollout = Opt::from(live.rollout.as_ref().map(|it| model::Rollout {
            max_surge: Maybe::Known(it.max_surge.clone()),
            max_unavailable: Maybe::Known(it.max_unavailable.clone()),
        }));
    }
    size(service, set, live);
    volumes(service, set, live);
}

fn size(service: &mut GpuService, set: &ServiceSpec, live: &ServiceSpec) {
    let same = set.cpu_millis == live.cpu_millis
        && set.memory_mib == live.memory_mib
        && set.shm_mib == live.shm_mib
        && set.gpu == live.gpu;
    if same {
        return;
    }
    let mut size = service.size.known().cloned().unwrap_or(Size {
        cpu: Opt::Null,
        memory: Opt::Null,
        shm: Opt::Null,
        gpu: Opt::Null,
    });
    if set.cpu_millis != live.cpu_millis {
        size.cpu = Opt::from(live.cpu_millis.and_then(cores));
    }
    if set.memory_mib != live.memory_mib {
        size.memory = number(&live.memory_mib);
    }
    if set.shm_mib != live.shm_mib {
        size.shm = number(&live.shm_mib);
    }
    if set.gpu != live.gpu {
        let kind = size.gpu.known().map_or_else(
            || Maybe::Known(UNKNOWN_KIND.to_owned()),
            |gpu| gpu.kind.clone(),
        );
        size.gpu = Opt::from(live.gpu.map(|gpu| Gpu {
            kind,
            count: Maybe::Known(i64::from(gpu.count)),
        }));
    }
    service.size = Opt::Known(size);
}

/// Stands for a kind that an imported object does not name.
pub(super) const UNKNOWN_KIND: &str = "unknown";

pub(super) fn cores(millis: u64) -> Option<Number> {
    let (whole, part) = (millis / 1000, millis % 1000);
    let text = if part == 0 {
        whole.to_string()
    } else {
        format!("{whole}.{part:03}")
            .trim_end_matches('0')
            .to_owned()
    };
    text.parse().ok()
}

fn volumes(service: &mut GpuService, set: &ServiceSpec, live: &ServiceSpec) {
    let shape =
        |volumes: &BTreeMap<String, Volume>| -> BTreeMap<String, (String, u64, AccessMode)> {
            volumes
                .iter()
                .map(|(name, it)| {
                    (
                        name.clone(),
                        (it.mount_path.clone(), it.size_gib, it.access_mode),
                    )
                })
                .collect()
        };
    if shape(&set.volumes) == shape(&live.volumes) {
        return;
    }
    let before = service.volumes.known().cloned().unwrap_or_default();
    let volume = |name: &String, it: &Volume| model::Volume {
        mount_path: Maybe::Known(it.mount_path.clone()),
        size_gib: Opt::Known(i64::try_from(it.size_gib).unwrap_or(i64::MAX)),
        access_mode: match before.get(name).map(|volume| &volume.access_mode) {
            Some(Opt::Null) | None if it.access_mode == AccessMode::ReadWriteOnce => Opt::Null,
            _ => Opt::Known(access_mode(it.access_mode)),
        },
        delete_on_destroy: before
            .get(name)
            .is_some_and(|volume| volume.delete_on_destroy),
    };
    service.volumes = Opt::Known(
        live.volumes
            .iter()
            .map(|(name, it)| (name.clone(), volume(name, it)))
            .collect(),
    );
}

fn access_mode(mode: AccessMode) -> model::AccessMode {
    match mode {
        AccessMode::ReadWriteOnce => model::AccessMode::ReadWriteOnce,
        AccessMode::ReadWriteOncePod => model::AccessMode::ReadWriteOncePod,
        AccessMode::ReadWriteMany => model::AccessMode::ReadWriteMany,
        AccessMode::ReadOnlyMany => model::AccessMode::ReadOnlyMany,
    }
}

pub(super) fn optional(value: &Option<String>) -> Opt<String> {
    Opt::from(value.clone())
}

pub(super) fn number<T: Copy + TryInto<i64>>(value: &Option<T>) -> Opt<i64> {
    Opt::from(value.and_then(|value| value.try_into().ok()))
}

pub(super) fn strings(items: &Option<Vec<String>>) -> Opt<Vec<Maybe<String>>> {
    Opt::from(
        items
            .as_ref()
            .map(|items| items.iter().cloned().map(Maybe::Known).collect()),
    )
}

pub(super) fn map(items: &BTreeMap<String, String>) -> Opt<BTreeMap<String, Maybe<String>>> {
    if items.is_empty() {
        return Opt::Null;
    }
    Opt::Known(
        items
            .iter()
            .map(|(key, value)| (key.clone(), Maybe::Known(value.clone())))
            .collect(),
    )
}

pub(super) fn list<T, M>(items: &[T], convert: impl Fn(&T) -> M) -> Opt<Vec<M>> {
    if items.is_empty() {
        Opt::Null
    } else {
        Opt::Known(items.iter().map(convert).collect())
    }
}

fn port(it: &Port) -> model::Port {
    model::Port {
        name: Maybe::Known(it.name.clone()),
        port: Maybe::Known(i64::from(it.port)),
        protocol: match it.protocol {
            Protocol::Tcp => Opt::Null,
            Protocol::Udp => Opt::Known(model::Protocol::Udp),
            Protocol::Sctp => Opt::Known(model::Protocol::Sctp),
        },
        host_port: Opt::Null,
        host_ip: Opt::Null,
    }
}

/// Tolerations of the configuration's kind.
pub(super) fn tolerations(items: &[Toleration]) -> Opt<Vec<model::Toleration>> {
    list(items, toleration)
}

fn toleration(it: &Toleration) -> model::Toleration {
    let text = |value: &String| Opt::from(Some(value.clone()).filter(|text| !text.is_empty()));
    model::Toleration {
        key: text(&it.key),
        operator: match it.operator {
            TolerationOperator::Equal => Opt::Null,
            TolerationOperator::Exists => Opt::Known(model::TolerationOperator::Exists),
        },
        value: text(&it.value),
        effect: Opt::from(it.effect.as_deref().and_then(|effect| match effect {
            "NoSchedule" => Some(model::Effect::NoSchedule),
            "PreferNoSchedule" => Some(model::Effect::PreferNoSchedule),
            "NoExecute" => Some(model::Effect::NoExecute),
            _ => None,
        })),
        seconds: Opt::from(it.seconds),
    }
}

fn health_check(it: &HealthCheck) -> model::HealthCheck {
    model::HealthCheck {
        http_path: Maybe::Known(it.http_path.clone()),
        port: Maybe::Known(i64::from(it.port)),
        startup_seconds: i64::from(it.startup_seconds),
        period_seconds: i64::from(it.period_seconds),
        timeout_seconds: i64::from(it.timeout_seconds),
        failure_threshold: i64::from(it.failure_threshold),
    }
}

fn service_type(text: &str) -> Option<model::ServiceType> {
    match text {
        "ClusterIP" => Some(model::ServiceType::ClusterIP),
        "NodePort" => Some(model::ServiceType::NodePort),
        "LoadBalancer" => Some(model::ServiceType::LoadBalancer),
        _ => None,
    }
}
