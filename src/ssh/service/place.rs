//! Handing out cards: under one lock on the server, from what every container has right now (S3).

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use super::unfinished_name;
use crate::capacity::ledger::{Allocation, Budget, CardAsk, Ledger, Shortage, allocate};
use crate::capacity::server::CardUuid;
use crate::ssh::check::Report;
use crate::ssh::devices::{Occupant, occupant};
use crate::ssh::docker::body::render;
use crate::ssh::docker::engine::Engine;
use crate::ssh::docker::spec::ContainerSpec;
use crate::ssh::error::{Result, SshError};
use crate::ssh::lock::{LockName, RemoteLock};
use crate::ssh::scope::Scope;
use crate::ssh::server::Server;

/// How long the lock may be waited for at a time: handing out takes about a second.
const LOCK_PATIENCE: Duration = Duration::from_secs(120);
/// Pause between two looks for free cards.
const LOOK_AGAIN: Duration = Duration::from_secs(2);

/// A container that was made for a service and not yet started.
pub(super) struct Placed {
    pub(super) id: String,
    pub(super) used_outside: Vec<CardUuid>,
}

/// Makes the service's container under its unfinished name, with cards when it asks for some. Waits up to `patience` for cards that others hold, and
/// as long as this process is still deleting on the server (S3b).
pub(super) async fn place(
    server: &Arc<Server>,
    spec: &ContainerSpec,
    keep: &[CardUuid],
    patience: Duration,
    scope: &Scope,
) -> Result<Placed> {
    let engine = server.engine(scope).await?;
    let report = server.report(scope).await?;
    if spec.gpu.is_none() {
        let body = render(spec, &[], &server.run, report.default_runtime);
        let id = make(server, &engine, spec, body, scope).await?;
        return Ok(Placed {
            id,
            used_outside: Vec::new(),
        });
    }
    let started = tokio::time::Instant::now();
    loop {
        match try_place(server, &engine, &report, spec, keep, scope).await? {
            Ok(placed) => return Ok(placed),
            Err(shortage) => {
                let hopeless = shortage.usable < u32::from(shortage.request.count.get())
                    || shortage.server.is_some();
                let deleting = server.deleting.load(Ordering::Acquire) > 0;
                if hopeless || (started.elapsed() >= patience && !deleting) {
                    return Err(SshError::DevicesHeld {
                        server: server.name().to_owned(),
                        shortage: Box::new(shortage),
                        waited: started.elapsed().as_secs(),
                    });
                }
                tracing::info!(
                    server = server.name(),
                    service = spec.name,
                    free = shortage.free,
                    "waiting for GPUs that others hold"
                );
                scope
                    .sleep(server.name(), "waiting for GPUs", LOOK_AGAIN)
                    .await?;
            }
        }
    }
}

async fn try_place(
    server: &Arc<Server>,
    engine: &Engine,
    report: &Report,
    spec: &ContainerSpec,
    keep: &[CardUuid],
    scope: &Scope,
) -> Result<Result<Placed, Shortage>> {
    let _turn = scope
        .run(
            server.name(),
            "waiting for this run's other services to get their GPUs",
            async { Ok(server.handing_out.lock().await) },
        )
        .await?;
    let connection = server.connection(scope).await?;
    let lock = RemoteLock::acquire(&connection, LockName::Devices, LOCK_PATIENCE, scope)
        .await?
        .ok_or_else(|| SshError::Lock {
            server: server.name().to_owned(),
            reason: format!("another process held it for {} s", LOCK_PATIENCE.as_secs()),
        })?;
    let occupants: Vec<Occupant> = engine
        .containers(scope)
        .await?
        .iter()
        .map(|container| occupant(container, report.default_runtime, &report.minors))
        .collect();
    let allocation = match choose(report, &occupants, spec, keep) {
        Ok(allocation) => allocation,
        Err(shortage) => return Ok(Err(shortage)),
    };
    let body = render(spec, &allocation.cards, &server.run, report.default_runtime);
    let id = make(server, engine, spec, body, scope).await?;
    if !lock.is_held() {
        // The holder gave up while we were cut off: somebody else may have chosen the same cards.
        engine.remove(&id, &Scope::cleanup(super::CLEANUP)).await?;
        return Err(SshError::Lock {
            server: server.name().to_owned(),
            reason: "it was lost while GPUs were handed out, so the container was removed again"
                .to_owned(),
        });
    }
    Ok(Ok(Placed {
        id,
        used_outside: allocation.used_outside,
    }))
}

/// Picks cards from what is free among `occupants`. Pure; the choice itself is `capacity::ledger`'s.
fn choose(
    report: &Report,
    occupants: &[Occupant],
    spec: &ContainerSpec,
    keep: &[CardUuid],
) -> Result<Allocation, Shortage> {
    let containers: Vec<_> = occupants
        .iter()
        .map(|occupant| occupant.container.clone())
        .collect();
    let ledger = Ledger::new(&report.check.cards, &containers);
    let Some(request) = spec.gpu else {
        return Ok(Allocation {
            cards: Vec::new(),
            used_outside: Vec::new(),
        });
    };
    let budget = spec.pool.as_ref().map(|pool| {
        let of_pool = |card: &&crate::capacity::server::CheckedCard| {
            card.uuid.as_ref().is_some_and(|uuid| {
                ledger.holders(uuid).iter().any(|holder| {
                    holder
                        .service
                        .as_deref()
                        .is_some_and(|service| service != spec.name)
                        && occupants.iter().any(|occupant| {
                            occupant.container.name == holder.container
                                && occupant.pool.as_deref() == Some(pool.pool.as_str())
                        })
                })
            })
        };
        let handed_out =
            u32::try_from(report.check.cards.iter().filter(of_pool).count()).unwrap_or(u32::MAX);
        Budget {
            gpus: pool.gpus,
            handed_out,
        }
    });
    allocate(
        &report.check,
        &ledger,
        CardAsk {
            request,
            service: &spec.name,
            keep,
            budget,
        },
    )
}

/// Makes the container. A conflict means that another run is at work on the same service.
async fn make(
    server: &Arc<Server>,
    engine: &Engine,
    spec: &ContainerSpec,
    body: bollard::models::ContainerCreateBody,
    scope: &Scope,
) -> Result<String> {
    let name = unfinished_name(&spec.name);
    match engine.create(&name, body, scope).await {
        Err(SshError::Engine {
            status: 409,
            message,
            ..
        }) if message.contains("already in use") => {
            let found = server.observe(&name, scope).await?;
            let run = found
                .and_then(|found| found.mark)
                .map_or_else(|| "unknown".to_owned(), |mark| mark.run);
            Err(SshError::Busy {
                server: server.name().to_owned(),
                name: spec.name.clone(),
                run,
            })
        }
        // Stopped or out of time while the engine was at it: it may have been made all the same.
        Err(error @ (SshError::Cancelled { .. } | SshError::TimedOut { .. })) => {
            let cleanup = Scope::cleanup(super::CLEANUP);
            if let Ok(Some(found)) = server.observe(&name, &cleanup).await
                && found
                    .mark
                    .as_ref()
                    .is_some_and(|mark| mark.run == server.run)
                && let Err(left) = engine.remove(&found.id, &cleanup).await
            {
                tracing::warn!(server = server.name(), container = name, error = %left, "an unfinished container stays; the next apply removes it");
            }
            Err(error)
        }
        other => other,
    }
}
