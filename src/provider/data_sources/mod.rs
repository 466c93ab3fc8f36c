//! The data sources, one file each.

pub mod capacity_preview;
pub mod cluster;
pub mod gpu_kinds;
pub mod gpu_targets;
pub mod server;

pub use capacity_preview::CapacityPreview;
pub use cluster::Cluster;
pub use gpu_kinds::GpuKinds;
pub use gpu_targets::GpuTargets;
pub use server::Server;

use tf_provider_sdk::{context::Context, diagnostic::Diagnostic};

use crate::{
    capacity::price::{Machine, Price},
    provider::client::Client,
};

/// Warns that a connection can't be asked. Terraform reads a data source in the plan as soon as its own arguments are known,
/// whatever the provider block still waits for: an error would fail every plan that makes a cluster and asks it. The summary
/// is that of the resources' warning, so that Terraform folds them into one.
fn warn_of_connection(cx: &Context<'_, Client>) {
    cx.warn(Diagnostic::warning(
        "A connection is not known yet, so its GPU requests were not checked",
        "Part of the connection comes from something that is not applied yet. Data sources give null for what can't be told. With `depends_on` on what the connection comes from Terraform reads a data source at apply, when it is known.",
    ));
}

/// Why nothing is said of a connection that is not known yet.
fn connection_unknown(attributes: &[String]) -> String {
    format!(
        "The connection is not known yet ({}). With depends_on on what it comes from Terraform reads this at apply.",
        attributes.join(", ")
    )
}

/// Warns that the user's own prices are not known: the summary is that of the resources' warning.
fn warn_of_prices(cx: &Context<'_, Client>) {
    if !cx.client.prices_known {
        cx.warn(Diagnostic::warning(
            "Some prices are not known yet",
            "`prices` of the provider holds values that are not applied yet. Data sources show no price as long as that is so.",
        ));
    }
}

/// What a machine costs. While the user's own prices are not known, the table's could be wrong.
fn price_of(machine: &Machine, client: &Client) -> Price {
    if client.prices_known {
        client.prices.price(machine)
    } else {
        Price::Unknown
    }
}
