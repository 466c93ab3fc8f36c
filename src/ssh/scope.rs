//! How long an operation may take, and who may stop it: every call of this room takes one.

use std::future::Future;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{Instant, timeout_at};

use super::error::{Result, SshError};

/// A deadline and a stop signal. Cheap to clone; narrowing never widens.
#[derive(Debug, Clone)]
pub struct Scope {
    started: Instant,
    deadline: Instant,
    stop: Option<watch::Receiver<bool>>,
}

impl Scope {
    /// Ends `limit` from now, or when `stop` turns true.
    pub fn new(limit: Duration, stop: watch::Receiver<bool>) -> Self {
        let started = Instant::now();
        Self {
            started,
            deadline: started + limit,
            stop: Some(stop),
        }
    }

    /// Ends `limit` from now; nobody can stop it earlier.
    pub fn within(limit: Duration) -> Self {
        let started = Instant::now();
        Self {
            started,
            deadline: started + limit,
            stop: None,
        }
    }

    /// The same signal with an earlier end: the sooner of `limit` from now and the present deadline.
    pub fn narrowed(&self, limit: Duration) -> Self {
        let started = Instant::now();
        Self {
            started,
            deadline: self.deadline.min(started + limit),
            stop: self.stop.clone(),
        }
    }

    /// For clean-up after the operation itself was stopped or timed out: a limit of its own, deaf to the signal.
    pub fn cleanup(limit: Duration) -> Self {
        Self::within(limit)
    }

    /// What is left.
    pub fn left(&self) -> Duration {
        self.deadline.saturating_duration_since(Instant::now())
    }

    /// Time since this scope began.
    pub fn elapsed(&self) -> Duration {
        self.started.elapsed()
    }

    /// Whether the stop signal was given.
    pub fn stopped(&self) -> bool {
        self.stop.as_ref().is_some_and(|stop| *stop.borrow())
    }

    /// Runs `work` until it ends, the deadline passes ([`SshError::TimedOut`]) or the signal comes ([`SshError::Cancelled`]); dropping `work` must end it.
    pub async fn run<T>(
        &self,
        server: &str,
        what: &str,
        work: impl Future<Output = Result<T>>,
    ) -> Result<T> {
        // On the heap: the futures of a protocol within a protocol are large, and they nest.
        let work = Box::pin(work);
        let signal = async {
            match self.stop.clone() {
                // An error means that nobody is left who could stop us.
                Some(mut stop) => {
                    if stop.wait_for(|stop| *stop).await.is_err() {
                        std::future::pending::<()>().await;
                    }
                }
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            () = signal => Err(SshError::Cancelled { server: server.to_owned(), what: what.to_owned() }),
            done = timeout_at(self.deadline, work) => done.unwrap_or_else(|_| Err(SshError::TimedOut {
                server: server.to_owned(),
                what: what.to_owned(),
                limit: self.deadline.saturating_duration_since(self.started),
            })),
        }
    }

    /// Sleeps, unless the scope ends first.
    pub async fn sleep(&self, server: &str, what: &str, pause: Duration) -> Result<()> {
        self.run(server, what, async {
            tokio::time::sleep(pause).await;
            Ok(())
        })
        .await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn runtime() -> tokio::runtime::Runtime {
        tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap()
    }

    #[test]
    fn a_scope_ends_at_its_deadline_and_says_what_was_going_on() {
        runtime().block_on(async {
            let error = Scope::within(Duration::from_millis(20))
                .run("rack1", "nvidia-smi", std::future::pending::<Result<()>>())
                .await
                .unwrap_err();
            assert!(matches!(error, SshError::TimedOut { .. }));
            assert!(error.to_string().contains("nvidia-smi on rack1"), "{error}");
        });
    }

    #[test]
    fn a_scope_ends_at_the_signal_and_a_dropped_sender_stops_nothing() {
        runtime().block_on(async {
            let (send, receive) = watch::channel(false);
            let scope = Scope::new(Duration::from_secs(60), receive);
            let work = tokio::spawn({
                let scope = scope.clone();
                async move {
                    scope
                        .run("rack1", "pull", std::future::pending::<Result<()>>())
                        .await
                }
            });
            send.send(true).unwrap();
            assert!(matches!(
                work.await.unwrap().unwrap_err(),
                SshError::Cancelled { .. }
            ));
            let (send, receive) = watch::channel(false);
            drop(send);
            let scope = Scope::new(Duration::from_secs(60), receive);
            scope
                .sleep("rack1", "wait", Duration::from_millis(5))
                .await
                .unwrap();
        });
    }

    #[test]
    fn narrowing_never_widens() {
        runtime().block_on(async {
            let scope = Scope::within(Duration::from_secs(5)).narrowed(Duration::from_secs(500));
            assert!(scope.left() <= Duration::from_secs(5));
        });
    }
}
