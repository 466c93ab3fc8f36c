//! What is done to a service on a cluster: checked against what is there now, applied, waited for, read back.

use std::{
    collections::{BTreeMap, BTreeSet},
    hash::{BuildHasher, Hasher, RandomState},
    time::Duration,
};

use secrecy::SecretString;
use tf_provider_sdk::{
    context::Context,
    diagnostic::{Diagnostic, Diagnostics},
    field::{Computed, Maybe, Opt, OptionalComputed, Replace, Stable, WriteOnly},
    resource::{Change, Failed, ImportId},
};

use super::{
    absorb::{UNKNOWN_KIND, absorb, tolerations},
    known,
    model::{Gpu, GpuService},
    placement,
    plan::{PLACEMENT, held_against, limit, look, set_price},
    spec::{domain_toleration, to_spec},
};
use crate::{
    capacity::{
        fit::{self, ClusterFit},
        gpu::GpuRequest,
        price::SharePrice,
    },
    kubernetes::{
        ApplyFailure, ApplyOptions, Cancel, Deletion, Found, TargetUid,
        workload::{Lens, ServiceSpec, observe, unexpressed},
    },
    provider::{
        cancel::watched,
        client::{Client, ClusterTarget, Target},
        report,
    },
};

/// Where the Deployment's UID is kept: another one under the name is not ours.
const UID: &str = "uid";
/// Names of the variables of `secret_env`: the state holds none of it, and a Secret that lost one must show.
const SECRET_NAMES: &str = "secret_env";
/// Says that an apply ended before its rollout did: the next plan goes on with it.
pub(super) const UNFINISHED: &str = "unfinished";
/// Says that the last refresh found another placement than was applied: the next plan puts it back.
pub(super) const DRIFTED: &str = "drifted";

pub(super) async fn create(
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
    let spec = wanted(
        &planned,
        &change,
        fit.as_ref().map(|fit| &fit.placement),
        target,
    )?;
    planned.id = format!("{}/{}", spec.namespace, spec.name).into();
    let options = options(&planned, &change, true, target, &spec);
    let made = target
        .cluster
        .create_service(&spec, &options, &watched.cancel)
        .await;
    if let Some(fit) = &fit {
        cx.set_private(PLACEMENT, Some(&fit.placement));
    }
    settle_unknown(&mut planned, fit.as_ref());
    match made {
        Ok(applied) => remember(cx, &applied, &spec),
        Err(ApplyFailure { applied, error }) => {
            let why = Diagnostics::from(error);
            if applied.is_empty() {
                return Err(why.into());
            }
            remember(cx, &applied, &spec);
            return Err(Failed::leaving(why, planned));
        }
    }
    finish(target, planned, &spec, &watched.cancel, cx).await
}

pub(super) async fn update(
    target: &ClusterTarget,
    change: Change<GpuService>,
    cx: &Context<'_, Client>,
) -> Result<GpuService, Failed<GpuService>> {
    let watched = watched(cx);
    let fit = check(target, &change, cx).await?;
    let mut planned = change.planned.clone();
    let namespace = planned.namespace.known().cloned().unwrap_or_default();
    let found = target
        .cluster
        .read_service(&namespace, &known(&planned.name), &watched.cancel)
        .await
        .map_err(Diagnostics::from)?;
    let found = found.ok_or_else(|| gone(&planned, target))?;
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
            settle_unknown(&mut planned, fit.as_ref());
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
    settle_unknown(&mut planned, fit.as_ref());
    settle_placement(&mut planned, placement.as_ref());
    match updated {
        Ok(applied) => remember(cx, &applied, &spec),
        Err(ApplyFailure { applied, error }) => {
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
    finish(target, planned, &spec, &watched.cancel, cx).await
}

/// The request against what is there now: before anything is changed. `None` without GPUs, or where an unchanged request
/// keeps its placement.
async fn check(
    target: &ClusterTarget,
    change: &Change<GpuService>,
    cx: &Context<'_, Client>,
) -> Result<Option<ClusterFit>, Diagnostics> {
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
                .is_some_and(|prior| super::plan::same_request(prior, &change.planned)) =>
        {
            Ok(None)
        }
        Err(refusal) => Err(report::refusal(refusal.render(), "size.gpu").into()),
    }
}

fn request_of(service: &GpuService) -> Result<Option<GpuRequest>, Diagnostic> {
    let Some(gpu) = service.size.known().and_then(|size| size.gpu.known()) else {
        return Ok(None);
    };
    let count = gpu.count.known().copied().unwrap_or_default();
    GpuRequest::parse(&known(&gpu.kind), count)
        .map(Some)
        .map_err(|why| {
            Diagnostic::error("This GPU request can't be met anywhere", why.to_string())
                .at("size.gpu")
        })
}

fn has_gpus(service: &GpuService) -> bool {
    service.size.known().is_some_and(|size| !size.gpu.is_null())
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
        token: format!("{:016x}", RandomState::new().build_hasher().finish()),
        import_id: format!("{}/{}/{}", target.name, spec.namespace, spec.name),
    }
}

