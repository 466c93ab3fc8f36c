//! Create and update: the request is held against what is there now before anything is changed.

use std::{
    collections::{BTreeMap, BTreeSet},
    hash::{BuildHasher, Hasher, RandomState},
    sync::Arc,
};

use secrecy::SecretString;
use tf_provider_sdk::{
    context::Context,
    diagnostic::{Diagnostic, Diagnostics},
    field::{Computed, Replace},
    resource::{Change, Failed},
};

use super::{
    super::{
        asked::same_ask,
        known,
        model::{self, GpuService},
        placement,
        plan::{PLACEMENT, limit, look, set_price},
        spec::to_spec,
    },
    DRIFTED, GONE, SECRET_NAMES, TOKEN, UNFINISHED, gone, has_gpus, is_ours, listed, remember,
    request_of, same_cluster, show, show_new, uid_of,
    wait::{finish, waits},
};
use crate::{
    capacity::{
        fit::{self, ClusterFit},
        price::SharePrice,
    },
    kubernetes::{ApplyFailure, ApplyOptions, Cancel, Error, ObjectName, workload::ServiceSpec},
    provider::{
        cancel::watched,
        client::{Client, ClusterTarget},
    },
};

pub(in super::super) async fn create(
    target: &ClusterTarget,
    change: Change<GpuService>,
    cx: &Context<'_, Client>,
) -> Result<GpuService, Failed<GpuService>> {
    let fit = check(target, &change, cx).await?;
    let mut planned = change.planned.clone();
    if planned.namespace.is_unknown() {
        planned.namespace = Replace(
            target
                .cluster
                .default_namespace(&Cancel::never())
                .await
                .map_err(Diagnostics::from)?
                .into(),
        );
    }
    // What runs where must be known before anything is made: the state holds it from then on.
    let watched = watched(cx);
    planned.target_uid = uid_of(target, &watched.cancel).await?;
    // A service that is made anew, of which parts were left, keeps its placement where the request is not refused for being met nowhere.
    let placement = fit.as_ref().map(|fit| fit.placement.clone()).or_else(|| {
        let kept = cx.private::<fit::Placement>(PLACEMENT);
        kept.filter(|_| has_gpus(&planned))
    });
    let spec = wanted(&planned, &change, placement.as_ref(), target)?;
    planned.id = format!("{}/{}", spec.namespace, spec.name).into();
    let options = ApplyOptions {
        hold: waits(&planned, &spec),
        ..options(&planned, &change, true, target, &spec)
    };
    let made = target
        .cluster
        .create_service(&spec, &options, &watched.cancel)
        .await;
    cx.set_private(PLACEMENT, placement.as_ref());
    settle_unknown(&mut planned, fit.as_deref());
    settle_placement(&mut planned, placement.as_ref());
    match made {
        Ok(made) => {
            taken_in(&planned, &made.taken_in, cx);
            remember(cx, &made.applied, &spec);
            cx.set_private::<bool>(DRIFTED, None);
            if !waits(&planned, &spec) && made.taken_in.is_empty() && spec.replicas != Some(0) {
                // What was just made can be told without another look.
                show_new(&mut planned, &spec);
                return Ok(planned);
            }
            let hold = made.hold.as_ref();
            finish(target, planned, &spec, hold, &watched.cancel, cx).await
        }
        Err(failure) => {
            taken_in(&planned, &failure.taken_in, cx);
            let why = refused(failure.error, &spec);
            if failure.applied.is_empty() {
                return Err(why.into());
            }
            // Until it is known which Deployment is this one's: its POST may have been carried out, and another apply's may be there.
            cx.set_private(TOKEN, Some(&options.token));
            remember(cx, &failure.applied, &spec);
            Err(Failed::leaving(why, planned))
        }
    }
}

