//! Refresh: what of a service differs by now from what was applied.

use tf_provider_sdk::{
    context::Context,
    diagnostic::{Diagnostic, Diagnostics},
    field::{Computed, Opt},
};

use super::{
    super::{
        absorb::absorb,
        known,
        model::GpuService,
        placement,
        plan::{PLACEMENT, held_against, renewed, set_price},
        spec::to_spec,
    },
    DRIFTED, GONE, SECRET_NAMES, TOKEN, UID, UNFINISHED, claims_to_delete, is_ours, listed,
    remember_claims, request_of, same_cluster, show,
};
use crate::{
    capacity::{fit, price::SharePrice},
    kubernetes::{
        Cancel, Found,
        workload::{Lens, observe},
    },
    provider::{
        cancel::watched,
        client::{Client, ClusterTarget},
    },
};

pub(in super::super) async fn read(
    target: &ClusterTarget,
    mut service: GpuService,
    cx: &Context<'_, Client>,
) -> Result<Option<GpuService>, Diagnostics> {
    let watched = watched(cx);
    let uid = same_cluster(target, &service, &watched.cancel).await?;
    if uid.known().is_some_and(|uid| !uid.is_empty()) {
        service.target_uid = uid;
    }
    let namespace = service.namespace.known().cloned().unwrap_or_default();
    let Some(found) = target
        .cluster
        .refresh_service(&namespace, &known(&service.name), &watched.cancel)
        .await?
    else {
        return without_deployment(target, service, &namespace, &watched.cancel, cx).await;
    };
    if !is_ours(&found, cx) {
        // Deleted and made again by someone else: ours is gone, and that one is not ours.
        return Ok(None);
    }
    cx.set_private(UID, Some(&found.uid));
    cx.set_private::<String>(TOKEN, None);
    cx.set_private(GONE, found.going.then_some(true));
    remember_claims(&service, &found, cx);
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
    if found.unfinished.is_some() {
        // The apply that made it could not take its mark off.
        cx.set_private(UNFINISHED, Some(true));
    } else if found.live.readiness().complete {
        // The rollout that an apply did not see the end of has ended well meanwhile.
        cx.set_private::<bool>(UNFINISHED, None);
    }
    refresh_fit(target, &mut service, &found, placement.as_ref(), cx).await?;
    show(&mut service, &found);
    if found.going {
        service.status = "being deleted".to_owned().into();
    }
    Ok(Some(service))
}

/// The Deployment is gone. While parts of the service are left, the state must hold it: who else would delete them?
async fn without_deployment(
    target: &ClusterTarget,
    mut service: GpuService,
    namespace: &str,
    cancel: &Cancel,
    cx: &Context<'_, Client>,
) -> Result<Option<GpuService>, Diagnostics> {
    let claims = claims_to_delete(&service, cx);
    let left = target
        .cluster
        .leftovers(namespace, &known(&service.name), &claims, cancel)
        .await?;
    if left.is_empty() {
        return Ok(None);
    }
    cx.set_private(GONE, Some(true));
    service.status = format!("gone (left: {})", listed(&left)).into();
    Ok(Some(service))
}

/// Price and matching nodes as they are now; they cause no action (P4).
pub(super) async fn refresh_fit(
    target: &ClusterTarget,
    service: &mut GpuService,
    found: &Found,
    placement: Option<&fit::Placement>,
    cx: &Context<'_, Client>,
) -> Result<(), Diagnostics> {
    // What an autoscaler made of it costs, not what a plan would make.
    let wanted = found.live.deployment.spec.as_ref();
    let replicas = wanted
        .and_then(|spec| spec.replicas)
        .and_then(|it| u32::try_from(it).ok());
    match request_of(service) {
        Ok(Some(request)) => {
            match held_against(service, placement, replicas, target, request, cx).await? {
                Ok(fit) => {
                    // While an override is not known yet, another price than the stored one would be none.
                    if cx.client.prices_known {
                        set_price(service, &fit.price);
                    }
                    service.nodes = fit.render_nodes().into();
                    if placement.is_some() && renewed(&fit).is_some() {
                        cx.warn(unadmitted(
                            service,
                            target,
                            "The plan proposes a placement that does.",
                        ));
                    }
                }
                Err(refusal) => {
                    service.nodes = Vec::new().into();
                    if placement.is_some() && service.replicas.known() != Some(&0) {
                        cx.warn(unadmitted(service, target, &refusal.detail));
                    }
                }
            }
        }
        Ok(None) => set_price(service, &SharePrice::NoShare),
        // An imported object whose kind can't be told.
        Err(_) => set_price(service, &SharePrice::Unknown { elsewhere: None }),
    }
    Ok(())
}

/// K5: no node of the cluster admits the pods as they were placed. Those that run stay; a new one would find no place.
fn unadmitted(service: &GpuService, target: &ClusterTarget, more: &str) -> Diagnostic {
    Diagnostic::warning(
        format!("No node of {} admits the pods of a GPU service any more", target.name),
        format!(
            "The placement of {} was applied for nodes that are gone or have changed. Pods that run stay where they are; one that is made again will find no node. {more}",
            known(&service.name)
        ),
    )
    .at("size.gpu")
}
