//! What a plan says of a service on an own server, and what is done to it there.

use std::time::Duration;

use tf_provider_sdk::{
    context::Context,
    diagnostic::{Diagnostic, Diagnostics},
    field::{Computed, Opt, OptionalComputed, Replace},
    resource::{Change, Failed},
};

use super::{
    cluster::empty,
    container::{VolumeNames, absorb, to_container},
    known,
    model::{self, GpuService},
    plan::{limit, same_request, set_price},
};
use crate::{
    capacity::{
        gpu::GpuRequest,
        ledger::{self, CardAsk, CardFit},
        price::{SharePrice, share},
        server::CardUuid,
    },
    provider::{
        cancel::watched,
        client::{Client, ServerTarget},
        configuration::unknown_in,
        report,
    },
    ssh::{Deployed, Deployment, Failure, Observed, Report, Scope, SshError},
};

/// Where Docker's ID of the container is kept: another one under the name is not ours.
const CONTAINER: &str = "container";
/// Where Docker's names of imported volumes are kept.
const VOLUMES: &str = "volumes";

/// How the status begins of a container that does not run, or that an interrupted replacement left under another name: the next update
/// puts it right.
const AMISS: [&str; 4] = ["stopped", "created", "dead", "interrupted"];

pub(super) async fn plan(
    change: &mut Change<GpuService>,
    target: &ServerTarget,
    cx: &Context<'_, Client>,
) -> Result<(), Diagnostics> {
    if !change.is_change() {
        return plan_unchanged(change, target, cx).await;
    }
    misplaced(&change.planned)?;
    public_ports(change, target, cx);
    let name = known(&change.planned.name);
    // A server has none; left unknown it would ask for a new service.
    if change.config.namespace.is_null() {
        change.planned.namespace = Replace(OptionalComputed::null());
    }
    if change.is_create() {
        if !name.is_empty() {
            change.planned.id = name.clone().into();
        }
        unsized_volumes(change, target, cx);
    }
    check_values(change, cx)?;
    change.planned.placement = Computed::null();
    change.planned.nodes = Computed::null();
    let watched = watched(cx);
    identity(change, target, &watched.scope).await?;
    let same = change
        .prior
        .as_ref()
        .is_some_and(|prior| same_request(prior, &change.planned));
    if same && let Some(prior) = &change.prior {
        change.planned.hourly_usd = prior.hourly_usd.clone();
        change.planned.monthly_usd = prior.monthly_usd.clone();
        change.planned.price = prior.price.clone();
        return limit(change);
    }
    let Some(request) = request_of(&change.planned)? else {
        if change
            .planned
            .size
            .known()
            .is_some_and(|size| size.gpu.is_null())
            || change.planned.size.is_null()
        {
            set_price(&mut change.planned, &SharePrice::NoShare);
            change.planned.devices = Vec::new().into();
        }
        if change.is_create() {
            // G5: whether it can be made there does not wait for apply. What exists by its name may be on its way out.
            look(target, cx, &watched.scope).await?;
            let there = target.server.read_service(&name, &watched.scope).await;
            there.map_err(|error| failed(target, &error))?;
        }
        return limit(change);
    };
    let report = look(target, cx, &watched.scope).await?;
    let price = price_of(target, &report, request);
    set_price(&mut change.planned, &price);
    let devices = change.prior.as_ref().map(devices_of).unwrap_or_default();
    let ask = CardAsk {
        request,
        service: &name,
        keep: &devices,
        budget: None,
    };
    match ledger::fit(&report.check, &report.ledger, ask, &target.staying()) {
        CardFit::TooFew(shortage) => {
            return Err(report::refusal(shortage.render(&target.name), "size.gpu").into());
        }
        fit => {
            if let Some(text) = fit.render_warning(&target.name, request) {
                cx.warn(report::notice(text, "size.gpu"));
            }
        }
    }
    limit(change)
}

