//! `data.loomplane_cluster`: the check of one cluster.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tf_provider_sdk::{
    context::Context,
    data_source::DataSource,
    diagnostic::{Diagnostic, Diagnostics},
    field::Computed,
    number::Number,
};

use crate::{
    capacity::fit::{CheckedGroup, check_cluster},
    kubernetes::TargetUid,
    provider::{
        cancel::watched,
        client::{Client, Target},
        report,
    },
};

/// The check of one cluster: its GPU nodes, whether they can be used, and if not, why.
///
/// Terraform reads it in the plan. Of a connection that is not known then (its cluster is made in the same apply) everything is
/// null, with a warning, until the next refresh. With `depends_on` on what the connection comes from, Terraform reads it at apply.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct Cluster {
    /// Name of the connection.
    pub name: String,
    /// Whether some node hands out whole GPUs of a kind that can be asked for, or a declared node group will. Null when the connection is not known yet.
    pub can_take_gpu_work: Computed<bool>,
    /// Why not, group by group, and what to do. Null when it can.
    pub reason: Computed<String>,
    /// Kinds that a request can ask for. Null when the connection is not known yet.
    pub kinds: Computed<Vec<String>>,
    /// Groups of GPU nodes that are alike, usable or not, and the connection's `gpu_node_groups`. Null when the connection is not known yet.
    pub gpus: Computed<Vec<GroupRow>>,
    /// UID of the namespace `kube-system`. Null where the credential may not read it.
    pub target_uid: Computed<String>,
}

/// GPU nodes that are alike.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct GroupRow {
    /// GPU kind; null when their labels name none that Loomplane knows.
    pub kind: Option<String>,
    /// Whether a request for the kind can be placed on them. Not so for shared GPUs, MIG slices, virtual GPUs, arm64, GPUs that nothing advertises, and taints that only some nodes of the kind carry.
    pub usable: bool,
    /// Why not, and what to do. Of usable nodes: what keeps pods away just now, such as that they are cordoned; null when nothing does.
    pub reason: Option<String>,
    /// Whole GPUs of one node. Not what is free: other pods' use is not counted. Null where nodes hand out parts of GPUs, or advertise none.
    pub gpus_per_node: Option<u64>,
    /// How many nodes; 0 for a declared node group.
    pub nodes: u64,
    /// Name in the connection's `gpu_node_groups`; null for nodes that exist.
    pub node_group: Option<String>,
    /// Instance type; empty when the nodes have none.
    pub instance_type: String,
    /// Estimated price of one machine, in US dollars an hour. Null when unknown.
    pub hourly_usd: Option<Number>,
    /// The same for a month.
    pub monthly_usd: Option<Number>,
    /// The estimate in words.
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
                super::warn_of_connection(cx);
                self.can_take_gpu_work = Computed::null();
                self.reason = super::connection_unknown(&attributes).into();
                self.kinds = Computed::null();
                self.gpus = Computed::null();
                self.target_uid = Computed::null();
                return Ok(self);
            }
        };
        super::warn_of_prices(cx);
        let watched = watched(cx);
        let view = target.view(&watched.cancel).await?;
        let check = check_cluster(view.seen(), &target.declared);
        self.can_take_gpu_work = check.can_take_gpu_work().into();
        self.reason = Computed(check.reason(&self.name).into());
        self.kinds = check
            .kinds()
            .iter()
            .map(|kind| kind.id().to_owned())
            .collect::<Vec<_>>()
            .into();
        let mut rows: Vec<GroupRow> = Vec::new();
        for group in &check.groups {
            let row = row(group, &self.name, cx.client);
            // What tells groups apart may be nothing that a row shows.
            let same = |other: &&mut GroupRow| {
                **other
                    == GroupRow {
                        nodes: other.nodes,
                        ..row.clone()
                    }
            };
            match rows.iter_mut().find(same) {
                Some(other) => other.nodes += row.nodes,
                None => rows.push(row),
            }
        }
        self.gpus = rows.into();
        self.target_uid = match target.cluster.target_uid(&watched.cancel).await? {
            TargetUid::Known(uid) => uid.into(),
            TargetUid::Forbidden => Computed::null(),
        };
        Ok(self)
    }
}

fn row(group: &CheckedGroup, target: &str, client: &Client) -> GroupRow {
    let price = super::price_of(&group.machine, client);
    GroupRow {
        kind: group.kind.map(|kind| kind.id().to_owned()),
        usable: group.usable(),
        reason: group.reason(target),
        gpus_per_node: group.gpus_per_node,
        nodes: group.nodes,
        node_group: group.declared.clone(),
        instance_type: group.machine.instance_type.clone(),
        hourly_usd: price.hourly().map(report::usd),
        monthly_usd: price.monthly().map(report::usd),
        price: price.render(),
    }
}
