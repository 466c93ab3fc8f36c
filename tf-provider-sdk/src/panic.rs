//! Panics: kept from Terraform as a lost call, shown to the user as what they are.
//!
//! A panic in a gRPC handler reaches Terraform as "Request cancelled", and an object that was created before it is in no state. So each
//! handler runs in [`guard`], and answers with a diagnostic. Terraform shows a panic's text to the user only if stderr has a line that
//! starts with `panic: `: [`install_hook`] writes it.

use std::any::Any;
use std::backtrace::{Backtrace, BacktraceStatus};
use std::cell::RefCell;
use std::fmt;
use std::future::{Future, poll_fn};
use std::io::Write;
use std::panic::{AssertUnwindSafe, PanicHookInfo, catch_unwind};
use std::pin::pin;

use crate::log::redact::masked;

thread_local! {
    /// Where the last panic of this thread was: the payload that `catch_unwind` returns doesn't say.
    static PLACE: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// What a caught panic said. Registered secrets are masked in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PanicMessage {
    /// The text of the panic.
    pub text: String,
    /// File, line and column, if [`install_hook`] was called before.
    pub place: Option<String>,
}

impl fmt::Display for PanicMessage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.place {
            Some(place) => write!(f, "{} (at {place})", self.text),
            None => f.write_str(&self.text),
        }
    }
}

impl std::error::Error for PanicMessage {}

/// Runs a future to its end; a panic in it becomes an error.
///
/// What the future shares with others must stay usable after a panic halfway: hold no state that a panic can leave half changed.
///
/// # Errors
/// The message of the panic.
pub async fn guard<F: Future>(future: F) -> Result<F::Output, PanicMessage> {
    let mut future = pin!(future);
    poll_fn(
        |context| match catch_unwind(AssertUnwindSafe(|| future.as_mut().poll(context))) {
            Ok(poll) => poll.map(Ok),
            Err(payload) => std::task::Poll::Ready(Err(PanicMessage {
                text: masked(text_of(payload.as_ref())).into_owned(),
                place: PLACE.take(),
            })),
        },
    )
    .await
}

/// Makes every panic of this process write `panic: `, its text and its place to stderr, in place of Rust's own message.
pub fn install_hook() {
    std::panic::set_hook(Box::new(|info| {
        let place = info.location().map(ToString::to_string);
        let report = masked(&report(info, &Backtrace::capture())).into_owned();
        PLACE.set(place);
        // One write, so that lines of other threads don't cut it; nobody is left to tell if stderr is closed.
        let _ = std::io::stderr().lock().write_all(report.as_bytes());
    }));
}

fn report(info: &PanicHookInfo<'_>, backtrace: &Backtrace) -> String {
    let thread = std::thread::current();
    let place = info
        .location()
        .map_or_else(|| "an unknown place".to_owned(), ToString::to_string);
    let mut report = format!(
        "panic: {}\n\nthread {} at {place}\n",
        text_of(info.payload()),
        thread.name().unwrap_or("without a name")
    );
    if backtrace.status() == BacktraceStatus::Captured {
        report.push_str(&format!("{backtrace}\n"));
    }
    report
}

fn text_of(payload: &(dyn Any + Send)) -> &str {
    payload
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| payload.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("no text")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn guard_turns_a_panic_into_its_text_and_leaves_results_alone() {
        assert_eq!(guard(async { 3 }).await, Ok(3));
        let text = |result: Result<(), PanicMessage>| result.map_err(|panic| panic.text);
        assert_eq!(
            text(guard(async { panic!("plain") }).await),
            Err("plain".into())
        );
        let number = 4;
        assert_eq!(
            text(guard(async { panic!("formatted {number}") }).await),
            Err("formatted 4".into())
        );
        assert_eq!(
            text(guard(async { std::panic::panic_any(5_u8) }).await),
            Err("no text".into())
        );
    }

    #[tokio::test]
    async fn guard_catches_a_panic_after_an_await() {
        let result = guard(async {
            tokio::task::yield_now().await;
            assert_eq!(std::hint::black_box(1), 2, "after the await");
        });
        let text = result.await.expect_err("it panicked").text;
        assert!(text.contains("after the await"), "{text}");
    }

    #[tokio::test]
    async fn a_secret_in_a_panic_is_masked() {
        crate::log::redact::redact("s3cr3t-of-a-panic");
        let result: Result<(), _> =
            guard(async { panic!("token s3cr3t-of-a-panic refused") }).await;
        assert_eq!(
            result.map_err(|panic| panic.text),
            Err("token (hidden) refused".into())
        );
    }
}
