//! `loomplane_capacity_set`: GPU nodes that ranked pools share.
//!
//! - `model.rs` its attributes; `definition.rs` between them and the domain's set, and what A1 to A3 refuse of a configuration
//! - `preview.rs` the arbiter's plan as Terraform shows it; `announce.rs` what a change would do, in words
//! - `plan.rs` what a plan says; `apply.rs` create, read, update, delete and import

mod announce;
mod apply;
mod definition;
pub mod model;
mod plan;
pub(in crate::provider) mod preview;
#[cfg(test)]
mod tests;

use std::time::Duration;

pub(in crate::provider) use definition::refusal;
pub use model::CapacitySet;
use tf_provider_sdk::{
    context::Context,
    diagnostic::{Diagnostic, Diagnostics},
    resource::{Change, Failed, ImportId, Resource},
    timeouts::Operation,
};

use crate::provider::client::{Client, ClusterTarget, Target};

impl Resource for CapacitySet {
    const TYPE: &'static str = "loomplane_capacity_set";
    const IDENTITY: &'static [&'static str] = &["cluster", "name"];
    type Client = Client;

    fn validate(&self, report: &mut Diagnostics) {
        definition::check(self, report);
    }

    async fn plan(change: &mut Change<Self>, cx: &Context<'_, Client>) -> Result<(), Diagnostics> {
        plan::plan(change, cx).await
    }

    async fn plan_delete(self, cx: &Context<'_, Client>) -> Result<(), Diagnostics> {
        // Deleting what can't be reached would strand it: say so before anything else of the run is applied (G9).
        target_of(&self, cx).map(drop).map_err(Diagnostics::from)
    }

    async fn create(change: Change<Self>, cx: &Context<'_, Client>) -> Result<Self, Failed<Self>> {
        apply::create(target_of(&change.planned, cx)?, change, cx).await
    }

    async fn read(self, cx: &Context<'_, Client>) -> Result<Option<Self>, Diagnostics> {
        match cx.client.target(name_of(&self)) {
            Target::Cluster(target) => apply::read(target, self, cx).await,
            Target::Server(_) => Err(no_cluster(name_of(&self)).into()),
            Target::Unknown(_) => {
                cx.warn(Diagnostic::warning(
                    "A connection is not known yet, so its capacity sets were not checked",
                    "Part of the connection comes from something that is not applied yet. What the state says of its sets was kept; apply checks before it changes anything.",
                ));
                Ok(Some(self))
            }
            Target::Missing => {
                cx.warn(Diagnostic::warning(
                    "A cluster is no longer configured, so its capacity sets were not checked",
                    "Their state was kept, and they are as they were. To change or delete them put the connection back; to forget them use a `removed` block with `lifecycle { destroy = false }`.",
                ));
                Ok(Some(self))
            }
        }
    }

    async fn update(change: Change<Self>, cx: &Context<'_, Client>) -> Result<Self, Failed<Self>> {
        apply::update(target_of(&change.planned, cx)?, change, cx).await
    }

    async fn delete(self, cx: &Context<'_, Client>) -> Result<(), Diagnostics> {
        apply::delete(target_of(&self, cx)?, self, cx).await
    }

    async fn import(id: ImportId, cx: &Context<'_, Client>) -> Result<Self, Diagnostics> {
        apply::import(id, cx).await
    }

    fn timeout(&self, operation: Operation) -> Duration {
        let configured = self
            .timeouts
            .as_ref()
            .and_then(|timeouts| timeouts.get(operation));
        configured.unwrap_or(Duration::from_secs(20 * 60))
    }
}

fn name_of(set: &CapacitySet) -> &str {
    set.cluster.known().map_or("", String::as_str)
}

/// The cluster of a set, for an operation that needs it.
fn target_of<'a>(
    set: &CapacitySet,
    cx: &Context<'a, Client>,
) -> Result<&'a ClusterTarget, Diagnostic> {
    let name = name_of(set);
    match cx.client.target(name) {
        Target::Cluster(target) => Ok(target),
        Target::Server(_) => Err(no_cluster(name)),
        Target::Unknown(attributes) => Err(Diagnostic::error(
            format!("The connection of {name} is not known yet"),
            format!(
                "This needs the cluster, and part of its connection is not known: {}. Apply what it comes from first (-target).",
                attributes.join(", ")
            ),
        )
        .at("cluster")),
        Target::Missing => {
            let mut error = cx.client.missing("cluster", name);
            error.detail.push_str(
                " To keep the set there and forget it here, use a `removed` block with `lifecycle { destroy = false }`.",
            );
            Err(error)
        }
    }
}

fn no_cluster(name: &str) -> Diagnostic {
    Diagnostic::error(
        "A capacity set needs a cluster",
        format!("{name} is an own server. A capacity set is made of a cluster's nodes: name a connection in `clusters`."),
    )
    .at("cluster")
}
