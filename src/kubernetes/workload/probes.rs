//! A health check as three probes, and back.

use k8s_openapi::api::core::v1::{Container, Probe};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use serde_json::{Value, json};

use super::spec::HealthCheck;

/// Start-up checks in a row that cover `startup_seconds`.
fn startup_threshold(check: &HealthCheck) -> u32 {
    check
        .startup_seconds
        .div_ceil(check.period_seconds.max(1))
        .max(1)
}

/// `startupProbe`, `readinessProbe` and `livenessProbe`. Until the first succeeds the others wait, so a model that loads
/// for long is not killed for it.
pub(super) fn write(check: &HealthCheck, container: &mut Value) {
    let probe = |threshold: u32| {
        json!({
            "httpGet": {"path": check.http_path, "port": check.port},
            "periodSeconds": check.period_seconds.max(1),
            "timeoutSeconds": check.timeout_seconds.max(1),
            "failureThreshold": threshold.max(1),
        })
    };
    container["startupProbe"] = probe(startup_threshold(check));
    container["readinessProbe"] = probe(check.failure_threshold);
    container["livenessProbe"] = probe(check.failure_threshold);
}

/// The health check of a container; `None` when it has none that this surface can say.
pub(super) fn read(container: &Container, prior: Option<&HealthCheck>) -> Option<HealthCheck> {
    let positive = |number: Option<i32>, default: u32| {
        number
            .and_then(|number| u32::try_from(number).ok())
            .filter(|number| *number > 0)
            .unwrap_or(default)
    };
    let http = |probe: &Probe| {
        let http = probe.http_get.as_ref()?;
        let port = match &http.port {
            IntOrString::Int(port) => u16::try_from(*port).ok()?,
            IntOrString::String(name) => {
                let port = container
                    .ports
                    .iter()
                    .flatten()
                    .find(|port| port.name.as_ref() == Some(name))?;
                u16::try_from(port.container_port).ok()?
            }
        };
        Some((http.path.clone().unwrap_or_else(|| "/".to_owned()), port))
    };
    let (ready, alive) = (&container.readiness_probe, &container.liveness_probe);
    let differs = |probe: &&Probe, prior: &HealthCheck| {
        http(probe) != Some((prior.http_path.clone(), prior.port))
            || positive(probe.period_seconds, 10) != prior.period_seconds
            || positive(probe.timeout_seconds, 1) != prior.timeout_seconds
            || positive(probe.failure_threshold, 3) != prior.failure_threshold
    };
    let main = match prior {
        // All three were written: one that is gone is a check that is not there as it was set, and one that differs is shown.
        Some(prior) => {
            let both = [ready.as_ref()?, alive.as_ref()?];
            both.into_iter()
                .find(|probe| differs(probe, prior))
                .unwrap_or(both[0])
        }
        None => ready
            .as_ref()
            .or(alive.as_ref())
            .or(container.startup_probe.as_ref())?,
    };
    let (mut http_path, mut port) = http(main)?;
    if let (Some(prior), Some(startup)) = (prior, &container.startup_probe)
        && (&http_path, port) == (&prior.http_path, prior.port)
    {
        (http_path, port) = http(startup)?;
    }
    let startup_seconds = container.startup_probe.as_ref().map_or(0, |startup| {
        positive(startup.period_seconds, 10).saturating_mul(positive(startup.failure_threshold, 3))
            + startup
                .initial_delay_seconds
                .and_then(|delay| u32::try_from(delay).ok())
                .unwrap_or(0)
    });
    let mut check = HealthCheck {
        http_path,
        port,
        startup_seconds,
        period_seconds: positive(main.period_seconds, 10),
        timeout_seconds: positive(main.timeout_seconds, 1),
        failure_threshold: positive(main.failure_threshold, 3),
    };
    // 601 s at one check in 10 s is 61 checks, which read back as 610 s: the same thing.
    if let Some(prior) = prior
        && prior.period_seconds == check.period_seconds
        && container.startup_probe.as_ref().is_some_and(|startup| {
            positive(startup.failure_threshold, 3) == startup_threshold(prior)
        })
    {
        check.startup_seconds = prior.startup_seconds;
    }
    Some(check)
}