fn remember(cx: &Context<'_, Client>, applied: &[crate::kubernetes::Applied], spec: &ServiceSpec) {
    cx.set_private(
        SECRET_NAMES,
        Some(&spec.secret_env).filter(|names| !names.is_empty()),
    );
    if let Some(deployment) = applied
        .iter()
        .find(|object| object.kind == crate::kubernetes::Kind::Deployment)
    {
        cx.set_private(UID, Some(&deployment.uid));
    }
}

/// Fills in what was not known at plan and does not depend on how the rollout goes.
fn settle_unknown(planned: &mut GpuService, fit: Option<&ClusterFit>) {
    if planned.hourly_usd.is_unknown() || planned.price.is_unknown() {
        set_price(planned, fit.map_or(&SharePrice::NoShare, |fit| &fit.price));
    }
    planned.devices = Computed::null();
    planned.nodes = Computed(fit.map(ClusterFit::render_nodes).into());
    if let Some(fit) = fit {
        settle_placement(planned, Some(&fit.placement));
    }
}

/// Fills in what a plan leaves open of a placement.
fn settle_placement(planned: &mut GpuService, placement: Option<&fit::Placement>) {
    let open = |it: &super::model::Placement| it.tolerations.is_unknown();
    if planned.placement.is_unknown() || planned.placement.known().is_some_and(open) {
        planned.placement = Computed(placement.map(placement::shown).into());
    }
}

/// Waits for the rollout where asked, and reads the outcome.
async fn finish(
    target: &ClusterTarget,
    mut service: GpuService,
    spec: &ServiceSpec,
    cancel: &Cancel,
    cx: &Context<'_, Client>,
) -> Result<GpuService, Failed<GpuService>> {
    cx.set_private(UNFINISHED, Some(true));
    if service.wait && spec.replicas != Some(0) {
        let waited = target
            .cluster
            .wait_rollout(
                &spec.namespace,
                &spec.name,
                &rollout_limits(target, cx),
                cancel,
            )
            .await;
        if let Err(error) = waited {
            // The user may have stopped it, or time is up: a short look tells the state how far it came.
            if let Ok(Ok(Some(found))) = tokio::time::timeout(
                Duration::from_secs(10),
                target
                    .cluster
                    .read_service(&spec.namespace, &spec.name, &Cancel::never()),
            )
            .await
            {
                show(&mut service, &found);
            }
            return Err(Failed::leaving(Diagnostics::from(error), service));
        }
    }
    let found = target
        .cluster
        .read_service(&spec.namespace, &spec.name, cancel)
        .await;
    match found {
        Ok(Some(found)) => show(&mut service, &found),
        Ok(None) => {
            return Err(Failed {
                why: gone(&service, target).into(),
                left: None,
            });
        }
        Err(error) => return Err(Failed::leaving(Diagnostics::from(error), service)),
    }
    cx.set_private::<bool>(UNFINISHED, None);
    Ok(service)
}

fn rollout_limits(
    target: &ClusterTarget,
    cx: &Context<'_, Client>,
) -> crate::kubernetes::rollout::RolloutLimits {
    crate::kubernetes::rollout::RolloutLimits {
        timeout: cx.time_left().unwrap_or(Duration::from_secs(20 * 60)),
        // A group that scales from zero makes its node only once a pod waits for it (K11).
        scale_from_zero: !target.declared.is_empty(),
        ..Default::default()
    }
}

/// What only the live object tells.
fn show(service: &mut GpuService, found: &Found) {
    let name = known(&service.name);
    let namespace = service.namespace.known().cloned().unwrap_or_default();
    service.status = found.live.readiness().to_string().into();
    service.endpoint = Computed(found.live.endpoint(&namespace, &name).into());
}

