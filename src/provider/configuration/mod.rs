//! The provider block. Every field admits unknown values, since a cluster may be made in the same apply.

mod cluster;
mod server;

use std::collections::BTreeMap;

pub use cluster::{ClusterConfig, ExecConfig, NodeGroupConfig, NodeGroupLabel};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
pub(super) use server::registries;
pub use server::{JumpConfig, RegistryConfig, ServerConfig, SshConfig};
use tf_provider_sdk::{
    diagnostic::Diagnostics,
    field::{Maybe, Opt},
    number::Number,
    path::{Path, Step},
    value::Value,
};

use crate::capacity::price::PriceBook;

/// Loomplane runs GPU work on Kubernetes clusters and on your own servers. From one plan you learn whether a GPU request can be met, where, and at what
/// estimated price.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct Config {
    /// Connections to Kubernetes clusters. The key is the cluster's name, which `target` uses: letters, digits, `_` and `-`.
    /// A connection is opened when it is first used.
    pub clusters: Opt<BTreeMap<String, Maybe<ClusterConfig>>>,
    /// Connections to own servers over SSH. The key is the server's name, which `target` uses; no cluster has the same name.
    /// A connection is opened when it is first used, once for a run.
    pub servers: Opt<BTreeMap<String, Maybe<ServerConfig>>>,
    /// How to log in to servers that do not say it themselves.
    pub ssh: Opt<SshConfig>,
    /// Logins of image registries, by host (`ghcr.io`, `docker.io`), for images that servers pull.
    pub registries: Opt<BTreeMap<String, Maybe<RegistryConfig>>>,
    /// Hourly prices in US dollars that go before the reference table that ships with the provider, by cloud and instance type,
    /// such as `"aws:p5.48xlarge" = 55.04`. 0 says that the price is not known.
    pub prices: Opt<BTreeMap<String, Maybe<Number>>>,
}

impl Config {
    /// What is wrong, as far as it is known.
    pub(super) fn validate(&self, report: &mut Diagnostics) {
        for (name, cluster) in self.clusters.known().into_iter().flatten() {
            let at = Path::from("clusters").then(Step::Key(name.into()));
            check_name(name, &at, report);
            if let Maybe::Known(cluster) = cluster {
                cluster.validate(&at, report);
            }
        }
        for (name, server) in self.servers.known().into_iter().flatten() {
            let at = Path::from("servers").then(Step::Key(name.into()));
            check_name(name, &at, report);
            if self
                .clusters
                .known()
                .is_some_and(|clusters| clusters.contains_key(name))
            {
                report.error(
                    at.clone(),
                    "One name for two targets",
                    format!("{name:?} names a cluster and a server. A target's name is one thing's only: rename one of them."),
                );
            }
            if let Maybe::Known(server) = server {
                server.validate(&at, report);
            }
        }
        if let Err((path, why)) = self.prices() {
            report.error(path, "Invalid price", why);
        }
    }

    /// The user's own prices over the reference table; entries that are not known yet are left out.
    pub(super) fn prices(&self) -> Result<PriceBook, (Path, String)> {
        let mut entries = Vec::new();
        for (name, usd) in self.prices.known().into_iter().flatten() {
            let Some(usd) = usd.known() else { continue };
            let at = || Path::from("prices").then(Step::Key(name.into()));
            let usd = super::report::decimal(usd).ok_or_else(|| {
                (
                    at(),
                    format!("prices: {name:?} is {usd}, which is no amount of US dollars."),
                )
            })?;
            entries.push((name.as_str(), usd));
        }
        PriceBook::new(entries).map_err(|why| {
            (
                Path::from("prices").then(Step::Key(why.entry().into())),
                format!("{why}."),
            )
        })
    }
}

fn check_name(name: &str, at: &Path, report: &mut Diagnostics) {
    let valid = !name.is_empty()
        && name
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-');
    if !valid {
        report.error(
            at.clone(),
            "Invalid target name",
            format!("{name:?} can't name a target. Use letters, digits, \"_\" and \"-\"."),
        );
    }
}

/// Names of the attributes of a connection that are not known yet.
pub(super) fn unknown_in<T: Serialize>(model: &T) -> Vec<String> {
    let mut names = Vec::new();
    match tf_provider_sdk::ser::to_value(model) {
        Ok(Value::Map(values)) => names.extend(
            values
                .into_iter()
                .filter(|(_, value)| !value.is_wholly_known())
                .map(|(name, _)| name.to_string()),
        ),
        Ok(value) if value.is_wholly_known() => {}
        _ => names.push("all of it".to_owned()),
    }
    names
}
