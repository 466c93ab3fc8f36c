//! The rollout after an apply, and what the state is told of it.

use std::time::Duration;

use tf_provider_sdk::{context::Context, diagnostic::Diagnostics, resource::Failed};

use super::{super::model::GpuService, UNFINISHED, gone, show};
use crate::{
    kubernetes::{Cancel, rollout::RolloutLimits, workload::ServiceSpec},
    provider::client::{Client, ClusterTarget},
};

/// Waits for the rollout where asked, and reads the outcome.
pub(super) async fn finish(
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

fn rollout_limits(target: &ClusterTarget, cx: &Context<'_, Client>) -> RolloutLimits {
    RolloutLimits {
        timeout: cx.time_left().unwrap_or(Duration::from_secs(20 * 60)),
        // A group that scales from zero makes its node only once a pod waits for it (K11).
        scale_from_zero: !target.declared.is_empty(),
        ..Default::default()
    }
}
