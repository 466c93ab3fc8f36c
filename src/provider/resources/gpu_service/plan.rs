//! What a plan says of a service: whether the target can meet the request, where it may run, and what it costs (G5, G8, K5, P4).

use std::{collections::BTreeMap, sync::Arc};

use tf_provider_sdk::{
    context::Context,
    diagnostic::{Diagnostic, Diagnostics, Severity},
    field::{Computed, Opt},
    resource::Change,
};

use super::{
    asked::{is_open, is_open_toleration, same_ask, same_request},
    cluster::{DRIFTED, GONE, UNFINISHED},
    cluster_values, imported, known, missing,
    model::{GpuService, Placement},
    spec, validate, volumes,
};
use crate::{
    capacity::{
        fit::{self, ClusterAsk, ClusterFit},
        gpu::GpuRequest,
        price::{SharePrice, check_limit},
        size::Cpu,
        taint,
    },
    kubernetes::{Cancel, Error, TargetUid},
    provider::{
        client::{Client, ClusterTarget, Target},
        report,
    },
};

/// Where the applied placement is kept between runs: as a whole, since the attribute shows only what a person needs.
pub(super) const PLACEMENT: &str = "placement";

pub(super) async fn plan(
    change: &mut Change<GpuService>,
    cx: &Context<'_, Client>,
) -> Result<(), Diagnostics> {
    let Some(name) = change.planned.target.known().cloned() else {
        return Ok(());
    };
    let target = match cx.client.target(&name) {
        Target::Cluster(target) => target,
        Target::Server(target) => return super::server_plan::plan(change, target, cx).await,
        Target::Missing if change.is_change() => return Err(missing(&name, cx).into()),
        Target::Missing => return Ok(()),
        Target::Unknown(_) => {
            if change.is_change() {
                if change
                    .prior
                    .as_ref()
                    .is_some_and(|prior| prior.target.known() != Some(&name))
                {
                    return Err(undecided(&name).into());
                }
                cx.warn(not_checked());
                carry(change);
            }
            return Ok(());
        }
    };
    if change.is_change() {
        let mut report = validate::misplaced_on_cluster(&change.planned);
        cluster_values::check(&change.planned, &mut report);
        if report.has_error() {
            return Err(report);
        }
        change.planned.devices = Computed::null();
        imported::warn_of_what_stays(change, cx);
    }
    // One that is configured and not known yet is left so.
    if change.is_create()
        && change.planned.namespace.is_unknown()
        && change.config.namespace.is_null()
    {
        let cancel = Cancel::never();
        let namespace = target.cluster.default_namespace(&cancel);
        change.planned.namespace.0.0 = Opt::Known(
            cx.run(namespace)
                .await
                .map_err(|why| report::interrupted("read the kubeconfig", why))??,
        );
    }
    identity(change, target, cx).await?;
    resume(change, cx);
    if change.is_change() {
        if !change.is_create() {
            carry(change);
        } else if let Opt::Known(namespace) = &change.planned.namespace.0.0
            && let Some(name) = change.planned.name.known()
        {
            change.planned.id = format!("{namespace}/{name}").into();
        }
        volumes::check(change, target, cx).await?;
    }
    gpus(change, target, cx).await
}

/// Work that the configuration does not show: an apply that ended before its rollout did, a placement that someone changed, a
/// Deployment that someone deleted.
fn resume(change: &mut Change<GpuService>, cx: &Context<'_, Client>) {
    if change.is_create() {
        return;
    }
    let flagged = |key: &str| cx.private::<bool>(key) == Some(true);
    let (gone, unfinished, drifted) = (flagged(GONE), flagged(UNFINISHED), flagged(DRIFTED));
    if !gone && !unfinished && !drifted {
        return;
    }
    if !change.is_change() {
        // The hook runs again with a change, and warns then.
        change.touch();
        return;
    }
    let name = known(&change.planned.name);
    if gone {
        cx.warn(Diagnostic::warning(
            format!("The Deployment of {name} is gone"),
            format!(
                "Something else deleted it, or an earlier destroy of it was cut off. Its status is {:?}. This plan makes it anew, with what is left of it.",
                change.prior.as_ref().and_then(|prior| prior.status.known()).map_or("unknown", String::as_str)
            ),
        ));
        return;
    }
    if unfinished {
        cx.warn(Diagnostic::warning(
            format!("The last apply of {name} did not finish"),
            "It ended before all pods of the new form were ready. This plan goes on with it: applying it changes what is missing, and waits for the rollout.",
        ));
    }
    if drifted {
        cx.warn(Diagnostic::warning(
            format!("The placement of {name} was changed outside of Terraform"),
            "The node affinity or the tolerations on the cluster are not those that Loomplane applied, so its pods may land on other nodes or none. This plan puts them back, which rolls the pods.",
        ));
    }
}