/// A service that stays as it is holds its cards; one whose card is lost gets another.
async fn plan_unchanged(
    change: &mut Change<GpuService>,
    target: &ServerTarget,
    cx: &Context<'_, Client>,
) -> Result<(), Diagnostics> {
    let status = change.planned.status.known().cloned();
    if status.is_some_and(|status| AMISS.iter().any(|word| status.starts_with(word))) {
        // A service runs: whatever stopped it, apply starts it again.
        change.touch();
        return Ok(());
    }
    let devices = devices_of(&change.planned);
    if !devices.is_empty() {
        let watched = watched(cx);
        // Nothing is refused for an unchanged service: where the server can't be asked, refresh has said so.
        if let Ok(report) = target.server.report(&watched.scope).await {
            let lost: Vec<_> = devices
                .iter()
                .filter(|uuid| !has_card(&report, uuid))
                .map(ToString::to_string)
                .collect();
            if !lost.is_empty() {
                cx.warn(
                    Diagnostic::warning(
                        format!("A GPU of {} is lost", known(&change.planned.name)),
                        format!(
                            "{} no longer has {}. The plan gives the service another one.",
                            target.name,
                            lost.join(", ")
                        ),
                    )
                    .at("size.gpu"),
                );
                change.touch();
                return Ok(());
            }
        }
    }
    target.stays(&known(&change.planned.name));
    Ok(())
}

fn has_card(report: &Report, uuid: &CardUuid) -> bool {
    report
        .check
        .cards
        .iter()
        .any(|card| card.uuid.as_ref() == Some(uuid))
}

fn devices_of(service: &GpuService) -> Vec<CardUuid> {
    service
        .devices
        .known()
        .into_iter()
        .flatten()
        .map(|uuid| CardUuid(uuid.clone()))
        .collect()
}

fn request_of(service: &GpuService) -> Result<Option<GpuRequest>, Diagnostic> {
    let Some(gpu) = service.size.known().and_then(|size| size.gpu.known()) else {
        return Ok(None);
    };
    let (Some(kind), Some(count)) = (gpu.kind.known(), gpu.count.known()) else {
        return Ok(None);
    };
    GpuRequest::parse(kind, *count).map(Some).map_err(|why| {
        Diagnostic::error("This GPU request can't be met anywhere", why.to_string()).at("size.gpu")
    })
}

fn price_of(target: &ServerTarget, report: &Report, request: GpuRequest) -> SharePrice {
    let cards = u64::from(report.check.physical_cards());
    share(
        u64::from(request.count.get()),
        1,
        [(&target.price, Some(cards))],
    )
}

/// The check, once per run; two names for one machine are refused (G9).
async fn look(
    target: &ServerTarget,
    cx: &Context<'_, Client>,
    scope: &Scope,
) -> Result<std::sync::Arc<Report>, Diagnostic> {
    let report = target
        .server
        .report(scope)
        .await
        .map_err(|error| failed(target, &error))?;
    if let Some(other) = report
        .target_uid
        .as_ref()
        .and_then(|uid| cx.client.claim_machine(&target.name, uid))
    {
        return Err(Diagnostic::error(
            "One machine under two names",
            format!(
                "The servers {other} and {} are one machine (the same /etc/machine-id): its GPUs would be counted twice. Remove one of them from `servers`; if the machines were cloned, give one a new machine-id.",
                target.name
            ),
        )
        .at("target"));
    }
    Ok(report)
}

fn failed(target: &ServerTarget, error: &SshError) -> Diagnostic {
    report::server_error(&target.name, error)
}

/// G9: another name for the same machine changes nothing; another machine makes a new service.
async fn identity(
    change: &mut Change<GpuService>,
    target: &ServerTarget,
    scope: &Scope,
) -> Result<(), Diagnostic> {
    let Some(prior) = change
        .prior
        .as_ref()
        .filter(|prior| prior.target != change.planned.target)
    else {
        return Ok(());
    };
    let stored = prior.target_uid.known().cloned().unwrap_or_default();
    let uid = target
        .server
        .target_uid(scope)
        .await
        .map_err(|error| failed(target, &error))?;
    if uid != stored {
        change.replace("target");
        change.planned.target_uid = uid.into();
    }
    Ok(())
}

