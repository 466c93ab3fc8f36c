//! Making a service: image first, then cards and container under one lock, then start, then the name.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use super::{CLEANUP, Deployed, Deployment, Failure, place, settle, wait};
use crate::capacity::ledger::ContainerState;
use crate::ssh::docker::engine::Engine;
use crate::ssh::docker::observed::Observed;
use crate::ssh::docker::spec::ContainerSpec;
use crate::ssh::error::{Result, SshError};
use crate::ssh::scope::Scope;
use crate::ssh::server::Server;

/// Pause between two looks at a container that is being removed.
const LOOK_AGAIN: Duration = Duration::from_millis(500);

pub(super) async fn create(
    server: &Arc<Server>,
    deployment: &Deployment,
    scope: &Scope,
) -> Result<Deployed, Failure> {
    let spec = &deployment.spec;
    spec.validate()?;
    let _at_work = server.begin(&spec.name).ok_or_else(|| busy(server, spec))?;
    let engine = server.engine(scope).await?;
    let (mut found, mut notes) = settle::settle(server, &spec.name, scope).await?;
    // Two services of one run may trade names: the one that has it is on its way out (S3b).
    while let Some(current) = &found.current
        && is_leaving(server, current)
    {
        scope
            .sleep(
                server.name(),
                "waiting for a container of the same name to be removed",
                LOOK_AGAIN,
            )
            .await?;
        let (again, more) = settle::settle(server, &spec.name, scope).await?;
        found = again;
        notes.extend(more);
    }
    if let Some(current) = found.current {
        let whose = match &current.mark {
            Some(mark) if mark.service == spec.name => {
                format!(" ({}, made by Loomplane)", current.status())
            }
            _ => format!(" ({}, not made by Loomplane)", current.status()),
        };
        return Err(SshError::Exists {
            server: server.name().to_owned(),
            name: spec.name.clone(),
            whose,
        }
        .into());
    }
    prepare(server, &engine, deployment, scope).await?;
    let placed = place::place(server, spec, &[], deployment.device_wait, scope).await?;
    let started = async {
        engine.start(&placed.id, scope).await?;
        wait::until_up(&engine, &placed.id, spec, deployment.wait, scope).await
    }
    .await;
    let cleanup = Scope::cleanup(CLEANUP);
    let finish = if started.is_ok() { scope } else { &cleanup };
    match started {
        // It works, or it may yet: then it stays, and the state says so.
        Ok(()) => {}
        Err(
            SshError::NotHealthy { .. } | SshError::Cancelled { .. } | SshError::TimedOut { .. },
        ) if runs(server, &placed.id, &cleanup).await => {}
        Err(error) => {
            // Over a new connection if the old one is what failed.
            let fresh = server.engine(&cleanup).await;
            discard(fresh.as_ref().unwrap_or(&engine), &placed.id, &cleanup).await;
            return Err(error.into());
        }
    }
    if let Err(error) = engine.rename(&placed.id, &spec.name, finish).await {
        discard(&engine, &placed.id, &cleanup).await;
        return Err(error.into());
    }
    let existing = server.observe(&placed.id, finish).await;
    match (started, existing) {
        (Ok(()), Ok(Some(observed))) => Ok(Deployed {
            observed,
            used_outside: placed.used_outside,
            warnings: notes,
        }),
        (Ok(()), Ok(None)) => Err(SshError::Gone {
            server: server.name().to_owned(),
            name: spec.name.clone(),
        }
        .into()),
        (Ok(()), Err(error)) => Err(error.into()),
        (Err(error), existing) => Err(Failure {
            error,
            existing: existing.ok().flatten().map(Box::new),
        }),
    }
}

/// What both making and replacing need first: this run shown on the server, the network, the image. Nothing is changed if one of them fails.
pub(super) async fn prepare(
    server: &Arc<Server>,
    engine: &Engine,
    deployment: &Deployment,
    scope: &Scope,
) -> Result<()> {
    let spec = &deployment.spec;
    server.show_alive(scope).await?;
    if let Some(network) = spec.network.as_deref().filter(|name| {
        !matches!(*name, "host" | "none" | "bridge" | "default") && !name.contains(':')
    }) && !engine.has_network(network, scope).await?
    {
        return Err(SshError::Refused {
            what: format!("network {network:?}"),
            reason: format!(
                "{} has no such network. Make it there (docker network create), or leave `network` out",
                server.name()
            ),
        });
    }
    engine
        .ensure_image(&spec.image, &deployment.registries, scope)
        .await
        .map(drop)
}

/// Whether a container is being removed, or may be: this process is still deleting on the server, and it is ours.
fn is_leaving(server: &Server, current: &Observed) -> bool {
    current.state == ContainerState::Removing
        || (current.mark.is_some() && server.deleting.load(Ordering::Acquire) > 0)
}

async fn runs(server: &Arc<Server>, id: &str, scope: &Scope) -> bool {
    matches!(server.observe(id, scope).await, Ok(Some(found)) if found.runs())
}

/// Removes what was made and did not work. If even that fails, the unfinished name lets the next apply do it.
pub(super) async fn discard(engine: &Engine, id: &str, scope: &Scope) {
    if let Err(error) = engine.remove(id, scope).await {
        tracing::warn!(server = engine.server(), container = id, %error, "an unfinished container stays; the next apply removes it");
    }
}

pub(super) fn busy(server: &Server, spec: &ContainerSpec) -> SshError {
    SshError::Busy {
        server: server.name().to_owned(),
        name: spec.name.clone(),
        run: format!("{}, this one", server.run),
    }
}
