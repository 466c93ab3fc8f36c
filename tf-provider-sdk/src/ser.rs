//! Plain Rust types to values, through serde.
//!
//! Structs become objects, `None` null, enums of plain variants strings. What has no form as a value (an enum with
//! content, bytes, NaN) is an error with its path.

mod parts;

use std::fmt;

use serde::{Serialize, Serializer, ser};

pub use crate::value::ToValueError;
use crate::{
    field::UNKNOWN,
    number::{NUMBER, Number},
    types::Type,
    value::{DYNAMIC, Dynamic, REFINED, Value},
};
use parts::{Elements, Members, Special, SpecialSerializer, Typed};

/// Writes a Rust type as a value. The error carries the path of what has no form.
pub fn to_value<T: Serialize + ?Sized>(value: &T) -> Result<Value, ToValueError> {
    value.serialize(ValueSerializer)
}

impl ser::Error for ToValueError {
    fn custom<T: fmt::Display>(message: T) -> Self {
        ToValueError::new(message.to_string())
    }
}

struct ValueSerializer;

macro_rules! numbers {
    ($($method:ident $int:ty),*) => { $(fn $method(self, value: $int) -> Result<Value, ToValueError> {
        Ok(Value::Number(value.into()))
    })* };
}

/// Numbers wider than 64 bits, by their digits.
fn wide(digits: &dyn fmt::Display) -> Result<Value, ToValueError> {
    digits
        .to_string()
        .parse()
        .map(Value::Number)
        .map_err(|error| ToValueError::new(format!("{error}")))
}

fn with_content(name: &str) -> ToValueError {
    ToValueError::new(format!("{name:?} has content, which no value holds"))
}

impl Serializer for ValueSerializer {
    type Ok = Value;
    type Error = ToValueError;
    type SerializeSeq = Elements;
    type SerializeTuple = Elements;
    type SerializeTupleStruct = Typed;
    type SerializeTupleVariant = ser::Impossible<Value, ToValueError>;
    type SerializeMap = Members;
    type SerializeStruct = Members;
    type SerializeStructVariant = ser::Impossible<Value, ToValueError>;

    numbers!(
        serialize_i8 i8, serialize_i16 i16, serialize_i32 i32, serialize_i64 i64,
        serialize_u8 u8, serialize_u16 u16, serialize_u32 u32, serialize_u64 u64
    );

    fn serialize_i128(self, value: i128) -> Result<Value, ToValueError> {
        wide(&value)
    }
    fn serialize_u128(self, value: u128) -> Result<Value, ToValueError> {
        wide(&value)
    }
    fn serialize_f32(self, value: f32) -> Result<Value, ToValueError> {
        // By its shortest digits: 0.1 stays 0.1, where the nearest f64 would be 0.10000000149011612.
        if value.is_finite() {
            wide(&value)
        } else {
            self.serialize_f64(value.into())
        }
    }
    fn serialize_f64(self, value: f64) -> Result<Value, ToValueError> {
        Number::from_f64(value)
            .map(Value::Number)
            .map_err(|error| ToValueError::new(error.to_string()))
    }
    fn serialize_bool(self, value: bool) -> Result<Value, ToValueError> {
        Ok(Value::Bool(value))
    }
    fn serialize_char(self, value: char) -> Result<Value, ToValueError> {
        Ok(Value::String(value.into()))
    }
    fn serialize_str(self, value: &str) -> Result<Value, ToValueError> {
        Ok(Value::String(value.to_owned()))
    }
    fn serialize_bytes(self, _: &[u8]) -> Result<Value, ToValueError> {
        Err(ToValueError::new(
            "bytes have no form as a value; write them as text (base64)",
        ))
    }
    fn serialize_none(self) -> Result<Value, ToValueError> {
        Ok(Value::Null)
    }
    fn serialize_some<T: Serialize + ?Sized>(self, value: &T) -> Result<Value, ToValueError> {
        value.serialize(self)
    }
    fn serialize_unit(self) -> Result<Value, ToValueError> {
        Ok(Value::Null)
    }
    fn serialize_unit_struct(self, name: &'static str) -> Result<Value, ToValueError> {
        Ok(if name == UNKNOWN {
            Value::unknown()
        } else {
            Value::Null
        })
    }
    fn serialize_unit_variant(
        self,
        _: &'static str,
        _: u32,
        name: &'static str,
    ) -> Result<Value, ToValueError> {
        Ok(name.into())
    }
    fn serialize_newtype_struct<T: Serialize + ?Sized>(
        self,
        name: &'static str,
        value: &T,
    ) -> Result<Value, ToValueError> {
        match name {
            NUMBER => value.serialize(SpecialSerializer(Special::Number)),
            REFINED => value.serialize(SpecialSerializer(Special::Refinement)),
            _ => value.serialize(self),
        }
    }
    fn serialize_newtype_variant<T: Serialize + ?Sized>(
        self,
        _: &'static str,
        _: u32,
        name: &'static str,
        _: &T,
    ) -> Result<Value, ToValueError> {
        Err(with_content(name))
    }
    fn serialize_seq(self, len: Option<usize>) -> Result<Elements, ToValueError> {
        Ok(Elements(Vec::with_capacity(len.unwrap_or(0))))
    }
    fn serialize_tuple(self, len: usize) -> Result<Elements, ToValueError> {
        self.serialize_seq(Some(len))
    }
    fn serialize_tuple_struct(self, name: &'static str, len: usize) -> Result<Typed, ToValueError> {
        Ok(Typed {
            elements: self.serialize_seq(Some(len))?,
            carries_type: name == DYNAMIC,
        })
    }
    fn serialize_tuple_variant(
        self,
        _: &'static str,
        _: u32,
        name: &'static str,
        _: usize,
    ) -> Result<Self::SerializeTupleVariant, ToValueError> {
        Err(with_content(name))
    }
    fn serialize_map(self, len: Option<usize>) -> Result<Members, ToValueError> {
        Ok(Members {
            entries: Vec::with_capacity(len.unwrap_or(0)),
            key: None,
        })
    }
    fn serialize_struct(self, _: &'static str, len: usize) -> Result<Members, ToValueError> {
        self.serialize_map(Some(len))
    }
    fn serialize_struct_variant(
        self,
        _: &'static str,
        _: u32,
        name: &'static str,
        _: usize,
    ) -> Result<Self::SerializeStructVariant, ToValueError> {
        Err(with_content(name))
    }
}

/// A value with the type that comes before it.
fn typed(ty: &Value, value: Value) -> Result<Value, ToValueError> {
    let json = ty
        .as_str()
        .ok_or_else(|| ToValueError::new("a type is required"))?;
    let ty =
        Type::from_json(json.as_bytes()).map_err(|error| ToValueError::new(error.to_string()))?;
    Ok(Value::Dynamic(Box::new(Dynamic { ty, value })))
}

#[cfg(test)]
mod tests;