/// Computed values that a change of other attributes leaves as they are (G8).
fn carry(change: &mut Change<GpuService>) {
    let Some(prior) = &change.prior else { return };
    if same_request(prior, &change.planned) {
        change.planned.hourly_usd = prior.hourly_usd.clone();
        change.planned.monthly_usd = prior.monthly_usd.clone();
        change.planned.price = prior.price.clone();
        if let Some(placement) = prior.placement.known() {
            change.planned.placement = Placement {
                admits: placement.admits.clone(),
                tolerations: Opt::Unknown,
            }
            .into();
        } else {
            change.planned.placement = Computed::null();
        }
    }
}

/// G9: another name for the same cluster changes nothing; another cluster makes a new service.
async fn identity(
    change: &mut Change<GpuService>,
    target: &ClusterTarget,
    cx: &Context<'_, Client>,
) -> Result<(), Diagnostics> {
    let Some(prior) = &change.prior else {
        return Ok(());
    };
    if prior.target == change.planned.target {
        return Ok(());
    }
    let cancel = Cancel::never();
    let uid = cx
        .run(target.cluster.target_uid(&cancel))
        .await
        .map_err(|why| report::interrupted("tell which cluster this is", why))??;
    match (uid, prior.target_uid.known()) {
        (TargetUid::Known(uid), Some(stored)) if !stored.is_empty() => {
            if uid != *stored {
                change.replace("target");
                change.planned.target_uid = uid.into();
            }
            Ok(())
        }
        _ => Err(Diagnostic::error(
            format!("Can't tell whether {} is the same cluster as before", target.name),
            format!(
                "The target changes from {} to {}, and the credential may not read the namespace kube-system, whose UID tells clusters apart. Allow `get` on it, or take the service out of the state (`removed` with `destroy = false`) and import it under its new target.",
                known(&prior.target),
                target.name
            ),
        )
        .at("target")
        .into()),
    }
}

fn undecided(name: &str) -> Diagnostic {
    Diagnostic::error(
        format!("Can't tell whether {name} is the same cluster as before"),
        "The target changes, and the new connection is not known yet: a renamed connection would keep the service, another cluster would make a new one. Apply what the connection comes from first (-target).",
    )
    .at("target")
}

fn not_checked() -> Diagnostic {
    Diagnostic::warning(
        "A connection is not known yet, so its GPU requests were not checked",
        "Part of the connection comes from something that is not applied yet. Whether the target can meet the request is checked at apply, before anything is changed.",
    )
}

