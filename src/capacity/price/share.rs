//! A service's share of the machines that it may run on (P5), and the limit that a user sets on it (P4).

use std::collections::BTreeSet;

use super::{Origin, Price, Usd};

/// A service's share: count x replicas x (machine price / machine GPUs).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SharePrice {
    /// The service has no GPUs, or no replicas, so no share of any.
    NoShare,
    /// At least one machine that it may land on has no known price.
    Unknown {
        /// Lowest and highest hourly share on the machines whose price is known, if any is.
        elsewhere: Option<(Usd, Usd)>,
    },
    /// An estimate. The figures are the highest over the machines that the service may land on.
    Known {
        /// US dollars an hour.
        hourly: Usd,
        /// US dollars a month.
        monthly: Usd,
        /// The lowest hourly and monthly figures, where machines differ.
        lowest: Option<(Usd, Usd)>,
        /// Where the figures come from.
        origins: BTreeSet<Origin>,
    },
}

/// The share of a service that asks for `count` GPUs for each of `replicas`, over the machines that it may land on: each
/// with its price and its physical GPUs (lost and MIG ones too).
#[must_use]
pub fn share<'a>(
    count: u64,
    replicas: u64,
    machines: impl IntoIterator<Item = (&'a Price, Option<u64>)>,
) -> SharePrice {
    if count == 0 || replicas == 0 {
        return SharePrice::NoShare;
    }
    let parts = count.saturating_mul(replicas);
    let mut shares: Vec<(Usd, Usd)> = Vec::new();
    let mut origins = BTreeSet::new();
    let mut unknown = false;
    for (price, gpus) in machines {
        let figures = match (price, gpus) {
            (Price::Known(quote), Some(gpus)) => {
                origins.insert(quote.origin.clone());
                quote
                    .hourly
                    .part(parts, gpus)
                    .zip(quote.monthly.part(parts, gpus))
            }
            _ => None,
        };
        match figures {
            Some(figures) => shares.push(figures),
            None => unknown = true,
        }
    }
    shares.sort_unstable();
    let (Some(lowest), Some(highest)) = (shares.first().copied(), shares.last().copied()) else {
        return SharePrice::Unknown { elsewhere: None };
    };
    if unknown {
        return SharePrice::Unknown {
            elsewhere: Some((lowest.0, highest.0)),
        };
    }
    let (hourly, monthly) = highest;
    SharePrice::Known {
        hourly,
        monthly,
        lowest: (lowest != highest).then_some(lowest),
        origins,
    }
}

impl SharePrice {
    /// US dollars an hour; none when unknown or no share.
    #[must_use]
    pub fn hourly(&self) -> Option<Usd> {
        match self {
            Self::Known { hourly, .. } => Some(*hourly),
            _ => None,
        }
    }

    /// US dollars a month; none when unknown or no share.
    #[must_use]
    pub fn monthly(&self) -> Option<Usd> {
        match self {
            Self::Known { monthly, .. } => Some(*monthly),
            _ => None,
        }
    }

    /// The text of `price`.
    #[must_use]
    pub fn render(&self) -> String {
        match self {
            Self::NoShare => "no GPU share".to_owned(),
            Self::Unknown { elsewhere: None } => "price unknown".to_owned(),
            Self::Unknown {
                elsewhere: Some((low, high)),
            } => format!(
                "price unknown: some machines that it may run on have no known price (on the others {} an hour, an estimate)",
                span(low.render_hourly(), high.render_hourly())
            ),
            Self::Known {
                hourly,
                monthly,
                lowest,
                origins,
            } => {
                let mut notes: Vec<String> = origins.iter().filter_map(Origin::render).collect();
                notes.push("a share of the machine's price, not a cost on top of it".to_owned());
                let notes = notes.join("; ");
                match lowest {
                    None => format!(
                        "about {} an hour, {} a month (estimate; {notes})",
                        hourly.render_hourly(),
                        monthly.render_monthly()
                    ),
                    Some((low_hourly, low_monthly)) => format!(
                        "about {} an hour, {} a month (estimate; depends on the machine that it lands on; {notes})",
                        span(low_hourly.render_hourly(), hourly.render_hourly()),
                        span(low_monthly.render_monthly(), monthly.render_monthly())
                    ),
                }
            }
        }
    }
}

fn span(low: String, high: String) -> String {
    if low == high {
        low
    } else {
        format!("{low} to {high}")
    }
}

/// Why a `max_hourly_usd` stops a plan or a purchase (P4).
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum OverLimit {
    /// More than the limit.
    #[error("the estimate is ${} an hour, above max_hourly_usd = {limit}. Raise max_hourly_usd, ask for less, or use a cheaper target.", .hourly.decimal().normalize())]
    Above {
        /// The estimate.
        hourly: Usd,
        /// The limit.
        limit: rust_decimal::Decimal,
    },
    /// An unknown price passes no limit.
    #[error(
        "price unknown, and max_hourly_usd = {limit} is set: an unknown price does not pass it. State the price (the provider's prices, or a server's hourly_usd), or leave max_hourly_usd out."
    )]
    Unknown {
        /// The limit.
        limit: rust_decimal::Decimal,
    },
}

/// Holds an hourly estimate against `max_hourly_usd`.
///
/// # Errors
/// An estimate above the limit, or none at all.
pub fn check_limit(hourly: Option<Usd>, limit: rust_decimal::Decimal) -> Result<(), OverLimit> {
    match hourly {
        Some(hourly) if hourly.decimal() <= limit => Ok(()),
        Some(hourly) => Err(OverLimit::Above { hourly, limit }),
        None => Err(OverLimit::Unknown { limit }),
    }
}
