//! SSH connections: one per server and process, opened when first used, shared by every channel.
//!
//! The host key is judged in the key exchange, so nothing is authenticated or run on a machine that is not the right one (rule S4).

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use russh::client::{self, Handle, Msg};
use russh::keys::PublicKeyOrCertificate;
use russh::{Channel, ChannelOpenFailure, ChannelStream, Preferred};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::auth;
use super::config::{HostKeyPolicy, Login, ServerConfig};
use super::error::{Result, SshError};
use super::host_key::{Trusted, Verdict, fingerprint};
use super::scope::Scope;

/// Commands at a time on one connection: sshd's MaxSessions is 10 by default, and two sessions hold locks.
const SESSIONS: usize = 7;
/// How long a session channel is asked for again when the server has no room (a smaller MaxSessions).
const SESSION_PATIENCE: Duration = Duration::from_secs(20);
/// First pause after a server closed the door before the handshake (MaxStartups); doubles up to [`MOST_PAUSE`].
const FIRST_PAUSE: Duration = Duration::from_millis(200);
/// Longest such pause.
const MOST_PAUSE: Duration = Duration::from_secs(3);

/// An authenticated connection.
pub(crate) struct Connection {
    pub(crate) server: String,
    handle: Handle<Client>,
    /// Kept open as long as the connection that runs through it.
    _jump: Option<Handle<Client>>,
    sessions: Arc<Semaphore>,
}

impl std::fmt::Debug for Connection {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Connection")
            .field("server", &self.server)
            .finish_non_exhaustive()
    }
}

/// A channel that runs a command, and its place among [`SESSIONS`].
pub(crate) struct Session {
    pub(crate) channel: Channel<Msg>,
    pub(crate) permit: OwnedSemaphorePermit,
}

/// A byte stream over the connection.
pub(crate) type Stream = ChannelStream<Msg>;

impl Connection {
    /// Connects, verifies, logs in; through the jump host if there is one. Tries again while the server closes the door before the handshake.
    pub(crate) async fn open(config: &ServerConfig, scope: &Scope) -> Result<Self> {
        auth::preflight(&config.login)?;
        let target = Endpoint::load(&config.login)?;
        let jump = match &config.proxy_jump {
            Some(login) => {
                auth::preflight(login)?;
                Some(Endpoint::load(login)?)
            }
            None => None,
        };
        let keepalive = config.limits.keepalive;
        let what = format!("connecting to {}", config.login.address());
        scope
            .narrowed(config.limits.connect)
            .run(&config.name, &what, async {
                let (mut pause, started) = (FIRST_PAUSE, tokio::time::Instant::now());
                loop {
                    match Self::attempt(config, &target, jump.as_ref(), keepalive).await {
                        Err(Attempt::Again(error)) if started.elapsed() + pause * 2 >= config.limits.connect => return Err(error),
                        Err(Attempt::Again(error)) => {
                            tracing::debug!(server = config.name, error = %error, "connection closed before the handshake; trying again");
                            // Processes that start together must not come back together.
                            let spread = Duration::from_millis(u64::from(std::process::id() % 97) * 3);
                            tokio::time::sleep(pause + spread).await;
                            pause = (pause * 2).min(MOST_PAUSE);
                        }
                        Err(Attempt::Final(error)) => return Err(error),
                        Ok(connection) => return Ok(connection),
                    }
                }
            })
            .await
    }

    async fn attempt(
        config: &ServerConfig,
        target: &Endpoint,
        jump: Option<&Endpoint>,
        keepalive: Duration,
    ) -> Result<Self, Attempt> {
        let (stream, outer): (Box<dyn Transport>, _) = match jump {
            None => (Box::new(target.dial().await?), None),
            Some(jump) => {
                let outer = jump.enter(Box::new(jump.dial().await?), keepalive).await?;
                let login = &target.login;
                let channel = outer
                    .channel_open_direct_tcpip(
                        login.host.clone(),
                        u32::from(login.port),
                        "127.0.0.1",
                        0,
                    )
                    .await
                    .map_err(|error| SshError::Unreachable {
                        address: login.address(),
                        reason: format!(
                            "the jump host {} could not open it ({})",
                            jump.login.address(),
                            open_failure(&error)
                        ),
                    })?;
                (Box::new(channel.into_stream()), Some(outer))
            }
        };
        let handle = target.enter(stream, keepalive).await?;
        tracing::debug!(
            server = config.name,
            address = config.login.address(),
            "SSH connection open"
        );
        Ok(Self {
            server: config.name.clone(),
            handle,
            _jump: outer,
            sessions: Arc::new(Semaphore::new(SESSIONS)),
        })
    }