async fn gpus(
    change: &mut Change<GpuService>,
    target: &ClusterTarget,
    cx: &Context<'_, Client>,
) -> Result<(), Diagnostics> {
    let planned = &change.planned;
    let gpu = match planned.size.known().map(|size| &size.gpu) {
        Some(Opt::Known(gpu)) => gpu,
        Some(Opt::Unknown) => return Ok(()),
        _ if planned.size.is_unknown() => return Ok(()),
        _ => {
            if change.is_change() {
                without_gpus(change);
                limit(change)?;
            }
            return Ok(());
        }
    };
    let (Some(kind), Some(count)) = (gpu.kind.known(), gpu.count.known()) else {
        return Ok(());
    };
    let request = match GpuRequest::parse(kind, *count) {
        Ok(request) => request,
        // A kind that can't be told (an imported object) is no request to check; a configured one was refused before.
        Err(_) if !change.is_change() => return Ok(()),
        Err(why) => {
            return Err(Diagnostic::error(
                "This GPU request can't be met anywhere",
                why.to_string(),
            )
            .at("size.gpu")
            .into());
        }
    };
    let prior = change.prior.as_ref();
    let stayed = prior.is_some_and(|prior| same_ask(prior, planned));
    let priced = prior.is_some_and(|prior| same_request(prior, planned));
    if change.is_change() && stayed && priced {
        // Only a plan that creates an object or changes its request is refused (G5). K5: what was applied may admit no node any more.
        let drifted = cx.private::<bool>(DRIFTED) == Some(true);
        if drifted {
            // What was carried is what someone else made of it.
            change.planned.placement = Computed::unknown();
        }
        if let Ok(Ok(fit)) = look(change, target, request, cx).await {
            let warning = renewed(&fit);
            if let Some(warning) = warning {
                cx.warn(report::notice(warning.render(&target.name), "size.gpu"));
            }
            if drifted || warning.is_some() {
                change.planned.placement = admits(&fit.placement);
            }
        }
        return limit(change);
    }
    let open = planned.replicas.is_unknown() || is_open(planned);
    let outcome = look(change, target, request, cx).await;
    if !change.is_change() {
        // K5: what was applied admits no node any more; propose what does. Nothing else is said of an unchanged object.
        if let Ok(Ok(fit)) = &outcome
            && renewed(fit).is_some()
        {
            change.touch();
        }
        return Ok(());
    }
    let planned = &change.planned;
    let fit = match outcome? {
        // Fewer pods of what is there: apply makes no more of what can't be met, and tells the price if there is one.
        Err(_) if stayed => return Ok(()),
        // No pod is asked for now.
        Err(why) if planned.replicas.known() == Some(&0) => {
            cx.warn(Diagnostic {
                severity: Severity::Warning,
                ..why
            });
            return Ok(());
        }
        fit => fit?,
    };
    if open {
        // What is not known yet was taken for what suits best: a refusal is certain, and nothing else is.
        change.planned.placement = admits(&fit.placement);
        return Ok(());
    }
    for warning in &fit.warnings {
        cx.warn(report::notice(warning.render(&target.name), "size.gpu"));
    }
    change.planned.placement = admits(&fit.placement);
    if !priced && cx.client.prices_known {
        set_price(&mut change.planned, &fit.price);
    } else if !priced {
        // One of them could make this price another at apply: it is not known yet either (G8).
        cx.warn(Diagnostic::warning(
            "Some prices are not known yet",
            "`prices` of the provider holds values that are not applied yet, so the prices of GPU services on clusters are known after apply. `max_hourly_usd` is checked then, before anything is made.",
        ));
    }
    limit(change)
}

/// Holds a service's request against what the cluster has now.
pub(super) async fn look(
    change: &Change<GpuService>,
    target: &ClusterTarget,
    request: GpuRequest,
    cx: &Context<'_, Client>,
) -> Result<Result<Arc<ClusterFit>, Diagnostic>, Diagnostics> {
    let previous = change
        .prior
        .as_ref()
        .filter(|prior| kind_of(prior) == kind_of(&change.planned))
        .and_then(|_| cx.private::<fit::Placement>(PLACEMENT));
    held_against(
        &change.planned,
        previous.as_ref(),
        None,
        target,
        request,
        cx,
    )
    .await
}

/// The warning that what was applied admits no node any more (K5).
pub(super) fn renewed(fit: &ClusterFit) -> Option<&fit::FitWarning> {
    fit.warnings
        .iter()
        .find(|warning| matches!(warning, fit::FitWarning::PlacementRenewed { .. }))
}

fn kind_of(service: &GpuService) -> Option<&String> {
    service.size.known()?.gpu.known()?.kind.known()
}

