//! Replacing a service's container so that a failure leaves the old one running, with its cards and volumes (S5).

use std::sync::Arc;
use std::time::Duration;

use super::change::{Change, change};
use super::delete::DEFAULT_GRACE;
use super::{CLEANUP, Deployed, Deployment, Failure, create, place, previous_name, settle, wait};
use crate::ssh::docker::engine::Engine;
use crate::ssh::docker::observed::Observed;
use crate::ssh::error::{Result, SshError};
use crate::ssh::scope::Scope;
use crate::ssh::server::Server;

pub(super) async fn update(
    server: &Arc<Server>,
    old: &Observed,
    deployment: &Deployment,
    scope: &Scope,
) -> Result<Deployed, Failure> {
    let keep = |error: SshError| Failure {
        error,
        existing: Some(Box::new(old.clone())),
    };
    let spec = &deployment.spec;
    spec.validate().map_err(keep)?;
    let _at_work = server
        .begin(&spec.name)
        .ok_or_else(|| keep(create::busy(server, spec)))?;
    let engine = server.engine(scope).await.map_err(keep)?;
    let (found, mut warnings) = settle::settle(server, &spec.name, scope)
        .await
        .map_err(keep)?;
    let Some(old) = found.current else {
        return Err(SshError::Gone {
            server: server.name().to_owned(),
            name: spec.name.clone(),
        }
        .into());
    };
    let keep = |error: SshError| Failure {
        error,
        existing: Some(Box::new(old.clone())),
    };
    let lost = lost_devices(server, &old, scope).await.map_err(keep)?;
    let outside = match change(&old, spec) {
        Change::Recreate(_) => {
            Box::pin(replace(
                server,
                &engine,
                &old,
                deployment,
                &mut warnings,
                scope,
            ))
            .await?
        }
        _ if lost => {
            Box::pin(replace(
                server,
                &engine,
                &old,
                deployment,
                &mut warnings,
                scope,
            ))
            .await?
        }
        Change::InPlace(in_place) => {
            let operation = format!("update container {}", spec.name);
            engine
                .call(
                    scope,
                    &operation,
                    engine.docker().update_container(&old.id, in_place.body),
                )
                .await
                .map_err(keep)?;
            start_again(&engine, &old, deployment, scope)
                .await
                .map_err(keep)?;
            Vec::new()
        }
        Change::None => {
            start_again(&engine, &old, deployment, scope)
                .await
                .map_err(keep)?;
            Vec::new()
        }
    };
    match server.observe(&spec.name, scope).await {
        Ok(Some(observed)) => Ok(Deployed {
            observed,
            used_outside: outside,
            warnings,
        }),
        Ok(None) => Err(SshError::Gone {
            server: server.name().to_owned(),
            name: spec.name.clone(),
        }
        .into()),
        Err(error) => Err(keep(error)),
    }
}

/// Whether a card that the container was given is not usable any more: then it can't just be started again.
async fn lost_devices(server: &Arc<Server>, old: &Observed, scope: &Scope) -> Result<bool> {
    if old.devices.is_empty() {
        return Ok(false);
    }
    let report = server.report(scope).await?;
    Ok(old.devices.iter().any(|uuid| {
        !report
            .check
            .cards
            .iter()
            .any(|card| card.uuid.as_ref() == Some(uuid) && card.usable.is_ok())
    }))
}

/// Starts a container that was stopped by hand.
async fn start_again(
    engine: &Engine,
    old: &Observed,
    deployment: &Deployment,
    scope: &Scope,
) -> Result<()> {
    if old.runs() {
        return Ok(());
    }
    engine.start(&old.id, scope).await?;
    wait::until_up(engine, &old.id, &deployment.spec, deployment.wait, scope).await
}

