//! `loomplane_gpu_service`: a long-running container workload.
//!
//! - `model.rs` its attributes; `validate.rs` what a configuration must satisfy
//! - `plan.rs` what a plan says, `asked.rs` of what it asks its cluster, `volumes.rs` of volumes; `spec.rs` and `absorb.rs` between the model and the adapter's plain data
//! - `cluster/` create, read, update, delete and import on a cluster, a file each, `cluster_values.rs` what may be typed there; `server.rs` the same on an own server,
//!   `server_plan.rs` what a plan says there, `server_values.rs` what may be typed there, `container.rs` between the model and a container

mod absorb;
mod asked;
mod cluster;
mod cluster_values;
mod container;
mod imported;
pub mod model;
mod moved;
mod placement;
mod plan;
mod server;
mod server_plan;
mod server_values;
mod spec;
#[cfg(test)]
mod tests;
mod validate;
mod volumes;

use std::time::Duration;

pub use model::GpuService;
use tf_provider_sdk::{
    context::Context,
    diagnostic::{Diagnostic, Diagnostics},
    field::Maybe,
    resource::{Change, Failed, ImportId, MoveSource, Resource},
    timeouts::Operation,
};

use crate::provider::client::{Client, ClusterTarget, ServerTarget, Target};

impl Resource for GpuService {
    const TYPE: &'static str = "loomplane_gpu_service";
    const IDENTITY: &'static [&'static str] = &["target", "namespace", "name"];
    type Client = Client;

    fn validate(&self, report: &mut Diagnostics) {
        validate::validate(self, report);
    }

    async fn plan(change: &mut Change<Self>, cx: &Context<'_, Client>) -> Result<(), Diagnostics> {
        plan::plan(change, cx).await
    }

    async fn plan_delete(self, cx: &Context<'_, Client>) -> Result<(), Diagnostics> {
        // Deleting what can't be reached would strand it: say so before anything else of the run is applied (G9).
        target_of(&self, cx).map(drop).map_err(Diagnostics::from)
    }

    async fn create(change: Change<Self>, cx: &Context<'_, Client>) -> Result<Self, Failed<Self>> {
        match target_of(&change.planned, cx)? {
            On::Cluster(target) => cluster::create(target, change, cx).await,
            On::Server(target) => server::create(target, change, cx).await,
        }
    }

    async fn read(self, cx: &Context<'_, Client>) -> Result<Option<Self>, Diagnostics> {
        if name_of(&self).is_empty() {
            return moved::find(self, cx).await.map(Some);
        }
        match cx.client.target(name_of(&self)) {
            Target::Cluster(target) => cluster::read(target, self, cx).await,
            Target::Server(target) => server::read(target, self, cx).await,
            Target::Unknown(_) => {
                cx.warn(unchecked());
                Ok(Some(self))
            }
            Target::Missing => {
                cx.warn(stranded());
                Ok(Some(self))
            }
        }
    }

    async fn update(change: Change<Self>, cx: &Context<'_, Client>) -> Result<Self, Failed<Self>> {
        match target_of(&change.planned, cx)? {
            On::Cluster(target) => cluster::update(target, change, cx).await,
            On::Server(target) => server::update(target, change, cx).await,
        }
    }

    async fn delete(self, cx: &Context<'_, Client>) -> Result<(), Diagnostics> {
        match target_of(&self, cx)? {
            On::Cluster(target) => cluster::delete(target, self, cx).await,
            On::Server(target) => server::delete(target, self, cx).await,
        }
    }

    async fn import(id: ImportId, cx: &Context<'_, Client>) -> Result<Self, Diagnostics> {
        cluster::import(id, cx).await
    }

    fn moved_from(source: MoveSource) -> Option<Result<Self, Diagnostic>> {
        moved::moved_from(&source)
    }

    fn timeout(&self, operation: Operation) -> Duration {
        let configured = self
            .timeouts
            .as_ref()
            .and_then(|timeouts| timeouts.get(operation));
        configured.unwrap_or(Duration::from_secs(20 * 60))
    }
}

fn name_of(service: &GpuService) -> &str {
    service.target.known().map_or("", String::as_str)
}

/// What a service is on.
enum On<'a> {
    /// A cluster.
    Cluster(&'a ClusterTarget),
    /// An own server.
    Server(&'a ServerTarget),
}

/// What a service is on, for an operation that needs it.
fn target_of<'a>(service: &GpuService, cx: &Context<'a, Client>) -> Result<On<'a>, Diagnostic> {
    let name = name_of(service);
    match cx.client.target(name) {
        Target::Cluster(target) => Ok(On::Cluster(target)),
        Target::Server(target) => Ok(On::Server(target)),
        Target::Unknown(attributes) => Err(Diagnostic::error(
            format!("The connection of {name} is not known yet"),
            format!(
                "This needs the cluster, and part of its connection is not known: {}. Apply what it comes from first (-target).",
                attributes.join(", ")
            ),
        )
        .at("target")),
        Target::Missing => Err(missing(name, cx)),
    }
}

/// A target that is not configured any more, for what needs it (G9).
fn missing(name: &str, cx: &Context<'_, Client>) -> Diagnostic {
    let mut error = cx.client.missing("target", name);
    error.detail.push_str(
        " To keep what runs there and forget it here, use a `removed` block with `lifecycle { destroy = false }`.",
    );
    error
}

/// The same on each resource, so that Terraform folds the warnings into one (G9).
fn unchecked() -> Diagnostic {
    Diagnostic::warning(
        "A connection is not known yet, so its GPU services were not checked",
        "Part of the connection comes from something that is not applied yet. What the state says of the services on it was kept; apply checks before it changes anything.",
    )
}

fn stranded() -> Diagnostic {
    Diagnostic::warning(
        "A target is no longer configured, so its GPU services were not checked",
        "Their state was kept, and they run on. To change or delete them put the connection back; to forget them use a `removed` block with `lifecycle { destroy = false }`.",
    )
}

/// The known text, for a place where plans have been settled.
fn known(value: &Maybe<String>) -> String {
    value.known().cloned().unwrap_or_default()
}
