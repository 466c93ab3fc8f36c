//! Adding prices up: the function `price_total` (P2).

use std::collections::BTreeMap;

use rust_decimal::Decimal;

use super::{HOURS_A_MONTH, NegativePrice, Usd};

/// A total of hourly prices.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PriceTotal {
    /// US dollars an hour; none as soon as one part is unknown. 0 only where there is nothing to add up.
    pub hourly: Option<Decimal>,
    /// What the known parts come to; none when no part is known.
    pub at_least: Option<Decimal>,
    /// The names of the unknown parts.
    pub unknown: Vec<String>,
    /// All that in words.
    pub text: String,
}

/// A negative part.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{name:?}: {source}")]
pub struct TotalError {
    /// The part.
    pub name: String,
    /// What is wrong with it.
    pub source: NegativePrice,
}

/// Adds hourly prices up. A part that is none or 0 is unknown; a total with an unknown part is no number, and says which
/// part and what the others come to.
///
/// # Errors
/// A negative part.
pub fn price_total(parts: &BTreeMap<String, Option<Decimal>>) -> Result<PriceTotal, TotalError> {
    let mut sum = Decimal::ZERO;
    let mut unknown = Vec::new();
    for (name, usd) in parts {
        match usd {
            Some(usd) if *usd < Decimal::ZERO => {
                return Err(TotalError {
                    name: name.clone(),
                    source: NegativePrice { usd: *usd },
                });
            }
            // A sum beyond all numbers is as good as unknown.
            Some(usd) if *usd > Decimal::ZERO => match sum.checked_add(*usd) {
                Some(more) => sum = more,
                None => unknown.push(name.clone()),
            },
            _ => unknown.push(name.clone()),
        }
    }
    let known = Usd::new(sum);
    let text = render(parts.is_empty(), known, &unknown);
    let hourly = unknown.is_empty().then_some(sum);
    let at_least = (known.is_some() || parts.is_empty()).then_some(sum);
    Ok(PriceTotal {
        hourly,
        at_least,
        unknown,
        text,
    })
}

fn render(nothing: bool, known: Option<Usd>, unknown: &[String]) -> String {
    if nothing {
        return "nothing to add up".to_owned();
    }
    let figures = |sum: Usd| {
        let monthly = sum.times(Decimal::from(HOURS_A_MONTH)).unwrap_or(sum);
        format!(
            "{} an hour, {} a month (estimate)",
            sum.render_hourly(),
            monthly.render_monthly()
        )
    };
    match (known, unknown) {
        (Some(sum), []) => format!("about {}", figures(sum)),
        (Some(sum), names) => format!(
            "price unknown for {}; at least {}",
            names.join(", "),
            figures(sum)
        ),
        (None, names) => format!("price unknown for {}", names.join(", ")),
    }
}
