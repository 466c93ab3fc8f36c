//! A server as the rest of Loomplane holds it: one connection, one engine, one check per run, all made when first needed.

use std::collections::BTreeSet;
use std::hash::{BuildHasher, Hasher};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex as StdMutex, PoisonError};
use std::time::Duration;

use tokio::sync::Mutex;
use tokio::time::Instant;

use super::check::{self, Report};
use super::config::ServerConfig;
use super::connect::Connection;
use super::docker::engine::Engine;
use super::docker::observed::{Observed, observe};
use super::error::{Result, SshError};
use super::lock::{LockName, RemoteLock, run_is_alive};
use super::scope::Scope;

/// How long a failed connection speaks for the operations that come right after it: many services of one dead server wait once.
const FAILURE_SPEAKS_FOR: Duration = Duration::from_secs(20);

/// One server of the configuration, for the life of the process.
#[derive(Debug)]
pub struct Server {
    pub(crate) config: ServerConfig,
    /// This process's name in marks and locks.
    pub(crate) run: String,
    link: Mutex<Link<Connection>>,
    engine: Mutex<Link<Engine>>,
    report: Mutex<Option<Arc<Report>>>,
    run_lock: Mutex<Option<RemoteLock>>,
    /// One at a time in this process; the lock on the server is for the others.
    pub(crate) handing_out: Mutex<()>,
    pub(crate) deleting: AtomicUsize,
    busy: StdMutex<BTreeSet<String>>,
}

/// Something that is opened once.
#[derive(Debug)]
enum Link<T> {
    Closed,
    Open(Arc<T>),
    Failed(Arc<SshError>, Instant),
}

impl<T> Link<T> {
    /// The open thing, or the failure that still speaks; none when it is to be opened.
    fn settled(&self, usable: impl Fn(&T) -> bool) -> Option<Result<Arc<T>>> {
        match self {
            Self::Open(open) if usable(open) => Some(Ok(open.clone())),
            Self::Failed(error, when) if when.elapsed() < FAILURE_SPEAKS_FOR => {
                Some(Err(SshError::Shared(error.clone())))
            }
            _ => None,
        }
    }

    /// Keeps what came of opening it. A stop or a caller's own deadline says nothing about the server.
    fn keep(&mut self, opened: Result<T>) -> Result<Arc<T>> {
        match opened {
            Ok(open) => {
                let open = Arc::new(open);
                *self = Self::Open(open.clone());
                Ok(open)
            }
            Err(error @ (SshError::Cancelled { .. } | SshError::ConnectionLost { .. })) => {
                Err(error)
            }
            Err(error) => {
                let error = Arc::new(error);
                *self = Self::Failed(error.clone(), Instant::now());
                Err(SshError::Shared(error))
            }
        }
    }
}

impl Server {
    /// Nothing is opened yet.
    pub fn new(config: ServerConfig) -> Arc<Self> {
        // Keyed anew by the system for every one: enough to tell runs apart.
        let random = std::collections::hash_map::RandomState::new()
            .build_hasher()
            .finish();
        Arc::new(Self {
            config,
            run: format!("{random:016x}-{}", std::process::id()),
            link: Mutex::new(Link::Closed),
            engine: Mutex::new(Link::Closed),
            report: Mutex::default(),
            run_lock: Mutex::default(),
            handing_out: Mutex::default(),
            deleting: AtomicUsize::new(0),
            busy: StdMutex::default(),
        })
    }

    /// The name that `target` uses.
    pub fn name(&self) -> &str {
        &self.config.name
    }

    /// What it was made from.
    pub fn config(&self) -> &ServerConfig {
        &self.config
    }

    /// The connection, opened when there is none. Whoever comes meanwhile waits for the same attempt.
    pub(crate) async fn connection(&self, scope: &Scope) -> Result<Arc<Connection>> {
        let mut link = self.link.lock().await;
        if let Some(settled) = link.settled(|connection| !connection.is_closed()) {
            return settled;
        }
        let opened = Connection::open(&self.config, scope).await;
        link.keep(opened)
    }

    /// The engine, found when first asked for, and again over a new connection.
    pub(crate) async fn engine(&self, scope: &Scope) -> Result<Arc<Engine>> {
        let connection = self.connection(scope).await?;
        let mut link = self.engine.lock().await;
        if let Some(settled) = link.settled(|engine| engine.is_over(&connection)) {
            return settled;
        }
        let opened = Engine::open(&connection, &self.config, scope).await;
        link.keep(opened)
    }

