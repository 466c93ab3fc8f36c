//! What a service asks of its cluster: whether that is what it asked before, and whether all of it is known.

use tf_provider_sdk::{
    field::{Maybe, Opt},
    number::Number,
};

use super::model::{GpuService, Toleration};

/// Whether target, GPUs and replicas are as they were: what the price depends on (G8).
pub(super) fn same_request(prior: &GpuService, planned: &GpuService) -> bool {
    same_gpus(prior, planned) && prior.replicas == planned.replicas
}

fn same_gpus(prior: &GpuService, planned: &GpuService) -> bool {
    let gpu = |service: &GpuService| service.size.known().map(|size| size.gpu.clone());
    same_target(prior, planned) && gpu(prior) == gpu(planned) && !planned.size.is_unknown()
}

/// Whether the service stays on its cluster, under whatever name: one that moves has another uid planned by now (G9).
fn same_target(prior: &GpuService, planned: &GpuService) -> bool {
    let uid = |service: &GpuService| {
        let uid = service.target_uid.known();
        uid.filter(|uid| !uid.is_empty()).cloned()
    };
    prior.target == planned.target || uid(prior).is_some_and(|prior| Some(prior) == uid(planned))
}

/// Whether the cluster is asked for no more than it was asked for before: such a request is not refused (G5).
pub(super) fn same_ask(prior: &GpuService, planned: &GpuService) -> bool {
    let replicas = |service: &GpuService| service.replicas.known().copied().unwrap_or(1);
    same_gpus(prior, planned)
        && no_larger(prior, planned)
        && !planned.replicas.is_unknown()
        && replicas(planned) <= replicas(prior)
        && prior.node_selector == planned.node_selector
        && prior.tolerations == planned.tolerations
}

/// Whether a pod asks for no more CPU and memory than before.
fn no_larger(prior: &GpuService, planned: &GpuService) -> bool {
    let (Some(before), Some(size)) = (prior.size.known(), planned.size.known()) else {
        return true;
    };
    let number = |value: &Opt<Number>| value.known().map(Number::to_f64);
    !size.cpu.is_unknown()
        && !size.memory.is_unknown()
        && number(&size.cpu) <= number(&before.cpu)
        && size.memory.known() <= before.memory.known()
}

/// Whether what is asked of nodes, beside the GPUs, is not wholly known.
pub(super) fn is_open(service: &GpuService) -> bool {
    let selector = service.node_selector.known().into_iter().flatten();
    let tolerations = service.tolerations.known().into_iter().flatten();
    let size = service.size.known();
    size.is_some_and(|size| size.cpu.is_unknown() || size.memory.is_unknown())
        || service.node_selector.is_unknown()
        || service.tolerations.is_unknown()
        || selector.map(|(_, value)| value).any(Maybe::is_unknown)
        || tolerations.into_iter().any(is_open_toleration)
}

pub(super) fn is_open_toleration(it: &Toleration) -> bool {
    it.key.is_unknown()
        || it.operator.is_unknown()
        || it.value.is_unknown()
        || it.effect.is_unknown()
}
