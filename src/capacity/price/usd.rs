//! Amounts of money.

use rust_decimal::prelude::ToPrimitive;
use rust_decimal::{Decimal, RoundingStrategy};

/// A positive amount in US dollars, exact to a millionth: an amount of zero is not a price.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Usd(Decimal);

/// Digits after the point: list prices have six.
const DIGITS: u32 = 6;

impl Usd {
    /// An amount; none unless it is positive once rounded to a millionth.
    #[must_use]
    pub fn new(amount: Decimal) -> Option<Self> {
        let rounded = amount
            .round_dp_with_strategy(DIGITS, RoundingStrategy::MidpointAwayFromZero)
            .normalize();
        (rounded > Decimal::ZERO).then_some(Self(rounded))
    }

    /// The amount.
    #[must_use]
    pub fn decimal(self) -> Decimal {
        self.0
    }

    /// The amount as Terraform's number takes it.
    #[must_use]
    pub fn as_f64(self) -> f64 {
        // A decimal always has a nearest float; the fallback is never taken.
        self.0.to_f64().unwrap_or(f64::MAX)
    }

    /// The amount times a factor; none when that is no amount any more.
    #[must_use]
    pub fn times(self, factor: Decimal) -> Option<Self> {
        self.0.checked_mul(factor).and_then(Self::new)
    }

    /// The amount times a number of parts, over all parts; none for no parts.
    #[must_use]
    pub fn part(self, parts: u64, all: u64) -> Option<Self> {
        self.0
            .checked_mul(Decimal::from(parts))?
            .checked_div(Decimal::from(all))
            .and_then(Self::new)
    }

    /// `$1.57`; with more digits where two would read as zero.
    #[must_use]
    pub fn render_hourly(self) -> String {
        self.render(2)
    }

    /// `$1,168`; with cents, or more, where whole dollars would read as zero.
    #[must_use]
    pub fn render_monthly(self) -> String {
        if self.0 < Decimal::TEN {
            self.render(2)
        } else {
            self.render(0)
        }
    }

    fn render(self, digits: u32) -> String {
        let rounded = (digits..=DIGITS)
            .map(|digits| {
                self.0
                    .round_dp_with_strategy(digits, RoundingStrategy::MidpointAwayFromZero)
            })
            .find(|rounded| !rounded.is_zero())
            .unwrap_or(self.0);
        let shown = usize::try_from(digits.max(rounded.normalize().scale())).unwrap_or_default();
        let text = format!("{rounded:.shown$}");
        let (whole, cents) = text.split_once('.').unwrap_or((&text, ""));
        let mut grouped = String::new();
        for (index, digit) in whole.chars().enumerate() {
            if index > 0 && (whole.len() - index) % 3 == 0 {
                grouped.push(',');
            }
            grouped.push(digit);
        }
        if cents.is_empty() {
            format!("${grouped}")
        } else {
            format!("${grouped}.{cents}")
        }
    }
}
