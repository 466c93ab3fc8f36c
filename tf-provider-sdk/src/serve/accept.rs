//! Connections: accepted one by one, each through TLS in a task of its own.

use std::convert::Infallible;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};
use tokio_rustls::TlsAcceptor;
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::server::Connected;

use super::calls::{Calls, InProgress};
use crate::handshake::listen::Listener;

/// How long a client may take for the TLS handshake: a local one takes milliseconds.
const TLS_LIMIT: Duration = Duration::from_secs(10);

/// Pause after a failed accept, which comes again at once when no file descriptors are left.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// Connections that wait for the server to take them; it takes each at once.
const WAITING: usize = 16;

trait Io: AsyncRead + AsyncWrite + Send {}
impl<T: AsyncRead + AsyncWrite + Send> Io for T {}

/// A connection, of whatever kind.
pub(crate) struct Connection {
    io: Pin<Box<dyn Io>>,
    _open: InProgress,
}

/// Accepts connections until the task is aborted, which closes the socket. A client that fails or is silent concerns no other.
pub(crate) fn connections(
    listener: Listener,
    tls: Option<TlsAcceptor>,
    open: Calls,
) -> (
    ReceiverStream<Result<Connection, Infallible>>,
    JoinHandle<()>,
) {
    let (ready, connections) = mpsc::channel(WAITING);
    let accepting = tokio::spawn(async move {
        loop {
            match listener.accept().await {
                Ok(socket) => {
                    tokio::spawn(secure(socket, tls.clone(), open.clone(), ready.clone()));
                }
                Err(error) => {
                    tracing::warn!(
                        error = &error as &dyn std::error::Error,
                        "a connection could not be accepted"
                    );
                    sleep(ACCEPT_PAUSE).await;
                }
            }
        }
    });
    (ReceiverStream::new(connections), accepting)
}

async fn secure(
    socket: Pin<Box<dyn Io>>,
    tls: Option<TlsAcceptor>,
    open: Calls,
    ready: mpsc::Sender<Result<Connection, Infallible>>,
) {
    let io: Pin<Box<dyn Io>> = match tls {
        None => socket,
        Some(tls) => match timeout(TLS_LIMIT, tls.accept(socket)).await {
            Ok(Ok(stream)) => Box::pin(stream),
            Ok(Err(error)) => {
                tracing::warn!(
                    error = &error as &dyn std::error::Error,
                    "a client was refused"
                );
                return;
            }
            Err(_) => {
                tracing::warn!(
                    "a client was silent for {} s and is refused",
                    TLS_LIMIT.as_secs()
                );
                return;
            }
        },
    };
    // An error means that the server has ended, and wants no more connections.
    let _ = ready
        .send(Ok(Connection {
            io,
            _open: open.begin(),
        }))
        .await;
}

impl Listener {
    async fn accept(&self) -> io::Result<Pin<Box<dyn Io>>> {
        match self {
            #[cfg(unix)]
            Self::Unix(listener, _) => Ok(Box::pin(listener.accept().await?.0)),
            Self::Tcp(listener, _) => {
                let (stream, _) = listener.accept().await?;
                // Small answers must not wait for more data.
                stream.set_nodelay(true)?;
                Ok(Box::pin(stream))
            }
        }
    }
}

impl Connected for Connection {
    type ConnectInfo = ();

    fn connect_info(&self) {}
}

impl AsyncRead for Connection {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.io.as_mut().poll_read(context, buffer)
    }
}

impl AsyncWrite for Connection {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.io.as_mut().poll_write(context, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.io.as_mut().poll_write_vectored(context, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.io.as_mut().poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.io.as_mut().poll_shutdown(context)
    }
}
