//! What an author writes for an ephemeral resource: a value that is opened for one run and stored nowhere (Terraform 1.10).

use std::{future::Future, time::Duration};

use schemars::JsonSchema;
use serde::{Serialize, de::DeserializeOwned};

use crate::{context::Context, diagnostic::Diagnostics};

/// An ephemeral resource. The struct's fields are its attributes: see [`crate::field`].
pub trait Ephemeral: Serialize + DeserializeOwned + JsonSchema + Send + Sync + 'static {
    /// Name in a configuration.
    const TYPE: &'static str;
    /// What it works with.
    type Client: Send + Sync + 'static;

    /// What is wrong with a configuration, beyond what the field types say. Values may be unknown.
    fn validate(&self, report: &mut Diagnostics) {
        let _ = report;
    }

    /// Opens it: fills in what it computes. Runs in plan and in apply.
    fn open(
        self,
        cx: &Context<'_, Self::Client>,
    ) -> impl Future<Output = Result<Opened<Self>, Diagnostics>> + Send;

    /// Keeps it open. `handle` is what [`Opened`] or the last renewal said; returns the next handle and time.
    fn renew(
        handle: Vec<u8>,
        cx: &Context<'_, Self::Client>,
    ) -> impl Future<Output = Result<Renewal, Diagnostics>> + Send {
        let _ = cx;
        async {
            Ok(Renewal {
                handle,
                renew_in: None,
            })
        }
    }

    /// Closes it.
    fn close(
        handle: Vec<u8>,
        cx: &Context<'_, Self::Client>,
    ) -> impl Future<Output = Result<(), Diagnostics>> + Send {
        let _ = (handle, cx);
        async { Ok(()) }
    }
}

/// An open ephemeral resource.
#[derive(Debug)]
pub struct Opened<T> {
    /// The configuration with everything computed filled in.
    pub value: T,
    /// What `renew` and `close` are handed; the host keeps it in memory for the run.
    pub handle: Vec<u8>,
    /// When to renew it; `None` for never.
    pub renew_in: Option<Duration>,
}

/// The outcome of a renewal.
#[derive(Debug)]
pub struct Renewal {
    /// What the next `renew` and `close` are handed.
    pub handle: Vec<u8>,
    /// When to renew again; `None` for never.
    pub renew_in: Option<Duration>,
}