fn gone(service: &GpuService, target: &ClusterTarget) -> Diagnostic {
    Diagnostic::error(
        "The service is gone",
        format!(
            "Deployment {}/{} is no longer on cluster {}: something else deleted it meanwhile. Run a plan again: it proposes to make it anew.",
            service.namespace.known().map_or("", String::as_str),
            known(&service.name),
            target.name
        ),
    )
}

async fn uid_of(target: &ClusterTarget, cancel: &Cancel) -> Result<Stable<String>, Diagnostics> {
    match target.cluster.target_uid(cancel).await? {
        TargetUid::Known(uid) => Ok(uid.into()),
        TargetUid::Forbidden => Ok(String::new().into()),
    }
}

pub(super) async fn read(
    target: &ClusterTarget,
    mut service: GpuService,
    cx: &Context<'_, Client>,
) -> Result<Option<GpuService>, Diagnostics> {
    let watched = watched(cx);
    let uid = uid_of(target, &watched.cancel).await?;
    match (
        service.target_uid.known().filter(|uid| !uid.is_empty()),
        uid.known().filter(|uid| !uid.is_empty()),
    ) {
        (Some(stored), Some(found)) if stored != found => {
            return Err(other_cluster(target, stored, found).into());
        }
        (None, Some(_)) => service.target_uid = uid,
        _ => {}
    }
    let namespace = service.namespace.known().cloned().unwrap_or_default();
    let Some(found) = target
        .cluster
        .refresh_service(&namespace, &known(&service.name), &watched.cancel)
        .await?
    else {
        return Ok(None);
    };
    let stored = cx.private::<String>(UID);
    if stored.as_ref().is_some_and(|stored| *stored != found.uid) {
        // Deleted and made again by someone else: ours is gone, and that one is not ours.
        return Ok(None);
    }
    if stored.is_none() {
        cx.set_private(UID, Some(&found.uid));
    }
    let placement = cx.private::<fit::Placement>(PLACEMENT);
    let mut set = to_spec(&service, placement.as_ref(), None)?;
    set.secret_env = cx.private(SECRET_NAMES).unwrap_or_default();
    let live = observe(&found.live, Lens::Prior(&set));
    absorb(&mut service, &set, &live);
    if live.secret_env != set.secret_env {
        // The Secret or a key of it is gone: no version of it is there, so the next apply writes it again.
        service.secret_env_version = Opt::Null;
    }
    let drifted = live.placement != set.placement;
    if drifted {
        service.placement = Computed(Opt::Known(placement::shown(&placement::from_live(
            &live.placement,
        ))));
    }
    cx.set_private(DRIFTED, drifted.then_some(true));
    if found.live.readiness().complete {
        // The rollout that an apply did not see the end of has ended well meanwhile.
        cx.set_private::<bool>(UNFINISHED, None);
    }
    refresh_fit(target, &mut service, placement.as_ref(), cx).await?;
    show(&mut service, &found);
    Ok(Some(service))
}

/// Price and matching nodes as they are now; they cause no action (P4).
async fn refresh_fit(
    target: &ClusterTarget,
    service: &mut GpuService,
    placement: Option<&fit::Placement>,
    cx: &Context<'_, Client>,
) -> Result<(), Diagnostics> {
    match request_of(service) {
        Ok(Some(request)) => match held_against(service, placement, target, request, cx).await? {
            Ok(fit) => {
                set_price(service, &fit.price);
                service.nodes = fit.render_nodes().into();
            }
            Err(_) => service.nodes = Vec::new().into(),
        },
        Ok(None) => set_price(service, &SharePrice::NoShare),
        // An imported object whose kind can't be told.
        Err(_) => set_price(service, &SharePrice::Unknown { elsewhere: None }),
    }
    Ok(())
}

fn other_cluster(target: &ClusterTarget, stored: &str, found: &str) -> Diagnostic {
    Diagnostic::error(
        format!("{} is another cluster now", target.name),
        format!(
            "The state was written for the cluster whose namespace kube-system has the UID {stored}; behind the connection {} there is one with {found}. Nothing was read or changed. Point the connection back, or, if the old cluster is gone for good, remove the service with a `removed` block with `lifecycle {{ destroy = false }}`.",
            target.name
        ),
    )
    .at("target")
}

