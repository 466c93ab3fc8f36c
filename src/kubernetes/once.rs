//! One answer per process: the first caller asks, the others wait for that answer, and a failure is shared by those who
//! waited for it, while whoever comes later asks again.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::Mutex;

use super::error::Error;

/// See the module.
#[derive(Debug)]
pub(super) struct Once<T> {
    slot: Mutex<Option<Result<Arc<T>, Error>>>,
    attempts: AtomicU64,
}

impl<T> Default for Once<T> {
    fn default() -> Self {
        Self {
            slot: Mutex::new(None),
            attempts: AtomicU64::new(0),
        }
    }
}

impl<T> Once<T> {
    /// The answer; `ask` runs only when there is none and no one else is asking.
    ///
    /// A caller that is dropped while it asks leaves the turn to the next one.
    pub(super) async fn get<F>(&self, ask: impl FnOnce() -> F) -> Result<Arc<T>, Error>
    where
        F: Future<Output = Result<T, Error>>,
    {
        let seen = self.attempts.load(Ordering::Acquire);
        let mut slot = self.slot.lock().await;
        match &*slot {
            Some(Ok(value)) => return Ok(Arc::clone(value)),
            // This attempt ended while we waited, so its failure is ours too; but a cancellation was only its caller's.
            Some(Err(error))
                if self.attempts.load(Ordering::Acquire) > seen && !error.is_canceled() =>
            {
                return Err(error.clone());
            }
            _ => {}
        }
        let answer = ask().await.map(Arc::new);
        *slot = Some(answer.clone());
        self.attempts.fetch_add(1, Ordering::Release);
        answer
    }

    /// Forgets the answer, so that the next caller asks.
    pub(super) async fn forget(&self) {
        *self.slot.lock().await = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicU32;

    fn failure() -> Error {
        Error::Unauthorized {
            cluster: "c".into(),
            doing: "list nodes".into(),
        }
    }

    #[tokio::test]
    async fn concurrent_callers_share_one_answer_and_one_failure() {
        let once = Arc::new(Once::<u32>::default());
        let asked = Arc::new(AtomicU32::new(0));
        for (fails, wanted) in [(true, 1), (false, 2), (false, 2)] {
            let callers: Vec<_> = (0..50)
                .map(|_| {
                    let (once, asked) = (Arc::clone(&once), Arc::clone(&asked));
                    tokio::spawn(async move {
                        once.get(|| async {
                            asked.fetch_add(1, Ordering::SeqCst);
                            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
                            if fails { Err(failure()) } else { Ok(7) }
                        })
                        .await
                    })
                })
                .collect();
            for caller in callers {
                assert_eq!(caller.await.unwrap().is_err(), fails);
            }
            assert_eq!(asked.load(Ordering::SeqCst), wanted);
        }
    }

    #[tokio::test]
    async fn a_dropped_caller_leaves_the_turn_to_the_next() {
        let once = Once::<u32>::default();
        let hung = once.get(std::future::pending::<Result<u32, Error>>);
        assert!(
            tokio::time::timeout(std::time::Duration::from_millis(10), hung)
                .await
                .is_err()
        );
        assert_eq!(*once.get(|| async { Ok(1) }).await.unwrap(), 1);
        once.forget().await;
        assert_eq!(*once.get(|| async { Ok(2) }).await.unwrap(), 2);
    }
}
