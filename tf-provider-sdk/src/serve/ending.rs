//! When the process should end, and how long calls in progress may still take.
//!
//! Ctrl-C reaches the plugin together with Terraform, and is Terraform's to handle: it calls `StopProvider`, and later `Shutdown`. In debug
//! mode it is the other way round: Ctrl-C ends the process, and no `Shutdown` does.

use std::io;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{sleep, timeout};

use super::calls::Calls;

/// Grace after `Shutdown`: Terraform waits 2 seconds before it kills, and connections need some of that to close.
pub(super) const HOST_GRACE: Duration = Duration::from_secs(1);

/// Grace when no host waits: calls in progress may still have something to undo.
const LONG_GRACE: Duration = Duration::from_secs(60);

/// How often the plugin looks whether its host is still there.
const HOST_CHECK: Duration = Duration::from_secs(1);

/// A host without any connection for so long is gone (where processes don't know their parent).
#[cfg_attr(
    unix,
    allow(
        dead_code,
        reason = "Unix asks for the parent; tests use it everywhere"
    )
)]
const LOST_AFTER: Duration = Duration::from_secs(10);

/// Why the process should end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reason {
    /// The host called `Shutdown`, and waits.
    HostAsked,
    /// A signal.
    Terminated,
    /// The host ended without a word.
    HostGone,
}

impl Reason {
    pub(super) fn grace(self) -> Duration {
        match self {
            Self::HostAsked => HOST_GRACE,
            Self::Terminated | Self::HostGone => LONG_GRACE,
        }
    }
}

/// Watches for all the reasons.
pub(super) struct Ending {
    debug: bool,
    shutdown: watch::Receiver<()>,
    signals: Signals,
    connections: Calls,
    #[cfg(unix)]
    parent: u32,
}

impl Ending {
    /// Begins to watch: from now on, no interrupt ends the process by itself.
    pub(super) fn watch(debug: bool, shutdown: watch::Receiver<()>) -> io::Result<Self> {
        Ok(Self {
            debug,
            shutdown,
            signals: Signals::listen()?,
            connections: Calls::default(),
            #[cfg(unix)]
            parent: std::os::unix::process::parent_id(),
        })
    }

    /// The count of open connections, for whoever opens them.
    pub(super) fn connections(&self) -> Calls {
        self.connections.clone()
    }

    /// Waits for the next reason to end.
    pub(super) async fn next(&mut self) -> Reason {
        loop {
            tokio::select! {
                () = asked(&mut self.shutdown), if !self.debug => return Reason::HostAsked,
                signal = self.signals.next() => match signal {
                    Told::Interrupt if !self.debug => tracing::debug!("an interrupt is left to Terraform"),
                    Told::Interrupt | Told::Terminate => return Reason::Terminated,
                },
                () = host_gone(
                    #[cfg(unix)]
                    self.parent,
                    #[cfg(not(unix))]
                    &self.connections,
                ), if !self.debug => return Reason::HostGone,
            }
        }
    }
}

/// Waits for the next call of `Shutdown`.
async fn asked(shutdown: &mut watch::Receiver<()>) {
    if shutdown.changed().await.is_err() {
        // The server is gone, so nobody can call any more.
        std::future::pending::<()>().await;
    }
}

/// Waits until the host is gone. A process whose parent ends gets another parent.
#[cfg(unix)]
async fn host_gone(parent: u32) {
    loop {
        sleep(HOST_CHECK).await;
        if std::os::unix::process::parent_id() != parent {
            return;
        }
    }
}

#[cfg(not(unix))]
async fn host_gone(connections: &Calls) {
    connections_lost(connections).await;
}

/// Waits until there have been connections, and then none for [`LOST_AFTER`].
#[cfg_attr(
    unix,
    allow(
        dead_code,
        reason = "Unix asks for the parent; tests use it everywhere"
    )
)]
async fn connections_lost(connections: &Calls) {
    connections.busy().await;
    loop {
        connections.idle().await;
        if timeout(LOST_AFTER, connections.busy()).await.is_err() {
            return;
        }
        sleep(HOST_CHECK).await;
    }
}

enum Told {
    Interrupt,
    Terminate,
}

#[cfg(unix)]
struct Signals {
    interrupt: tokio::signal::unix::Signal,
    terminate: tokio::signal::unix::Signal,
    /// The terminal is gone, and takes Terraform with it.
    hang_up: tokio::signal::unix::Signal,
}

#[cfg(unix)]
impl Signals {
    fn listen() -> io::Result<Self> {
        use tokio::signal::unix::{SignalKind, signal};
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
            hang_up: signal(SignalKind::hangup())?,
        })
    }

    async fn next(&mut self) -> Told {
        tokio::select! {
            _ = self.interrupt.recv() => Told::Interrupt,
            _ = self.terminate.recv() => Told::Terminate,
            _ = self.hang_up.recv() => Told::Terminate,
        }
    }
}

#[cfg(windows)]
struct Signals {
    interrupt: tokio::signal::windows::CtrlC,
    terminate: tokio::signal::windows::CtrlClose,
}

#[cfg(windows)]
impl Signals {
    fn listen() -> io::Result<Self> {
        Ok(Self {
            interrupt: tokio::signal::windows::ctrl_c()?,
            terminate: tokio::signal::windows::ctrl_close()?,
        })
    }

    async fn next(&mut self) -> Told {
        tokio::select! {
            _ = self.interrupt.recv() => Told::Interrupt,
            _ = self.terminate.recv() => Told::Terminate,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_host_that_never_connected_is_not_lost_and_one_that_comes_back_neither() {
        let connections = Calls::default();
        assert!(
            timeout(Duration::from_secs(3600), connections_lost(&connections))
                .await
                .is_err()
        );

        let watched = connections.clone();
        let lost = tokio::spawn(async move { connections_lost(&watched).await });
        let first = connections.begin();
        sleep(LOST_AFTER * 3).await;
        drop(first);
        sleep(LOST_AFTER / 2).await;
        let second = connections.begin();
        sleep(LOST_AFTER * 3).await;
        assert!(!lost.is_finished());
        drop(second);
        sleep(LOST_AFTER + HOST_CHECK * 2).await;
        assert!(lost.is_finished());
    }

    #[test]
    fn the_grace_after_shutdown_fits_into_terraforms_two_seconds() {
        assert!(Reason::HostAsked.grace() + super::super::DRAIN < Duration::from_secs(2));
        assert!(Reason::Terminated.grace() > Reason::HostAsked.grace());
    }
}