pub(super) async fn delete(
    target: &ClusterTarget,
    service: GpuService,
    cx: &Context<'_, Client>,
) -> Result<(), Diagnostics> {
    let watched = watched(cx);
    let uid = uid_of(target, &watched.cancel).await?;
    if let (Some(stored), Some(found)) = (
        service.target_uid.known().filter(|uid| !uid.is_empty()),
        uid.known().filter(|uid| !uid.is_empty()),
    ) && stored != found
    {
        return Err(other_cluster(target, stored, found).into());
    }
    let name = known(&service.name);
    let claims = service
        .volumes
        .known()
        .into_iter()
        .flatten()
        .filter(|(_, volume)| volume.delete_on_destroy)
        .map(|(volume, _)| format!("{name}-{volume}"));
    let deletion = Deletion {
        namespace: service.namespace.known().cloned().unwrap_or_default(),
        claims: claims.collect(),
        name,
        uid: cx.private::<String>(UID),
        timeout: cx.time_left().unwrap_or(Duration::from_secs(20 * 60)),
    };
    Ok(target
        .cluster
        .delete_service(&deletion, &watched.cancel)
        .await?)
}

pub(super) async fn import(
    id: ImportId,
    cx: &Context<'_, Client>,
) -> Result<GpuService, Diagnostics> {
    let (target_name, namespace, name) = parse_id(&id, cx.client)?;
    let target = match cx.client.target(&target_name) {
        Target::Cluster(target) => target,
        Target::Server(target) => return super::server::import(target, &name, cx).await,
        Target::Missing => return Err(cx.client.missing("target", &target_name).into()),
        Target::Unknown(_) => {
            return Err(super::target_of(&empty(&target_name, "", ""), cx)
                .err()
                .map(Diagnostics::from)
                .unwrap_or_default());
        }
    };
    let watched = watched(cx);
    let namespace = match namespace {
        Some(namespace) => namespace,
        None => target.cluster.default_namespace(&watched.cancel).await?,
    };
    let found = target.cluster.read_service(&namespace, &name, &watched.cancel).await?.ok_or_else(|| {
        Diagnostic::error(
            "There is nothing to import",
            format!("Cluster {target_name} has no Deployment {namespace}/{name}. The import ID is TARGET/NAMESPACE/NAME."),
        )
    })?;
    let mut service = empty(&target_name, &namespace, &name);
    service.target_uid = uid_of(target, &watched.cancel).await?;
    service.id = format!("{namespace}/{name}").into();
    let rest = unexpressed(&found.live);
    if !rest.is_empty() {
        cx.warn(Diagnostic::warning(
            format!("Parts of Deployment {namespace}/{name} can't be expressed here"),
            format!("They stay as they are: {}.", rest.join(", ")),
        ));
    }
    take_in(target, &mut service, &found, cx).await?;
    refresh_fit(target, &mut service, cx.private(PLACEMENT).as_ref(), cx).await?;
    show(&mut service, &found);
    Ok(service)
}

/// Everything about a live object that the model can say.
async fn take_in(
    target: &ClusterTarget,
    service: &mut GpuService,
    found: &Found,
    cx: &Context<'_, Client>,
) -> Result<(), Diagnostics> {
    let set = to_spec(service, None, None)?;
    let live = observe(&found.live, Lens::Import);
    absorb(service, &set, &live);
    cx.set_private(UID, Some(&found.uid));
    cx.set_private(
        SECRET_NAMES,
        Some(&live.secret_env).filter(|names| !names.is_empty()),
    );
    let mut applied = placement::from_live(&live.placement);
    if let Opt::Known(size) = &mut service.size
        && let Opt::Known(Gpu { kind, .. }) = &mut size.gpu
    {
        let named = placement::kind_of(&applied, &live.node_selector);
        if named.is_none() {
            cx.warn(Diagnostic::warning(
                "The GPU kind of this Deployment can't be told",
                "Neither its node affinity nor its node selector names a kind that Loomplane knows. Its kind reads \"unknown\"; the next apply confines it to the kind that you configure.",
            ));
        }
        *kind = Maybe::Known(
            named.map_or_else(|| UNKNOWN_KIND.to_owned(), |kind| kind.id().to_owned()),
        );
        // Whose a toleration is can't be told from the object: what K6 would derive is ours, the rest the configuration's.
        service.tolerations = tolerations(&live.placement.tolerations);
        if let Some(request) = named.and_then(|_| request_of(service).ok().flatten())
            && let Ok(fit) = held_against(service, None, target, request, cx).await?
        {
            let (ours, others): (Vec<_>, Vec<_>) =
                live.placement.tolerations.into_iter().partition(|it| {
                    it.seconds.is_none()
                        && fit.placement.tolerations.contains(&domain_toleration(it))
                });
            applied.tolerations = ours.iter().map(domain_toleration).collect();
            service.tolerations = tolerations(&others);
        } else {
            service.tolerations = Opt::Null;
        }
        service.placement = Computed(Opt::Known(placement::shown(&applied)));
        cx.set_private(PLACEMENT, Some(&applied));
    }
    Ok(())
}