    /// Whether the connection has ended.
    pub(crate) fn is_closed(&self) -> bool {
        self.handle.is_closed()
    }

    /// A channel for a command. Waits while all of ours are in use or the server has no room.
    pub(crate) async fn session(&self, what: &str) -> Result<Session> {
        let permit = self
            .sessions
            .clone()
            .acquire_owned()
            .await
            .map_err(|_| self.lost(what, None))?;
        let channel = self.session_beyond_limit(what).await?;
        Ok(Session { channel, permit })
    }

    /// A channel that stays open for long (a lock's holder) and so takes no place among the commands.
    pub(crate) async fn session_beyond_limit(&self, what: &str) -> Result<Channel<Msg>> {
        let started = tokio::time::Instant::now();
        loop {
            match self.handle.channel_open_session().await {
                Ok(channel) => return Ok(channel),
                Err(error @ russh::Error::ChannelOpenFailure(_))
                    if started.elapsed() > SESSION_PATIENCE =>
                {
                    return Err(SshError::Command {
                        server: self.server.clone(),
                        what: what.to_owned(),
                        outcome: format!(
                            "the server opens no further session ({}); raise MaxSessions in its sshd_config",
                            open_failure(&error)
                        ),
                    });
                }
                Err(russh::Error::ChannelOpenFailure(_)) => {
                    tokio::time::sleep(Duration::from_millis(300)).await
                }
                Err(source) => return Err(self.lost(what, Some(source))),
            }
        }
    }

    /// A stream to a Unix socket on the server; `None` when sshd does not open it (it never says why).
    pub(crate) async fn unix_socket(&self, path: &str) -> Result<Option<Stream>> {
        match self.handle.channel_open_direct_streamlocal(path).await {
            Ok(channel) => Ok(Some(channel.into_stream())),
            Err(russh::Error::ChannelOpenFailure(_)) => Ok(None),
            Err(source) => Err(self.lost("opening the Docker socket", Some(source))),
        }
    }

    /// Ends the connection in the protocol's words; the server ends our sessions.
    pub(crate) async fn close(&self) {
        // Best effort: a connection that is already gone needs no goodbye.
        let _ = self
            .handle
            .disconnect(russh::Disconnect::ByApplication, "done", "en")
            .await;
    }

    pub(crate) fn lost(&self, what: &str, source: Option<russh::Error>) -> SshError {
        SshError::ConnectionLost {
            server: self.server.clone(),
            what: what.to_owned(),
            source: source.map(Box::new),
        }
    }
}

/// Why an attempt failed, and whether another makes sense.
enum Attempt {
    /// Closed before the handshake.
    Again(SshError),
    Final(SshError),
}

impl From<SshError> for Attempt {
    fn from(error: SshError) -> Self {
        Self::Final(error)
    }
}

trait Transport: AsyncRead + AsyncWrite + Unpin + Send {}
impl<T: AsyncRead + AsyncWrite + Unpin + Send> Transport for T {}

/// A login with the keys that it may show.
struct Endpoint {
    login: Login,
    trusted: Arc<Trusted>,
}

impl Endpoint {
    fn load(login: &Login) -> Result<Self> {
        if matches!(login.host_key, HostKeyPolicy::None) {
            return Err(SshError::NoHostKeyPolicy {
                address: login.address(),
            });
        }
        let trusted = Trusted::load(
            &login.host_key,
            &login.host,
            login.port,
            std::env::home_dir().as_deref(),
        )
        .map_err(|reason| SshError::HostKeyConfig {
            address: login.address(),
            reason,
        })?;
        Ok(Self {
            login: login.clone(),
            trusted: Arc::new(trusted),
        })
    }

    async fn dial(&self) -> Result<TcpStream> {
        let stream = TcpStream::connect((self.login.host.as_str(), self.login.port))
            .await
            .map_err(|error| SshError::Unreachable {
                address: self.login.address(),
                reason: error.to_string(),
            })?;
        if let Err(error) = stream.set_nodelay(true) {
            tracing::debug!(%error, "TCP_NODELAY not set");
        }
        Ok(stream)
    }

    /// Key exchange, host key, login.
    async fn enter(
        &self,
        stream: Box<dyn Transport>,
        keepalive: Duration,
    ) -> Result<Handle<Client>, Attempt> {
        let config = client::Config {
            preferred: Preferred {
                key: self.trusted.algorithms().into(),
                ..Preferred::default()
            },
            keepalive_interval: Some(keepalive),
            keepalive_max: 3,
            nodelay: true,
            ..client::Config::default()
        };
        let refusal = Arc::new(OnceLock::new());
        let client = Client {
            address: self.login.address(),
            trusted: self.trusted.clone(),
            refusal: refusal.clone(),
        };
        let mut handle = match client::connect_stream(Arc::new(config), stream, client).await {
            Ok(handle) => handle,
            Err(error) => return Err(self.explain(error, refusal.get())),
        };
        auth::authenticate(&mut handle, &self.login).await?;
        Ok(handle)
    }

