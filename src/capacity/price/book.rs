//! What machines cost: the user's overrides, live prices, and the reference table (P3).

use std::collections::BTreeMap;

use rust_decimal::Decimal;

use super::{NegativePrice, Origin, Price};
use crate::capacity::catalog::{self, Cloud};
use crate::capacity::label::keys::{self, KindKey};
use crate::capacity::node::Node;

/// Prices of machines by cloud and instance type.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PriceBook {
    stated: BTreeMap<(Cloud, String), Price>,
    live: BTreeMap<(Cloud, String), Price>,
}

/// A wrong entry of the provider's `prices`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BookError {
    /// The name is not `CLOUD:TYPE`.
    #[error(
        "{name:?} is no machine: write CLOUD:TYPE, such as \"aws:p5.48xlarge\", where CLOUD is aws, azure, gcp or digitalocean"
    )]
    Name {
        /// The name.
        name: String,
    },
    /// A negative price.
    #[error("{name:?}: {source}")]
    Negative {
        /// The name.
        name: String,
        /// What is wrong.
        source: NegativePrice,
    },
    /// Two names for one machine, which differ in case.
    #[error("{name:?} is there twice, spelled in two ways: keep one")]
    Twice {
        /// The name.
        name: String,
    },
}

impl BookError {
    /// The entry of `prices` that is wrong.
    #[must_use]
    pub fn entry(&self) -> &str {
        match self {
            Self::Name { name } | Self::Negative { name, .. } | Self::Twice { name } => name,
        }
    }
}

/// A machine, as far as its price is concerned.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Machine {
    /// Whose it is; none for an own machine, or one that can't be told.
    pub cloud: Option<Cloud>,
    /// Its instance type; empty when the node has none.
    pub instance_type: String,
    /// Accelerators attached to a machine whose type says nothing of GPUs (GKE's n1): their name and number.
    pub attached: Option<(String, u64)>,
    /// Physical GPUs in it; none when that can't be told.
    pub gpus: Option<u64>,
}

impl Machine {
    /// The machine behind a node, from its labels.
    #[must_use]
    pub fn of_node(node: &Node) -> Self {
        let instance_type = node
            .labels
            .get(keys::INSTANCE_TYPE)
            .cloned()
            .unwrap_or_default();
        let known = catalog::get().instance_type(&instance_type);
        let cloud = known
            .map(|machine| machine.cloud)
            .or_else(|| cloud_of_labels(node));
        let by_type = known
            .and_then(|machine| machine.gpus)
            .map(u64::from)
            .filter(|gpus| *gpus > 0);
        let accelerator = node.labels.get(KindKey::GkeAccelerator.label());
        let attached = match (accelerator, by_type) {
            (Some(accelerator), None) => counted_gpus(node).map(|gpus| (accelerator.clone(), gpus)),
            _ => None,
        };
        let gpus = by_type.or_else(|| counted_gpus(node));
        Self {
            cloud,
            instance_type,
            attached,
            gpus,
        }
    }
}

/// Physical GPUs by a label that counts them, else by what the node advertised at most.
fn counted_gpus(node: &Node) -> Option<u64> {
    [keys::GPU_COUNT, keys::GKE_COUNT]
        .into_iter()
        .filter_map(|key| node.labels.get(key)?.parse().ok())
        .chain(node.capacity.get(keys::GPU_RESOURCE).copied())
        .chain(node.allocatable.get(keys::GPU_RESOURCE).copied())
        .find(|gpus| *gpus > 0)
}

/// The cloud of a node whose instance type is not known, by the labels that only one cloud sets.
fn cloud_of_labels(node: &Node) -> Option<Cloud> {
    let prefix = |key: &String| {
        [
            ("cloud.google.com/", Cloud::Gcp),
            ("eks.amazonaws.com/", Cloud::Aws),
            ("k8s.amazonaws.com/", Cloud::Aws),
            ("karpenter.k8s.aws/", Cloud::Aws),
            ("kubernetes.azure.com/", Cloud::Azure),
            ("doks.digitalocean.com/", Cloud::DigitalOcean),
        ]
        .into_iter()
        .find_map(|(prefix, cloud)| key.starts_with(prefix).then_some(cloud))
    };
    node.labels.keys().find_map(prefix)
}

impl PriceBook {
    /// The reference table under the user's overrides: `"aws:p5.48xlarge" = 55.04`, in US dollars an hour for the whole
    /// machine. 0 says that the price is not known, whatever the table says.
    ///
    /// # Errors
    /// A name that is no machine, or a negative price.
    pub fn new<'a>(
        overrides: impl IntoIterator<Item = (&'a str, Decimal)>,
    ) -> Result<Self, BookError> {
        let mut stated = BTreeMap::new();
        for (name, usd) in overrides {
            let wrong = || BookError::Name {
                name: name.to_owned(),
            };
            let (cloud, machine) = name.split_once(':').ok_or_else(wrong)?;
            let cloud = Cloud::from_id(cloud).ok_or_else(wrong)?;
            if machine.trim() != machine || machine.is_empty() {
                return Err(wrong());
            }
            let price = Price::stated(Some(usd)).map_err(|source| BookError::Negative {
                name: name.to_owned(),
                source,
            })?;
            if stated
                .insert((cloud, machine.to_ascii_lowercase()), price)
                .is_some()
            {
                return Err(BookError::Twice {
                    name: name.to_owned(),
                });
            }
        }
        Ok(Self {
            stated,
            live: BTreeMap::new(),
        })
    }

    /// Adds a price that a cloud's API gave: it goes before the reference table, after the user's own.
    #[must_use]
    pub fn with_live(mut self, cloud: Cloud, instance_type: &str, price: Price) -> Self {
        self.live
            .insert((cloud, instance_type.to_ascii_lowercase()), price);
        self
    }

    /// What a machine costs in all.
    #[must_use]
    pub fn price(&self, machine: &Machine) -> Price {
        let Some(cloud) = machine.cloud.filter(|_| !machine.instance_type.is_empty()) else {
            return Price::Unknown;
        };
        let key = (cloud, machine.instance_type.to_ascii_lowercase());
        if let Some(price) = self.stated.get(&key).or_else(|| self.live.get(&key)) {
            return price.clone();
        }
        match &machine.attached {
            Some((accelerator, count)) => {
                attached_price(cloud, &machine.instance_type, accelerator, *count)
            }
            None => reference(cloud, &machine.instance_type, Some),
        }
    }
}

fn reference(cloud: Cloud, name: &str, amount: impl Fn(Decimal) -> Option<Decimal>) -> Price {
    let Some(listed) = catalog::get().list_price(cloud, name) else {
        return Price::Unknown;
    };
    let origin = Origin::Reference {
        cloud,
        region: listed.region.clone(),
        as_of: listed.as_of.clone(),
    };
    Price::of(listed.usd_per_hour.and_then(amount), None, origin)
}

/// A machine with cards attached: the table has the sum for one card, and the card alone; more cards are added to it.
fn attached_price(cloud: Cloud, instance_type: &str, accelerator: &str, count: u64) -> Price {
    let card = catalog::get()
        .list_price(cloud, &format!("accelerator {accelerator}"))
        .and_then(|listed| listed.usd_per_hour);
    reference(
        cloud,
        &format!("{instance_type} + 1x {accelerator}"),
        |with_one| {
            let more = Decimal::from(count.checked_sub(1)?);
            if more.is_zero() {
                return Some(with_one);
            }
            with_one.checked_add(card?.checked_mul(more)?)
        },
    )
}
