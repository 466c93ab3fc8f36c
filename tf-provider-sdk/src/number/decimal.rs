//! A decimal number in one canonical form.

use std::{cmp::Ordering, fmt};

/// The most zeros that are written out; past it the text has an exponent.
const MAX_ZEROS: i64 = 1_000;
/// The exponents that are read. Terraform's own numbers end near 10^646,000,000.
const MAX_EXPONENT: i64 = 1_000_000_000;
/// A float that is not whole has at most this many decimals.
const MAX_FLOAT_DECIMALS: usize = 1_074;

/// ± `digits` × 10^`exponent`, where `digits` neither begins nor ends with a zero: each value has one form. Zero has
/// no digits, no exponent and no sign.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Decimal {
    negative: bool,
    digits: Box<str>,
    exponent: i64,
}

impl Decimal {
    /// Reads `[+-] digits [. digits] [e [+-] digits]`, with a digit before or after the point.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let (negative, rest) = match text.as_bytes().first()? {
            b'-' => (true, &text[1..]),
            b'+' => (false, &text[1..]),
            _ => (false, text),
        };
        let (mantissa, exponent) = match rest.split_once(['e', 'E']) {
            Some((mantissa, exponent)) => (mantissa, parse_exponent(exponent)?),
            None => (rest, 0),
        };
        let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
        let is_digits = |text: &str| text.bytes().all(|b| b.is_ascii_digit());
        if whole.len() + fraction.len() == 0 || !is_digits(whole) || !is_digits(fraction) {
            return None;
        }
        let mut digits = String::with_capacity(whole.len() + fraction.len());
        digits.push_str(whole);
        digits.push_str(fraction);
        let significant = digits.trim_start_matches('0').trim_end_matches('0');
        if significant.is_empty() {
            return Some(Decimal {
                negative: false,
                digits: "".into(),
                exponent: 0,
            });
        }
        let dropped = digits.len() - digits.trim_end_matches('0').len();
        let exponent =
            exponent + i64::try_from(dropped).ok()? - i64::try_from(fraction.len()).ok()?;
        // Of the one form: what is read must be readable again as it is written.
        if !(-MAX_EXPONENT..=MAX_EXPONENT).contains(&exponent) {
            return None;
        }
        Some(Decimal {
            negative,
            digits: significant.into(),
            exponent,
        })
    }

    pub(super) fn is_whole(&self) -> bool {
        self.exponent >= 0
    }

    /// The value, when it is whole and fits.
    pub(super) fn to_i128(&self) -> Option<i128> {
        if !self.is_whole() || self.magnitude() > 39 {
            return None;
        }
        let digits: i128 = if self.digits.is_empty() {
            0
        } else {
            self.digits.parse().ok()?
        };
        let scaled =
            digits.checked_mul(10_i128.checked_pow(u32::try_from(self.exponent).ok()?)?)?;
        Some(if self.negative { -scaled } else { scaled })
    }

    /// The float that has exactly this value, where the value is not whole and there is one.
    pub(super) fn to_exact_fraction(&self) -> Option<f64> {
        let decimals = usize::try_from(self.exponent.checked_neg()?).ok()?;
        if decimals == 0 || decimals > MAX_FLOAT_DECIMALS {
            return None;
        }
        let float = self.to_f64();
        // A fraction in binary has as many decimals as it has binary places: most candidates end here.
        if !float.is_finite() || binary_places(float) != decimals {
            return None;
        }
        (format!("{float:.decimals$}") == self.to_string()).then_some(float)
    }

    /// The nearest float.
    pub(super) fn to_f64(&self) -> f64 {
        let sign = if self.negative { "-" } else { "" };
        let text = format!(
            "{sign}{}e{}",
            if self.digits.is_empty() {
                "0"
            } else {
                &self.digits
            },
            self.exponent
        );
        // The text is always one that a float is read from; were it not, NaN equals nothing.
        text.parse().unwrap_or(f64::NAN)
    }

    /// The power of ten just above the value; below every other for zero.
    fn magnitude(&self) -> i64 {
        if self.digits.is_empty() {
            return i64::MIN;
        }
        i64::try_from(self.digits.len())
            .unwrap_or(i64::MAX)
            .saturating_add(self.exponent)
    }
}

fn parse_exponent(text: &str) -> Option<i64> {
    let exponent: i64 = text.parse().ok()?;
    (-MAX_EXPONENT..=MAX_EXPONENT)
        .contains(&exponent)
        .then_some(exponent)
}

/// How many places after the binary point a finite float has.
fn binary_places(float: f64) -> usize {
    let bits = float.to_bits();
    let biased = (bits >> 52) & 0x7ff;
    let fraction = bits & ((1 << 52) - 1);
    let (mantissa, power) = match biased {
        0 => (fraction, -1_074),
        _ => (
            fraction | (1 << 52),
            i64::try_from(biased).unwrap_or(0) - 1_075,
        ),
    };
    if mantissa == 0 {
        return 0;
    }
    usize::try_from(-(power + i64::from(mantissa.trailing_zeros()))).unwrap_or(0)
}

impl Ord for Decimal {
    fn cmp(&self, other: &Self) -> Ordering {
        match (self.negative, other.negative) {
            (true, false) => return Ordering::Less,
            (false, true) => return Ordering::Greater,
            _ => {}
        }
        let by_size = self
            .magnitude()
            .cmp(&other.magnitude())
            .then_with(|| self.digits.cmp(&other.digits));
        if self.negative {
            by_size.reverse()
        } else {
            by_size
        }
    }
}

impl PartialOrd for Decimal {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl fmt::Display for Decimal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.negative {
            f.write_str("-")?;
        }
        let digits = &*self.digits;
        if digits.is_empty() {
            return f.write_str("0");
        }
        // Digits before the point; the zeros to add are on one side only.
        let point = self.magnitude();
        if self.exponent > MAX_ZEROS || point < -MAX_ZEROS {
            return write!(f, "{digits}e{}", self.exponent);
        }
        let zeros =
            |f: &mut fmt::Formatter<'_>, count: i64| (0..count).try_for_each(|_| f.write_str("0"));
        if self.exponent >= 0 {
            f.write_str(digits)?;
            zeros(f, self.exponent)
        } else if let Ok(point @ 1..) = usize::try_from(point) {
            let (whole, fraction) = digits.split_at(point);
            write!(f, "{whole}.{fraction}")
        } else {
            f.write_str("0.")?;
            zeros(f, -point)?;
            f.write_str(digits)
        }
    }
}
