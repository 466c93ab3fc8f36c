//! `data.loomplane_gpu_kinds`: the catalogue.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tf_provider_sdk::{
    context::Context, data_source::DataSource, diagnostic::Diagnostics, field::Computed,
    number::Number,
};

use crate::{
    capacity::{
        gpu::{Kind, Vendor},
        price::{Lowest, Price},
    },
    provider::{client::Client, report},
};

/// The GPU kinds that Loomplane knows, and what one GPU of each costs at least.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct GpuKinds {
    /// The kinds, by ID.
    pub kinds: Computed<Vec<KindRow>>,
}

/// A GPU kind.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct KindRow {
    /// What `size.gpu.kind` takes, such as `nvidia-l4`.
    pub id: String,
    /// Name for reading, such as `NVIDIA L4`.
    pub name: String,
    /// `nvidia` or `amd`.
    pub vendor: String,
    /// Memory of one GPU in MiB, nominal.
    pub memory_mib: u64,
    /// Whether a request for it can be scheduled.
    pub schedulable: bool,
    /// Lowest known price of one GPU, in US dollars an hour: the machine's price over its GPUs. Your own `prices` go before the list prices of the clouds. Null when unknown.
    pub hourly_usd: Option<Number>,
    /// The same for a month.
    pub monthly_usd: Option<Number>,
    /// The estimate in words, with the machine, and the region and date of its list price.
    pub price: String,
    /// The cheapest machine in each cloud whose price is known, by cloud.
    pub prices: Vec<PriceRow>,
}

/// The cheapest machine of one cloud with a kind.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct PriceRow {
    /// `aws`, `azure`, `digitalocean` or `gcp`.
    pub cloud: String,
    /// Instance type, or `TYPE + 1x ACCELERATOR` where the GPU is attached to the machine.
    pub machine: String,
    /// Price of one GPU, in US dollars an hour.
    pub hourly_usd: Number,
    /// The same for a month.
    pub monthly_usd: Option<Number>,
    /// The estimate in words.
    pub price: String,
}

impl DataSource for GpuKinds {
    const TYPE: &'static str = "loomplane_gpu_kinds";
    type Client = Client;

    async fn read(mut self, cx: &Context<'_, Client>) -> Result<Self, Diagnostics> {
        super::warn_of_prices(cx);
        self.kinds = Kind::ALL
            .iter()
            .map(|kind| row(*kind, cx.client))
            .collect::<Vec<_>>()
            .into();
        Ok(self)
    }
}

fn row(kind: Kind, client: &Client) -> KindRow {
    let prices = if client.prices_known {
        client.prices.lowest(kind)
    } else {
        Vec::new()
    };
    let lowest = prices.iter().min_by_key(|lowest| lowest.per_gpu);
    KindRow {
        id: kind.id().to_owned(),
        name: kind.display_name().to_owned(),
        vendor: match kind.vendor() {
            Vendor::Nvidia => "nvidia",
            Vendor::Amd => "amd",
        }
        .to_owned(),
        memory_mib: kind.memory_mib(),
        schedulable: kind.schedulable(),
        hourly_usd: lowest.map(|lowest| report::usd(lowest.per_gpu)),
        monthly_usd: lowest.and_then(Lowest::monthly).map(report::usd),
        price: lowest.map_or_else(|| Price::Unknown.render(), Lowest::render),
        prices: prices.iter().map(price_row).collect(),
    }
}

fn price_row(lowest: &Lowest) -> PriceRow {
    PriceRow {
        cloud: lowest.cloud.id().to_owned(),
        machine: lowest.machine.clone(),
        hourly_usd: report::usd(lowest.per_gpu),
        monthly_usd: lowest.monthly().map(report::usd),
        price: lowest.render(),
    }
}
