//! What is done to a service on an own server: create, read, update, delete, import.

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
    model::GpuService,
    plan::{limit, set_price},
    server_values::{misplaced, refused},
};
use crate::{
    capacity::{
        gpu::GpuRequest,
        price::{SharePrice, share},
        server::CardUuid,
    },
    provider::{
        cancel::watched,
        client::{Client, ServerTarget},
        report,
    },
    ssh::{Deployed, Deployment, Failure, Observed, Report, Scope, SshError},
};

/// Where Docker's ID of the container is kept: another one under the name is not ours.
const CONTAINER: &str = "container";
/// Where Docker's names of imported volumes are kept.
pub(super) const VOLUMES: &str = "volumes";

pub(super) fn devices_of(service: &GpuService) -> Vec<CardUuid> {
    service
        .devices
        .known()
        .into_iter()
        .flatten()
        .map(|uuid| CardUuid(uuid.clone()))
        .collect()
}

pub(super) fn request_of(service: &GpuService) -> Result<Option<GpuRequest>, Diagnostic> {
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

pub(super) fn price_of(target: &ServerTarget, report: &Report, request: GpuRequest) -> SharePrice {
    let cards = u64::from(report.check.physical_cards());
    share(
        u64::from(request.count.get()),
        1,
        [(&target.price, Some(cards))],
    )
}

/// The check, once per run; two names for one machine are refused (G9).
pub(super) async fn look(
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

pub(super) fn failed(target: &ServerTarget, error: &SshError) -> Diagnostic {
    report::server_error(&target.name, error)
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
