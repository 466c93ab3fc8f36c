//! The Terraform face: configuration, resources, data sources and functions, one file or folder each.
//!
//! Reads typed arguments, asks one adapter what the target has, hands both to `crate::capacity`, and turns the answer into planned
//! values, prices and diagnostics. Imports the SDK, `capacity` and the adapters; nothing imports this room but `docs` and `main`.

mod cancel;
pub mod client;
pub mod configuration;
pub mod data_sources;
pub mod functions;
mod report;
pub mod resources;

use client::Client;
use configuration::Config;
use tf_provider_sdk::{
    diagnostic::Diagnostics,
    provider::{Configured, Offers, Provider},
};

/// The provider `loomplane`.
#[derive(Debug, Clone, Copy, Default)]
pub struct Loomplane;

impl Provider for Loomplane {
    type Config = Config;
    type Client = Client;

    fn validate(&self, config: &Config, report: &mut Diagnostics) {
        config.validate(report);
    }

    async fn configure(&self, config: Config) -> Result<Configured<Client>, Diagnostics> {
        Ok(Client::new(&config, &|name| std::env::var(name).ok())?.into())
    }

    fn offers(&self) -> Offers<Client> {
        Offers::new()
            .resource::<resources::CapacitySet>()
            .resource::<resources::GpuService>()
            .data_source::<data_sources::CapacityPreview>()
            .data_source::<data_sources::Cluster>()
            .data_source::<data_sources::GpuKinds>()
            .data_source::<data_sources::GpuTargets>()
            .data_source::<data_sources::Server>()
            .function::<functions::GpuKind>()
            .function::<functions::PriceTotal>()
    }
}
