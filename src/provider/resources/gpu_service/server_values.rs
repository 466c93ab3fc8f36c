//! What was typed of a service on an own server: what does not apply there, what Docker would refuse, what deserves a warning.

use tf_provider_sdk::{
    context::Context,
    diagnostic::{Diagnostic, Diagnostics},
    field::Opt,
    resource::Change,
};

use super::{
    container::{VolumeNames, to_container},
    known,
    model::{self, GpuService},
    server::VOLUMES,
};
use crate::{
    provider::{
        client::{Client, ServerTarget},
        configuration::unknown_in,
    },
    ssh::SshError,
};

/// Attributes that mean something on a cluster only.
pub(super) fn misplaced(service: &GpuService) -> Result<(), Diagnostics> {
    let mut report = Diagnostics::none();
    let set = [
        ("namespace", service.namespace.known().is_some()),
        (
            "replicas",
            service
                .replicas
                .known()
                .is_some_and(|replicas| *replicas != 1),
        ),
        (
            "env_from",
            service.env_from.known().is_some_and(|it| !it.is_empty()),
        ),
        (
            "annotations",
            service.annotations.known().is_some_and(|it| !it.is_empty()),
        ),
        (
            "image_pull_secret",
            service.image_pull_secret.known().is_some(),
        ),
        ("runtime_class", service.runtime_class.known().is_some()),
        ("service_account", service.service_account.known().is_some()),
        (
            "node_selector",
            service
                .node_selector
                .known()
                .is_some_and(|it| !it.is_empty()),
        ),
        (
            "tolerations",
            service.tolerations.known().is_some_and(|it| !it.is_empty()),
        ),
        ("service_type", service.service_type.known().is_some()),
        ("priority_class", service.priority_class.known().is_some()),
        ("rollout", service.rollout.known().is_some()),
        ("force_conflicts", service.force_conflicts),
        (
            "volumes.access_mode",
            service.volumes.known().is_some_and(|volumes| {
                volumes
                    .values()
                    .any(|volume| volume.access_mode.known().is_some())
            }),
        ),
        (
            "ports.protocol SCTP",
            service.ports.known().is_some_and(|ports| {
                ports
                    .iter()
                    .any(|port| port.protocol.known() == Some(&model::Protocol::Sctp))
            }),
        ),
    ];
    for (name, _) in set.into_iter().filter(|(_, set)| *set) {
        let target = known(&service.target);
        let (path, _) = name.split_once('.').unwrap_or((name, ""));
        report.error(
            path,
            format!("{name} does not apply to a server"),
            format!("{target} is an own server, and {name} means something on a cluster only. Leave it out, or use a cluster."),
        );
    }
    if report.has_error() {
        Err(report)
    } else {
        Ok(())
    }
}

/// G5: what Docker would refuse is said at plan, where all that was typed is known.
pub(super) fn check_values(
    change: &Change<GpuService>,
    cx: &Context<'_, Client>,
) -> Result<(), Diagnostic> {
    if !unknown_in(&change.config).is_empty() {
        return Ok(());
    }
    let names: VolumeNames = cx.private(VOLUMES).unwrap_or_default();
    let spec = to_container(&change.planned, Some(&change.config), &names)?;
    spec.validate().map_err(|why| refused(&why))
}

/// What can't be given to Docker, on the attribute that it is about.
pub(super) fn refused(why: &SshError) -> Diagnostic {
    const ATTRIBUTES: [&str; 11] = [
        "name",
        "image",
        "env",
        "secret_env",
        "labels",
        "volumes",
        "host_mounts",
        "ports",
        "size.shm",
        "size.memory",
        "health_check",
    ];
    let diagnostic = Diagnostic::error("The server's Docker can't run this", why.to_string());
    let SshError::Refused { what, .. } = why else {
        return diagnostic;
    };
    let what = what.trim_start_matches("the value of ");
    let about = |attribute: &&&str| {
        what.strip_prefix(**attribute)
            .is_some_and(|rest| !rest.starts_with(|c: char| c.is_alphanumeric() || c == '_'))
    };
    match ATTRIBUTES.iter().find(about) {
        Some(attribute) => diagnostic.at(*attribute),
        None => diagnostic,
    }
}

/// Docker's volumes have no size: a stated one is no limit there.
pub(super) fn unsized_volumes(
    change: &Change<GpuService>,
    target: &ServerTarget,
    cx: &Context<'_, Client>,
) {
    let volumes = change.planned.volumes.known();
    if volumes.is_some_and(|volumes| volumes.values().any(|it| it.size_gib.known().is_some())) {
        cx.warn(
            Diagnostic::warning(
                "A volume's size is no limit on a server",
                format!(
                    "size_gib means something on a cluster only: on {} a volume is one of Docker's, which grows as long as the disk has room.",
                    target.name
                ),
            )
            .at("volumes"),
        );
    }
}

/// A published port passes by the server's firewall: say so once, when it is made.
pub(super) fn public_ports(
    change: &Change<GpuService>,
    target: &ServerTarget,
    cx: &Context<'_, Client>,
) {
    if change
        .prior
        .as_ref()
        .is_some_and(|prior| prior.ports == change.planned.ports)
    {
        return;
    }
    for port in change.planned.ports.known().into_iter().flatten() {
        let public = match &port.host_ip {
            Opt::Null => true,
            Opt::Known(ip) => ip.is_empty() || ip == "0.0.0.0" || ip == "::",
            Opt::Unknown => false,
        };
        if let Some(host_port) = port.host_port.known().filter(|_| public) {
            cx.warn(
                Diagnostic::warning(
                    "A port is published on every address",
                    format!(
                        "Port {host_port} of {} will answer on all its addresses: Docker's rules pass by the firewall. Set host_ip (\"127.0.0.1\" for the server itself) if that is not meant.",
                        target.name
                    ),
                )
                .at("ports"),
            );
        }
    }
}
