//! What a killed run left behind, and how the next one puts it right (G10).

use std::sync::Arc;

use super::{previous_name, unfinished_name};
use crate::ssh::docker::engine::Engine;
use crate::ssh::docker::observed::Observed;
use crate::ssh::error::{Result, SshError};
use crate::ssh::scope::Scope;
use crate::ssh::server::Server;

/// The containers of a service, by role.
#[derive(Debug, Default)]
pub(super) struct Found {
    pub(super) current: Option<Observed>,
    pub(super) unfinished: Option<Observed>,
    pub(super) previous: Option<Observed>,
}

/// What to do about them.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// Remove the unfinished one.
    DropUnfinished,
    /// Remove the one that was replaced: its successor was finished.
    DropPrevious,
    /// Give the one that was being replaced its name back, and start it.
    RestorePrevious,
}

/// The steps that put a service right when nobody is at work on it. Pure.
pub(super) fn plan(current: bool, unfinished: bool, previous: bool) -> Vec<Step> {
    let mut steps = Vec::new();
    if unfinished {
        steps.push(Step::DropUnfinished);
    }
    match (current, previous) {
        (true, true) => steps.push(Step::DropPrevious),
        (false, true) => steps.push(Step::RestorePrevious),
        _ => {}
    }
    steps
}

pub(super) async fn find(server: &Server, service: &str, scope: &Scope) -> Result<Found> {
    let marked = |found: Option<Observed>| {
        found.filter(|found| {
            found
                .mark
                .as_ref()
                .is_some_and(|mark| mark.service == service)
        })
    };
    let (previous, unfinished) = (previous_name(service), unfinished_name(service));
    let (current, unfinished, previous) = tokio::try_join!(
        server.observe(service, scope),
        server.observe(&unfinished, scope),
        server.observe(&previous, scope)
    )?;
    // The one that is replaced may be an imported container without our mark.
    Ok(Found {
        current,
        unfinished: marked(unfinished),
        previous,
    })
}

/// The service as a refresh sees it. In the middle of a replacement (another run's, or a killed one's) that is the container that is being replaced.
pub(super) async fn read(
    server: &Server,
    service: &str,
    scope: &Scope,
) -> Result<Option<Observed>> {
    if let Some(current) = server.observe(service, scope).await? {
        return Ok(Some(current));
    }
    let mut previous = server.observe(&previous_name(service), scope).await?;
    if let Some(previous) = &mut previous {
        previous.spec.name = service.to_owned();
    }
    Ok(previous)
}

/// Refuses when another run is at work on the service; else puts right what a killed one left, and tells what is there.
pub(super) async fn settle(
    server: &Arc<Server>,
    service: &str,
    scope: &Scope,
) -> Result<(Found, Vec<String>)> {
    let mut found = find(server, service, scope).await?;
    let steps = plan(
        found.current.is_some(),
        found.unfinished.is_some(),
        found.previous.is_some(),
    );
    if steps.is_empty() {
        return Ok((found, Vec::new()));
    }
    if let Some(mark) = found
        .unfinished
        .as_ref()
        .and_then(|unfinished| unfinished.mark.as_ref())
        && server.is_at_work(&mark.run, service, scope).await?
    {
        return Err(SshError::Busy {
            server: server.name().to_owned(),
            name: service.to_owned(),
            run: mark.run.clone(),
        });
    }
    let engine = server.engine(scope).await?;
    let mut notes = Vec::new();
    for step in steps {
        notes.push(apply(&engine, service, &found, &step, scope).await?);
    }
    for note in &notes {
        tracing::warn!(server = server.name(), service, "{note}");
    }
    found = find(server, service, scope).await?;
    Ok((found, notes))
}

async fn apply(
    engine: &Engine,
    service: &str,
    found: &Found,
    step: &Step,
    scope: &Scope,
) -> Result<String> {
    let id = |container: &Option<Observed>| {
        container
            .as_ref()
            .map(|container| container.id.clone())
            .unwrap_or_default()
    };
    match step {
        Step::DropUnfinished => {
            engine.remove(&id(&found.unfinished), scope).await?;
            Ok(format!(
                "removed {}, which a run that is gone left unfinished",
                unfinished_name(service)
            ))
        }
        Step::DropPrevious => {
            engine.remove(&id(&found.previous), scope).await?;
            Ok(format!(
                "removed {}, whose replacement had been finished",
                previous_name(service)
            ))
        }
        Step::RestorePrevious => {
            let id = id(&found.previous);
            engine.rename(&id, service, scope).await?;
            engine.start(&id, scope).await?;
            Ok(format!(
                "gave {} its name back and started it: a run that is gone was replacing it",
                previous_name(service)
            ))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn g10_every_state_that_a_killed_run_can_leave_has_a_way_back() {
        use Step::*;
        for (current, unfinished, previous, want) in [
            // Nothing, or all well.
            (false, false, false, vec![]),
            (true, false, false, vec![]),
            // Killed while creating.
            (false, true, false, vec![DropUnfinished]),
            // Killed while updating: before the old one gave up its name, after it, and after the new one had it.
            (true, true, false, vec![DropUnfinished]),
            (false, true, true, vec![DropUnfinished, RestorePrevious]),
            (true, false, true, vec![DropPrevious]),
            // Somebody removed the unfinished one by hand.
            (false, false, true, vec![RestorePrevious]),
            (true, true, true, vec![DropUnfinished, DropPrevious]),
        ] {
            assert_eq!(
                plan(current, unfinished, previous),
                want,
                "{current} {unfinished} {previous}"
            );
        }
    }
}
