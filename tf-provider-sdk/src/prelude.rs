//! What nearly every provider's code names: `use tf_provider_sdk::prelude::*;`.
//!
//! The derives of serde and schemars are here too; the crate that uses them needs both as dependencies all the same.

pub use schemars::JsonSchema;
pub use serde::{Deserialize, Serialize};

pub use crate::{
    context::{Context, Interrupted},
    data_source::DataSource,
    diagnostic::{Diagnostic, Diagnostics, Explain},
    ephemeral::{Ephemeral, Opened, Renewal},
    field::{Computed, Maybe, Opt, OptionalComputed, Replace, Sensitive, SetOf, Stable, WriteOnly},
    function::{Arguments, Function, FunctionError, Parameter},
    provider::{Configured, Offers, Provider},
    resource::{Change, Failed, ImportId, MoveSource, Resource},
    serve,
    timeouts::{Operation, Timeouts},
};
