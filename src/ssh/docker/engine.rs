//! One server's engine: opened once, its errors turned into ours.

use std::sync::Arc;
use std::time::Duration;

use bollard::Docker;
use bollard::errors::Error as DockerError;
use bollard::models::{ContainerInspectResponse, SystemInfo, SystemVersion};
use bollard::query_parameters::{
    CreateContainerOptionsBuilder, InspectContainerOptions, ListContainersOptionsBuilder,
    LogsOptionsBuilder, RemoveContainerOptionsBuilder, RemoveVolumeOptions,
    RenameContainerOptionsBuilder, StartContainerOptions, StopContainerOptionsBuilder,
};
use futures_util::{StreamExt, TryStreamExt, stream};

use super::diagnose;
use super::transport::{Pool, Route};
use crate::ssh::config::ServerConfig;
use crate::ssh::connect::Connection;
use crate::ssh::error::{DockerProblem, Result, SshError};
use crate::ssh::scope::Scope;

/// Lowest engine API that knows device requests (Docker 19.03).
const LEAST_API: (u32, u32) = (1, 40);
/// Containers inspected at a time.
const INSPECT_AT_ONCE: usize = 8;
/// Bytes of a log's end that a message shows at most.
const LOG_TAIL: usize = 4096;

/// An engine that answers.
#[derive(Debug)]
pub(crate) struct Engine {
    server: String,
    docker: Docker,
    connection: Arc<Connection>,
    pub(crate) route: Route,
    pub(crate) version: SystemVersion,
}

impl Engine {
    /// Finds the way to the engine and asks for its version.
    pub(crate) async fn open(
        connection: &Arc<Connection>,
        config: &ServerConfig,
        scope: &Scope,
    ) -> Result<Self> {
        let route = diagnose::route(connection, config, scope).await?;
        let pool = Pool::new(connection.clone(), route, &config.docker_socket);
        let docker = Docker::connect_with_custom_transport(
            move |request| pool.clone().request(request),
            Some("http://docker"),
            config.limits.docker.as_secs(),
            bollard::API_DEFAULT_VERSION,
        )
        .map_err(|error| failed(&config.name, "be set up", error))?;
        let not_docker = |said: String| SshError::Docker {
            server: config.name.clone(),
            problem: DockerProblem::NotDocker {
                socket: config.docker_socket.clone(),
                said,
            },
        };
        let version = scope
            .run(&config.name, "asking Docker for its version", async {
                docker.version().await.map_err(|error| {
                    match failed(&config.name, "tell its version", error) {
                        SshError::Engine { message, .. } => not_docker(message),
                        other => other,
                    }
                })
            })
            .await?;
        judge_version(&version, &config.docker_socket).map_err(|problem| SshError::Docker {
            server: config.name.clone(),
            problem,
        })?;
        Ok(Self {
            server: config.name.clone(),
            docker,
            connection: connection.clone(),
            route,
            version,
        })
    }

    /// Whether it is reached over this very connection.
    pub(crate) fn is_over(&self, connection: &Arc<Connection>) -> bool {
        Arc::ptr_eq(&self.connection, connection)
    }

    /// `/info`: runtimes, CDI devices.
    pub(crate) async fn info(&self, scope: &Scope) -> Result<SystemInfo> {
        self.call(scope, "describe itself", self.docker.info())
            .await
    }

    /// Every container with all that it was given; those that vanish meanwhile are left out.
    pub(crate) async fn containers(&self, scope: &Scope) -> Result<Vec<ContainerInspectResponse>> {
        let all = ListContainersOptionsBuilder::default().all(true).build();
        let list = self
            .call(
                scope,
                "list containers",
                self.docker.list_containers(Some(all)),
            )
            .await?;
        let ids: Vec<String> = list
            .into_iter()
            .filter_map(|container| container.id)
            .collect();
        let mut found: Vec<ContainerInspectResponse> = stream::iter(ids)
            .map(|id| async move { self.inspect(&id, scope).await })
            .buffer_unordered(INSPECT_AT_ONCE)
            .try_filter_map(|container| async move { Ok(container) })
            .try_collect()
            .await?;
        found.sort_by(|a, b| (&a.name, &a.id).cmp(&(&b.name, &b.id)));
        Ok(found)
    }

    /// One container, by id or name; none when there is none.
    pub(crate) async fn inspect(
        &self,
        id: &str,
        scope: &Scope,
    ) -> Result<Option<ContainerInspectResponse>> {
        let operation = format!("inspect container {id}");
        absent_is_none(
            self.call(
                scope,
                &operation,
                self.docker
                    .inspect_container(id, None::<InspectContainerOptions>),
            )
            .await,
        )
    }

