//! The parts of a value as serde hands them over. Each adds its step to the path of an error from within.

use serde::{
    Serialize, Serializer,
    ser::{
        Impossible, SerializeMap, SerializeSeq, SerializeStruct, SerializeTuple,
        SerializeTupleStruct,
    },
};

use super::{ValueSerializer, typed};
use crate::{
    msgpack,
    path::Step,
    value::{Name, ToValueError, Value},
};

type Result<T> = std::result::Result<T, ToValueError>;

/// A list.
pub(super) struct Elements(pub(super) Vec<Value>);

impl SerializeSeq for Elements {
    type Ok = Value;
    type Error = ToValueError;
    fn serialize_element<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<()> {
        let index = self.0.len();
        self.0.push(
            value
                .serialize(ValueSerializer)
                .map_err(|error| error.under(Step::Index(index)))?,
        );
        Ok(())
    }
    fn end(self) -> Result<Value> {
        Ok(Value::List(self.0))
    }
}

impl SerializeTuple for Elements {
    type Ok = Value;
    type Error = ToValueError;
    fn serialize_element<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<()> {
        SerializeSeq::serialize_element(self, value)
    }
    fn end(self) -> Result<Value> {
        SerializeSeq::end(self)
    }
}

/// A tuple, or a type and a value of it.
pub(super) struct Typed {
    pub(super) elements: Elements,
    pub(super) carries_type: bool,
}

impl SerializeTupleStruct for Typed {
    type Ok = Value;
    type Error = ToValueError;
    fn serialize_field<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<()> {
        if self.carries_type {
            // No step of its own: the type is nowhere in the path.
            self.elements.0.push(value.serialize(ValueSerializer)?);
            return Ok(());
        }
        SerializeSeq::serialize_element(&mut self.elements, value)
    }
    fn end(self) -> Result<Value> {
        let mut parts = self.elements.0.into_iter();
        match (self.carries_type, parts.len()) {
            (true, 2) => typed(
                &parts.next().unwrap_or_default(),
                parts.next().unwrap_or_default(),
            ),
            _ => Ok(Value::List(parts.collect())),
        }
    }
}

/// A map or an object.
pub(super) struct Members {
    pub(super) entries: Vec<(Name, Value)>,
    pub(super) key: Option<Name>,
}

impl SerializeMap for Members {
    type Ok = Value;
    type Error = ToValueError;
    fn serialize_key<T: Serialize + ?Sized>(&mut self, key: &T) -> Result<()> {
        self.key = Some(match key.serialize(ValueSerializer)? {
            Value::String(key) => key.into(),
            Value::Number(key) => key.to_string().into(),
            Value::Bool(key) => key.to_string().into(),
            other => {
                return Err(ToValueError::new(format!(
                    "a key must be a string, not {}",
                    other.in_words()
                )));
            }
        });
        Ok(())
    }
    fn serialize_value<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<()> {
        let key = self
            .key
            .take()
            .ok_or_else(|| ToValueError::new("a key comes before its value"))?;
        let value = value
            .serialize(ValueSerializer)
            .map_err(|error| error.under(Step::Key(key.clone())))?;
        self.entries.push((key, value));
        Ok(())
    }
    fn end(self) -> Result<Value> {
        Ok(Value::Map(self.entries.into_iter().collect()))
    }
}

impl SerializeStruct for Members {
    type Ok = Value;
    type Error = ToValueError;
    fn serialize_field<T: Serialize + ?Sized>(
        &mut self,
        name: &'static str,
        value: &T,
    ) -> Result<()> {
        let value = value
            .serialize(ValueSerializer)
            .map_err(|error| error.under(Step::Attribute(name.into())))?;
        self.entries.push((Name::new_static(name), value));
        Ok(())
    }
    fn end(self) -> Result<Value> {
        Ok(Value::Map(self.entries.into_iter().collect()))
    }
}

/// What the content of one of our own newtypes is.
pub(super) enum Special {
    Number,
    Refinement,
}

