//! `data.loomplane_server`: the check of one server.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tf_provider_sdk::{
    context::Context,
    data_source::DataSource,
    diagnostic::{Diagnostic, Diagnostics},
    field::Computed,
    number::Number,
};

use crate::provider::{
    cancel::watched,
    client::{Client, Target},
    report,
};

/// The check of one own server: its GPUs, whether they can be used, and if not, why.
///
/// Terraform reads it in the plan. Of a connection that is not known then (its server is made in the same apply) everything is
/// null, with a warning, until the next refresh. With `depends_on` on what the connection comes from, Terraform reads it at apply.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct Server {
    /// Name of the connection.
    pub name: String,
    /// Whether one whole GPU is usable. Null when the connection is not known yet.
    pub can_take_gpu_work: Computed<bool>,
    /// Why not, and what to do. Null when it can.
    pub reason: Computed<String>,
    /// Every physical GPU. Null when the connection is not known yet.
    pub gpus: Computed<Vec<GpuRow>>,
    /// Version of the NVIDIA driver.
    pub driver_version: Computed<String>,
    /// Version of Docker.
    pub docker_version: Computed<String>,
    /// The machine's ID.
    pub target_uid: Computed<String>,
    /// What the whole server costs in US dollars an hour, as the connection states it. Null when unknown.
    pub hourly_usd: Computed<Number>,
    /// The same for a month.
    pub monthly_usd: Computed<Number>,
    /// The price in words.
    pub price: Computed<String>,
}

/// One physical GPU.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct GpuRow {
    /// UUID; null for one that does not answer.
    pub uuid: Option<String>,
    /// Kind, such as `nvidia-l4`; null when its name means none that Loomplane knows.
    pub kind: Option<String>,
    /// Name as `nvidia-smi` prints it.
    pub name: String,
    /// Memory in MiB.
    pub memory_mib: Option<u64>,
    /// Whether it can be given to a service.
    pub usable: bool,
    /// Why not.
    pub reason: Option<String>,
    /// Who holds it: services, and containers that Loomplane did not start.
    pub held_by: Vec<String>,
}

impl DataSource for Server {
    const TYPE: &'static str = "loomplane_server";
    type Client = Client;

    async fn read(mut self, cx: &Context<'_, Client>) -> Result<Self, Diagnostics> {
        let target = match cx.client.target(&self.name) {
            Target::Server(target) => target,
            Target::Missing => return Err(cx.client.missing("name", &self.name).into()),
            Target::Cluster(_) => {
                let detail = format!("{} is a cluster. Use data.loomplane_cluster.", self.name);
                return Err(Diagnostic::error("Not a server", detail).at("name").into());
            }
            Target::Unknown(attributes) => {
                super::warn_of_connection(cx);
                return Ok(Self::unknown(self.name, &attributes));
            }
        };
        let watched = watched(cx);
        let report = target
            .server
            .report(&watched.scope)
            .await
            .map_err(|error| report::server_error(&self.name, &error))?;
        let row = |card: &crate::capacity::server::CheckedCard| GpuRow {
            uuid: card.uuid.as_ref().map(ToString::to_string),
            kind: card.kind.map(|kind| kind.id().to_owned()),
            name: card.name.clone(),
            memory_mib: card.memory_mib,
            usable: card.usable.is_ok(),
            reason: card.render_reason(),
            held_by: card
                .uuid
                .iter()
                .flat_map(|uuid| report.ledger.holders(uuid))
                .map(|holder| holder.render())
                .collect(),
        };
        self.can_take_gpu_work = report.check.can_take_gpu_work.is_ok().into();
        self.reason = Computed(report.reason().into());
        self.gpus = report
            .check
            .cards
            .iter()
            .map(row)
            .collect::<Vec<_>>()
            .into();
        self.driver_version = Computed(report.check.driver_version.clone().into());
        self.docker_version = Computed(report.docker_version.clone().into());
        self.target_uid = Computed(report.target_uid.clone().into());
        self.hourly_usd = Computed(target.price.hourly().map(report::usd).into());
        self.monthly_usd = Computed(target.price.monthly().map(report::usd).into());
        self.price = target.price.render().into();
        Ok(self)
    }
}

impl Server {
    /// What can be said of a connection that is not known yet.
    fn unknown(name: String, attributes: &[String]) -> Self {
        Self {
            name,
            can_take_gpu_work: Computed::null(),
            reason: super::connection_unknown(attributes).into(),
            gpus: Computed::null(),
            driver_version: Computed::null(),
            docker_version: Computed::null(),
            target_uid: Computed::null(),
            hourly_usd: Computed::null(),
            monthly_usd: Computed::null(),
            price: Computed::null(),
        }
    }
}