/// Why a service could not be made; a namespace that is missing, on its attribute.
fn refused(error: Error, spec: &ServiceSpec) -> Diagnostics {
    let namespace = &spec.namespace;
    let missing = format!("namespaces \"{namespace}\" not found");
    if error.is_not_found() && error.to_string().contains(&missing) {
        return Diagnostic::error(
            format!("There is no namespace {namespace}"),
            format!("{error} Loomplane makes no namespaces: make it first (kubectl create namespace {namespace}), or take its name from the resource that makes it."),
        )
        .at("namespace")
        .into();
    }
    error.into()
}

/// G10: what was there and is this service's again is named.
fn taken_in(service: &GpuService, objects: &[ObjectName], cx: &Context<'_, Client>) {
    if objects.is_empty() {
        return;
    }
    let name = known(&service.name);
    let has = |kind| objects.iter().any(|object| object.kind == kind);
    let claims = if has("PersistentVolumeClaim") {
        " A kept claim keeps its data: the service starts with what is on it."
    } else {
        ""
    };
    let (summary, why) = if has("Deployment") {
        (
            format!("An apply of {name} that was cut off was taken over"),
            "They carry its mark, and whoever made them is gone",
        )
    } else {
        (
            format!("What was left of {name} was taken in again"),
            "Its Deployment was not there, and these carry Loomplane's label for this very service",
        )
    };
    cx.warn(Diagnostic::warning(
        summary,
        format!(
            "{why}: {}. They are as configured now.{claims}",
            listed(objects)
        ),
    ));
}

pub(in super::super) async fn update(
    target: &ClusterTarget,
    change: Change<GpuService>,
    cx: &Context<'_, Client>,
) -> Result<GpuService, Failed<GpuService>> {
    let watched = watched(cx);
    same_cluster(target, &change.planned, &watched.cancel).await?;
    let fit = check(target, &change, cx).await?;
    let mut planned = change.planned.clone();
    let namespace = planned.namespace.known().cloned().unwrap_or_default();
    let found = target
        .cluster
        .read_service(&namespace, &known(&planned.name), &watched.cancel)
        .await
        .map_err(Diagnostics::from)?;
    let found = match found.filter(|found| !found.going && is_ours(found, cx)) {
        Some(found) => found,
        None if cx.private::<bool>(GONE) == Some(true) => return create(target, change, cx).await,
        None => return Err(gone(&planned, target).into()),
    };
    let placement = fit.as_ref().map(|fit| fit.placement.clone()).or_else(|| {
        let kept = cx.private::<fit::Placement>(PLACEMENT);
        kept.filter(|_| has_gpus(&planned))
    });
    let spec = wanted(&planned, &change, placement.as_ref(), target)?;
    let version = |service: &GpuService| service.secret_env_version.known().copied();
    let names = cx
        .private::<BTreeSet<String>>(SECRET_NAMES)
        .unwrap_or_default();
    let new_secret = names != spec.secret_env
        || change
            .prior
            .as_ref()
            .is_none_or(|prior| version(prior) != version(&planned));
    let flagged = |key: &str| cx.private::<bool>(key) == Some(true);
    if !new_secret
        && !flagged(UNFINISHED)
        && !flagged(DRIFTED)
        && let Some(prior) = &change.prior
    {
        let applied = cx
            .private::<fit::Placement>(PLACEMENT)
            .filter(|_| has_gpus(prior));
        if wanted(prior, &change, applied.as_ref(), target)? == spec {
            // Another name of the cluster, a limit, a time-out: nothing on the cluster changes, so nothing is written there.
            settle_unknown(&mut planned, fit.as_deref());
            settle_placement(&mut planned, placement.as_ref());
            show(&mut planned, &found);
            return Ok(planned);
        }
    }
    let options = options(&planned, &change, new_secret, target, &spec);
    let updated = target
        .cluster
        .update_service(&found, &spec, &options, &watched.cancel)
        .await;
    settle_unknown(&mut planned, fit.as_deref());
    settle_placement(&mut planned, placement.as_ref());
    match updated {
        Ok(applied) => remember(cx, &applied, &spec),
        Err(ApplyFailure { applied, error, .. }) => {
            let why = Diagnostics::from(error);
            // Nothing was applied: the state stays what it was. Otherwise the next refresh tells what came of it.
            if applied.is_empty() {
                return Err(why.into());
            }
            cx.set_private(UNFINISHED, Some(true));
            return Err(Failed::leaving(why, planned));
        }
    }
    cx.set_private(PLACEMENT, placement.as_ref());
    cx.set_private::<bool>(DRIFTED, None);
    finish(target, planned, &spec, None, &watched.cancel, cx).await
}

