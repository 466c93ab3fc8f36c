//! From the SDK's stop token and time limit to the adapters' signal.

use std::time::Duration;

use tf_provider_sdk::context::Context;
use tokio::{sync::watch, task::JoinHandle};

use crate::{kubernetes::Cancel, ssh::Scope};

/// For an operation without a limit of its own.
const LONGEST: Duration = Duration::from_secs(24 * 3600);

/// How long after an operation's time is up work is stopped that did not end by itself.
const GRACE: Duration = Duration::from_secs(5);

/// A signal that fires when the user stops Terraform or the operation's time is up. Work that must not be dropped halfway looks at
/// it between its steps.
pub(super) struct Watched {
    /// The signal.
    pub(super) cancel: Cancel,
    /// The signal and the limit, for servers.
    pub(super) scope: Scope,
    task: JoinHandle<()>,
}

impl Drop for Watched {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// The signal of this operation.
pub(super) fn watched<C>(cx: &Context<'_, C>) -> Watched {
    let (sender, receiver) = watch::channel(false);
    let (stop, left) = (cx.stop().clone(), cx.time_left());
    let task = tokio::spawn(async move {
        match left {
            Some(left) => tokio::select! {
                () = stop.stopped() => {}
                // What knows the limit itself ends by it, with a better message.
                () = tokio::time::sleep(left + GRACE) => {}
            },
            None => stop.stopped().await,
        }
        // Nobody may be listening any more.
        sender.send_replace(true);
        std::future::pending::<()>().await;
    });
    Watched {
        scope: Scope::new(left.unwrap_or(LONGEST), receiver.clone()),
        cancel: receiver.into(),
        task,
    }
}