/// Takes the content of one of our own newtypes, which is text or bytes.
pub(super) struct SpecialSerializer(pub(super) Special);

macro_rules! refused {
    ($($method:ident($($arg:ty),*)),* $(,)?) => { $(fn $method(self, $(_: $arg),*) -> Result<Value> {
        Err(refusal())
    })* };
}

fn refusal() -> ToValueError {
    ToValueError::new("a number or what is known of a value is required")
}

impl Serializer for SpecialSerializer {
    type Ok = Value;
    type Error = ToValueError;
    type SerializeSeq = Impossible<Value, ToValueError>;
    type SerializeTuple = Impossible<Value, ToValueError>;
    type SerializeTupleStruct = Impossible<Value, ToValueError>;
    type SerializeTupleVariant = Impossible<Value, ToValueError>;
    type SerializeMap = Impossible<Value, ToValueError>;
    type SerializeStruct = Impossible<Value, ToValueError>;
    type SerializeStructVariant = Impossible<Value, ToValueError>;

    /// What asks a number for its text instead of its nearest float: see [`crate::number`].
    fn is_human_readable(&self) -> bool {
        false
    }
    fn serialize_str(self, text: &str) -> Result<Value> {
        match self.0 {
            Special::Number => text
                .parse()
                .map(Value::Number)
                .map_err(|error| ToValueError::new(format!("{error}"))),
            Special::Refinement => Err(refusal()),
        }
    }
    fn serialize_bytes(self, bytes: &[u8]) -> Result<Value> {
        match self.0 {
            Special::Refinement => {
                let refinement = msgpack::refinement_from_bytes(bytes)
                    .map_err(|error| ToValueError::new(error.to_string()))?;
                Ok(Value::Unknown(refinement.map(Box::new)))
            }
            Special::Number => Err(refusal()),
        }
    }

    refused!(
        serialize_bool(bool),
        serialize_i8(i8),
        serialize_i16(i16),
        serialize_i32(i32),
        serialize_i64(i64),
        serialize_u8(u8),
        serialize_u16(u16),
        serialize_u32(u32),
        serialize_u64(u64),
        serialize_f32(f32),
        serialize_f64(f64),
        serialize_char(char),
        serialize_none(),
        serialize_unit(),
        serialize_unit_struct(&'static str),
        serialize_unit_variant(&'static str, u32, &'static str),
    );
    fn serialize_some<T: Serialize + ?Sized>(self, _: &T) -> Result<Value> {
        Err(refusal())
    }
    fn serialize_newtype_struct<T: Serialize + ?Sized>(
        self,
        _: &'static str,
        _: &T,
    ) -> Result<Value> {
        Err(refusal())
    }
    fn serialize_newtype_variant<T: Serialize + ?Sized>(
        self,
        _: &'static str,
        _: u32,
        _: &'static str,
        _: &T,
    ) -> Result<Value> {
        Err(refusal())
    }
    fn serialize_seq(self, _: Option<usize>) -> Result<Self::SerializeSeq> {
        Err(refusal())
    }
    fn serialize_tuple(self, _: usize) -> Result<Self::SerializeTuple> {
        Err(refusal())
    }
    fn serialize_tuple_struct(
        self,
        _: &'static str,
        _: usize,
    ) -> Result<Self::SerializeTupleStruct> {
        Err(refusal())
    }
    fn serialize_tuple_variant(
        self,
        _: &'static str,
        _: u32,
        _: &'static str,
        _: usize,
    ) -> Result<Self::SerializeTupleVariant> {
        Err(refusal())
    }
    fn serialize_map(self, _: Option<usize>) -> Result<Self::SerializeMap> {
        Err(refusal())
    }
    fn serialize_struct(self, _: &'static str, _: usize) -> Result<Self::SerializeStruct> {
        Err(refusal())
    }
    fn serialize_struct_variant(
        self,
        _: &'static str,
        _: u32,
        _: &'static str,
        _: usize,
    ) -> Result<Self::SerializeStructVariant> {
        Err(refusal())
    }
}