/// Attributes that mean something on a cluster only.
fn misplaced(service: &GpuService) -> Result<(), Diagnostics> {
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
        ("env_from", service.env_from.known().is_some()),
        ("annotations", service.annotations.known().is_some()),
        (
            "image_pull_secret",
            service.image_pull_secret.known().is_some(),
        ),
        ("runtime_class", service.runtime_class.known().is_some()),
        ("service_account", service.service_account.known().is_some()),
        ("node_selector", service.node_selector.known().is_some()),
        ("tolerations", service.tolerations.known().is_some()),
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
fn check_values(change: &Change<GpuService>, cx: &Context<'_, Client>) -> Result<(), Diagnostic> {
    if !unknown_in(&change.config).is_empty() {
        return Ok(());
    }
    let names: VolumeNames = cx.private(VOLUMES).unwrap_or_default();
    let spec = to_container(&change.planned, Some(&change.config), &names)?;
    spec.validate().map_err(|why| refused(&why))
}

/// What can't be given to Docker, on the attribute that it is about.
fn refused(why: &SshError) -> Diagnostic {
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
fn unsized_volumes(change: &Change<GpuService>, target: &ServerTarget, cx: &Context<'_, Client>) {
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
fn public_ports(change: &Change<GpuService>, target: &ServerTarget, cx: &Context<'_, Client>) {
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

fn deployment(
    service: &GpuService,
    config: &GpuService,
    cx: &Context<'_, Client>,
) -> Result<Deployment, Diagnostic> {
    let names: VolumeNames = cx.private(VOLUMES).unwrap_or_default();
    let spec = to_container(service, Some(config), &names)?;
    spec.validate().map_err(|why| refused(&why))?;
    let wait = service
        .device_wait_seconds
        .known()
        .and_then(|seconds| u64::try_from(*seconds).ok())
        .unwrap_or(120);
    Ok(Deployment {
        spec,
        registries: cx.client.registries.clone(),
        device_wait: Duration::from_secs(wait),
        wait: service.wait,
    })
}

pub(super) async fn create(
    target: &ServerTarget,
    change: Change<GpuService>,
    cx: &Context<'_, Client>,
) -> Result<GpuService, Failed<GpuService>> {
    let watched = watched(cx);
    misplaced(&change.planned)?;
    let mut planned = change.planned.clone();
    let report = look(target, cx, &watched.scope).await?;
    planned.target_uid = report.target_uid.clone().unwrap_or_default().into();
    settle_price(&mut planned, target, &report)?;
    limit_now(&change, &planned)?;
    planned.id = known(&planned.name).into();
    planned.namespace = Replace(OptionalComputed::null());
    planned.placement = Computed::null();
    planned.nodes = Computed::null();
    let deployment = deployment(&planned, &change.config, cx)?;
    let made = target
        .server
        .create_service(&deployment, &watched.scope)
        .await;
    outcome(target, planned, made, cx)
}

pub(super) async fn update(
    target: &ServerTarget,
    change: Change<GpuService>,
    cx: &Context<'_, Client>,
) -> Result<GpuService, Failed<GpuService>> {
    let watched = watched(cx);
    let mut planned = change.planned.clone();
    let name = known(&planned.name);
    let report = look(target, cx, &watched.scope).await?;
    same_machine(target, &planned, &report)?;
    let old = target
        .server
        .read_service(&name, &watched.scope)
        .await
        .map_err(|error| failed(target, &error))?;
    let old = old.ok_or_else(|| {
        Diagnostic::error(
            "The service is gone",
            format!("Container {name} is no longer on {}: something else removed it meanwhile. Run a plan again: it proposes to make it anew.", target.name),
        )
    })?;
    settle_price(&mut planned, target, &report)?;
    planned.placement = Computed::null();
    planned.nodes = Computed::null();
    let deployment = deployment(&planned, &change.config, cx)?;
    let made = target
        .server
        .update_service(&old, &deployment, &watched.scope)
        .await;
    match made {
        // The old container runs on as before: the state says so.
        Err(Failure {
            error,
            existing: Some(observed),
        }) if observed.id == old.id => {
            let why = failed(target, &error);
            match change.prior {
                Some(mut prior) => {
                    show(&mut prior, &observed, target);
                    Err(Failed::leaving(why, prior))
                }
                None => Err(why.into()),
            }
        }
        made => outcome(target, planned, made, cx),
    }
}

fn settle_price(
    planned: &mut GpuService,
    target: &ServerTarget,
    report: &Report,
) -> Result<(), Diagnostic> {
    if planned.price.is_unknown() || planned.hourly_usd.is_unknown() {
        let price = request_of(planned)?.map_or(SharePrice::NoShare, |request| {
            price_of(target, report, request)
        });
        set_price(planned, &price);
    }
    Ok(())
}

fn limit_now(change: &Change<GpuService>, planned: &GpuService) -> Result<(), Diagnostics> {
    let mut priced = change.clone();
    priced.planned = planned.clone();
    limit(&priced)
}

/// What came of a create or update, as state.
fn outcome(
    target: &ServerTarget,
    mut service: GpuService,
    made: Result<Deployed, Failure>,
    cx: &Context<'_, Client>,
) -> Result<GpuService, Failed<GpuService>> {
    match made {
        Ok(deployed) => {
            for warning in deployed.warnings {
                cx.warn(Diagnostic::warning(
                    format!("{}: something was left", target.name),
                    warning,
                ));
            }
            if !deployed.used_outside.is_empty() {
                let cards: Vec<_> = deployed
                    .used_outside
                    .iter()
                    .map(ToString::to_string)
                    .collect();
                cx.warn(
                    Diagnostic::warning(
                        "A GPU is in use outside containers",
                        format!(
                            "No other was free on {}: processes that no container holds use {}.",
                            target.name,
                            cards.join(", ")
                        ),
                    )
                    .at("size.gpu"),
                );
            }
            remember(cx, &deployed.observed);
            show(&mut service, &deployed.observed, target);
            Ok(service)
        }
        Err(Failure {
            error,
            existing: None,
        }) => Err(failed(target, &error).into()),
        Err(Failure {
            error,
            existing: Some(observed),
        }) => {
            remember(cx, &observed);
            show(&mut service, &observed, target);
            Err(Failed::leaving(failed(target, &error), service))
        }
    }
}

fn remember(cx: &Context<'_, Client>, observed: &Observed) {
    cx.set_private(CONTAINER, Some(&observed.id));
}

/// What only the live container tells.
fn show(service: &mut GpuService, observed: &Observed, target: &ServerTarget) {
    service.status = if observed.is_interrupted() {
        format!("interrupted update ({})", observed.status()).into()
    } else {
        observed.status().into()
    };
    service.devices = observed
        .devices
        .iter()
        .map(ToString::to_string)
        .collect::<Vec<_>>()
        .into();
    let first = observed.published.first();
    let host = &target.server.config().login.host;
    let endpoint = first.map(|it| {
        let any = it.host_ip.is_empty() || it.host_ip == "0.0.0.0" || it.host_ip == "::";
        format!("{}:{}", if any { host } else { &it.host_ip }, it.host_port)
    });
    service.endpoint = Computed(endpoint.into());
}

pub(super) async fn read(
    target: &ServerTarget,
    mut service: GpuService,
    cx: &Context<'_, Client>,
) -> Result<Option<GpuService>, Diagnostics> {
    let watched = watched(cx);
    let report = look(target, cx, &watched.scope).await?;
    same_machine(target, &service, &report)?;
    if service.target_uid.known().is_none_or(String::is_empty) {
        service.target_uid = report.target_uid.clone().unwrap_or_default().into();
    }
    let name = known(&service.name);
    let observed = target
        .server
        .read_service(&name, &watched.scope)
        .await
        .map_err(|error| failed(target, &error))?;
    let Some(observed) = observed else {
        return Ok(None);
    };
    if observed.mark.is_none()
        && cx
            .private::<String>(CONTAINER)
            .is_some_and(|id| id != observed.id)
    {
        // Ours was removed, and somebody else's has its name.
        return Ok(None);
    }
    remember(cx, &observed);
    let names: VolumeNames = cx.private(VOLUMES).unwrap_or_default();
    let set = to_container(&service, None, &names).ok();
    if let Some(set) = &set {
        absorb(&mut service, set, &observed);
        kind_from_cards(&mut service, &observed, &report);
    }
    match request_of(&service) {
        Ok(Some(request)) => set_price(&mut service, &price_of(target, &report, request)),
        Ok(None) => set_price(&mut service, &SharePrice::NoShare),
        Err(_) => set_price(&mut service, &SharePrice::Unknown { elsewhere: None }),
    }
    show(&mut service, &observed, target);
    Ok(Some(service))
}

/// G9: another machine behind the connection than the one that the state was written for.
fn same_machine(
    target: &ServerTarget,
    service: &GpuService,
    report: &Report,
) -> Result<(), Diagnostic> {
    let found = report.target_uid.clone().unwrap_or_default();
    let stored = service.target_uid.known().filter(|uid| !uid.is_empty());
    let Some(stored) = stored.filter(|uid| **uid != found) else {
        return Ok(());
    };
    Err(Diagnostic::error(
        format!("{} is another machine now", target.name),
        format!(
            "The state was written for the machine with the ID {stored}; behind the connection {} there is one with {found:?}. Nothing was changed. Point the connection back, or, if the old machine is gone for good, remove the service with a `removed` block with `lifecycle {{ destroy = false }}`.",
            target.name
        ),
    )
    .at("target"))
}

pub(super) async fn delete(
    target: &ServerTarget,
    service: GpuService,
    cx: &Context<'_, Client>,
) -> Result<(), Diagnostics> {
    let watched = watched(cx);
    let report = look(target, cx, &watched.scope).await?;
    same_machine(target, &service, &report)?;
    let names: VolumeNames = cx.private(VOLUMES).unwrap_or_default();
    let spec = to_container(&service, None, &names);
    let volumes = spec.map(|spec| spec.volumes).unwrap_or_default();
    let doomed: Vec<String> = volumes
        .into_values()
        .filter(|volume| volume.delete_on_destroy)
        .map(|volume| volume.docker_name)
        .collect();
    let id = cx.private::<String>(CONTAINER);
    let gone = target
        .server
        .delete_service(
            &known(&service.name),
            id.as_deref(),
            &doomed,
            &watched.scope,
        )
        .await;
    gone.map_err(|failure| failed(target, &failure.error).into())
}

pub(super) async fn import(
    target: &ServerTarget,
    name: &str,
    cx: &Context<'_, Client>,
) -> Result<GpuService, Diagnostics> {
    let watched = watched(cx);
    let report = look(target, cx, &watched.scope).await?;
    let observed = target
        .server
        .import_service(name, &watched.scope)
        .await
        .map_err(|error| failed(target, &error))?;
    let mut service = empty(&target.name, "", name);
    service.namespace = Replace(OptionalComputed::null());
    service.id = name.to_owned().into();
    service.target_uid = report.target_uid.clone().unwrap_or_default().into();
    let names: VolumeNames = observed
        .spec
        .volumes
        .iter()
        .map(|(name, it)| (name.clone(), it.docker_name.clone()))
        .collect();
    cx.set_private(VOLUMES, Some(&names));
    let set = to_container(&service, None, &names)?;
    absorb(&mut service, &set, &observed);
    kind_from_cards(&mut service, &observed, &report);
    remember(cx, &observed);
    match request_of(&service) {
        Ok(Some(request)) => set_price(&mut service, &price_of(target, &report, request)),
        Ok(None) => set_price(&mut service, &SharePrice::NoShare),
        Err(_) => set_price(&mut service, &SharePrice::Unknown { elsewhere: None }),
    }
    show(&mut service, &observed, target);
    Ok(service)
}

/// A container that others started has no kind on record; its cards have one.
fn kind_from_cards(service: &mut GpuService, observed: &Observed, report: &Report) {
    let Opt::Known(size) = &mut service.size else {
        return;
    };
    let Opt::Known(gpu) = &mut size.gpu else {
        return;
    };
    let kinds: std::collections::BTreeSet<_> = report
        .check
        .cards
        .iter()
        .filter(|card| {
            card.uuid
                .as_ref()
                .is_some_and(|uuid| observed.devices.contains(uuid))
        })
        .filter_map(|card| card.kind)
        .collect();
    if observed.spec.gpu.is_none()
        && let Some(kind) = kinds.first().filter(|_| kinds.len() == 1)
    {
        gpu.kind = tf_provider_sdk::field::Maybe::Known(kind.id().to_owned());
    }
}
