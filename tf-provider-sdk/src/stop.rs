//! Cancellation of calls in progress.
//!
//! Terraform calls `StopProvider` when the user presses Ctrl-C, then waits for the calls in progress without limit: each should end soon
//! and return what it has done so far. The provider may live on after that (in debug mode it serves many runs), so stopping concerns only
//! the calls in progress; ending the process concerns later ones too.

use std::future::Future;
use std::sync::Arc;

use tokio::sync::watch;

#[derive(Debug, Clone, Copy, Default)]
struct State {
    stops: u64,
    ended: bool,
    abandoned: bool,
}

/// The switch that stops calls. Clones share one switch.
#[derive(Debug, Clone, Default)]
pub struct Stop(Arc<watch::Sender<State>>);

impl Stop {
    /// A switch that nobody has used yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// A token for a call that begins now.
    #[must_use]
    pub fn token(&self) -> StopToken {
        let state = self.0.subscribe();
        let seen = state.borrow().stops;
        StopToken { seen, state }
    }

    /// Stops every call in progress. Calls that begin later are not concerned: this is what `StopProvider` asks for.
    pub fn stop(&self) {
        self.0.send_modify(|state| state.stops += 1);
    }

    /// Stops every call in progress, and every later one as it begins: the process is about to end.
    pub fn end(&self) {
        self.0.send_modify(|state| state.ended = true);
    }

    /// [`Stop::end`], and nobody will take the answers of the calls in progress: the host is gone, or is leaving without them.
    pub fn abandon(&self) {
        self.0.send_modify(|state| {
            state.ended = true;
            state.abandoned = true;
        });
    }
}

/// What a call holds to learn that it should end soon. Clones concern the same call.
#[derive(Debug, Clone)]
pub struct StopToken {
    seen: u64,
    state: watch::Receiver<State>,
}

impl StopToken {
    /// A token that nobody will ever stop: for work that no host can cancel.
    #[must_use]
    pub fn never() -> Self {
        Stop::new().token()
    }

    /// Whether the call should end.
    #[must_use]
    pub fn is_stopped(&self) -> bool {
        over(self.seen, &self.state.borrow())
    }

    /// Whether nobody takes the answer of the call any more, so that what it did will be in no state.
    #[must_use]
    pub fn is_abandoned(&self) -> bool {
        self.state.borrow().abandoned
    }

    /// Waits until the call should end; at once if that is so already. Dropping the future is free of effects, as `select!` needs.
    pub async fn stopped(&self) {
        let seen = self.seen;
        if self
            .state
            .clone()
            .wait_for(|state| over(seen, state))
            .await
            .is_err()
        {
            // The switch is gone, so nobody can stop this call any more.
            std::future::pending::<()>().await;
        }
    }

    /// Runs `work` until it is done (`Some`) or until the call should end (`None`): `work` is then dropped at the await it was in.
    ///
    /// For waits and reads. Work that must not be left half done should look at [`is_stopped`](Self::is_stopped) between its steps.
    pub async fn run<F: Future>(&self, work: F) -> Option<F::Output> {
        tokio::select! {
            biased;
            () = self.stopped() => None,
            output = work => Some(output),
        }
    }
}

fn over(seen: u64, state: &State) -> bool {
    state.ended || state.stops != seen
}

#[cfg(test)]
mod tests {
    use std::future::pending;

    use super::*;

    #[tokio::test]
    async fn stop_ends_calls_in_progress_and_no_later_one() {
        let stop = Stop::new();
        let (first, second) = (stop.token(), stop.token());
        let waiting = tokio::spawn(async move { second.run(pending::<()>()).await });
        tokio::task::yield_now().await;
        stop.stop();
        first.stopped().await;
        assert!(first.is_stopped() && first.clone().is_stopped());
        assert_eq!(waiting.await.expect("no panic"), None);

        let later = stop.token();
        assert!(!later.is_stopped());
        assert_eq!(later.run(async { 7 }).await, Some(7));
        stop.stop();
        assert!(later.is_stopped());
    }

    #[tokio::test]
    async fn end_stops_later_calls_too() {
        let stop = Stop::new();
        stop.clone().end();
        assert_eq!(stop.token().run(async { 7 }).await, None);
        stop.stop();
        assert!(stop.token().is_stopped());
        assert!(!stop.token().is_abandoned());
        stop.abandon();
        assert!(stop.token().is_abandoned());
    }

    #[tokio::test(start_paused = true)]
    async fn a_token_without_a_switch_waits_for_ever() {
        let token = StopToken::never();
        let wait = tokio::time::timeout(std::time::Duration::from_secs(3600), token.stopped());
        assert!(wait.await.is_err());
        assert!(!token.is_stopped());
    }
}
