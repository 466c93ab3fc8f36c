//! A service on a server: one container, made, changed and removed so that a failure never leaves less than before (S5), no card is shared
//! (S3), and nothing is taken over silently (G10).
//!
//! While a change is under way the containers carry telling names: `NAME.loomplane-unfinished` is one that is being made,
//! `NAME.loomplane-previous` the one that it replaces. What a killed run left under those names, the next one settles ([`settle`]).

mod change;
mod create;
mod delete;
mod place;
mod settle;
mod update;
mod wait;

use std::sync::Arc;
use std::time::Duration;

pub use change::{Change, change};

use super::config::Registries;
use super::docker::observed::Observed;
use super::docker::spec::ContainerSpec;
use super::error::{Result, SshError};
use super::scope::Scope;
use super::server::Server;
use crate::capacity::server::CardUuid;

/// How long clean-up after a failure may take, whatever ended the operation.
pub(crate) const CLEANUP: Duration = Duration::from_secs(90);

/// What to put on a server.
#[derive(Debug, Clone)]
pub struct Deployment {
    /// The container.
    pub spec: ContainerSpec,
    /// Image registry logins.
    pub registries: Registries,
    /// How long to wait for cards that others hold (`device_wait_seconds`).
    pub device_wait: Duration,
    /// Whether to wait until it runs and is healthy (`wait`).
    pub wait: bool,
}

/// A service that is there.
#[derive(Debug, Clone)]
pub struct Deployed {
    /// The container, read back.
    pub observed: Observed,
    /// Cards that processes outside containers used when they were handed out (S3a): a warning.
    pub used_outside: Vec<CardUuid>,
    /// What was left behind or otherwise deserves a warning.
    pub warnings: Vec<String>,
}

/// A failed operation, with what is there now: that is what the state must say.
#[derive(Debug)]
pub struct Failure {
    /// What went wrong.
    pub error: SshError,
    /// The service's container; none when there is none.
    pub existing: Option<Box<Observed>>,
}

impl Failure {
    fn nothing(error: SshError) -> Self {
        Self {
            error,
            existing: None,
        }
    }
}

impl From<SshError> for Failure {
    fn from(error: SshError) -> Self {
        Self::nothing(error)
    }
}

/// Name of the container that is being made for a service.
pub(crate) fn unfinished_name(service: &str) -> String {
    format!("{service}.loomplane-unfinished")
}

/// Name of the container that is being replaced.
pub(crate) fn previous_name(service: &str) -> String {
    format!("{service}.loomplane-previous")
}

impl Server {
    /// Makes a service.
    ///
    /// # Errors
    /// [`Failure`]: `existing` is set when the container was made and stays (not healthy in time, interrupted while waiting).
    pub async fn create_service(
        self: &Arc<Self>,
        deployment: &Deployment,
        scope: &Scope,
    ) -> Result<Deployed, Failure> {
        Box::pin(create::create(self, deployment, scope)).await
    }

    /// Reads a service; none when it is gone (removed by hand). A server that can't be asked is an error, never "gone".
    ///
    /// # Errors
    /// The server or its engine can't be reached.
    pub async fn read_service(&self, name: &str, scope: &Scope) -> Result<Option<Observed>> {
        settle::read(self, name, scope).await
    }

    /// Changes a service; `old` is what [`Server::read_service`] found. Does as little as it can ([`change`]).
    ///
    /// # Errors
    /// [`Failure`], with what is there: the old container, running as before, unless the message says otherwise.
    pub async fn update_service(
        self: &Arc<Self>,
        old: &Observed,
        deployment: &Deployment,
        scope: &Scope,
    ) -> Result<Deployed, Failure> {
        Box::pin(update::update(self, old, deployment, scope)).await
    }

    /// Removes a service and those of its volumes that are named. `id` is the container that the state knows: another one by the same name
    /// that is not ours is left alone.
    ///
    /// # Errors
    /// [`Failure`], with what is still there.
    pub async fn delete_service(
        self: &Arc<Self>,
        name: &str,
        id: Option<&str>,
        volumes: &[String],
        scope: &Scope,
    ) -> Result<(), Failure> {
        Box::pin(delete::delete(self, name, id, volumes, scope)).await
    }

    /// Reads a container for import: any container, ours or not.
    ///
    /// # Errors
    /// [`SshError::Gone`] when there is none.
    pub async fn import_service(&self, name: &str, scope: &Scope) -> Result<Observed> {
        settle::read(self, name, scope)
            .await?
            .ok_or_else(|| SshError::Gone {
                server: self.name().to_owned(),
                name: name.to_owned(),
            })
    }
}
