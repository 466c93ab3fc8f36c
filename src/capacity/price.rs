//! Prices: estimates, or unknown; never zero (P1 to P5).

use rust_decimal::Decimal;

pub mod book;
pub mod lowest;
pub mod share;
#[cfg(test)]
mod tests;
pub mod total;
pub mod usd;

pub use book::{BookError, Machine, PriceBook};
pub use lowest::Lowest;
pub use share::{OverLimit, SharePrice, check_limit, share};
pub use total::{PriceTotal, price_total};
pub use usd::Usd;

use super::catalog::Cloud;

/// Hours in a month, where a cloud states no monthly figure of its own (P5).
pub const HOURS_A_MONTH: u32 = 730;

/// What a machine costs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Price {
    /// An estimate.
    Known(Quote),
    /// Nobody knows: shown as `price unknown`, null as a number.
    Unknown,
}

/// An estimate of a machine's price.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Quote {
    /// US dollars an hour.
    pub hourly: Usd,
    /// US dollars a month.
    pub monthly: Usd,
    /// Where the figure comes from.
    pub origin: Origin,
}

/// Where a price comes from.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Origin {
    /// The user states it.
    Stated,
    /// The cloud's API said so.
    Live(Cloud),
    /// The reference table: an on-demand list price of one region and day (P5).
    Reference {
        /// Whose list.
        cloud: Cloud,
        /// The region; none where one price holds everywhere.
        region: Option<String>,
        /// The day, as the source gives it.
        as_of: String,
    },
}

impl Origin {
    /// What follows `estimate` in a price text; none when there is nothing to add.
    #[must_use]
    pub fn render(&self) -> Option<String> {
        match self {
            Self::Stated | Self::Live(_) => None,
            Self::Reference {
                cloud,
                region,
                as_of,
            } => {
                let region = region
                    .as_ref()
                    .map(|region| format!(" of {region}"))
                    .unwrap_or_default();
                Some(format!(
                    "{} list price{region}, {as_of}",
                    cloud.display_name()
                ))
            }
        }
    }
}

/// A price that can't be one.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "a price of {usd} US dollars an hour is negative: state what the machine costs, or leave it out (or 0) for an unknown price"
)]
pub struct NegativePrice {
    /// What was stated.
    pub usd: Decimal,
}

impl Price {
    /// A price that the user states, in US dollars an hour: none and 0 mean unknown (P5).
    ///
    /// # Errors
    /// Negative prices are refused.
    pub fn stated(hourly: Option<Decimal>) -> Result<Self, NegativePrice> {
        match hourly {
            Some(usd) if usd < Decimal::ZERO => Err(NegativePrice { usd }),
            hourly => Ok(Self::of(hourly, None, Origin::Stated)),
        }
    }

    /// A price from a cloud's API: missing, null, 0 and what is negative mean unknown (P3).
    #[must_use]
    pub fn live(cloud: Cloud, hourly: Option<Decimal>, monthly: Option<Decimal>) -> Self {
        Self::of(hourly, monthly, Origin::Live(cloud))
    }

    /// Positive figures make a known price; without a monthly figure it is the hourly one x 730.
    pub(crate) fn of(hourly: Option<Decimal>, monthly: Option<Decimal>, origin: Origin) -> Self {
        let Some(hourly) = hourly.and_then(Usd::new) else {
            return Self::Unknown;
        };
        let computed = hourly.times(Decimal::from(HOURS_A_MONTH));
        match monthly.and_then(Usd::new).or(computed) {
            Some(monthly) => Self::Known(Quote {
                hourly,
                monthly,
                origin,
            }),
            // A figure beyond all money.
            None => Self::Unknown,
        }
    }

    /// US dollars an hour; none when unknown.
    #[must_use]
    pub fn hourly(&self) -> Option<Usd> {
        match self {
            Self::Known(quote) => Some(quote.hourly),
            Self::Unknown => None,
        }
    }

    /// US dollars a month; none when unknown.
    #[must_use]
    pub fn monthly(&self) -> Option<Usd> {
        match self {
            Self::Known(quote) => Some(quote.monthly),
            Self::Unknown => None,
        }
    }

    /// `about $1.57 an hour, $1,168 a month (estimate)`, or `price unknown`.
    #[must_use]
    pub fn render(&self) -> String {
        match self {
            Self::Unknown => "price unknown".to_owned(),
            Self::Known(quote) => {
                let origin = quote
                    .origin
                    .render()
                    .map(|text| format!("; {text}"))
                    .unwrap_or_default();
                format!(
                    "about {} an hour, {} a month (estimate{origin})",
                    quote.hourly.render_hourly(),
                    quote.monthly.render_monthly()
                )
            }
        }
    }
}