    /// Makes a container; returns its id.
    pub(crate) async fn create(
        &self,
        name: &str,
        body: bollard::models::ContainerCreateBody,
        scope: &Scope,
    ) -> Result<String> {
        let options = CreateContainerOptionsBuilder::default().name(name).build();
        let made = self
            .call(
                scope,
                &format!("create container {name}"),
                self.docker.create_container(Some(options), body),
            )
            .await?;
        for warning in made.warnings {
            tracing::warn!(server = self.server, container = name, "{warning}");
        }
        Ok(made.id)
    }

    /// Starts a container.
    pub(crate) async fn start(&self, id: &str, scope: &Scope) -> Result<()> {
        self.call(
            scope,
            &format!("start container {id}"),
            self.docker
                .start_container(id, None::<StartContainerOptions>),
        )
        .await
    }

    /// Stops a container, killing it after `grace`. One that does not run, or is gone, is stopped.
    pub(crate) async fn stop(&self, id: &str, grace: Duration, scope: &Scope) -> Result<()> {
        let seconds = i32::try_from(grace.as_secs()).unwrap_or(i32::MAX);
        let options = StopContainerOptionsBuilder::default().t(seconds).build();
        // The answer comes when the container has ended.
        let patient = self
            .docker
            .clone()
            .with_timeout(grace + Duration::from_secs(60));
        absent_is_none(
            self.call(
                scope,
                &format!("stop container {id}"),
                patient.stop_container(id, Some(options)),
            )
            .await,
        )
        .map(drop)
    }

    /// Removes a container, by force if it runs. One that is gone is removed.
    pub(crate) async fn remove(&self, id: &str, scope: &Scope) -> Result<()> {
        let options = RemoveContainerOptionsBuilder::default()
            .force(true)
            .v(true)
            .build();
        let removed = absent_is_none(
            self.call(
                scope,
                &format!("remove container {id}"),
                self.docker.remove_container(id, Some(options)),
            )
            .await,
        );
        match removed {
            // Another request is at it: wait for that one instead of failing.
            Err(SshError::Engine {
                status: 409,
                message,
                ..
            }) if message.contains("already in progress") => {
                for _ in 0..100 {
                    if self.inspect(id, scope).await?.is_none() {
                        return Ok(());
                    }
                    scope
                        .sleep(
                            &self.server,
                            "waiting for a container's removal",
                            Duration::from_millis(200),
                        )
                        .await?;
                }
                Err(SshError::Engine {
                    server: self.server.clone(),
                    operation: format!("remove container {id}"),
                    message,
                    status: 409,
                })
            }
            other => other.map(drop),
        }
    }

    /// Gives a container another name.
    pub(crate) async fn rename(&self, id: &str, name: &str, scope: &Scope) -> Result<()> {
        let options = RenameContainerOptionsBuilder::default().name(name).build();
        self.call(
            scope,
            &format!("rename container {id} to {name}"),
            self.docker.rename_container(id, options),
        )
        .await
    }

    /// Removes a named volume; one that is gone is removed.
    pub(crate) async fn remove_volume(&self, name: &str, scope: &Scope) -> Result<()> {
        absent_is_none(
            self.call(
                scope,
                &format!("remove volume {name}"),
                self.docker.remove_volume(name, None::<RemoveVolumeOptions>),
            )
            .await,
        )
        .map(drop)
    }

    /// Whether there is a network `name`.
    pub(crate) async fn has_network(&self, name: &str, scope: &Scope) -> Result<bool> {
        let none = None::<bollard::query_parameters::InspectNetworkOptions>;
        Ok(absent_is_none(
            self.call(
                scope,
                &format!("inspect network {name}"),
                self.docker.inspect_network(name, none),
            )
            .await,
        )?
        .is_some())
    }

    /// The last lines of a container's output, at most 20; empty when they can't be had.
    pub(crate) async fn log_tail(&self, id: &str, scope: &Scope) -> String {
        let options = LogsOptionsBuilder::default()
            .stdout(true)
            .stderr(true)
            .tail("20")
            .build();
        let mut text = String::new();
        let read = scope
            .narrowed(Duration::from_secs(10))
            .run(&self.server, "reading a container's log", async {
                let mut lines = self.docker.logs(id, Some(options));
                while let Some(Ok(line)) = lines.next().await {
                    text.push_str(&String::from_utf8_lossy(&line.into_bytes()));
                }
                Ok(())
            })
            .await;
        if let Err(error) = read {
            tracing::debug!(server = self.server, %error, "log not read");
        }
        let start = text
            .char_indices()
            .map(|(at, _)| at)
            .find(|at| text.len() - at <= LOG_TAIL)
            .unwrap_or(0);
        text.split_off(start)
    }

    pub(crate) fn docker(&self) -> &Docker {
        &self.docker
    }

