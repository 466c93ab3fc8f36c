//! What one GPU of a kind costs at least.

use std::collections::BTreeMap;

use rust_decimal::Decimal;

use super::{HOURS_A_MONTH, Machine, Origin, Price, PriceBook, Usd};
use crate::capacity::catalog::{self, Cloud};
use crate::capacity::gpu::Kind;

/// The cheapest machine of one cloud with whole cards of a kind, by the hour of one GPU.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lowest {
    /// Whose.
    pub cloud: Cloud,
    /// Its instance type, or `TYPE + 1x ACCELERATOR` where the card is attached separately.
    pub machine: String,
    /// US dollars an hour for one GPU.
    pub per_gpu: Usd,
    /// Where the figure comes from.
    pub origin: Origin,
}

impl Lowest {
    /// US dollars a month for one GPU; none beyond all money.
    #[must_use]
    pub fn monthly(&self) -> Option<Usd> {
        self.per_gpu.times(Decimal::from(HOURS_A_MONTH))
    }

    /// `about $0.80 an hour, $588 a month for one GPU (estimate; AWS list price of us-east-1, 2026-07-20; g6.xlarge)`.
    #[must_use]
    pub fn render(&self) -> String {
        let monthly = self
            .monthly()
            .map(|monthly| format!(", {} a month", monthly.render_monthly()))
            .unwrap_or_default();
        let origin = self
            .origin
            .render()
            .unwrap_or_else(|| self.cloud.display_name().to_owned());
        format!(
            "about {} an hour{monthly} for one GPU (estimate; {origin}; {})",
            self.per_gpu.render_hourly(),
            self.machine
        )
    }
}

impl PriceBook {
    /// The lowest known price of one GPU of a kind, in each cloud where one is known: what `data.loomplane_gpu_kinds` shows (G1).
    #[must_use]
    pub fn lowest(&self, kind: Kind) -> Vec<Lowest> {
        let whole = catalog::get()
            .instance_types()
            .filter(|machine| machine.kind == Some(kind) && machine.whole)
            .filter_map(|machine| {
                Some((
                    machine.cloud,
                    machine.name.clone(),
                    None,
                    u64::from(machine.gpus?),
                ))
            });
        let attached =
            catalog::get()
                .attached_machines(kind)
                .map(|(cloud, machine, accelerator)| {
                    (
                        cloud,
                        machine.to_owned(),
                        Some((accelerator.to_owned(), 1)),
                        1,
                    )
                });
        let mut lowest: BTreeMap<Cloud, Lowest> = BTreeMap::new();
        for (cloud, instance_type, attached, gpus) in whole.chain(attached) {
            let name = match &attached {
                Some((accelerator, count)) => format!("{instance_type} + {count}x {accelerator}"),
                None => instance_type.clone(),
            };
            let machine = Machine {
                cloud: Some(cloud),
                instance_type,
                attached,
                gpus: Some(gpus),
            };
            let Price::Known(quote) = self.price(&machine) else {
                continue;
            };
            let Some(per_gpu) = quote.hourly.part(1, gpus) else {
                continue;
            };
            if lowest
                .get(&cloud)
                .is_none_or(|found| per_gpu < found.per_gpu)
            {
                lowest.insert(
                    cloud,
                    Lowest {
                        cloud,
                        machine: name,
                        per_gpu,
                        origin: quote.origin,
                    },
                );
            }
        }
        lowest.into_values().collect()
    }
}
