//! The handle of one cluster: opens the connection when it is first used, once, and renews the credential when it ends.

use std::sync::{Arc, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use tokio::sync::Mutex;

use super::cancel::Cancel;
use super::config::ConnectionConfig;
use super::credential::PLUGIN_LIMIT;
use super::error::Error;
use super::once::Once;
use super::storage::StorageClass;
use super::{crd, refresh, resolve, target};
use crate::capacity::node::Node;

/// What the API server's audit log calls this client.
const USER_AGENT: &str = concat!("terraform-provider-loomplane/", env!("CARGO_PKG_VERSION"));
/// A plugin's credential is renewed this long before it ends.
const RENEW_BEFORE: Duration = Duration::from_secs(60);

/// One cluster. Cheap to clone; clones share the connection and what was listed.
#[derive(Clone)]
pub struct Cluster {
    pub(super) inner: Arc<Inner>,
}

pub(super) struct Inner {
    pub(super) name: String,
    config: ConnectionConfig,
    connection: Mutex<Option<Connection>>,
    /// Whether the API server has answered this process before: then its address is right, and it is worth waiting for.
    pub(super) answered: std::sync::atomic::AtomicBool,
    /// How the last try failed, while tries fail: what a stop in the middle must tell, also to who only waits for another's answer.
    pub(super) trouble: std::sync::Mutex<Option<String>>,
    pub(super) nodes: Once<Vec<Node>>,
    pub(super) storage_classes: Once<Vec<StorageClass>>,
    pub(super) uid: Once<target::TargetUid>,
    /// What capacity sets look at.
    pub(super) seen: crd::Seen,
    /// Names that are taken, by namespace: for creations.
    pub(super) names:
        std::sync::Mutex<std::collections::BTreeMap<String, Arc<super::apply::free::Names>>>,
    /// Reads for a refresh, by namespace.
    pub(super) reads: std::sync::Mutex<std::collections::BTreeMap<String, Arc<refresh::Reads>>>,
}

/// An open connection.
#[derive(Clone)]
pub(super) struct Connection {
    pub(super) client: kube::Client,
    /// Address, for messages.
    pub(super) server: String,
    namespace: String,
    /// Whether a plugin made the credential, so that asking again may help.
    pub(super) renewable: bool,
    expires_at: Option<Timestamp>,
    /// Counts renewals: tells whether someone else renewed meanwhile.
    pub(super) generation: u64,
}

impl std::fmt::Debug for Cluster {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Cluster")
            .field("name", &self.inner.name)
            .finish_non_exhaustive()
    }
}

impl Cluster {
    /// A handle on a cluster; nothing is opened, read or run yet. `name` is the connection's name, for messages.
    #[must_use]
    pub fn new(name: &str, config: ConnectionConfig) -> Self {
        Self {
            inner: Arc::new(Inner {
                name: name.to_owned(),
                config,
                connection: Mutex::new(None),
                answered: std::sync::atomic::AtomicBool::new(false),
                trouble: std::sync::Mutex::default(),
                nodes: Once::default(),
                storage_classes: Once::default(),
                uid: Once::default(),
                seen: crd::Seen::default(),
                names: std::sync::Mutex::default(),
                reads: std::sync::Mutex::default(),
            }),
        }
    }

    /// The connection's name in the provider configuration.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.inner.name
    }

    /// The namespace for what names none: the connection's, else the context's, else `default`.
    ///
    /// # Errors
    /// When the connection can't be opened.
    pub async fn default_namespace(&self, cancel: &Cancel) -> Result<String, Error> {
        if let Some(namespace) = &self.inner.config.namespace {
            return Ok(namespace.clone());
        }
        Ok(self
            .connection("find the namespace", cancel)
            .await?
            .namespace)
    }

    /// The connection, opened or renewed if need be. Concurrent callers wait for one opening.
    pub(super) async fn connection(
        &self,
        doing: &str,
        cancel: &Cancel,
    ) -> Result<Connection, Error> {
        let open = async {
            let mut slot = self.inner.connection.lock().await;
            let generation = match &*slot {
                Some(open) if !open.is_ending() => return Ok(open.clone()),
                Some(ended) => ended.generation + 1,
                None => 0,
            };
            let fresh = self.open(generation).await?;
            *slot = Some(fresh.clone());
            Ok(fresh)
        };
        tokio::select! {
            biased;
            () = cancel.canceled() => Err(self.canceled(doing)),
            opened = open => opened,
        }
    }

    /// Drops a connection whose credential the server no longer takes, unless someone renewed it meanwhile.
    pub(super) async fn discard(&self, generation: u64) {
        let mut slot = self.inner.connection.lock().await;
        if let Some(open) = &mut *slot
            && open.generation == generation
        {
            open.expires_at = Some(Timestamp::UNIX_EPOCH);
        }
    }

    async fn open(&self, generation: u64) -> Result<Connection, Error> {
        let resolved = resolve::resolve(&self.inner.name, &self.inner.config).await?;
        let mut config = resolved.kube;
        let server = config
            .cluster_url
            .to_string()
            .trim_end_matches('/')
            .to_owned();
        let namespace = config.default_namespace.clone();
        let renewable = resolved.plugin.is_some();
        let mut expires_at = None;
        if let Some(plugin) = resolved.plugin {
            let credential = plugin.run(PLUGIN_LIMIT).await?;
            expires_at = credential.expires_at;
            credential.write_to(&mut config.auth_info);
        }
        // So that an operator finds these requests in the API server's audit log.
        config.headers.push((
            http::header::USER_AGENT,
            http::HeaderValue::from_static(USER_AGENT),
        ));
        let client = kube::Client::try_from(config).map_err(|error| Error::Client {
            cluster: self.inner.name.clone(),
            source: Arc::new(error),
        })?;
        tracing::debug!(cluster = self.inner.name, server, "connection opened");
        Ok(Connection {
            client,
            server,
            namespace,
            renewable,
            expires_at,
            generation,
        })
    }

    /// A pause that the signal ends.
    pub(super) async fn pause(
        &self,
        pause: Duration,
        doing: &str,
        cancel: &Cancel,
    ) -> Result<(), Error> {
        tokio::select! {
            biased;
            () = cancel.canceled() => Err(self.canceled(doing)),
            () = tokio::time::sleep(pause) => Ok(()),
        }
    }

    /// Sets or clears how the last try failed.
    pub(super) fn note(&self, trouble: Option<String>) {
        *self
            .inner
            .trouble
            .lock()
            .unwrap_or_else(PoisonError::into_inner) = trouble;
    }

    /// How the last try failed, if it did.
    pub(super) fn trouble(&self) -> Option<String> {
        let trouble = self.inner.trouble.lock();
        trouble.unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(super) fn canceled(&self, doing: &str) -> Error {
        Error::Canceled {
            cluster: self.inner.name.clone(),
            doing: doing.to_owned(),
            last: self.trouble(),
        }
    }
}

impl Connection {
    fn is_ending(&self) -> bool {
        self.expires_at.is_some_and(|end| {
            let renew_at = end
                .checked_sub(jiff::SignedDuration::try_from(RENEW_BEFORE).unwrap_or_default())
                .unwrap_or(end);
            Timestamp::now() >= renew_at
        })
    }
}
