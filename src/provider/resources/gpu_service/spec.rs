//! From the model to what the adapter applies. Called where all is known.

use std::collections::BTreeMap;

use tf_provider_sdk::{
    diagnostic::Diagnostic,
    field::{Maybe, Opt},
};

use super::{
    known,
    model::{self, GpuService},
};
use crate::{
    capacity::{self, fit, size::Cpu},
    kubernetes::workload::{
        AccessMode, EnvFrom, Gpu, HealthCheck, NodeOperator, NodeRequirement, NodeTerm, Placement,
        Port, Protocol, Rollout, RunAs, ServiceSpec, Toleration, TolerationOperator, Volume,
    },
};

/// The adapter's plain data of a service. `placement` is null for a service without GPUs.
pub(super) fn to_spec(
    service: &GpuService,
    placement: Option<&fit::Placement>,
    storage_class: Option<&str>,
) -> Result<ServiceSpec, Diagnostic> {
    let size = service.size.known();
    let cpu = size.and_then(|size| size.cpu.known());
    let cpu_millis = cpu
        .map(|cpu| Cpu::parse(&cpu.to_string()).map(Cpu::millis))
        .transpose();
    Ok(ServiceSpec {
        name: known(&service.name),
        namespace: service.namespace.known().cloned().unwrap_or_default(),
        image: known(&service.image),
        command: strings(&service.command).filter(|words| !words.is_empty()),
        args: strings(&service.args).filter(|words| !words.is_empty()),
        working_dir: text(&service.working_dir),
        user: match service.user.known() {
            Some(user) => Some(
                RunAs::parse(user)
                    .map_err(|why| Diagnostic::error("Invalid user", why).at("user"))?,
            ),
            None => None,
        },
        env: map(&service.env),
        env_from: service
            .env_from
            .known()
            .into_iter()
            .flatten()
            .map(env_from)
            .collect(),
        secret_env: service
            .secret_env
            .known()
            .into_iter()
            .flatten()
            .map(|(name, _)| name.clone())
            .collect(),
        secret_env_version: service.secret_env_version.known().copied(),
        ports: service
            .ports
            .known()
            .into_iter()
            .flatten()
            .map(port)
            .collect(),
        replicas: number(service.replicas.known()),
        cpu_millis: cpu_millis
            .map_err(|why| Diagnostic::error("Invalid size.cpu", why.to_string()).at("size.cpu"))?,
        memory_mib: number(size.and_then(|size| size.memory.known())),
        shm_mib: number(size.and_then(|size| size.shm.known())),
        gpu: size.and_then(|size| size.gpu.known()).map(|gpu| Gpu {
            count: number(gpu.count.known()).unwrap_or_default(),
        }),
        placement: placement.map(to_placement).unwrap_or_default(),
        volumes: service
            .volumes
            .known()
            .into_iter()
            .flatten()
            .map(|(name, it)| (name.clone(), volume(it, storage_class)))
            .collect(),
        health_check: service.health_check.known().map(health_check),
        image_pull_secret: text(&service.image_pull_secret),
        labels: map(&service.labels),
        annotations: map(&service.annotations),
        stop_grace_seconds: number(service.stop_grace_seconds.known()),
        runtime_class: text(&service.runtime_class),
        service_account: text(&service.service_account),
        node_selector: map(&service.node_selector),
        tolerations: service
            .tolerations
            .known()
            .into_iter()
            .flatten()
            .map(toleration)
            .collect(),
        // Without ports there is no Service that has a type.
        service_type: service
            .service_type
            .known()
            .filter(|_| service.ports.known().is_some_and(|ports| !ports.is_empty()))
            .map(|it| format!("{it:?}")),
        priority_class: text(&service.priority_class),
        rollout: service.rollout.known().map(|it| Rollout {
            max_surge: known(&it.max_surge),
            max_unavailable: known(&it.max_unavailable),
        }),
    })
}

/// A text; an empty one says nothing.
fn text(value: &Opt<String>) -> Option<String> {
    value.known().filter(|text| !text.is_empty()).cloned()
}

/// A number that the schema has checked, in the adapter's type.
pub(super) fn number<T: TryFrom<i64>>(value: Option<&i64>) -> Option<T> {
    value.and_then(|value| T::try_from(*value).ok())
}

pub(super) fn strings(items: &Opt<Vec<Maybe<String>>>) -> Option<Vec<String>> {
    items.known().map(|items| items.iter().map(known).collect())
}

pub(super) fn map(items: &Opt<BTreeMap<String, Maybe<String>>>) -> BTreeMap<String, String> {
    items
        .known()
        .into_iter()
        .flatten()
        .map(|(key, value)| (key.clone(), known(value)))
        .collect()
}

