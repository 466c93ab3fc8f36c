//! What a plan says of a service on an own server (G5, G8, S3b).

use tf_provider_sdk::{
    context::Context,
    diagnostic::{Diagnostic, Diagnostics},
    field::{Computed, OptionalComputed, Replace},
    resource::Change,
};

use super::{
    asked::same_request,
    known,
    model::GpuService,
    plan::{limit, set_price},
    server::{devices_of, failed, look, price_of, request_of},
    server_values::{check_values, misplaced, public_ports, unsized_volumes},
};
use crate::{
    capacity::{
        ledger::{self, CardAsk, CardFit},
        price::SharePrice,
        server::CardUuid,
    },
    provider::{
        cancel::watched,
        client::{Client, ServerTarget},
        report,
    },
    ssh::{Report, Scope},
};

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