/// `TARGET/NAMESPACE/NAME`, or `SERVER/NAME` where the first part is a server; parsed from the right, since a target may hold slashes.
fn parse_id(
    id: &ImportId,
    client: &Client,
) -> Result<(String, Option<String>, String), Diagnostic> {
    match id {
        ImportId::Id(text) => {
            let on_server = text.rsplit_once('/').filter(|(target, name)| {
                !name.is_empty() && matches!(client.target(target), Target::Server(_))
            });
            if let Some((target, name)) = on_server {
                return Ok((target.to_owned(), None, name.to_owned()));
            }
            let mut parts = text.rsplitn(3, '/');
            match (parts.next(), parts.next(), parts.next()) {
                (Some(name), Some(namespace), Some(target))
                    if ![name, namespace, target].contains(&"") =>
                {
                    Ok((
                        target.to_owned(),
                        Some(namespace.to_owned()),
                        name.to_owned(),
                    ))
                }
                _ => Err(Diagnostic::error(
                    "Invalid import ID",
                    format!(
                        "{text:?} is neither TARGET/NAMESPACE/NAME of a cluster, such as \"prod/inference/llm\", nor SERVER/NAME of a configured server, such as \"rack1/llm\"."
                    ),
                )),
            }
        }
        ImportId::Identity(identity) => {
            let text = |name: &str| {
                identity
                    .attribute(name)
                    .as_str()
                    .map(str::to_owned)
                    .filter(|text| !text.is_empty())
            };
            match (text("target"), text("name")) {
                (Some(target), Some(name)) => Ok((target, text("namespace"), name)),
                _ => Err(Diagnostic::error(
                    "Invalid identity",
                    "The identity of a service is its target and its name, on a cluster also its namespace.",
                )),
            }
        }
    }
}

/// A service of which only the name is known.
pub(super) fn empty(target: &str, namespace: &str, name: &str) -> GpuService {
    GpuService {
        id: Stable::null(),
        name: Replace(Maybe::Known(name.to_owned())),
        target: Maybe::Known(target.to_owned()),
        target_uid: Stable::null(),
        namespace: Replace(OptionalComputed(Opt::Known(namespace.to_owned()))),
        image: Maybe::Known(String::new()),
        command: Opt::Null,
        args: Opt::Null,
        working_dir: Opt::Null,
        user: Opt::Null,
        env: Opt::Null,
        env_from: Opt::Null,
        secret_env: WriteOnly(Opt::Null),
        secret_env_version: Opt::Null,
        ports: Opt::Null,
        replicas: Opt::Null,
        size: Opt::Null,
        volumes: Opt::Null,
        health_check: Opt::Null,
        image_pull_secret: Opt::Null,
        labels: Opt::Null,
        annotations: Opt::Null,
        max_hourly_usd: Opt::Null,
        stop_grace_seconds: Opt::Null,
        runtime_class: Opt::Null,
        service_account: Opt::Null,
        node_selector: Opt::Null,
        tolerations: Opt::Null,
        service_type: Opt::Null,
        priority_class: Opt::Null,
        rollout: Opt::Null,
        host_mounts: Opt::Null,
        ulimits: Opt::Null,
        restart: Opt::Null,
        network: Opt::Null,
        device_wait_seconds: Opt::Null,
        force_conflicts: false,
        wait: true,
        placement: Computed::null(),
        nodes: Computed::null(),
        devices: Computed::null(),
        hourly_usd: Computed::null(),
        monthly_usd: Computed::null(),
        price: Computed::null(),
        status: Computed::null(),
        endpoint: Computed::null(),
        timeouts: None,
    }
}
