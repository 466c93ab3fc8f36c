//! Whether a started container stays up and gets healthy.

use std::time::Duration;

use crate::capacity::ledger::ContainerState;
use crate::ssh::docker::engine::Engine;
use crate::ssh::docker::observed::{Health, Observed, observe};
use crate::ssh::docker::spec::ContainerSpec;
use crate::ssh::error::{Result, SshError};
use crate::ssh::scope::Scope;

/// Without a health check, a container that runs for so long is taken to be up.
const SETTLED: Duration = Duration::from_secs(3);
/// Pause between two looks.
const LOOK: Duration = Duration::from_millis(500);

/// What one look says. Pure.
#[derive(Debug, PartialEq, Eq)]
enum Verdict {
    Up,
    NotYet,
    /// It ended, or Docker keeps restarting it.
    Down(String),
    Unhealthy,
}

fn judge(found: &Observed, ran_for: Duration) -> Verdict {
    let code = found.exit_code.unwrap_or_default();
    match found.state {
        ContainerState::Exited | ContainerState::Dead => match &found.error {
            Some(error) => Verdict::Down(error.clone()),
            None => Verdict::Down(format!("it ended with exit code {code}")),
        },
        ContainerState::Restarting => Verdict::Down(format!(
            "it ends with exit code {code} and Docker restarts it over and over"
        )),
        ContainerState::Running if found.restarts > 0 => Verdict::Down(format!(
            "it ended and Docker restarted it {} time(s)",
            found.restarts
        )),
        ContainerState::Running | ContainerState::Paused => match found.health {
            Some(Health::Healthy) => Verdict::Up,
            Some(Health::Unhealthy) => Verdict::Unhealthy,
            Some(Health::Starting) => Verdict::NotYet,
            None if ran_for >= SETTLED => Verdict::Up,
            None => Verdict::NotYet,
        },
        ContainerState::Created => Verdict::NotYet,
        ContainerState::Removing => Verdict::Down("somebody removed it".to_owned()),
    }
}

/// Waits until the container is up. `patient` also waits for its health; else only for [`SETTLED`].
///
/// # Errors
/// [`SshError::NotRunning`], [`SshError::NotHealthy`], each with the container's last lines; the scope's end.
pub(super) async fn until_up(
    engine: &Engine,
    id: &str,
    spec: &ContainerSpec,
    patient: bool,
    scope: &Scope,
) -> Result<()> {
    let started = tokio::time::Instant::now();
    loop {
        let Some(container) = engine.inspect(id, scope).await? else {
            return Err(SshError::NotRunning {
                server: engine.server().to_owned(),
                name: spec.name.clone(),
                reason: "somebody removed it".to_owned(),
                log: String::new(),
            });
        };
        let found = observe(&container, None);
        let verdict = judge(&found, started.elapsed());
        match verdict {
            Verdict::Up => return Ok(()),
            Verdict::NotYet if !patient && started.elapsed() >= SETTLED => return Ok(()),
            Verdict::NotYet => {}
            Verdict::Down(reason) => {
                let log = spec.redact(
                    &engine
                        .log_tail(id, &Scope::cleanup(Duration::from_secs(10)))
                        .await,
                );
                return Err(SshError::NotRunning {
                    server: engine.server().to_owned(),
                    name: spec.name.clone(),
                    reason,
                    log,
                });
            }
            Verdict::Unhealthy if !patient => return Ok(()),
            Verdict::Unhealthy => {
                let log = spec.redact(
                    &engine
                        .log_tail(id, &Scope::cleanup(Duration::from_secs(10)))
                        .await,
                );
                let said = container
                    .state
                    .and_then(|state| state.health)
                    .and_then(|health| health.log)
                    .and_then(|log| log.last().cloned());
                let said = said.and_then(|last| last.output).unwrap_or_default();
                return Err(SshError::NotHealthy {
                    server: engine.server().to_owned(),
                    name: spec.name.clone(),
                    reason: format!("its health check says: {}", spec.redact(said.trim())),
                    waited: started.elapsed().as_secs(),
                    log,
                });
            }
        }
        let what = format!("waiting for {} to get healthy", spec.name);
        scope.sleep(engine.server(), &what, LOOK).await?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(state: serde_json::Value, restarts: i64) -> Observed {
        observe(&serde_json::from_value(serde_json::json!({"Id": "a", "Name": "/a", "State": state, "RestartCount": restarts})).unwrap(), None)
    }

    #[test]
    fn each_state_has_its_verdict() {
        let at = |state: serde_json::Value, restarts, seconds| {
            judge(&found(state, restarts), Duration::from_secs(seconds))
        };
        assert_eq!(
            at(serde_json::json!({"Status": "running"}), 0, 1),
            Verdict::NotYet
        );
        assert_eq!(
            at(serde_json::json!({"Status": "running"}), 0, 4),
            Verdict::Up
        );
        assert!(matches!(
            at(serde_json::json!({"Status": "running"}), 2, 4),
            Verdict::Down(_)
        ));
        assert!(
            matches!(at(serde_json::json!({"Status": "exited", "ExitCode": 3}), 0, 0), Verdict::Down(why) if why.contains('3'))
        );
        assert!(matches!(
            at(serde_json::json!({"Status": "restarting"}), 0, 0),
            Verdict::Down(_)
        ));
        assert_eq!(
            at(
                serde_json::json!({"Status": "running", "Health": {"Status": "starting"}}),
                0,
                60
            ),
            Verdict::NotYet
        );
        assert_eq!(
            at(
                serde_json::json!({"Status": "running", "Health": {"Status": "healthy"}}),
                0,
                0
            ),
            Verdict::Up
        );
        assert_eq!(
            at(
                serde_json::json!({"Status": "running", "Health": {"Status": "unhealthy"}}),
                0,
                60
            ),
            Verdict::Unhealthy
        );
    }
}
