//! What a configuration must satisfy, beyond what the field types say. Unknown values satisfy everything.

use std::collections::BTreeMap;

use tf_provider_sdk::diagnostic::Diagnostics;

use super::{
    model::{GpuService, Protocol},
    spec::number,
};
use crate::{
    capacity::{
        gpu::GpuRequest,
        size::{Cpu, check_memory},
        volume::{AccessMode, check_replicas},
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
        // A kind that is none is none for any count.
        if let Some((kind, count)) = size
            .gpu
            .known()
            .and_then(|gpu| Some((gpu.kind.known()?, gpu.count.known().unwrap_or(&1))))
            && let Err(why) = GpuRequest::parse(kind, *count)
        {
            report.error(
                "size.gpu",
                "This GPU request can't be met anywhere",
                why.to_string(),
            );
        }
    }
    if let Some(timeouts) = &service.timeouts {
        timeouts.check(report);
    }
    ports(service, report);
    volumes(service, report);
    variables(service, report);
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
            let protocol =
                |it: &super::model::Port| it.protocol.known().copied().unwrap_or(Protocol::Tcp);
            other.port.known() == port.port.known()
                && !other.protocol.is_unknown()
                && protocol(other) == protocol(port)
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

/// A variable comes from one place: which of two wins would depend on the target.
fn variables(service: &GpuService, report: &mut Diagnostics) {
    let env = service.env.known().into_iter().flatten();
    let env = env.map(|(name, _)| ("env", name));
    let secret = service.secret_env.known().into_iter().flatten();
    let secret = secret.map(|(name, _)| ("secret_env", name));
    let from = service.env_from.known().into_iter().flatten();
    let from = from.filter_map(|it| Some(("env_from", it.name.known()?)));
    let mut seen = BTreeMap::new();
    for (place, name) in env.chain(from).chain(secret) {
        if let Some(earlier) = seen.insert(name, place) {
            let detail = if earlier == place {
                format!("{place} sets {name} twice: leave one of them out.")
            } else {
                format!("Both {earlier} and {place} set {name}: leave one of them out.")
            };
            report.error(place, "One variable twice", detail);
        }
    }
}

/// K10: pods of one service share a volume only where it says so.
fn volumes(service: &GpuService, report: &mut Diagnostics) {
    let replicas = number(service.replicas.known()).unwrap_or(1);
    let volumes = service.volumes.known().into_iter().flatten();
    let modes = volumes
        .filter(|(_, volume)| !volume.access_mode.is_unknown())
        .map(|(name, volume)| (name.as_str(), access_mode(volume)));
    if let Err(why) = check_replicas(replicas, modes) {
        report.error(
            "volumes",
            "Several replicas can't share this volume",
            why.to_string(),
        );
    }
}

/// Attributes that mean something on an own server only, for a service on a cluster.
pub(super) fn misplaced_on_cluster(service: &GpuService) -> Diagnostics {
    let mut report = Diagnostics::none();
    let ports = service.ports.known();
    let published = |port: &super::model::Port| {
        port.host_port.known().is_some() || port.host_ip.known().is_some()
    };
    let set = [
        (
            "host_mounts",
            service.host_mounts.known().is_some_and(|it| !it.is_empty()),
        ),
        (
            "ulimits",
            service.ulimits.known().is_some_and(|it| !it.is_empty()),
        ),
        ("restart", service.restart.known().is_some()),
        ("network", service.network.known().is_some()),
        (
            "device_wait_seconds",
            service.device_wait_seconds.known().is_some(),
        ),
        ("ports", ports.into_iter().flatten().any(published)),
    ];
    if let Some(Err(why)) = service.user.known().map(|user| RunAs::parse(user)) {
        report.error("user", "Invalid user", why);
    }
    let target = service.target.known().map_or("", String::as_str);
    for (name, _) in set.into_iter().filter(|(_, set)| *set) {
        let what = if name == "ports" {
            "host_port or host_ip of a port"
        } else {
            name
        };
        report.error(
            name,
            format!("{what} does not apply to a cluster"),
            format!("{target} is a cluster, and {what} means something on an own server only. Leave it out, or use a server."),
        );
    }
    for (name, volume) in service.volumes.known().into_iter().flatten() {
        if volume.size_gib.is_null() {
            report.error(
                "volumes",
                "A volume on a cluster needs a size",
                format!("The volume {name:?} has no size_gib: {target} is a cluster, where a claim asks for a size."),
            );
        }
    }
    report
}

fn access_mode(volume: &super::model::Volume) -> AccessMode {
    use super::model::AccessMode as Model;
    match volume.access_mode.known() {
        None | Some(Model::ReadWriteOnce) => AccessMode::ReadWriteOnce,
        Some(Model::ReadWriteOncePod) => AccessMode::ReadWriteOncePod,
        Some(Model::ReadOnlyMany) => AccessMode::ReadOnlyMany,
        Some(Model::ReadWriteMany) => AccessMode::ReadWriteMany,
    }
}
