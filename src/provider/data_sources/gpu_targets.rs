//! `data.loomplane_gpu_targets`: what the configured connections have.

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
    capacity::{
        fit::{ClusterAsk, check_cluster, fit_cluster},
        gpu::{GpuRequest, Kind},
    },
    kubernetes::Cancel,
    provider::{
        client::{Client, ClusterTarget},
        report,
    },
};

/// The GPU kinds that each configured connection can run work on, or why it can't.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct GpuTargets {
    /// Only targets that have this kind.
    pub kind: Option<String>,
    /// Only targets that have this many GPUs on one node, 1 to 8. Default: 1.
    #[schemars(range(min = 1, max = 8))]
    #[serde(default = "one")]
    pub gpus: i64,
    /// What was found, by target and kind. A target without any usable GPU has one entry with the reason.
    pub targets: Computed<Vec<TargetRow>>,
}

fn one() -> i64 {
    1
}

/// One kind on one target.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct TargetRow {
    /// Name of the connection.
    pub target: String,
    /// Whether a request for the kind and number can be met.
    pub usable: bool,
    /// Why not.
    pub reason: Option<String>,
    /// GPU kind; null where the target has none.
    pub kind: Option<String>,
    /// The most GPUs on one node. Not what is free: other pods' use is not counted.
    pub gpus_per_node: Option<u64>,
    /// How many nodes match; 0 for declared node groups.
    pub nodes: Option<u64>,
    /// Estimated share of the machine's price for `gpus` GPUs, in US dollars an hour. Null when unknown.
    pub hourly_usd: Option<Number>,
    /// The same for a month.
    pub monthly_usd: Option<Number>,
    /// The estimate in words.
    pub price: Option<String>,
}

impl DataSource for GpuTargets {
    const TYPE: &'static str = "loomplane_gpu_targets";
    type Client = Client;

    fn validate(&self, report: &mut Diagnostics) {
        if let Some(Err(why)) = self
            .kind
            .as_ref()
            .map(|kind| GpuRequest::parse(kind, self.gpus))
        {
            report.error("kind", "Invalid GPU request", why.to_string());
        }
    }

    async fn read(mut self, cx: &Context<'_, Client>) -> Result<Self, Diagnostics> {
        let (clusters, unknown) = cx.client.clusters();
        let mut rows = Vec::new();
        for cluster in clusters {
            rows.extend(self.of_cluster(cluster, cx).await?);
        }
        rows.extend(
            unknown
                .into_iter()
                .map(|name| refused(name, None, "Its connection is not known yet.".to_owned())),
        );
        self.targets = rows.into();
        Ok(self)
    }
}

fn refused(target: &str, kind: Option<Kind>, reason: String) -> TargetRow {
    TargetRow {
        target: target.to_owned(),
        usable: false,
        reason: Some(reason),
        kind: kind.map(|kind| kind.id().to_owned()),
        gpus_per_node: None,
        nodes: None,
        hourly_usd: None,
        monthly_usd: None,
        price: None,
    }
}

impl GpuTargets {
    async fn of_cluster(
        &self,
        target: &ClusterTarget,
        cx: &Context<'_, Client>,
    ) -> Result<Vec<TargetRow>, Diagnostics> {
        let cancel = Cancel::never();
        let view = match cx
            .run(target.view(&cancel))
            .await
            .map_err(|why| report::interrupted("list nodes", why))?
        {
            Ok(view) => view,
            // One cluster that can't be reached hides none of the others.
            Err(error) => return Ok(vec![refused(&target.name, None, error.render())]),
        };
        let kinds = match check_cluster(view.seen(), &target.declared) {
            Ok(kinds) => kinds,
            Err(why) => return Ok(vec![refused(&target.name, None, why.render())]),
        };
        let wanted = |kind: &Kind| {
            self.kind
                .as_deref()
                .is_none_or(|wanted| wanted == kind.id())
        };
        let none = Default::default();
        let row = |kind: Kind| {
            let request = GpuRequest::parse(kind.id(), self.gpus).map_err(|why| {
                Diagnostic::error("Invalid GPU request", why.to_string()).at("gpus")
            })?;
            let ask = ClusterAsk {
                target: &target.name,
                request,
                replicas: 1,
                node_selector: &none,
                tolerations: &[],
                previous: None,
                prices: &cx.client.prices,
            };
            Ok(match fit_cluster(view.seen(), &target.declared, &ask) {
                Err(refusal) => refused(&target.name, Some(kind), refusal.render().detail),
                Ok(fit) => TargetRow {
                    target: target.name.clone(),
                    usable: true,
                    reason: None,
                    kind: Some(kind.id().to_owned()),
                    gpus_per_node: fit.groups.iter().map(|group| group.gpus_per_node).max(),
                    nodes: Some(fit.groups.iter().map(|group| group.nodes).sum()),
                    hourly_usd: fit.price.hourly().map(report::usd),
                    monthly_usd: fit.price.monthly().map(report::usd),
                    price: Some(fit.price.render()),
                },
            })
        };
        kinds
            .into_iter()
            .filter(|kind| wanted(kind))
            .map(row)
            .collect()
    }
}