fn env_from(it: &model::EnvFrom) -> EnvFrom {
    EnvFrom {
        name: known(&it.name),
        secret: known(&it.secret),
        key: known(&it.key),
    }
}

fn port(it: &model::Port) -> Port {
    Port {
        name: known(&it.name),
        port: number(it.port.known()).unwrap_or_default(),
        protocol: match it.protocol.known() {
            None | Some(model::Protocol::Tcp) => Protocol::Tcp,
            Some(model::Protocol::Udp) => Protocol::Udp,
            Some(model::Protocol::Sctp) => Protocol::Sctp,
        },
    }
}

/// The mode that a volume asks for, written or not.
pub(super) fn access_mode(it: &model::Volume) -> AccessMode {
    match it.access_mode.known() {
        None | Some(model::AccessMode::ReadWriteOnce) => AccessMode::ReadWriteOnce,
        Some(model::AccessMode::ReadWriteOncePod) => AccessMode::ReadWriteOncePod,
        Some(model::AccessMode::ReadWriteMany) => AccessMode::ReadWriteMany,
        Some(model::AccessMode::ReadOnlyMany) => AccessMode::ReadOnlyMany,
    }
}

pub(super) fn volume(it: &model::Volume, storage_class: Option<&str>) -> Volume {
    Volume {
        mount_path: known(&it.mount_path),
        size_gib: number(it.size_gib.known()).unwrap_or_default(),
        access_mode: access_mode(it),
        storage_class: storage_class.map(str::to_owned),
        delete_on_destroy: it.delete_on_destroy,
    }
}

fn health_check(it: &model::HealthCheck) -> HealthCheck {
    let seconds = |value: &i64, default| number(Some(value)).unwrap_or(default);
    HealthCheck {
        http_path: known(&it.http_path),
        port: number(it.port.known()).unwrap_or_default(),
        startup_seconds: seconds(&it.startup_seconds, 600),
        period_seconds: seconds(&it.period_seconds, 10),
        timeout_seconds: seconds(&it.timeout_seconds, 5),
        failure_threshold: seconds(&it.failure_threshold, 3),
    }
}

pub(super) fn toleration(it: &model::Toleration) -> Toleration {
    Toleration {
        key: it.key.known().cloned().unwrap_or_default(),
        operator: match it.operator.known() {
            None | Some(model::TolerationOperator::Equal) => TolerationOperator::Equal,
            Some(model::TolerationOperator::Exists) => TolerationOperator::Exists,
        },
        value: it.value.known().cloned().unwrap_or_default(),
        effect: it.effect.known().map(|effect| format!("{effect:?}")),
        seconds: it.seconds.known().copied(),
    }
}

/// The same toleration, for the domain.
pub(super) fn domain_toleration(it: &Toleration) -> capacity::taint::Toleration {
    capacity::taint::Toleration {
        key: it.key.clone(),
        operator: match it.operator {
            TolerationOperator::Equal => capacity::taint::TolerationOperator::Equal,
            TolerationOperator::Exists => capacity::taint::TolerationOperator::Exists,
        },
        value: it.value.clone(),
        effect: it.effect.clone().unwrap_or_default(),
    }
}

/// What confines the pods, for the adapter.
fn to_placement(placement: &fit::Placement) -> Placement {
    Placement {
        terms: placement.admission.terms.iter().map(term).collect(),
        tolerations: placement
            .tolerations
            .iter()
            .map(adapter_toleration)
            .collect(),
    }
}

fn term(it: &capacity::admission::Term) -> NodeTerm {
    use capacity::admission::Operator;
    let requirement = |it: &capacity::admission::Requirement| NodeRequirement {
        key: it.key.clone(),
        operator: match it.operator {
            Operator::In => NodeOperator::In,
            Operator::NotIn => NodeOperator::NotIn,
            Operator::Exists => NodeOperator::Exists,
            Operator::DoesNotExist => NodeOperator::DoesNotExist,
        },
        values: it.values.clone(),
    };
    NodeTerm {
        requirements: it.requirements.iter().map(requirement).collect(),
    }
}

fn adapter_toleration(it: &capacity::taint::Toleration) -> Toleration {
    Toleration {
        key: it.key.clone(),
        operator: match it.operator {
            capacity::taint::TolerationOperator::Equal => TolerationOperator::Equal,
            capacity::taint::TolerationOperator::Exists => TolerationOperator::Exists,
        },
        value: it.value.clone(),
        effect: Some(it.effect.clone()).filter(|effect| !effect.is_empty()),
        seconds: None,
    }
}
