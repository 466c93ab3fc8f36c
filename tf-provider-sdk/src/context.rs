//! What an operation is given beside its values: the provider's client, warnings, private data, and when to end.

use std::{
    collections::BTreeMap,
    future::Future,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use serde::{Serialize, de::DeserializeOwned};

use crate::{
    diagnostic::{Diagnostic, Diagnostics},
    stop::StopToken,
    value::Value,
};

/// The surroundings of one operation.
pub struct Context<'a, C> {
    /// What [`crate::provider::Provider::configure`] made.
    pub client: &'a C,
    stop: StopToken,
    limit: Option<Limit>,
    shared: &'a Shared,
}

/// A time limit: until when, and how long that was from the start, for messages.
#[derive(Debug, Clone, Copy)]
struct Limit {
    until: tokio::time::Instant,
    whole: Duration,
}

/// What an operation leaves behind beside its result.
#[derive(Debug, Default)]
pub(crate) struct Shared {
    report: Mutex<Diagnostics>,
    private: Mutex<BTreeMap<String, serde_json::Value>>,
    kept: Mutex<Option<Value>>,
}

/// Why a wait ended early.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Interrupted {
    /// The user stopped Terraform (Ctrl-C).
    #[error("it was interrupted")]
    Stopped,
    /// The operation's time limit, this long, was reached.
    #[error("it took longer than {} s, the limit in `timeouts`", .0.as_secs())]
    TimedOut(Duration),
}

impl<'a, C> Context<'a, C> {
    pub(crate) fn new(
        client: &'a C,
        stop: StopToken,
        limit: Option<Duration>,
        shared: &'a Shared,
    ) -> Self {
        // A limit beyond what the clock can count is no limit.
        let limit = limit.and_then(|whole| {
            Some(Limit {
                until: tokio::time::Instant::now().checked_add(whole)?,
                whole,
            })
        });
        Self {
            client,
            stop,
            limit,
            shared,
        }
    }

    /// Adds a warning to what the user is shown after the operation.
    pub fn warn(&self, warning: Diagnostic) {
        lock(&self.shared.report).push(warning);
    }

    /// The token that is cancelled when the user stops Terraform.
    pub fn stop(&self) -> &StopToken {
        &self.stop
    }

    /// How long the operation may still take; `None` without a limit.
    pub fn time_left(&self) -> Option<Duration> {
        self.limit.map(|limit| {
            limit
                .until
                .saturating_duration_since(tokio::time::Instant::now())
        })
    }

    /// Runs `work` until it ends, the user stops Terraform, or the operation's time is up.
    ///
    /// # Errors
    /// Which of the latter two it was; `work` is dropped then.
    pub async fn run<F: Future>(&self, work: F) -> Result<F::Output, Interrupted> {
        let limited = async {
            match self.limit {
                None => Ok(work.await),
                Some(limit) => tokio::time::timeout_at(limit.until, work)
                    .await
                    .map_err(|_| Interrupted::TimedOut(limit.whole)),
            }
        };
        tokio::select! {
            biased;
            outcome = limited => outcome,
            () = self.stop.stopped() => Err(Interrupted::Stopped),
        }
    }

    /// Remembers the object as it is by now, in `create` and `update`: this is what is stored should the operation end with an error that
    /// says nothing of what it [left](crate::resource::Failed::left), or with a panic. Call it as soon as an API has taken a request, so that
    /// nothing is made that Terraform does not know of.
    pub fn keep<T: Serialize>(&self, object: &T) {
        match crate::ser::to_value(object) {
            Ok(value) => *lock(&self.shared.kept) = Some(value),
            Err(why) => tracing::warn!(%why, "the object to keep has no form as a value"),
        }
    }

    /// Private data that an earlier operation on this object left under `key`. It is stored beside the state and not encrypted:
    /// never a secret. Data of another form than `T` reads as none.
    pub fn private<T: DeserializeOwned>(&self, key: &str) -> Option<T> {
        let value = lock(&self.shared.private).get(key).cloned()?;
        serde_json::from_value(value).ok()
    }

    /// Leaves private data for later operations on this object; `None` removes it.
    pub fn set_private<T: Serialize>(&self, key: &str, value: Option<T>) {
        let value = value.and_then(|value| {
            let json = serde_json::to_value(value);
            json.inspect_err(|why| tracing::warn!(%why, key, "private data has no form as JSON"))
                .ok()
        });
        let mut private = lock(&self.shared.private);
        match value {
            Some(value) => drop(private.insert(key.to_owned(), value)),
            None => drop(private.remove(key)),
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // A panic while the lock was held leaves whole values: they are only inserted and removed.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Shared {
    /// Starts from the private bytes that the host kept; what is not ours to read is dropped.
    pub(crate) fn from_private(bytes: &[u8]) -> Self {
        Self {
            report: Mutex::default(),
            private: Mutex::new(serde_json::from_slice(bytes).unwrap_or_default()),
            kept: Mutex::default(),
        }
    }

    /// What the operation said is there, should it fail: see [`Context::keep`].
    pub(crate) fn take_kept(&self) -> Option<Value> {
        lock(&self.kept).take()
    }

    pub(crate) fn take_report(&self) -> Diagnostics {
        std::mem::take(&mut *lock(&self.report))
    }

    /// The private bytes for the host to keep; empty when there are none.
    pub(crate) fn private_bytes(&self) -> Vec<u8> {
        let private = lock(&self.private);
        if private.is_empty() {
            return Vec::new();
        }
        serde_json::to_vec(&*private).unwrap_or_default()
    }
}
