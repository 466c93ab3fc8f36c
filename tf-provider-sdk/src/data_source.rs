//! What an author writes for a data source.

use std::future::Future;

use schemars::JsonSchema;
use serde::{Serialize, de::DeserializeOwned};

use crate::{context::Context, diagnostic::Diagnostics};

/// A data source. The struct's fields are its attributes: see [`crate::field`].
pub trait DataSource: Serialize + DeserializeOwned + JsonSchema + Send + Sync + 'static {
    /// Name in a configuration, such as `loomplane_gpu_kinds`.
    const TYPE: &'static str;
    /// What it reads with.
    type Client: Send + Sync + 'static;

    /// What is wrong with a configuration, beyond what the field types say. Values may be unknown.
    fn validate(&self, report: &mut Diagnostics) {
        let _ = report;
    }

    /// Fills in what it computes. It runs in every plan: keep it cheap.
    fn read(
        self,
        cx: &Context<'_, Self::Client>,
    ) -> impl Future<Output = Result<Self, Diagnostics>> + Send;
}
