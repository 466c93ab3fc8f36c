//! The socket that Terraform connects to: a Unix socket in a folder of its own, or TCP on the loopback address on Windows.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::ops::RangeInclusive;

use thiserror::Error;
use tokio::net::TcpListener;

use super::Places;
#[cfg(unix)]
use super::unix::{SocketFolder, UnixError};

/// Why there is no socket.
#[derive(Debug, Error)]
pub(crate) enum ListenError {
    #[cfg(unix)]
    #[error(transparent)]
    Unix(#[from] UnixError),
    #[error("no free TCP port on 127.0.0.1 between {} and {} (PLUGIN_MIN_PORT, PLUGIN_MAX_PORT)", ports.start(), ports.end())]
    #[cfg_attr(
        unix,
        allow(
            dead_code,
            reason = "Windows has no Unix sockets; tests use it everywhere"
        )
    )]
    NoPort {
        ports: RangeInclusive<u16>,
        source: io::Error,
    },
}

/// Where a listener can be reached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Address {
    #[cfg_attr(not(unix), allow(dead_code, reason = "Windows has no Unix sockets"))]
    Unix(std::path::PathBuf),
    Tcp(SocketAddr),
}

impl Address {
    /// The network's name, as Go writes it.
    pub(crate) fn network(&self) -> &'static str {
        match self {
            Self::Unix(_) => "unix",
            Self::Tcp(_) => "tcp",
        }
    }

    pub(crate) fn text(&self) -> String {
        match self {
            Self::Unix(path) => path.display().to_string(),
            Self::Tcp(address) => address.to_string(),
        }
    }
}

/// A listening socket. Its files are removed when it is dropped.
#[derive(Debug)]
pub(crate) enum Listener {
    /// The folder goes with the socket.
    #[cfg(unix)]
    Unix(tokio::net::UnixListener, SocketFolder),
    #[cfg_attr(
        unix,
        allow(
            dead_code,
            reason = "Windows has no Unix sockets; tests use it everywhere"
        )
    )]
    Tcp(TcpListener, SocketAddr),
}

impl Listener {
    /// Listens in the way of this system.
    pub(crate) async fn bind(places: &Places) -> Result<Self, ListenError> {
        #[cfg(unix)]
        return Ok(super::unix::bind(places)?);
        #[cfg(not(unix))]
        return bind_tcp(&places.ports).await;
    }

    pub(crate) fn address(&self) -> Address {
        match self {
            #[cfg(unix)]
            Self::Unix(_, folder) => Address::Unix(folder.socket()),
            Self::Tcp(_, address) => Address::Tcp(*address),
        }
    }
}

/// The first free port in the range; any free one for `0..=0`.
#[cfg_attr(
    unix,
    allow(
        dead_code,
        reason = "Windows has no Unix sockets; tests use it everywhere"
    )
)]
async fn bind_tcp(ports: &RangeInclusive<u16>) -> Result<Listener, ListenError> {
    let mut failure = io::Error::from(io::ErrorKind::InvalidInput);
    for port in ports.clone() {
        let bound = async {
            let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).await?;
            let address = listener.local_addr()?;
            Ok(Listener::Tcp(listener, address))
        };
        match bound.await {
            Ok(listener) => return Ok(listener),
            Err(error) => failure = error,
        }
    }
    Err(ListenError::NoPort {
        ports: ports.clone(),
        source: failure,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn tcp_takes_the_first_free_port_of_the_range_on_loopback() {
        let any = bind_tcp(&(0..=0)).await.expect("bound");
        let Address::Tcp(taken) = any.address() else {
            panic!("TCP")
        };
        assert!(taken.ip().is_loopback() && taken.port() != 0);
        let only = taken.port()..=taken.port();
        let refused = bind_tcp(&only).await.expect_err("taken");
        assert!(
            matches!(&refused, ListenError::NoPort { ports, .. } if *ports == only),
            "{refused}"
        );
        let next = taken.port()..=taken.port().saturating_add(50);
        let Address::Tcp(found) = bind_tcp(&next).await.expect("one of 50 is free").address()
        else {
            panic!("TCP")
        };
        assert!(found.port() > taken.port() && next.contains(&found.port()));
    }
}
