//! Values to plain Rust types, through serde.
//!
//! An attribute that is not there reads as null, and attributes that the Rust type lacks are passed over (the schema
//! has checked the names already). A value that is not known yet is only taken by types that can hold one
//! ([`crate::field::Opt`], [`crate::field::Maybe`], [`Value`]); elsewhere it is an error that says so.

mod access;
mod error;

use serde::{
    Deserializer,
    de::{DeserializeOwned, Visitor},
    forward_to_deserialize_any,
};

pub use crate::value::FromValueError;
use crate::{
    field::THREE_STATE,
    number::{NUMBER, Number},
    value::{VALUE, Value},
};
use access::{Attributes, Elements, Members, Special, UnitVariant};

/// Reads a Rust type from a value. The error carries the path of the attribute that does not fit.
pub fn from_value<T: DeserializeOwned>(value: &Value) -> Result<T, FromValueError> {
    T::deserialize(ValueDeserializer { value })
}

#[derive(Clone, Copy)]
struct ValueDeserializer<'a> {
    /// With the type that it may carry: see [`Self::plain`].
    value: &'a Value,
}

impl<'a> ValueDeserializer<'a> {
    /// The value without the type that it may carry, which Rust types have no use for.
    fn plain(self) -> &'a Value {
        self.value.undressed()
    }

    fn mismatch(self, required: &str) -> FromValueError {
        match self.plain() {
            Value::Null => FromValueError::new(format!("{required} is required")),
            Value::Unknown(_) => unknown(),
            value => {
                FromValueError::new(format!("{required} is required, not {}", value.in_words()))
            }
        }
    }

    fn number(self) -> Result<&'a Number, FromValueError> {
        match self.plain() {
            Value::Number(number) => Ok(number),
            _ => Err(self.mismatch("a number")),
        }
    }

    fn text(self) -> Result<&'a str, FromValueError> {
        match self.plain() {
            Value::String(text) => Ok(text),
            _ => Err(self.mismatch("a string")),
        }
    }

    fn list(self) -> Result<&'a [Value], FromValueError> {
        match self.plain() {
            Value::List(elements) => Ok(elements),
            _ => Err(self.mismatch("a list")),
        }
    }

    /// A whole number within bounds.
    fn whole(self, min: i128, max: i128) -> Result<i128, FromValueError> {
        let number = self.number()?;
        if !number.is_whole() {
            return Err(FromValueError::new(format!(
                "a whole number is required, not {number}"
            )));
        }
        match number.as_i128() {
            Some(whole) if (min..=max).contains(&whole) => Ok(whole),
            _ => Err(FromValueError::new(format!(
                "a whole number between {min} and {max} is required, not {number}"
            ))),
        }
    }
}

fn unknown() -> FromValueError {
    FromValueError {
        unknown: true,
        ..FromValueError::new("the value is not known yet")
    }
}

macro_rules! whole_numbers {
    ($($method:ident $int:ident $visit:ident $wide:ident),*) => { $(
        fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, FromValueError> {
            let whole = self.whole($int::MIN.into(), $int::MAX.into())?;
            // Within the bounds of the narrower type, so the wider one holds it.
            visitor.$visit($wide::try_from(whole).unwrap_or_default())
        }
    )* };
}

