//! Numbers of any size and precision, as Terraform has them.
//!
//! Terraform's numbers are decimal: 0.1 and 2⁶⁴ are ordinary values. [`Number`] keeps what it was given, and compares
//! as Terraform does: whole numbers exactly, others by their shortest decimal text, so that a float 0.1 from an API
//! equals a configured `0.1`.

mod decimal;

use std::{
    cmp::Ordering,
    fmt,
    hash::{Hash, Hasher},
    str::FromStr,
};

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{
    Deserialize, Deserializer, Serialize, Serializer,
    de::{self, Visitor},
};

use decimal::Decimal;

/// Name of the newtype that asks our deserializer for a number, and hands our serializer one, without loss.
pub(crate) const NUMBER: &str = "$tf::number";

/// A number as Terraform has them: any size, any precision, and the two infinities. Never NaN.
///
/// Two numbers are equal when Terraform takes them for equal, however each was written: `8` and `8.0`, `1e3` and
/// `1000`, the float 0.1 and the decimal `0.1`.
#[derive(Clone)]
pub struct Number(Repr);

/// Always in the first form that holds the value exactly, so that equal whole numbers have equal forms.
#[derive(Clone)]
enum Repr {
    Int(i64),
    /// Above `i64::MAX`.
    Uint(u64),
    /// Infinite, or finite and not whole.
    Float(f64),
    /// Whole and outside the two above, or a fraction that no float holds exactly.
    Decimal(Box<Decimal>),
}

/// A text that is not a decimal number, or whose exponent is out of bounds.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a number")]
pub struct ParseNumberError(String);

/// NaN is no number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not a number (NaN)")]
pub struct NotANumber;

impl Number {
    /// The exact value of a float. NaN has none.
    pub fn from_f64(value: f64) -> Result<Self, NotANumber> {
        const I64_END: f64 = 9_223_372_036_854_775_808.0;
        if value.is_nan() {
            return Err(NotANumber);
        }
        if value.is_infinite() || value.fract() != 0.0 {
            return Ok(Number(Repr::Float(value)));
        }
        if (-I64_END..I64_END).contains(&value) {
            return Ok(Number(Repr::Int(value as i64)));
        }
        if value > 0.0 && value < I64_END * 2.0 {
            return Ok(Number(Repr::Uint(value as u64)));
        }
        // `{:.0}` writes every digit of a whole float, 309 at most.
        let text = format!("{value:.0}");
        Decimal::parse(&text)
            .map(Number::from_decimal)
            .ok_or(NotANumber)
    }

    fn from_decimal(decimal: Decimal) -> Self {
        if let Some(whole) = decimal.to_i128() {
            if let Ok(int) = i64::try_from(whole) {
                return Number(Repr::Int(int));
            }
            if let Ok(uint) = u64::try_from(whole) {
                return Number(Repr::Uint(uint));
            }
        } else if let Some(float) = decimal.to_exact_fraction() {
            return Number(Repr::Float(float));
        }
        Number(Repr::Decimal(Box::new(decimal)))
    }

    /// The value, when it is whole and fits.
    pub fn as_i64(&self) -> Option<i64> {
        match self.0 {
            Repr::Int(int) => Some(int),
            _ => None,
        }
    }

    /// The value, when it is whole and fits.
    pub fn as_u64(&self) -> Option<u64> {
        match self.0 {
            Repr::Int(int) => u64::try_from(int).ok(),
            Repr::Uint(uint) => Some(uint),
            _ => None,
        }
    }

    /// The value, when it is whole and fits.
    pub fn as_u32(&self) -> Option<u32> {
        self.as_u64().and_then(|uint| u32::try_from(uint).ok())
    }

    /// The value, when it is whole and fits.
    pub fn as_i128(&self) -> Option<i128> {
        match &self.0 {
            Repr::Int(int) => Some((*int).into()),
            Repr::Uint(uint) => Some((*uint).into()),
            Repr::Float(_) => None,
            Repr::Decimal(decimal) => decimal.to_i128(),
        }
    }

    /// The nearest float; infinite where the value is beyond every float.
    pub fn to_f64(&self) -> f64 {
        match &self.0 {
            Repr::Int(int) => *int as f64,
            Repr::Uint(uint) => *uint as f64,
            Repr::Float(float) => *float,
            Repr::Decimal(decimal) => decimal.to_f64(),
        }
    }

    /// Whether the value is finite. State JSON has no form for the others.
    pub fn is_finite(&self) -> bool {
        !matches!(self.0, Repr::Float(float) if float.is_infinite())
    }

    /// Whether the value is a whole number.
    pub fn is_whole(&self) -> bool {
        match &self.0 {
            Repr::Int(_) | Repr::Uint(_) => true,
            Repr::Float(_) => false,
            Repr::Decimal(decimal) => decimal.is_whole(),
        }
    }

    /// The float that this number is, where it is one and not whole: the form that msgpack prefers then.
    pub(crate) fn as_fraction(&self) -> Option<f64> {
        match self.0 {
            Repr::Float(float) => Some(float),
            _ => None,
        }
    }

    /// Whether neither an integer nor a float of Rust holds the value.
    pub(crate) fn needs_text(&self) -> bool {
        matches!(self.0, Repr::Decimal(_))
    }

