//! What a configuration must satisfy, beyond what the field types say. Unknown values satisfy everything.

use tf_provider_sdk::{diagnostic::Diagnostics, field::Opt};

use super::model::{AccessMode, GpuService};
use crate::{
    capacity::{
        gpu::GpuRequest,
        size::{Cpu, check_memory},
    },
    kubernetes::workload::RunAs,
};

pub(super) fn validate(service: &GpuService, report: &mut Diagnostics) {
    if let Some(size) = service.size.known() {
        if let Some(Err(why)) = size.cpu.known().map(|cpu| Cpu::parse(&cpu.to_string())) {
            report.error("size.cpu", "Invalid size.cpu", why.to_string());
        }
        // G3: both must be known to be compared.
        if !size.memory.is_unknown()
            && !size.shm.is_unknown()
            && let Err(why) = check_memory(size.memory.known().copied(), size.shm.known().copied())
        {
            report.error("size.shm", "Invalid size", why.to_string());
        }
        if let Some((kind, count)) = size
            .gpu
            .known()
            .and_then(|gpu| Some((gpu.kind.known()?, gpu.count.known()?)))
            && let Err(why) = GpuRequest::parse(kind, *count)
        {
            report.error(
                "size.gpu",
                "This GPU request can't be met anywhere",
                why.to_string(),
            );
        }
    }
    if let Some(Err(why)) = service.user.known().map(|user| RunAs::parse(user)) {
        report.error("user", "Invalid user", why);
    }
    if let Some(timeouts) = &service.timeouts {
        timeouts.check(report);
    }
    ports(service, report);
    volumes(service, report);
    if !service.secret_env.is_null() && service.secret_env_version.is_null() {
        report.error(
            "secret_env_version",
            "secret_env needs a version",
            "secret_env is stored nowhere, so a change of it can't be seen. Set secret_env_version, and raise it with every change.",
        );
    }
}

fn ports(service: &GpuService, report: &mut Diagnostics) {
    let ports: Vec<_> = service.ports.known().into_iter().flatten().collect();
    for (index, port) in ports.iter().enumerate() {
        let earlier = &ports[..index];
        if port
            .name
            .known()
            .is_some_and(|name| earlier.iter().any(|other| other.name.known() == Some(name)))
        {
            report.error(
                "ports",
                "Two ports with one name",
                format!("ports[{index}] has the name of an earlier one: names must differ."),
            );
        }
        let same = |other: &super::model::Port| {
            other.port.known() == port.port.known() && other.protocol == port.protocol
        };
        if port.port.known().is_some()
            && !port.protocol.is_unknown()
            && earlier.iter().any(|other| same(other))
        {
            report.error(
                "ports",
                "One port twice",
                format!("ports[{index}] is the same port as an earlier one."),
            );
        }
    }
}

/// K10: pods of one service share a volume only where it says so.
fn volumes(service: &GpuService, report: &mut Diagnostics) {
    let several = service
        .replicas
        .known()
        .is_some_and(|replicas| *replicas > 1);
    for (name, volume) in service.volumes.known().into_iter().flatten() {
        let shared = match &volume.access_mode {
            Opt::Known(mode) => {
                matches!(mode, AccessMode::ReadWriteMany | AccessMode::ReadOnlyMany)
            }
            Opt::Null => false,
            Opt::Unknown => true,
        };
        if several && !shared {
            report.error(
                "volumes",
                "Several replicas can't share this volume",
                format!(
                    "Asked for {} replicas with the volume {name:?}, which one node at a time can mount. Set its access_mode to \"ReadWriteMany\" (the storage class must offer it), or replicas = 1.",
                    service.replicas.known().copied().unwrap_or_default()
                ),
            );
        }
    }
}
