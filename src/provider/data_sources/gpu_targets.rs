//! `data.loomplane_gpu_targets`: what the configured connections have.

use std::collections::BTreeSet;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tf_provider_sdk::{
    context::Context, data_source::DataSource, diagnostic::Diagnostics, field::Computed,
    number::Number,
};

use crate::{
    capacity::{
        fit::{ClusterAsk, check_cluster, fit_cluster},
        gpu::{GpuRequest, Kind},
        price::{Price, Usd, share},
    },
    kubernetes::Cancel,
    provider::{
        cancel::watched,
        client::{Client, ClusterTarget, ServerTarget},
        report,
    },
};

/// The GPU kinds that each configured connection can run work on, or why it can't.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct GpuTargets {
    /// Kind that is asked for: each target then has one entry, that says whether it can give this kind, and if not, why. Without it each kind that a target has is an entry.
    pub kind: Option<String>,
    /// How many GPUs of one node, or one server, are asked for, 1 to 8. Targets that have fewer are entries that say so, with `usable = false`. Default: 1.
    #[schemars(range(min = 1, max = 8))]
    #[serde(default = "one")]
    pub gpus: i64,
    /// What was found, by target and kind, usable or not. A target that has no GPUs of a known kind, or can't be asked, has one entry with the reason.
    pub targets: Computed<Vec<TargetRow>>,
    /// Names of connections that are not known yet: nothing could be asked of them, so they have no entry in `targets`, and a warning says so. Null when not even their names are known. With `depends_on` on what they come from, Terraform reads this data source at apply.
    pub not_known_yet: Computed<Vec<String>>,
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
    /// GPU kind; null where the target has none that Loomplane knows, or can't be asked.
    pub kind: Option<String>,
    /// The most GPUs on one node, or usable ones on a server. Not what is free: others' use is not counted.
    pub gpus_per_node: Option<u64>,
    /// How many nodes match; 0 for declared node groups. Null for a server.
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
        let (clusters, mut unknown) = cx.client.clusters();
        let (servers, unknown_servers) = cx.client.servers();
        unknown.extend(unknown_servers);
        let mut rows = Vec::new();
        for cluster in clusters {
            rows.extend(self.of_cluster(cluster, cx).await?);
        }
        for server in servers {
            rows.extend(self.of_server(server, cx).await?);
        }
        let names_known = cx.client.names_known();
        if !unknown.is_empty() || !names_known {
            super::warn_of_connection(cx);
        }
        super::warn_of_prices(cx);
        self.not_known_yet = if names_known {
            unknown.into_iter().map(str::to_owned).collect()
        } else {
            Computed::null()
        };
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
        let check = check_cluster(view.seen(), &target.declared);
        let has = check.named_kinds();
        if has.is_empty() {
            let reason = check.reason(&target.name).unwrap_or_default();
            return Ok(vec![refused(&target.name, None, reason)]);
        }
        let none = Default::default();
        let known = |usd: Option<Usd>| usd.filter(|_| cx.client.prices_known).map(report::usd);
        let row = |kind: Kind| {
            let request = match GpuRequest::parse(kind.id(), self.gpus) {
                Ok(request) => request,
                Err(why) => return refused(&target.name, Some(kind), why.to_string()),
            };
            let ask = ClusterAsk {
                target: &target.name,
                request,
                replicas: 1,
                cpu_millis: None,
                memory_mib: None,
                node_selector: &none,
                tolerations: &[],
                previous: None,
                prices: &cx.client.prices,
            };
            match fit_cluster(view.seen(), &target.declared, &ask) {
                Err(refusal) => refused(&target.name, Some(kind), refusal.render().detail),
                Ok(fit) => TargetRow {
                    target: target.name.clone(),
                    usable: true,
                    reason: None,
                    kind: Some(kind.id().to_owned()),
                    gpus_per_node: fit.groups.iter().map(|group| group.gpus_per_node).max(),
                    nodes: Some(fit.groups.iter().map(|group| group.nodes).sum()),
                    hourly_usd: known(fit.price.hourly()),
                    monthly_usd: known(fit.price.monthly()),
                    price: Some(if cx.client.prices_known {
                        fit.price.render()
                    } else {
                        Price::Unknown.render()
                    }),
                },
            }
        };
        Ok(self.asked(has).into_iter().map(row).collect())
    }

    /// The kind that is asked for, also where the target lacks it, so that its row says why; else those that the target has.
    fn asked(&self, has: BTreeSet<Kind>) -> Vec<Kind> {
        match self.kind.as_deref().and_then(|kind| kind.parse().ok()) {
            Some(kind) => vec![kind],
            None => has.into_iter().collect(),
        }
    }

    async fn of_server(
        &self,
        target: &ServerTarget,
        cx: &Context<'_, Client>,
    ) -> Result<Vec<TargetRow>, Diagnostics> {
        let watched = watched(cx);
        let report = match target.server.report(&watched.scope).await {
            Ok(report) => report,
            // One server that can't be reached hides none of the others.
            Err(error) => {
                let reason = report::server_error(&target.name, &error).detail;
                return Ok(vec![refused(&target.name, None, reason)]);
            }
        };
        if let Some(other) = report
            .target_uid
            .as_ref()
            .and_then(|uid| cx.client.claim_machine(&target.name, uid))
        {
            let reason = format!(
                "It is the same machine as {other} (the same /etc/machine-id): its GPUs would be counted twice."
            );
            return Ok(vec![refused(&target.name, None, reason)]);
        }
        if let Some(reason) = report.reason() {
            return Ok(vec![refused(&target.name, None, reason)]);
        }
        let kinds: BTreeSet<Kind> = report
            .check
            .cards
            .iter()
            .filter_map(|card| card.kind)
            .collect();
        let row = |kind: Kind| {
            let usable = u64::try_from(report.check.usable(kind).count()).unwrap_or(u64::MAX);
            let gpus = u64::try_from(self.gpus).unwrap_or(1);
            if usable < gpus {
                let reason = format!("{usable} usable GPUs of this kind, {gpus} asked for.");
                return refused(&target.name, Some(kind), reason);
            }
            let cards = u64::from(report.check.physical_cards());
            let price = share(gpus, 1, [(&target.price, Some(cards))]);
            TargetRow {
                target: target.name.clone(),
                usable: true,
                reason: None,
                kind: Some(kind.id().to_owned()),
                gpus_per_node: Some(usable),
                nodes: None,
                hourly_usd: price.hourly().map(report::usd),
                monthly_usd: price.monthly().map(report::usd),
                price: Some(price.render()),
            }
        };
        Ok(self.asked(kinds).into_iter().map(row).collect())
    }
}