/// Puts a new container in the place of `old`; returns the cards that processes outside containers use.
async fn replace(
    server: &Arc<Server>,
    engine: &Engine,
    old: &Observed,
    deployment: &Deployment,
    warnings: &mut Vec<String>,
    scope: &Scope,
) -> Result<Vec<crate::capacity::server::CardUuid>, Failure> {
    let spec = &deployment.spec;
    let untouched = |error: SshError| Failure {
        error: failed(server, spec, "nothing was changed".to_owned(), error),
        existing: Some(Box::new(old.clone())),
    };
    create::prepare(server, engine, deployment, scope)
        .await
        .map_err(untouched)?;
    // Its name, taken by the new container, also keeps another run from starting the same.
    let placed = place::place(server, spec, &old.devices, deployment.device_wait, scope)
        .await
        .map_err(untouched)?;
    let grace = old
        .spec
        .stop_grace_seconds
        .map_or(DEFAULT_GRACE, |seconds| Duration::from_secs(seconds.into()));
    let switched = async {
        set_aside(engine, old, &previous_name(&spec.name), grace, scope).await?;
        engine.start(&placed.id, scope).await?;
        wait::until_up(engine, &placed.id, spec, deployment.wait, scope).await?;
        engine.rename(&placed.id, &spec.name, scope).await
    }
    .await;
    let cleanup = Scope::cleanup(CLEANUP + grace);
    match switched {
        Ok(()) => {
            // The new one is finished: what is left of the old one can wait for the next apply.
            if let Err(error) = engine.remove(&old.id, &cleanup).await {
                warnings.push(format!(
                    "{} could not be removed ({error}); the next apply tries again",
                    previous_name(&spec.name)
                ));
            }
            Ok(placed.used_outside)
        }
        Err(cause) => {
            // Over a new connection if the old one is what failed.
            let fresh = server.engine(&cleanup).await;
            let engine = fresh.as_deref().unwrap_or(engine);
            create::discard(engine, &placed.id, &cleanup).await;
            let now = bring_back(engine, old, &spec.name, &cleanup).await;
            let existing =
                server
                    .observe(&old.id, &cleanup)
                    .await
                    .ok()
                    .flatten()
                    .map(|mut existing| {
                        existing.spec.name.clone_from(&spec.name);
                        Box::new(existing)
                    });
            Err(Failure {
                error: failed(server, spec, now, cause),
                existing: existing.or_else(|| Some(Box::new(old.clone()))),
            })
        }
    }
}

/// Takes the old container's name and stops it. The name goes first: then a run that is killed in between leaves no stopped service under its own name.
async fn set_aside(
    engine: &Engine,
    old: &Observed,
    aside: &str,
    grace: Duration,
    scope: &Scope,
) -> Result<()> {
    match engine.rename(&old.id, aside, scope).await {
        // Engines without a default bridge can't rename a container that was started again until it is stopped.
        Err(SshError::Engine { message, .. })
            if message.contains("sandbox") && message.contains("not found") =>
        {
            engine.stop(&old.id, grace, scope).await?;
            engine.rename(&old.id, aside, scope).await
        }
        Err(error) => Err(error),
        Ok(()) => engine.stop(&old.id, grace, scope).await,
    }
}

/// Gives the old container its name back and starts it if it ran; says what is there now.
async fn bring_back(engine: &Engine, old: &Observed, name: &str, scope: &Scope) -> String {
    let back = async {
        let there = engine.inspect(&old.id, scope).await?;
        if there.is_some_and(|container| crate::ssh::docker::observed::name(&container) != name) {
            engine.rename(&old.id, name, scope).await?;
        }
        if old.runs() {
            engine.start(&old.id, scope).await?;
        }
        Ok::<(), SshError>(())
    };
    match back.await {
        Ok(()) if old.runs() => {
            "the old container runs again, with its GPUs and volumes".to_owned()
        }
        Ok(()) => "the old container is back as it was, stopped".to_owned(),
        Err(error) => {
            let previous = previous_name(name);
            format!(
                "the old container could not be brought back ({error}). Apply again, or on the server: docker rename {previous} {name}; docker start {name}"
            )
        }
    }
}

fn failed(
    server: &Server,
    spec: &crate::ssh::docker::spec::ContainerSpec,
    now: String,
    cause: SshError,
) -> SshError {
    SshError::UpdateFailed {
        server: server.name().to_owned(),
        name: spec.name.clone(),
        now,
        cause: Box::new(cause),
    }
}
