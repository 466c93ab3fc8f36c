//! The rollout after an apply, and what the state is told of it.

use std::time::Duration;

use tf_provider_sdk::{
    context::Context,
    diagnostic::{Diagnostic, Diagnostics},
    field::Computed,
    resource::Failed,
};

use super::{
    super::{known, model::GpuService},
    UNFINISHED, gone, show,
};
use crate::{
    kubernetes::{Cancel, Error, Found, Hold, rollout::RolloutLimits, workload::ServiceSpec},
    provider::client::{Client, ClusterTarget},
};

/// How long the last look takes at most when the user waits for the end, and when not.
const SHORT: Duration = Duration::from_secs(10);
const LONG: Duration = Duration::from_secs(60);

/// Whether an apply waits for the rollout.
pub(super) fn waits(service: &GpuService, spec: &ServiceSpec) -> bool {
    service.wait && spec.replicas != Some(0)
}

/// Waits for the rollout where asked, reads the outcome, and ends the creation.
pub(super) async fn finish(
    target: &ClusterTarget,
    mut service: GpuService,
    spec: &ServiceSpec,
    hold: Option<&Hold>,
    cancel: &Cancel,
    cx: &Context<'_, Client>,
) -> Result<GpuService, Failed<GpuService>> {
    cx.set_private(UNFINISHED, Some(true));
    let waited = if waits(&service, spec) {
        wait(target, spec, hold, cancel, cx).await
    } else {
        Ok(())
    };
    if cx.stop().is_abandoned() {
        return Err(abandoned(&service).into());
    }
    // However it went, the state is told how far it came. What was changed is changed: a failed look is no failed apply.
    let limit = if waited.is_ok() && !cx.stop().is_stopped() {
        LONG
    } else {
        SHORT
    };
    let looked = tokio::time::timeout(limit, look(target, spec, hold, cx)).await;
    let looked = match looked {
        Ok(Ok(Some(found))) => {
            show(&mut service, &found);
            Ok(())
        }
        Ok(Ok(None)) => {
            return Err(Failed {
                why: gone(&service, target).into(),
                left: None,
            });
        }
        Ok(Err(error @ Error::TakenOver { .. })) => return Err(Diagnostics::from(error).into()),
        Ok(Err(error)) => Err(error.render()),
        Err(_) => Err(format!(
            "Cluster {} did not answer within {} s.",
            target.name,
            limit.as_secs()
        )),
    };
    if looked.is_err() {
        if service.status.is_unknown() {
            service.status = "unknown".to_owned().into();
        }
        if service.endpoint.is_unknown() {
            service.endpoint = Computed::null();
        }
    }
    match (waited, looked) {
        (Ok(()), Ok(())) => {
            cx.set_private::<bool>(UNFINISHED, None);
            Ok(service)
        }
        (Ok(()), Err(why)) => {
            cx.warn(Diagnostic::warning(
                format!("{} was applied, and could not be read back", known(&service.name)),
                format!("{why} Its status is not known. The next plan looks again, and goes on where something is missing."),
            ));
            Ok(service)
        }
        (Err(error @ Error::TakenOver { .. }), _) => Err(Diagnostics::from(error).into()),
        // Not an error: what the user stopped would be destroyed and made again by the next apply, with all the work on it.
        (Err(error), _) if error.is_canceled() && cx.stop().is_stopped() => {
            cx.warn(stopped(&service));
            Ok(service)
        }
        (Err(error), _) => Err(Failed::leaving(Diagnostics::from(error), service)),
    }
}

/// The wait itself, and beside it the sign of life of a creation.
async fn wait(
    target: &ClusterTarget,
    spec: &ServiceSpec,
    hold: Option<&Hold>,
    cancel: &Cancel,
    cx: &Context<'_, Client>,
) -> Result<(), Error> {
    let limits = rollout_limits(target, cx);
    let rollout = target
        .cluster
        .wait_rollout(&spec.namespace, &spec.name, &limits, cancel);
    match hold {
        None => rollout.await,
        Some(hold) => tokio::select! {
            biased;
            waited = rollout => waited,
            lost = target.cluster.keep_hold(hold, cancel) => Err(lost),
        },
    }
}

/// The service as it is now. Takes the mark of its creation off, unless no state will hold it: then the next apply must find the mark.
async fn look(
    target: &ClusterTarget,
    spec: &ServiceSpec,
    hold: Option<&Hold>,
    cx: &Context<'_, Client>,
) -> Result<Option<Found>, Error> {
    let never = Cancel::never();
    let found = target
        .cluster
        .read_service(&spec.namespace, &spec.name, &never)
        .await?;
    if let (Some(hold), Some(found)) = (hold, &found)
        && !cx.stop().is_abandoned()
    {
        target.cluster.release(hold, found, &never).await?;
    }
    Ok(found)
}

/// Nobody reads this but a log.
fn abandoned(service: &GpuService) -> Diagnostic {
    Diagnostic::error(
        "Terraform is gone",
        format!(
            "Terraform ended while the rollout of {} was waited for. The next apply goes on with it.",
            known(&service.name)
        ),
    )
}

fn stopped(service: &GpuService) -> Diagnostic {
    Diagnostic::warning(
        format!(
            "Stopped while waiting for the rollout of {}",
            known(&service.name)
        ),
        format!(
            "You asked Terraform to stop. What was asked for is on the cluster, and goes on there; its status is {:?}. The next apply goes on waiting, and changes what is missing.",
            service.status.known().map_or("unknown", String::as_str)
        ),
    )
}

fn rollout_limits(target: &ClusterTarget, cx: &Context<'_, Client>) -> RolloutLimits {
    RolloutLimits {
        timeout: cx.time_left().unwrap_or(Duration::from_secs(20 * 60)),
        // A group that scales from zero makes its node only once a pod waits for it (K11).
        scale_from_zero: !target.declared.is_empty(),
        ..Default::default()
    }
}
