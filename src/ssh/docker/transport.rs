//! HTTP to the engine's socket: a few kept connections, each a channel of the SSH connection.

use std::sync::{Arc, Mutex, PoisonError};

use bollard::BollardRequest;
use bollard::errors::Error as DockerError;
use hyper::body::Incoming;
use hyper::client::conn::http1::{self, SendRequest};
use hyper::header::{HOST, HeaderValue};
use hyper_util::rt::TokioIo;
use tokio::sync::Semaphore;

use crate::ssh::connect::Connection;
use crate::ssh::error::SshError;
use crate::ssh::exec;

/// Requests at a time over a forwarded socket. sshd does not count these channels as sessions.
const FORWARDED: usize = 8;
/// Requests at a time through `docker system dial-stdio`: each is a session, of which sshd allows ten.
const DIALED: usize = 3;

/// How the engine is reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Route {
    /// Its socket, forwarded by sshd (`direct-streamlocal`).
    Forwarded,
    /// `docker system dial-stdio`, since sshd forbids that forwarding.
    DialStdio,
    /// `sudo -n docker system dial-stdio`, since `docker_sudo` says so.
    SudoDialStdio,
}

impl Route {
    /// A half sentence for logs and messages.
    pub fn render(self) -> &'static str {
        match self {
            Self::Forwarded => "over its forwarded socket",
            Self::DialStdio => {
                "through docker system dial-stdio, since sshd forbids forwarding its socket"
            }
            Self::SudoDialStdio => "through sudo docker system dial-stdio (docker_sudo)",
        }
    }

    /// The words that connect stdin and stdout to the engine; none when it is forwarded.
    pub(crate) fn dial_words(self, socket: &str) -> Option<Vec<String>> {
        let docker = [
            "docker".to_owned(),
            "-H".to_owned(),
            format!("unix://{socket}"),
            "system".to_owned(),
            "dial-stdio".to_owned(),
        ];
        match self {
            Self::Forwarded => None,
            Self::DialStdio => Some(docker.to_vec()),
            Self::SudoDialStdio => Some(
                ["sudo".to_owned(), "-n".to_owned()]
                    .into_iter()
                    .chain(docker)
                    .collect(),
            ),
        }
    }
}

/// The type of bollard's request body, which has no public name.
trait BodyOf {
    type Body;
}
impl<B> BodyOf for hyper::Request<B> {
    type Body = B;
}
type Body = <BollardRequest as BodyOf>::Body;

/// Connections to one engine.
pub(crate) struct Pool {
    connection: Arc<Connection>,
    route: Route,
    socket: String,
    room: Arc<Semaphore>,
    idle: Mutex<Vec<SendRequest<Body>>>,
}

impl Pool {
    pub(crate) fn new(connection: Arc<Connection>, route: Route, socket: &str) -> Arc<Self> {
        let room = if route == Route::Forwarded {
            FORWARDED
        } else {
            DIALED
        };
        Arc::new(Self {
            connection,
            route,
            socket: socket.to_owned(),
            room: Arc::new(Semaphore::new(room)),
            idle: Mutex::default(),
        })
    }

    /// One exchange. Dropping the answer's body ends the request on the server too, since its channel is closed.
    pub(crate) async fn request(
        self: Arc<Self>,
        request: BollardRequest,
    ) -> Result<hyper::Response<Incoming>, DockerError> {
        let permit = self
            .room
            .clone()
            .acquire_owned()
            .await
            .map_err(|_| broken("the connection is closed"))?;
        let mut sender = match self.take_idle() {
            Some(sender) => sender,
            None => self.dial().await?,
        };
        let response = sender.send_request(on_the_wire(request)?).await?;
        // The body is read by bollard; when it is done, the connection is free for the next request.
        tokio::spawn(async move {
            if sender.ready().await.is_ok() {
                self.idle
                    .lock()
                    .unwrap_or_else(PoisonError::into_inner)
                    .push(sender);
            }
            drop(permit);
        });
        Ok(response)
    }

    fn take_idle(&self) -> Option<SendRequest<Body>> {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        while let Some(sender) = idle.pop() {
            if sender.is_ready() {
                return Some(sender);
            }
        }
        None
    }

    async fn dial(&self) -> Result<SendRequest<Body>, DockerError> {
        let stream = match self.route.dial_words(&self.socket) {
            None => self
                .connection
                .unix_socket(&self.socket)
                .await
                .map_err(carried)?
                .ok_or_else(|| broken("the engine's socket was closed"))?,
            Some(words) => {
                let words: Vec<&str> = words.iter().map(String::as_str).collect();
                exec::stream(&self.connection, "docker system dial-stdio", &words)
                    .await
                    .map_err(carried)?
            }
        };
        let (sender, driver) = http1::handshake(TokioIo::new(stream)).await?;
        tokio::spawn(async move {
            if let Err(error) = driver.await {
                tracing::debug!(%error, "connection to the Docker Engine ended");
            }
        });
        Ok(sender)
    }
}

/// Path-only URI with a Host header, and registry credentials in the alphabet that the engine decodes (URL-safe; bollard writes the standard one).
fn on_the_wire(mut request: BollardRequest) -> Result<BollardRequest, DockerError> {
    let path = request
        .uri()
        .path_and_query()
        .map_or("/", |path| path.as_str())
        .to_owned();
    *request.uri_mut() = path.parse()?;
    let headers = request.headers_mut();
    headers.insert(HOST, HeaderValue::from_static("docker"));
    if let Some(login) = headers.get_mut("x-registry-auth")
        && let Ok(text) = login.to_str()
        && let Ok(mut safe) = HeaderValue::from_str(&text.replace('+', "-").replace('/', "_"))
    {
        safe.set_sensitive(true);
        *login = safe;
    }
    Ok(request)
}

fn broken(what: &str) -> DockerError {
    DockerError::IOError {
        err: std::io::Error::new(std::io::ErrorKind::BrokenPipe, what.to_owned()),
    }
}

fn carried(error: SshError) -> DockerError {
    DockerError::IOError {
        err: std::io::Error::other(error),
    }
}