    fn explain(&self, error: russh::Error, refusal: Option<&Refusal>) -> Attempt {
        let address = self.login.address();
        if let Some(refusal) = refusal {
            return Attempt::Final(refusal.error(address));
        }
        match error {
            russh::Error::NoCommonAlgo {
                kind: russh::AlgorithmKind::Key,
                theirs,
                ..
            } => Attempt::Final(SshError::HostKeyType {
                address,
                expected: self.trusted.types(),
                offered: theirs.join(", "),
            }),
            russh::Error::Disconnect | russh::Error::HUP | russh::Error::IO(_) => {
                Attempt::Again(SshError::Handshake {
                    address,
                    reason: "it closed the connection before the handshake".to_owned(),
                    source: Some(Box::new(error)),
                })
            }
            russh::Error::Version => Attempt::Final(SshError::Handshake {
                address,
                reason: "what answers there is not an SSH server".to_owned(),
                source: None,
            }),
            error => Attempt::Final(SshError::Handshake {
                address,
                reason: error.to_string(),
                source: None,
            }),
        }
    }
}

fn open_failure(error: &russh::Error) -> &'static str {
    match error {
        russh::Error::ChannelOpenFailure(ChannelOpenFailure::AdministrativelyProhibited) => {
            "forbidden by its configuration"
        }
        russh::Error::ChannelOpenFailure(ChannelOpenFailure::ConnectFailed) => "connection failed",
        russh::Error::ChannelOpenFailure(ChannelOpenFailure::ResourceShortage) => {
            "no resources left"
        }
        russh::Error::ChannelOpenFailure(ChannelOpenFailure::UnknownChannelType) => "not supported",
        _ => "the connection ended",
    }
}

/// The client's side of the protocol: judges the host key, accepts nothing that the server opens.
pub(crate) struct Client {
    address: String,
    trusted: Arc<Trusted>,
    refusal: Arc<OnceLock<Refusal>>,
}

/// A host key that was not accepted.
struct Refusal {
    verdict: Verdict,
    shown: String,
    fingerprint: String,
}

impl Refusal {
    fn error(&self, address: String) -> SshError {
        let (shown, fingerprint) = (self.shown.clone(), self.fingerprint.clone());
        match &self.verdict {
            Verdict::Changed(expected) => SshError::ChangedHostKey {
                address,
                expected: expected.clone(),
                shown,
                fingerprint,
            },
            Verdict::Revoked(place) => SshError::RevokedHostKey {
                address,
                fingerprint,
                place: place.clone(),
            },
            Verdict::Unknown(searched) => SshError::UnknownHostKey {
                address,
                shown,
                fingerprint,
                searched: searched.clone(),
            },
            Verdict::Trusted => SshError::Handshake {
                address,
                reason: "the key exchange failed".to_owned(),
                source: None,
            },
        }
    }
}

impl client::Handler for Client {
    type Error = russh::Error;

    async fn check_server_key(
        &mut self,
        shown: &PublicKeyOrCertificate,
    ) -> Result<bool, Self::Error> {
        // Certificates are never asked for, so a server that shows one is judged by the key in it.
        let key = shown.public_key();
        let verdict = self.trusted.verdict(&key);
        if verdict == Verdict::Trusted {
            return Ok(true);
        }
        let refusal = Refusal {
            verdict,
            shown: key.to_openssh().unwrap_or_default(),
            fingerprint: fingerprint(&key),
        };
        tracing::warn!(
            address = self.address,
            fingerprint = refusal.fingerprint,
            "host key refused"
        );
        // Only the first refusal counts, and there is only one key exchange before it.
        let _ = self.refusal.set(refusal);
        Ok(false)
    }

    async fn server_channel_open_session(
        &mut self,
        _channel: Channel<Msg>,
        reply: client::ChannelOpenHandle,
        _session: &mut client::Session,
    ) -> Result<(), Self::Error> {
        reply
            .reject(ChannelOpenFailure::AdministrativelyProhibited)
            .await;
        Ok(())
    }

    async fn server_channel_open_agent_forward(
        &mut self,
        _channel: Channel<Msg>,
        reply: client::ChannelOpenHandle,
        _session: &mut client::Session,
    ) -> Result<(), Self::Error> {
        reply
            .reject(ChannelOpenFailure::AdministrativelyProhibited)
            .await;
        Ok(())
    }
}