/// The request against what is there now: before anything is changed. `None` without GPUs, or where an unchanged request
/// keeps its placement.
async fn check(
    target: &ClusterTarget,
    change: &Change<GpuService>,
    cx: &Context<'_, Client>,
) -> Result<Option<Arc<ClusterFit>>, Diagnostics> {
    let Some(request) = request_of(&change.planned)? else {
        return Ok(None);
    };
    match look(change, target, request, cx).await? {
        Ok(fit) => {
            if change.planned.hourly_usd.is_unknown() {
                let mut priced = change.clone();
                set_price(&mut priced.planned, &fit.price);
                limit(&priced)?;
            }
            Ok(Some(fit))
        }
        // G5: only what creates an object or changes its request is refused.
        Err(_)
            if change
                .prior
                .as_ref()
                .is_some_and(|prior| same_ask(prior, &change.planned)) =>
        {
            Ok(None)
        }
        // No pod is asked for now: the plan said what one would meet.
        Err(_) if change.planned.replicas.known() == Some(&0) => Ok(None),
        Err(refusal) => Err(refusal.into()),
    }
}

fn wanted(
    planned: &GpuService,
    change: &Change<GpuService>,
    placement: Option<&fit::Placement>,
    target: &ClusterTarget,
) -> Result<ServiceSpec, Diagnostic> {
    let mut spec = to_spec(planned, placement, target.storage_class.as_deref())?;
    // Write-only values are in the configuration alone.
    spec.secret_env = change
        .config
        .secret_env
        .known()
        .into_iter()
        .flatten()
        .map(|(name, _)| name.clone())
        .collect();
    Ok(spec)
}

fn options(
    planned: &GpuService,
    change: &Change<GpuService>,
    with_secret: bool,
    target: &ClusterTarget,
    spec: &ServiceSpec,
) -> ApplyOptions {
    let secrets = change.config.secret_env.known().into_iter().flatten();
    let values: BTreeMap<String, SecretString> = secrets
        .filter_map(|(name, value)| {
            let value = value.known()?;
            tf_provider_sdk::log::redact::redact(value);
            Some((name.clone(), SecretString::from(value.clone())))
        })
        .collect();
    ApplyOptions {
        force_conflicts: planned.force_conflicts,
        secret_values: (with_secret && !values.is_empty()).then_some(values),
        dry_run: false,
        hold: false,
        token: format!("{:016x}", RandomState::new().build_hasher().finish()),
        import_id: format!("{}/{}/{}", target.name, spec.namespace, spec.name),
    }
}

/// Fills in what was not known at plan and does not depend on how the rollout goes.
fn settle_unknown(planned: &mut GpuService, fit: Option<&ClusterFit>) {
    if planned.hourly_usd.is_unknown() || planned.price.is_unknown() {
        let none = if has_gpus(planned) {
            SharePrice::Unknown { elsewhere: None }
        } else {
            SharePrice::NoShare
        };
        set_price(planned, fit.map_or(&none, |fit| &fit.price));
    }
    planned.devices = Computed::null();
    planned.nodes = Computed(fit.map(ClusterFit::render_nodes).into());
    if let Some(fit) = fit {
        settle_placement(planned, Some(&fit.placement));
    }
}

/// Fills in what a plan leaves open of a placement.
fn settle_placement(planned: &mut GpuService, placement: Option<&fit::Placement>) {
    let open = |it: &model::Placement| it.tolerations.is_unknown();
    if planned.placement.is_unknown() || planned.placement.known().is_some_and(open) {
        planned.placement = Computed(placement.map(placement::shown).into());
    }
}
