//! `data.loomplane_cluster`: the check of one cluster.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tf_provider_sdk::{
    context::Context,
    data_source::DataSource,
    diagnostic::{Diagnostic, Diagnostics},
    field::Computed,
};

use crate::{
    capacity::fit::check_cluster,
    kubernetes::TargetUid,
    provider::{
        cancel::watched,
        client::{Client, Target, View},
    },
};

/// The check of one cluster: its GPU nodes, whether they can be used, and if not, why.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct Cluster {
    /// Name of the connection.
    pub name: String,
    /// Whether some node hands out whole GPUs of a kind that Loomplane knows.
    pub can_take_gpu_work: Computed<bool>,
    /// Why not, and what to do. Null when it can.
    pub reason: Computed<String>,
    /// Kinds that a request can ask for.
    pub kinds: Computed<Vec<String>>,
    /// Groups of GPU nodes that are alike.
    pub gpus: Computed<Vec<GroupRow>>,
    /// UID of the namespace `kube-system`. Null where the credential may not read it.
    pub target_uid: Computed<String>,
}

/// GPU nodes that are alike.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct GroupRow {
    /// GPU kind; null when their labels name none that Loomplane knows.
    pub kind: Option<String>,
    /// GPUs of one node. Not what is free: other pods' use is not counted.
    pub gpus_per_node: u64,
    /// How many nodes.
    pub nodes: u64,
    /// Instance type; empty when the nodes have none.
    pub instance_type: String,
    /// Estimated price of one machine.
    pub price: String,
}

impl DataSource for Cluster {
    const TYPE: &'static str = "loomplane_cluster";
    type Client = Client;

    async fn read(mut self, cx: &Context<'_, Client>) -> Result<Self, Diagnostics> {
        let target = match cx.client.target(&self.name) {
            Target::Cluster(target) => target,
            Target::Missing => return Err(cx.client.missing("name", &self.name).into()),
            Target::Server(_) => {
                let detail = format!("{} is an own server. Use data.loomplane_server.", self.name);
                return Err(Diagnostic::error("Not a cluster", detail).at("name").into());
            }
            Target::Unknown(attributes) => {
                let detail = format!(
                    "Part of the connection of {} is not known: {}.",
                    self.name,
                    attributes.join(", ")
                );
                return Err(Diagnostic::error("The connection is not known yet", detail).into());
            }
        };
        let watched = watched(cx);
        let view = target.view(&watched.cancel).await?;
        let outcome = check_cluster(view.seen(), &target.declared);
        self.can_take_gpu_work = outcome.is_ok().into();
        self.reason = Computed(outcome.as_ref().err().map(|why| why.render()).into());
        let kinds = outcome.unwrap_or_default();
        self.kinds = kinds
            .iter()
            .map(|kind| kind.id().to_owned())
            .collect::<Vec<_>>()
            .into();
        let groups = match view.as_ref() {
            View::Listed(view) => view.groups.as_slice(),
            View::NotListed(_) => &[],
        };
        let row = |group: &crate::capacity::fit::NodeGroup| GroupRow {
            kind: group.kind.known().map(|kind| kind.id().to_owned()),
            gpus_per_node: group.most(),
            nodes: group.nodes,
            instance_type: group.machine.instance_type.clone(),
            price: cx.client.prices.price(&group.machine).render(),
        };
        self.gpus = groups.iter().map(row).collect::<Vec<_>>().into();
        self.target_uid = match target.cluster.target_uid(&watched.cancel).await? {
            TargetUid::Known(uid) => uid.into(),
            TargetUid::Forbidden => Computed::null(),
        };
        Ok(self)
    }
}
