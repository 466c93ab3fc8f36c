//! The signal that ends every wait of this room at once: Ctrl-C, or Terraform's stop request.

use tokio::sync::watch;

/// Ends waits early. Cheap to clone; [`Cancel::never`] is the one that never fires.
#[derive(Debug, Clone, Default)]
pub struct Cancel {
    fired: Option<watch::Receiver<bool>>,
}

impl Cancel {
    /// A signal that never fires.
    #[must_use]
    pub fn never() -> Self {
        Self::default()
    }

    /// Whether the signal has fired.
    #[must_use]
    pub fn is_canceled(&self) -> bool {
        self.fired.as_ref().is_some_and(|fired| *fired.borrow())
    }

    /// Returns once the signal has fired; never when it can't fire any more.
    pub async fn canceled(&self) {
        if let Some(fired) = &self.fired {
            let mut fired = fired.clone();
            if fired.wait_for(|fired| *fired).await.is_ok() {
                return;
            }
        }
        std::future::pending::<()>().await;
    }
}

impl From<watch::Receiver<bool>> for Cancel {
    /// The signal fires when the channel holds `true`.
    fn from(fired: watch::Receiver<bool>) -> Self {
        Self { fired: Some(fired) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn fires_for_every_clone_and_not_when_the_sender_is_dropped() {
        let (sender, receiver) = watch::channel(false);
        let cancel = Cancel::from(receiver);
        let clone = cancel.clone();
        assert!(!cancel.is_canceled());
        sender.send(true).unwrap();
        clone.canceled().await;
        assert!(cancel.is_canceled());

        let (sender, receiver) = watch::channel(false);
        drop(sender);
        let cancel = Cancel::from(receiver);
        let waited =
            tokio::time::timeout(std::time::Duration::from_millis(20), cancel.canceled()).await;
        assert!(
            waited.is_err(),
            "a dropped sender must not read as a cancellation"
        );
    }
}
