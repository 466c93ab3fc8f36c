//! The parts of a value, for serde. Each adds its step to the path of an error from within.

use std::slice;

use serde::{
    Deserializer,
    de::{
        DeserializeSeed, EnumAccess, IntoDeserializer, MapAccess, SeqAccess, VariantAccess,
        Visitor,
        value::{BorrowedStrDeserializer, BytesDeserializer, StrDeserializer},
    },
};

use super::ValueDeserializer;
use crate::{
    field::UNKNOWN,
    msgpack,
    number::NUMBER,
    path::Step,
    value::{DYNAMIC, FromValueError, Name, REFINED, Value, ValueMap},
};

static NULL: Value = Value::Null;

type Result<T> = std::result::Result<T, FromValueError>;

/// The elements of a list.
pub(super) struct Elements<'a> {
    rest: slice::Iter<'a, Value>,
    index: usize,
}

impl<'a> Elements<'a> {
    pub(super) fn new(elements: &'a [Value]) -> Self {
        Elements {
            rest: elements.iter(),
            index: 0,
        }
    }
}

impl<'de> SeqAccess<'de> for Elements<'de> {
    type Error = FromValueError;
    fn next_element_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<Option<T::Value>> {
        let Some(value) = self.rest.next() else {
            return Ok(None);
        };
        let index = self.index;
        self.index += 1;
        seed.deserialize(ValueDeserializer { value })
            .map(Some)
            .map_err(|error| error.under(Step::Index(index)))
    }
    fn size_hint(&self) -> Option<usize> {
        Some(self.rest.len())
    }
}

/// The elements of a map.
pub(super) struct Members<'a> {
    rest: slice::Iter<'a, (Name, Value)>,
    current: Option<(&'a Name, &'a Value)>,
}

impl<'a> Members<'a> {
    pub(super) fn new(entries: &'a ValueMap) -> Self {
        Members {
            rest: entries.as_slice().iter(),
            current: None,
        }
    }
}

impl<'de> MapAccess<'de> for Members<'de> {
    type Error = FromValueError;
    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>> {
        self.current = self.rest.next().map(|(key, value)| (key, value));
        match self.current {
            Some((key, _)) => seed
                .deserialize(BorrowedStrDeserializer::new(key))
                .map(Some)
                .map_err(|error: FromValueError| error.under(Step::Key(key.clone()))),
            None => Ok(None),
        }
    }
    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value> {
        let Some((key, value)) = self.current.take() else {
            return Err(FromValueError::new("a key comes before its value"));
        };
        seed.deserialize(ValueDeserializer { value })
            .map_err(|error| error.under(Step::Key(key.clone())))
    }
    fn size_hint(&self) -> Option<usize> {
        Some(self.rest.len())
    }
}

/// The fields of a struct, each with its attribute or null.
pub(super) struct Attributes<'a> {
    fields: slice::Iter<'static, &'static str>,
    attributes: &'a ValueMap,
    current: &'static str,
}

impl<'a> Attributes<'a> {
    pub(super) fn new(fields: &'static [&'static str], attributes: &'a ValueMap) -> Self {
        Attributes {
            fields: fields.iter(),
            attributes,
            current: "",
        }
    }
}

impl<'de> MapAccess<'de> for Attributes<'de> {
    type Error = FromValueError;
    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>> {
        let Some(field) = self.fields.next() else {
            return Ok(None);
        };
        self.current = field;
        seed.deserialize(BorrowedStrDeserializer::new(field))
            .map(Some)
    }
    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value> {
        // Byte by byte: names differ in their first few, and calls of `memcmp` would be most of a search.
        let value = self
            .attributes
            .get_by(|name| name.bytes().cmp(self.current.bytes()))
            .unwrap_or(&NULL);
        seed.deserialize(ValueDeserializer { value })
            .map_err(|error| error.under(Step::Attribute(self.current.into())))
    }
}