    /// The check (S1), made once per run and shared.
    ///
    /// # Errors
    /// The server can't be reached or asked; what it lacks is in the report.
    pub async fn report(&self, scope: &Scope) -> Result<Arc<Report>> {
        let mut kept = self.report.lock().await;
        if let Some(report) = kept.as_ref() {
            return Ok(report.clone());
        }
        let connection = self.connection(scope).await?;
        let report = Arc::new(
            Box::pin(check::run(
                &connection,
                &self.config,
                self.engine(scope),
                scope,
            ))
            .await?,
        );
        *kept = Some(report.clone());
        Ok(report)
    }

    /// Forgets the check: the next [`Server::report`] looks again.
    pub async fn forget_report(&self) {
        *self.report.lock().await = None;
    }

    /// The machine's id, for `target_uid` (G9), without a whole check.
    ///
    /// # Errors
    /// The server can't be reached, or has no machine id.
    pub async fn target_uid(&self, scope: &Scope) -> Result<String> {
        let known = self
            .report
            .lock()
            .await
            .as_ref()
            .and_then(|report| report.target_uid.clone());
        let found = match known {
            Some(uid) => Some(uid),
            None => check::machine_id(&self.connection(scope).await?, &self.config, scope).await?,
        };
        found.ok_or_else(|| SshError::Command {
            server: self.config.name.clone(),
            what: "reading the machine's id".to_owned(),
            outcome: "/etc/machine-id is missing or empty. Make one: sudo systemd-machine-id-setup"
                .to_owned(),
        })
    }

    /// One container read back, by name or id; none when there is none.
    pub(crate) async fn observe(&self, name: &str, scope: &Scope) -> Result<Option<Observed>> {
        let engine = self.engine(scope).await?;
        let Some(container) = engine.inspect(name, scope).await? else {
            return Ok(None);
        };
        let image = match &container.image {
            Some(id) => engine.image_config(id, scope).await?,
            None => None,
        };
        Ok(Some(observe(&container, image.as_ref())))
    }

    /// Makes this run known on the server, so that others can tell that it is at work.
    pub(crate) async fn show_alive(&self, scope: &Scope) -> Result<()> {
        let mut kept = self.run_lock.lock().await;
        if kept.as_ref().is_some_and(RemoteLock::is_held) {
            return Ok(());
        }
        let connection = self.connection(scope).await?;
        // After a lost connection the old holder may still be at its post, for as long as it takes to notice.
        let patience = Duration::from_secs(35);
        match RemoteLock::acquire(&connection, LockName::Run(&self.run), patience, scope).await? {
            Some(lock) => *kept = Some(lock),
            None => {
                return Err(SshError::Lock {
                    server: self.config.name.clone(),
                    reason: "this run's own lock is taken".to_owned(),
                });
            }
        }
        Ok(())
    }

    /// Whether somebody is at work for run `run` on service `service`.
    pub(crate) async fn is_at_work(&self, run: &str, service: &str, scope: &Scope) -> Result<bool> {
        if run == self.run {
            return Ok(self
                .busy
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .contains(service));
        }
        run_is_alive(
            &self.connection(scope).await?,
            run,
            self.config.limits.command,
            scope,
        )
        .await
    }

    /// Notes that this process is at work on `service`, until the answer is dropped; none when it already is.
    pub(crate) fn begin(self: &Arc<Self>, service: &str) -> Option<AtWork> {
        let fresh = self
            .busy
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .insert(service.to_owned());
        fresh.then(|| AtWork {
            server: self.clone(),
            service: service.to_owned(),
        })
    }

    /// Counts a deletion until the answer is dropped: who waits for cards waits on meanwhile (S3b).
    pub(crate) fn deletion(self: &Arc<Self>) -> Deletion {
        self.deleting.fetch_add(1, Ordering::AcqRel);
        Deletion(self.clone())
    }

    /// Ends locks and connection. Called when the provider stops; a process that just ends does the same by ending.
    pub async fn close(&self) {
        *self.run_lock.lock().await = None;
        *self.engine.lock().await = Link::Closed;
        let link = std::mem::replace(&mut *self.link.lock().await, Link::Closed);
        if let Link::Open(connection) = link {
            connection.close().await;
        }
    }
}

/// See [`Server::begin`].
pub(crate) struct AtWork {
    server: Arc<Server>,
    service: String,
}

impl Drop for AtWork {
    fn drop(&mut self) {
        self.server
            .busy
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .remove(&self.service);
    }
}

/// See [`Server::deletion`].
pub(crate) struct Deletion(Arc<Server>);

impl Drop for Deletion {
    fn drop(&mut self) {
        self.0.deleting.fetch_sub(1, Ordering::AcqRel);
    }
}
