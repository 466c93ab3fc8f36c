//! What an author writes for the provider itself.

use std::future::Future;

use schemars::JsonSchema;
use serde::{Serialize, de::DeserializeOwned};

use crate::{
    data_source::DataSource,
    diagnostic::Diagnostics,
    ephemeral::Ephemeral,
    erased::{AnyDataSource, AnyEphemeral, AnyFunction, AnyResource, Typed},
    function::Function,
    resource::Resource,
};

/// A provider.
pub trait Provider: Send + Sync + 'static {
    /// The `provider` block. Where its fields admit unknown values ([`crate::field::Opt`]), the provider is configured with them
    /// while planning; otherwise operations go on without a client, with a warning.
    type Config: Serialize + DeserializeOwned + JsonSchema + Send + Sync + 'static;
    /// What operations work with.
    type Client: Send + Sync + 'static;

    /// What is wrong with a configuration, beyond what the field types say. Values may be unknown.
    fn validate(&self, config: &Self::Config, report: &mut Diagnostics) {
        let _ = (config, report);
    }

    /// Makes the client. No I/O: Terraform starts several processes for one command, and waits for each.
    fn configure(
        &self,
        config: Self::Config,
    ) -> impl Future<Output = Result<Configured<Self::Client>, Diagnostics>> + Send;

    /// What it offers.
    fn offers(&self) -> Offers<Self::Client>;
}

/// A client, and warnings about its configuration.
#[derive(Debug)]
pub struct Configured<C> {
    /// What operations work with.
    pub client: C,
    /// Warnings.
    pub report: Diagnostics,
}

impl<C> From<C> for Configured<C> {
    fn from(client: C) -> Self {
        Self {
            client,
            report: Diagnostics::none(),
        }
    }
}

/// The types that a provider offers.
pub struct Offers<C> {
    pub(crate) resources: Vec<Box<dyn AnyResource<C>>>,
    pub(crate) data_sources: Vec<Box<dyn AnyDataSource<C>>>,
    pub(crate) ephemerals: Vec<Box<dyn AnyEphemeral<C>>>,
    pub(crate) functions: Vec<Box<dyn AnyFunction>>,
}

impl<C: Send + Sync + 'static> Offers<C> {
    /// Nothing yet.
    pub fn new() -> Self {
        Self {
            resources: Vec::new(),
            data_sources: Vec::new(),
            ephemerals: Vec::new(),
            functions: Vec::new(),
        }
    }
    /// And the resource type `R`.
    #[must_use]
    pub fn resource<R: Resource<Client = C>>(mut self) -> Self {
        self.resources.push(Box::new(Typed::<R>::new()));
        self
    }
    /// And the data source `D`.
    #[must_use]
    pub fn data_source<D: DataSource<Client = C>>(mut self) -> Self {
        self.data_sources.push(Box::new(Typed::<D>::new()));
        self
    }
    /// And the ephemeral resource `E`.
    #[must_use]
    pub fn ephemeral<E: Ephemeral<Client = C>>(mut self) -> Self {
        self.ephemerals.push(Box::new(Typed::<E>::new()));
        self
    }
    /// And the function `F`.
    #[must_use]
    pub fn function<F: Function>(mut self) -> Self {
        self.functions.push(Box::new(Typed::<F>::new()));
        self
    }
}

impl<C: Send + Sync + 'static> Default for Offers<C> {
    fn default() -> Self {
        Self::new()
    }
}