/// A string as a variant without content.
pub(super) struct UnitVariant<'a> {
    pub(super) name: &'a str,
}

impl<'de> EnumAccess<'de> for UnitVariant<'de> {
    type Error = FromValueError;
    type Variant = Self;
    fn variant_seed<V: DeserializeSeed<'de>>(self, seed: V) -> Result<(V::Value, Self)> {
        Ok((
            seed.deserialize(BorrowedStrDeserializer::<FromValueError>::new(self.name))?,
            self,
        ))
    }
}

impl<'de> VariantAccess<'de> for UnitVariant<'de> {
    type Error = FromValueError;
    fn unit_variant(self) -> Result<()> {
        Ok(())
    }
    fn newtype_variant_seed<T: DeserializeSeed<'de>>(self, _: T) -> Result<T::Value> {
        Err(self.has_content())
    }
    fn tuple_variant<V: Visitor<'de>>(self, _: usize, _: V) -> Result<V::Value> {
        Err(self.has_content())
    }
    fn struct_variant<V: Visitor<'de>>(self, _: &'static [&'static str], _: V) -> Result<V::Value> {
        Err(self.has_content())
    }
}

impl UnitVariant<'_> {
    fn has_content(&self) -> FromValueError {
        FromValueError::new(format!(
            "{:?} stands for more than a string holds",
            self.name
        ))
    }
}

/// What of a [`Value`] serde has no words for, as variants that only a [`Value`] asks for.
pub(super) struct Special<'a> {
    pub(super) value: &'a Value,
}

impl<'de> EnumAccess<'de> for Special<'de> {
    type Error = FromValueError;
    type Variant = Self;
    fn variant_seed<V: DeserializeSeed<'de>>(self, seed: V) -> Result<(V::Value, Self)> {
        let name = match self.value {
            Value::Unknown(None) => UNKNOWN,
            Value::Unknown(Some(_)) => REFINED,
            Value::Dynamic(_) => DYNAMIC,
            _ => NUMBER,
        };
        Ok((
            seed.deserialize(StrDeserializer::<FromValueError>::new(name))?,
            self,
        ))
    }
}

impl<'de> VariantAccess<'de> for Special<'de> {
    type Error = FromValueError;
    fn unit_variant(self) -> Result<()> {
        Ok(())
    }
    fn newtype_variant_seed<T: DeserializeSeed<'de>>(self, seed: T) -> Result<T::Value> {
        match self.value {
            Value::Unknown(Some(refinement)) => seed.deserialize(BytesDeserializer::new(
                &msgpack::refinement_bytes(refinement),
            )),
            value => seed.deserialize(ValueDeserializer { value }),
        }
    }
    fn tuple_variant<V: Visitor<'de>>(self, _: usize, visitor: V) -> Result<V::Value> {
        match self.value {
            Value::Dynamic(dynamic) => {
                let ty = String::from_utf8_lossy(&dynamic.ty.to_json()).into_owned();
                visitor.visit_seq(Typed {
                    ty: Some(ty),
                    value: Some(&dynamic.value),
                })
            }
            value => ValueDeserializer { value }.deserialize_any(visitor),
        }
    }
    fn struct_variant<V: Visitor<'de>>(
        self,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value> {
        ValueDeserializer { value: self.value }.deserialize_any(visitor)
    }
}

/// A type, then its value.
struct Typed<'a> {
    ty: Option<String>,
    value: Option<&'a Value>,
}

impl<'de> SeqAccess<'de> for Typed<'de> {
    type Error = FromValueError;
    fn next_element_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<Option<T::Value>> {
        if let Some(ty) = self.ty.take() {
            return seed
                .deserialize(IntoDeserializer::<FromValueError>::into_deserializer(ty))
                .map(Some);
        }
        match self.value.take() {
            Some(value) => seed.deserialize(ValueDeserializer { value }).map(Some),
            None => Ok(None),
        }
    }
}
