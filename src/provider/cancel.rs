//! From the SDK's stop token and time limit to the adapters' signal.

use tf_provider_sdk::context::Context;
use tokio::{sync::watch, task::JoinHandle};

use crate::kubernetes::Cancel;

/// A signal that fires when the user stops Terraform or the operation's time is up. Work that must not be dropped halfway looks at
/// it between its steps.
pub(super) struct Watched {
    /// The signal.
    pub(super) cancel: Cancel,
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
                () = tokio::time::sleep(left) => {}
            },
            None => stop.stopped().await,
        }
        // Nobody may be listening any more.
        sender.send_replace(true);
        std::future::pending::<()>().await;
    });
    Watched {
        cancel: receiver.into(),
        task,
    }
}
