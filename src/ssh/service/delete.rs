//! Removing a service. Gone already is removed.

use std::sync::Arc;
use std::time::Duration;

use super::{Failure, settle};
use crate::ssh::docker::engine::Engine;
use crate::ssh::docker::observed::Observed;
use crate::ssh::error::{Result, SshError};
use crate::ssh::scope::Scope;
use crate::ssh::server::Server;

/// Docker's own default between the stop signal and the kill.
pub(super) const DEFAULT_GRACE: Duration = Duration::from_secs(10);

pub(super) async fn delete(
    server: &Arc<Server>,
    name: &str,
    id: Option<&str>,
    volumes: &[String],
    scope: &Scope,
) -> Result<(), Failure> {
    let _deletion = server.deletion();
    let found = settle::find(server, name, scope).await?;
    if let Some(unfinished) = &found.unfinished
        && let Some(mark) = &unfinished.mark
        && server.is_at_work(&mark.run, name, scope).await?
    {
        let error = SshError::Busy {
            server: server.name().to_owned(),
            name: name.to_owned(),
            run: mark.run.clone(),
        };
        return Err(Failure {
            error,
            existing: found.current.map(Box::new),
        });
    }
    let engine = server.engine(scope).await?;
    for container in [found.unfinished, found.previous, found.current]
        .into_iter()
        .flatten()
    {
        let ours = container
            .mark
            .as_ref()
            .is_some_and(|mark| mark.service == name);
        if !ours && id.is_some_and(|id| id != container.id) {
            tracing::warn!(
                server = server.name(),
                container = container.name,
                "left alone: it is not the container of this service any more"
            );
            continue;
        }
        if let Err(error) = stop_and_remove(&engine, &container, scope).await {
            return Err(Failure {
                error,
                existing: Some(Box::new(container)),
            });
        }
    }
    for volume in volumes {
        if let Err(error) = engine.remove_volume(volume, scope).await {
            return Err(error.into());
        }
    }
    Ok(())
}

async fn stop_and_remove(engine: &Engine, container: &Observed, scope: &Scope) -> Result<()> {
    if container.runs() {
        let grace = container
            .spec
            .stop_grace_seconds
            .map_or(DEFAULT_GRACE, |seconds| Duration::from_secs(seconds.into()));
        engine.stop(&container.id, grace, scope).await?;
    }
    engine.remove(&container.id, scope).await
}
