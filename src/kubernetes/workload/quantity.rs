//! Kubernetes quantities (`500m`, `2Gi`, `1e3`) as numbers.

/// Thousandths of the unit, rounded up as Kubernetes does. `None` when the text is no quantity.
pub(crate) fn milli(text: &str) -> Option<u64> {
    let text = text.trim();
    let end = text
        .find(|c: char| !(c.is_ascii_digit() || c == '.' || c == '+' || c == '-'))
        .unwrap_or(text.len());
    let (number, suffix) = text.split_at(end);
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let whole: u128 = if whole.is_empty() && !fraction.is_empty() {
        0
    } else {
        whole.trim_start_matches('+').parse().ok()?
    };
    let fraction = &fraction[..fraction.len().min(12)];
    let fraction_value: u128 = if fraction.is_empty() {
        0
    } else {
        fraction.parse().ok()?
    };
    let fraction_scale = 10u128.checked_pow(u32::try_from(fraction.len()).ok()?)?;
    // value = numerator / denominator, in thousandths.
    let (factor, divisor): (u128, u128) = match suffix {
        "n" => (1, 1_000_000),
        "u" => (1, 1_000),
        "m" => (1, 1),
        "" => (1_000, 1),
        "k" => (1_000_000, 1),
        "M" => (1_000_000_000, 1),
        "G" => (1_000_000_000_000, 1),
        "T" => (1_000_000_000_000_000, 1),
        "P" => (1_000_000_000_000_000_000, 1),
        "E" => (1_000_000_000_000_000_000_000, 1),
        "Ki" => (1_000 << 10, 1),
        "Mi" => (1_000 << 20, 1),
        "Gi" => (1_000 << 30, 1),
        "Ti" => (1_000 << 40, 1),
        "Pi" => (1_000 << 50, 1),
        "Ei" => (1_000 << 60, 1),
        exponent => {
            let digits = exponent.strip_prefix(['e', 'E'])?;
            let power: i32 = digits.parse().ok()?;
            let scale = 10u128.checked_pow(power.unsigned_abs())?;
            if power >= 0 {
                (1_000u128.checked_mul(scale)?, 1)
            } else {
                (1_000, scale)
            }
        }
    };
    let numerator = whole
        .checked_mul(fraction_scale)?
        .checked_add(fraction_value)?
        .checked_mul(factor)?;
    u64::try_from(numerator.div_ceil(divisor.checked_mul(fraction_scale)?)).ok()
}

/// MiB, rounded up.
pub(crate) fn mebi(text: &str) -> Option<u64> {
    milli(text).map(|thousandths| thousandths.div_ceil(1_000 << 20))
}

/// GiB, rounded up.
pub(super) fn gibi(text: &str) -> Option<u64> {
    milli(text).map(|thousandths| thousandths.div_ceil(1_000 << 30))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_read_as_kubernetes_reads_them() {
        for (text, wanted) in [
            ("1", Some(1_000)),
            ("500m", Some(500)),
            ("0.5", Some(500)),
            (".5", Some(500)),
            ("1.5k", Some(1_500_000)),
            ("1e3", Some(1_000_000)),
            ("1E-1", Some(100)),
            ("100n", Some(1)),
            ("1Ki", Some(1_024_000)),
            ("", None),
            ("x", None),
            ("1X", None),
            ("-1", None),
        ] {
            assert_eq!(milli(text), wanted, "{text}");
        }
        assert_eq!(mebi("2Gi"), Some(2048));
        assert_eq!(mebi("1G"), Some(954));
        assert_eq!(gibi("10Gi"), Some(10));
        assert_eq!(milli("4Pi"), Some(4 * 1_000 * (1 << 50)));
    }
}