    pub(crate) fn server(&self) -> &str {
        &self.server
    }

    /// One call within `scope`, its error in our words.
    pub(crate) async fn call<T>(
        &self,
        scope: &Scope,
        operation: &str,
        call: impl Future<Output = Result<T, DockerError>>,
    ) -> Result<T> {
        let what = format!("waiting for Docker to {operation}");
        scope
            .run(&self.server, &what, async {
                call.await
                    .map_err(|error| failed(&self.server, operation, error))
            })
            .await
    }
}

fn judge_version(version: &SystemVersion, socket: &str) -> Result<(), DockerProblem> {
    let engine = version
        .version
        .clone()
        .unwrap_or_else(|| "of unknown version".to_owned());
    let podman = version
        .components
        .iter()
        .flatten()
        .any(|component| component.name.contains("Podman"));
    if podman {
        return Err(DockerProblem::Podman {
            socket: socket.to_owned(),
        });
    }
    let Some(api) = version.api_version.clone() else {
        return Err(DockerProblem::NotDocker {
            socket: socket.to_owned(),
            said: "no API version in its answer".to_owned(),
        });
    };
    match parse_api(&api) {
        Some(found) if found >= LEAST_API => Ok(()),
        _ => Err(DockerProblem::TooOld {
            version: engine,
            api,
        }),
    }
}

fn parse_api(text: &str) -> Option<(u32, u32)> {
    let (major, minor) = text.split_once('.')?;
    Some((major.parse().ok()?, minor.parse().ok()?))
}

fn absent_is_none<T>(result: Result<T>) -> Result<Option<T>> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(SshError::Engine { status: 404, .. }) => Ok(None),
        Err(error) => Err(error),
    }
}

/// An engine's error in our words.
pub(crate) fn failed(server: &str, operation: &str, error: DockerError) -> SshError {
    let engine = |message: String, status: u16| {
        if is_no_gpu_access(&message) {
            SshError::NoGpuAccess {
                server: server.to_owned(),
                message,
            }
        } else {
            SshError::Engine {
                server: server.to_owned(),
                operation: operation.to_owned(),
                message,
                status,
            }
        }
    };
    match error {
        DockerError::DockerResponseServerError {
            status_code,
            message,
        } => engine(message.trim().to_owned(), status_code),
        DockerError::DockerStreamError { error } => engine(error, 0),
        DockerError::RequestTimeoutError => engine("it did not answer in time".to_owned(), 0),
        // Ours, on its way through bollard.
        DockerError::IOError { err } => match err.downcast::<SshError>() {
            Ok(ours) => ours,
            Err(err) => engine(format!("the connection to it broke ({err})"), 0),
        },
        DockerError::HyperResponseError { err } => {
            engine(format!("the connection to it broke ({err})"), 0)
        }
        other => engine(other.to_string(), 0),
    }
}

/// The engine's and the toolkit's ways to say that GPUs can't be given.
pub(crate) fn is_no_gpu_access(message: &str) -> bool {
    message.contains("could not select device driver")
        || message.contains("nvidia-container-cli: initialization error")
        || message.contains("libnvidia-ml.so.1: cannot open shared object file")
        || message.contains("failed to discover GPU vendor from CDI")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn s2_an_old_engine_and_podman_have_their_own_reasons() {
        let of = |api: &str| SystemVersion {
            version: Some("18.09.1".to_owned()),
            api_version: Some(api.to_owned()),
            ..SystemVersion::default()
        };
        let error = judge_version(&of("1.39"), "/s").unwrap_err();
        assert!(
            error.to_string().contains("Upgrade Docker") && error.to_string().contains("18.09.1"),
            "{error}"
        );
        assert!(judge_version(&of("1.40"), "/s").is_ok());
        assert!(judge_version(&of("1.100"), "/s").is_ok());
        assert!(matches!(
            judge_version(&of(""), "/s"),
            Err(DockerProblem::TooOld { .. })
        ));
        let podman = SystemVersion {
            components: Some(vec![bollard::models::SystemVersionComponents {
                name: "Podman Engine".to_owned(),
                ..Default::default()
            }]),
            ..of("1.41")
        };
        assert!(matches!(
            judge_version(&podman, "/s"),
            Err(DockerProblem::Podman { .. })
        ));
    }

    #[test]
    fn s2_the_toolkit_message_names_the_commands() {
        let error = failed(
            "rack1",
            "start container x",
            DockerError::DockerResponseServerError {
                status_code: 500,
                message: "could not select device driver \"\" with capabilities: [[gpu]]"
                    .to_owned(),
            },
        );
        let text = error.to_string();
        assert!(
            text.contains("nvidia-ctk runtime configure --runtime=docker")
                && text.contains("restart docker"),
            "{text}"
        );
    }
}