    /// For what is finite.
    fn to_decimal(&self) -> Option<Decimal> {
        match &self.0 {
            Repr::Int(int) => Decimal::parse(&int.to_string()),
            Repr::Uint(uint) => Decimal::parse(&uint.to_string()),
            // `{:e}` writes the shortest digits that read back as the same float.
            Repr::Float(float) if float.is_finite() => Decimal::parse(&format!("{float:e}")),
            Repr::Float(_) => None,
            Repr::Decimal(decimal) => Some((**decimal).clone()),
        }
    }
}

impl FromStr for Number {
    type Err = ParseNumberError;
    /// Reads a decimal number such as `8`, `-0.5` or `1.5e-7`. What an exponent asks for is never written out: reading
    /// `1e1000000000` costs as much as reading `1`.
    fn from_str(text: &str) -> Result<Self, ParseNumberError> {
        Decimal::parse(text)
            .map(Number::from_decimal)
            .ok_or_else(|| ParseNumberError(text.chars().take(80).collect()))
    }
}

/// Plain decimal text, as Terraform writes it; with an exponent where that would take more than a thousand zeros.
impl fmt::Display for Number {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Repr::Int(int) => int.fmt(f),
            Repr::Uint(uint) => uint.fmt(f),
            Repr::Float(float) => float.fmt(f),
            Repr::Decimal(decimal) => decimal.fmt(f),
        }
    }
}

impl fmt::Debug for Number {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Ord for Number {
    fn cmp(&self, other: &Self) -> Ordering {
        if let (Repr::Int(a), Repr::Int(b)) = (&self.0, &other.0) {
            return a.cmp(b);
        }
        match (self.to_decimal(), other.to_decimal()) {
            (Some(a), Some(b)) => a.cmp(&b),
            // At least one is infinite, so floats tell them apart, except a decimal beyond every float.
            (None, None) => self.to_f64().total_cmp(&other.to_f64()),
            (None, Some(_)) => self.to_f64().total_cmp(&0.0),
            (Some(_), None) => 0.0_f64.total_cmp(&other.to_f64()),
        }
    }
}

impl PartialOrd for Number {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Number {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Number {}

impl Hash for Number {
    fn hash<H: Hasher>(&self, state: &mut H) {
        match (&self.0, self.to_decimal()) {
            (Repr::Int(int), _) => int.hash(state),
            (_, Some(decimal)) => decimal.hash(state),
            (_, None) => (self.to_f64() > 0.0).hash(state),
        }
    }
}

macro_rules! from_int {
    ($($int:ty),*) => { $(impl From<$int> for Number {
        fn from(value: $int) -> Self {
            Number(Repr::Int(value.into()))
        }
    })* };
}
from_int!(i8, i16, i32, i64, u8, u16, u32);

impl From<u64> for Number {
    fn from(value: u64) -> Self {
        Number(i64::try_from(value).map_or(Repr::Uint(value), Repr::Int))
    }
}

impl TryFrom<f64> for Number {
    type Error = NotANumber;
    fn try_from(value: f64) -> Result<Self, NotANumber> {
        Number::from_f64(value)
    }
}

/// What a decimal is on its way through serde: its text where the other side says that it is our own serializer (the
/// only one here that calls itself not human-readable), else the nearest float where that reads back equal.
struct Portable<'a>(&'a Number);

impl Serialize for Portable<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let float = self.0.to_f64();
        let kept = Number::from_f64(float).is_ok_and(|n| n.is_finite() && n == *self.0);
        if serializer.is_human_readable() && kept {
            serializer.serialize_f64(float)
        } else {
            serializer.collect_str(self.0)
        }
    }
}

impl Serialize for Number {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match &self.0 {
            Repr::Int(int) => serializer.serialize_i64(*int),
            Repr::Uint(uint) => serializer.serialize_u64(*uint),
            Repr::Float(float) => serializer.serialize_f64(*float),
            Repr::Decimal(_) => serializer.serialize_newtype_struct(NUMBER, &Portable(self)),
        }
    }
}

struct NumberVisitor;

impl<'de> Visitor<'de> for NumberVisitor {
    type Value = Number;
    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a number")
    }
    fn visit_i64<E: de::Error>(self, value: i64) -> Result<Number, E> {
        Ok(value.into())
    }
    fn visit_u64<E: de::Error>(self, value: u64) -> Result<Number, E> {
        Ok(value.into())
    }
    fn visit_f64<E: de::Error>(self, value: f64) -> Result<Number, E> {
        Number::from_f64(value).map_err(E::custom)
    }
    fn visit_str<E: de::Error>(self, value: &str) -> Result<Number, E> {
        value.parse().map_err(E::custom)
    }
    fn visit_newtype_struct<D: Deserializer<'de>>(self, d: D) -> Result<Number, D::Error> {
        d.deserialize_any(self)
    }
}

impl<'de> Deserialize<'de> for Number {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_newtype_struct(NUMBER, NumberVisitor)
    }
}

impl JsonSchema for Number {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Number".into()
    }
    fn inline_schema() -> bool {
        true
    }
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "number" })
    }
}

#[cfg(test)]
mod tests;