/// Holds a request against what the cluster has, with the placement that was applied before. What is not known yet is taken for
/// what suits best. A refusal is on the attribute that caused it (G5). `replicas`: how many there are, where that is not what is asked for.
pub(super) async fn held_against(
    service: &GpuService,
    previous: Option<&fit::Placement>,
    replicas: Option<u32>,
    target: &ClusterTarget,
    request: GpuRequest,
    cx: &Context<'_, Client>,
) -> Result<Result<Arc<ClusterFit>, Diagnostic>, Diagnostics> {
    let cancel = Cancel::never();
    let view = cx
        .run(target.view(&cancel))
        .await
        .map_err(|why| report::interrupted("list nodes", why))??;
    let selector = service.node_selector.known().into_iter().flatten();
    let node_selector = selector
        .filter_map(|(key, value)| Some((key.clone(), value.known()?.clone())))
        .collect();
    let listed = || service.tolerations.known().into_iter().flatten();
    let open = service.tolerations.is_unknown() || listed().any(is_open_toleration);
    let tolerations: Vec<_> = if open {
        vec![taint::Toleration::everything()]
    } else {
        listed()
            .map(|it| spec::domain_toleration(&spec::toleration(it)))
            .collect()
    };
    let size = service.size.known();
    let cpu = size.and_then(|size| size.cpu.known());
    let ask = ClusterAsk {
        target: &target.name,
        request,
        replicas: replicas
            .or_else(|| spec::number(service.replicas.known()))
            .unwrap_or(1),
        cpu_millis: cpu.and_then(|cpu| Cpu::parse(&cpu.to_string()).ok().map(Cpu::millis)),
        memory_mib: spec::number(size.and_then(|size| size.memory.known())),
        node_selector: &node_selector,
        tolerations: &tolerations,
        previous,
        prices: &cx.client.prices,
    };
    let fits = |ask: &ClusterAsk<'_>| target.fit(&view, ask);
    Ok(fits(&ask).map_err(|refusal| {
        let none = BTreeMap::new();
        let anywhere = ClusterAsk {
            node_selector: &none,
            ..ask
        };
        let small = ClusterAsk {
            cpu_millis: None,
            memory_mib: None,
            ..ask
        };
        let cause = if !node_selector.is_empty() && fits(&anywhere).is_ok() {
            "node_selector"
        } else if fits(&small).is_ok() {
            "size"
        } else {
            "size.gpu"
        };
        report::refusal(refusal.render(), cause)
    }))
}

fn admits(placement: &fit::Placement) -> Computed<Placement> {
    Placement {
        admits: placement.admission.named_values(),
        tolerations: Opt::Unknown,
    }
    .into()
}

fn without_gpus(change: &mut Change<GpuService>) {
    change.planned.placement = Computed::null();
    set_price(&mut change.planned, &SharePrice::NoShare);
}

pub(super) fn set_price(service: &mut GpuService, price: &SharePrice) {
    service.hourly_usd = Computed(price.hourly().map(report::usd).into());
    service.monthly_usd = Computed(price.monthly().map(report::usd).into());
    service.price = price.render().into();
}

/// P4: checked at plan, and again just before apply.
pub(super) fn limit(change: &Change<GpuService>) -> Result<(), Diagnostics> {
    let planned = &change.planned;
    let Some(limit) = planned.max_hourly_usd.known().and_then(report::decimal) else {
        return Ok(());
    };
    let free = planned.replicas.known() == Some(&0);
    if free
        || planned.hourly_usd.is_unknown()
        || planned.size.known().is_none_or(|size| size.gpu.is_null())
    {
        return Ok(());
    }
    let hourly = planned
        .hourly_usd
        .known()
        .and_then(report::decimal)
        .and_then(crate::capacity::price::Usd::new);
    check_limit(hourly, limit).map_err(|why| {
        Diagnostic::error(
            "Above the price limit",
            format!("{}: {why}", known(&planned.name)),
        )
        .at("max_hourly_usd")
        .into()
    })
}

/// A failed look at a cluster, for `?`.
impl From<Error> for Diagnostic {
    fn from(error: Error) -> Self {
        report::cluster_error(&error)
    }
}
