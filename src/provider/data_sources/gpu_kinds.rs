//! `data.loomplane_gpu_kinds`: the catalogue.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tf_provider_sdk::{
    context::Context, data_source::DataSource, diagnostic::Diagnostics, field::Computed,
};

use crate::{
    capacity::gpu::{Kind, Vendor},
    provider::client::Client,
};

/// The GPU kinds that Loomplane knows.
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
}

impl DataSource for GpuKinds {
    const TYPE: &'static str = "loomplane_gpu_kinds";
    type Client = Client;

    async fn read(mut self, _: &Context<'_, Client>) -> Result<Self, Diagnostics> {
        let row = |kind: &Kind| KindRow {
            id: kind.id().to_owned(),
            name: kind.display_name().to_owned(),
            vendor: match kind.vendor() {
                Vendor::Nvidia => "nvidia",
                Vendor::Amd => "amd",
            }
            .to_owned(),
            memory_mib: kind.memory_mib(),
            schedulable: kind.schedulable(),
        };
        self.kinds = Kind::ALL.iter().map(row).collect::<Vec<_>>().into();
        Ok(self)
    }
}