impl<'de> Deserializer<'de> for ValueDeserializer<'de> {
    type Error = FromValueError;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, FromValueError> {
        match self.plain() {
            Value::Null | Value::Dynamic(_) => visitor.visit_none(),
            Value::Unknown(_) => Err(unknown()),
            Value::Bool(value) => visitor.visit_bool(*value),
            Value::Number(number) => match (number.as_i64(), number.as_u64()) {
                (Some(int), _) => visitor.visit_i64(int),
                (_, Some(uint)) => visitor.visit_u64(uint),
                _ => visitor.visit_f64(number.to_f64()),
            },
            Value::String(text) => visitor.visit_borrowed_str(text),
            Value::List(elements) => visitor.visit_seq(Elements::new(elements)),
            Value::Map(entries) => visitor.visit_map(Members::new(entries)),
        }
    }

    whole_numbers!(
        deserialize_i8 i8 visit_i64 i64, deserialize_i16 i16 visit_i64 i64, deserialize_i32 i32 visit_i64 i64,
        deserialize_i64 i64 visit_i64 i64, deserialize_u8 u8 visit_u64 u64, deserialize_u16 u16 visit_u64 u64,
        deserialize_u32 u32 visit_u64 u64, deserialize_u64 u64 visit_u64 u64, deserialize_i128 i128 visit_i128 i128
    );

    fn deserialize_f32<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, FromValueError> {
        visitor.visit_f64(self.number()?.to_f64())
    }

    fn deserialize_f64<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, FromValueError> {
        visitor.visit_f64(self.number()?.to_f64())
    }

    fn deserialize_bool<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, FromValueError> {
        match self.plain() {
            Value::Bool(value) => visitor.visit_bool(*value),
            _ => Err(self.mismatch("true or false")),
        }
    }

    fn deserialize_char<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, FromValueError> {
        let text = self.text()?;
        if text.chars().count() != 1 {
            return Err(FromValueError::new("a single character is required"));
        }
        visitor.visit_borrowed_str(text)
    }

    fn deserialize_str<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, FromValueError> {
        visitor.visit_borrowed_str(self.text()?)
    }

    fn deserialize_string<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, FromValueError> {
        visitor.visit_borrowed_str(self.text()?)
    }

    fn deserialize_identifier<V: Visitor<'de>>(
        self,
        visitor: V,
    ) -> Result<V::Value, FromValueError> {
        visitor.visit_borrowed_str(self.text()?)
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, FromValueError> {
        match self.plain() {
            Value::Null => visitor.visit_none(),
            Value::Unknown(_) => Err(unknown()),
            _ => visitor.visit_some(self),
        }
    }

    fn deserialize_unit<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, FromValueError> {
        match self.plain() {
            Value::Null => visitor.visit_unit(),
            _ => Err(self.mismatch("null")),
        }
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        visitor: V,
    ) -> Result<V::Value, FromValueError> {
        match (name, self.plain()) {
            (THREE_STATE, Value::Null) => visitor.visit_none(),
            (THREE_STATE, Value::Unknown(_)) => visitor.visit_unit(),
            // All digits, where a float would lose some.
            (NUMBER, Value::Number(number)) if number.needs_text() => {
                visitor.visit_str(&number.to_string())
            }
            (NUMBER, _) => {
                self.number()?;
                self.deserialize_any(visitor)
            }
            (VALUE, _) => match self.value {
                Value::Number(number) if !number.needs_text() => self.deserialize_any(visitor),
                Value::Unknown(_) | Value::Dynamic(_) | Value::Number(_) => {
                    visitor.visit_enum(Special { value: self.value })
                }
                _ => self.deserialize_any(visitor),
            },
            _ => visitor.visit_newtype_struct(self),
        }
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, FromValueError> {
        visitor.visit_seq(Elements::new(self.list()?))
    }

    fn deserialize_tuple<V: Visitor<'de>>(
        self,
        len: usize,
        visitor: V,
    ) -> Result<V::Value, FromValueError> {
        let elements = self.list()?;
        if elements.len() != len {
            let given = elements.len();
            return Err(FromValueError::new(format!(
                "{len} elements are required, not {given}"
            )));
        }
        visitor.visit_seq(Elements::new(elements))
    }

    fn deserialize_tuple_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        len: usize,
        visitor: V,
    ) -> Result<V::Value, FromValueError> {
        self.deserialize_tuple(len, visitor)
    }

    fn deserialize_map<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, FromValueError> {
        match self.plain() {
            Value::Map(entries) => visitor.visit_map(Members::new(entries)),
            _ => Err(self.mismatch("a map")),
        }
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, FromValueError> {
        match self.plain() {
            Value::Map(attributes) => visitor.visit_map(Attributes::new(fields, attributes)),
            _ => Err(self.mismatch("an object")),
        }
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, FromValueError> {
        visitor.visit_enum(UnitVariant { name: self.text()? })
    }

    fn deserialize_ignored_any<V: Visitor<'de>>(
        self,
        visitor: V,
    ) -> Result<V::Value, FromValueError> {
        visitor.visit_unit()
    }

    forward_to_deserialize_any! { u128 bytes byte_buf unit_struct }
}

#[cfg(test)]
mod tests;
