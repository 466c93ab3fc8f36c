//! A [`Value`] as a field of a struct: through serde, both ways, without loss between our own two ends.
//!
//! Elsewhere (say, serde_json) a value is what it looks like there: a number, a list, an object.

use std::fmt;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{
    Deserialize, Deserializer, Serialize, Serializer,
    de::{self, EnumAccess, MapAccess, SeqAccess, VariantAccess, Visitor},
    ser::SerializeTupleStruct,
};

use super::{Dynamic, Name, Value};
use crate::{field::UNKNOWN, msgpack, number::Number, types::Type};

/// Name of the newtype that asks our deserializer for the value as it stands.
pub(crate) const VALUE: &str = "$tf::value";
/// Name of the variant or newtype whose content is what is known of an unknown value, as msgpack.
pub(crate) const REFINED: &str = "$tf::refined";
/// Name of the variant or tuple that holds a type, as JSON text, and a value.
pub(crate) const DYNAMIC: &str = "$tf::dynamic";

impl Serialize for Value {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Value::Null => serializer.serialize_none(),
            Value::Unknown(None) => serializer.serialize_unit_struct(UNKNOWN),
            Value::Unknown(Some(refinement)) => serializer
                .serialize_newtype_struct(REFINED, &Payload(msgpack::refinement_bytes(refinement))),
            Value::Bool(value) => serializer.serialize_bool(*value),
            Value::Number(number) => number.serialize(serializer),
            Value::String(text) => serializer.serialize_str(text),
            Value::List(elements) => elements.serialize(serializer),
            Value::Map(elements) => serializer.collect_map(elements),
            Value::Dynamic(dynamic) => {
                let ty =
                    String::from_utf8(dynamic.ty.to_json()).map_err(serde::ser::Error::custom)?;
                let mut parts = serializer.serialize_tuple_struct(DYNAMIC, 2)?;
                parts.serialize_field(&ty)?;
                parts.serialize_field(&dynamic.value)?;
                parts.end()
            }
        }
    }
}

struct Payload(Vec<u8>);

impl Serialize for Payload {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_bytes(&self.0)
    }
}

struct PayloadVisitor;

impl Visitor<'_> for PayloadVisitor {
    type Value = Payload;
    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("what is known of a value")
    }
    fn visit_bytes<E: de::Error>(self, bytes: &[u8]) -> Result<Payload, E> {
        Ok(Payload(bytes.to_vec()))
    }
}

impl<'de> Deserialize<'de> for Payload {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_bytes(PayloadVisitor)
    }
}

struct ValueVisitor;

impl<'de> Visitor<'de> for ValueVisitor {
    type Value = Value;
    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }
    fn visit_unit<E: de::Error>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }
    fn visit_none<E: de::Error>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }
    fn visit_some<D: Deserializer<'de>>(self, d: D) -> Result<Value, D::Error> {
        Value::deserialize(d)
    }
    fn visit_bool<E: de::Error>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }
    fn visit_i64<E: de::Error>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }
    fn visit_u64<E: de::Error>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }
    fn visit_f64<E: de::Error>(self, value: f64) -> Result<Value, E> {
        Number::from_f64(value)
            .map(Value::Number)
            .map_err(E::custom)
    }
    fn visit_str<E: de::Error>(self, value: &str) -> Result<Value, E> {
        Ok(value.into())
    }
    fn visit_string<E: de::Error>(self, value: String) -> Result<Value, E> {
        Ok(value.into())
    }
    fn visit_seq<A: SeqAccess<'de>>(self, mut elements: A) -> Result<Value, A::Error> {
        let mut list = Vec::new();
        while let Some(element) = elements.next_element()? {
            list.push(element);
        }
        Ok(Value::List(list))
    }
    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Value, A::Error> {
        let mut map = Vec::new();
        while let Some(entry) = entries.next_entry::<Name, Value>()? {
            map.push(entry);
        }
        Ok(Value::object(map))
    }
    /// What only our own deserializer has: see [`crate::de`].
    fn visit_enum<A: EnumAccess<'de>>(self, access: A) -> Result<Value, A::Error> {
        let (name, content): (String, _) = access.variant()?;
        match name.as_str() {
            crate::number::NUMBER => content.newtype_variant().map(Value::Number),
            UNKNOWN => content.unit_variant().map(|()| Value::unknown()),
            REFINED => {
                let Payload(bytes) = content.newtype_variant()?;
                let refinement =
                    msgpack::refinement_from_bytes(&bytes).map_err(de::Error::custom)?;
                Ok(Value::Unknown(refinement.map(Box::new)))
            }
            DYNAMIC => content.tuple_variant(2, DynamicVisitor),
            _ => Err(de::Error::custom("a value is required")),
        }
    }
    fn visit_newtype_struct<D: Deserializer<'de>>(self, d: D) -> Result<Value, D::Error> {
        d.deserialize_any(self)
    }
}

struct DynamicVisitor;

impl<'de> Visitor<'de> for DynamicVisitor {
    type Value = Value;
    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a type and a value")
    }
    fn visit_seq<A: SeqAccess<'de>>(self, mut parts: A) -> Result<Value, A::Error> {
        let missing = || de::Error::custom("a type and a value are required");
        let ty: String = parts.next_element()?.ok_or_else(missing)?;
        let ty = Type::from_json(ty.as_bytes()).map_err(de::Error::custom)?;
        let value = parts.next_element()?.ok_or_else(missing)?;
        Ok(Value::Dynamic(Box::new(Dynamic { ty, value })))
    }
}

impl<'de> Deserialize<'de> for Value {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_newtype_struct(VALUE, ValueVisitor)
    }
}

/// A type that only our reader knows. (Without one, schemars would give `Option<Value>` the same schema as `Value`.)
impl JsonSchema for Value {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Value".into()
    }
    fn inline_schema() -> bool {
        true
    }
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "dynamic" })
    }
}
