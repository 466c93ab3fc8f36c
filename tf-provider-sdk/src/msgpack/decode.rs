//! msgpack to values.

use std::{borrow::Cow, collections::BTreeMap};

use super::{
    REFINED,
    reader::{Item, Reader},
    refinement::{self, Known},
};
use crate::{
    number::Number,
    path::Step,
    types::Type,
    value::{DecodeError, Dynamic, MAX_DEPTH, Name, Value, ValueMap, normalized},
};

/// How many elements are made room for before any of them is read.
const MAX_RESERVED: usize = 64;

/// Reads a value of a type. Where the type is dynamic, the value carries its own: [`Value::Dynamic`].
pub fn decode(bytes: &[u8], ty: &Type) -> Result<Value, DecodeError> {
    let mut reader = Reader::new(bytes);
    let value = value(&mut reader, ty, 0)?;
    if !reader.is_at_end() {
        return Err(DecodeError::new("the msgpack has bytes behind its value"));
    }
    Ok(value)
}

fn value(reader: &mut Reader<'_>, ty: &Type, depth: usize) -> Result<Value, DecodeError> {
    if depth > MAX_DEPTH {
        return Err(DecodeError::new(format!(
            "the value is more than {MAX_DEPTH} levels deep"
        )));
    }
    let item = reader.item()?;
    match (ty, item) {
        (_, Item::Nil) => Ok(Value::Null),
        (_, Item::Ext(code, payload)) => unknown(code, payload, ty),
        (Type::Bool, Item::Bool(value)) => Ok(Value::Bool(value)),
        (Type::String, Item::Text(bytes)) => text(bytes).map(Value::String),
        (Type::Number, item) => number(item)?
            .map(Value::Number)
            .ok_or_else(|| DecodeError::new("a number is required")),
        (Type::List(element) | Type::Set(element), Item::Array(count)) => {
            let mut elements = Vec::with_capacity(count.min(MAX_RESERVED));
            for index in 0..count {
                elements.push(
                    value(reader, element, depth + 1).map_err(|e| e.under(Step::Index(index)))?,
                );
            }
            Ok(Value::List(elements))
        }
        (Type::Tuple(types), Item::Array(count)) if count == types.len() => {
            let mut elements = Vec::with_capacity(count.min(MAX_RESERVED));
            for (index, ty) in types.iter().enumerate() {
                elements
                    .push(value(reader, ty, depth + 1).map_err(|e| e.under(Step::Index(index)))?);
            }
            Ok(Value::List(elements))
        }
        (Type::Tuple(types), Item::Array(count)) => Err(DecodeError::new(format!(
            "a tuple of {} is required ({count} given)",
            types.len()
        ))),
        (Type::Map(element), Item::Map(count)) => {
            // In order once all are there: one by one, keys in the wrong order would cost a move of all the others each.
            let mut elements = Vec::with_capacity(count.min(MAX_RESERVED));
            for _ in 0..count {
                let key = name(key_bytes(reader)?)?;
                let value = value(reader, element, depth + 1)
                    .map_err(|e| e.under(Step::Key(key.clone())))?;
                elements.push((key, value));
            }
            Ok(Value::object(elements))
        }
        (Type::Object { attributes, .. }, Item::Map(count)) => {
            object(reader, attributes, count, depth)
        }
        (Type::Dynamic, Item::Array(2)) => {
            let Item::Text(json) = reader.item()? else {
                return Err(DecodeError::new("a dynamic value must begin with its type"));
            };
            let ty = Type::from_json(json).map_err(|error| DecodeError::new(error.to_string()))?;
            let value = value(reader, &ty, depth + 1)?;
            // A dynamic type in a dynamic value says nothing: the value inside carries its own.
            Ok(if ty == Type::Dynamic {
                value
            } else {
                Value::Dynamic(Box::new(Dynamic { ty, value }))
            })
        }
        (Type::Dynamic, _) => Err(DecodeError::new(
            "a dynamic value must have exactly two parts, its type and itself",
        )),
        (ty, _) => Err(DecodeError::new(format!("{} is required", ty.in_words()))),
    }
}

fn object(
    reader: &mut Reader<'_>,
    types: &BTreeMap<Name, Type>,
    count: usize,
    depth: usize,
) -> Result<Value, DecodeError> {
    let mut attributes = Vec::with_capacity(count.min(MAX_RESERVED));
    // Terraform writes attributes in order, so the next one is nearly always the one that is expected.
    let mut expected = types.iter();
    let mut in_order = true;
    for _ in 0..count {
        let bytes = key_bytes(reader)?;
        let (name, ty) = match expected.next() {
            Some((name, ty)) if name.as_bytes() == bytes => (name, ty),
            _ => {
                in_order = false;
                attribute(bytes, types)?
            }
        };
        let value =
            value(reader, ty, depth + 1).map_err(|e| e.under(Step::Attribute(name.clone())))?;
        attributes.push((name.clone(), value));
    }
    let attributes = if in_order {
        ValueMap::from_sorted_store_unchecked(attributes)
    } else {
        attributes.into_iter().collect()
    };
    match types
        .keys()
        .find(|name| attributes.len() < types.len() && !attributes.contains_key(*name))
    {
        Some(name) => Err(DecodeError::new("the object lacks this attribute")
            .under(Step::Attribute(name.clone()))),
        None => Ok(Value::Map(attributes)),
    }
}

fn attribute<'t>(
    bytes: &[u8],
    types: &'t BTreeMap<Name, Type>,
) -> Result<(&'t Name, &'t Type), DecodeError> {
    let name = name(bytes)?;
    types.get_key_value(&name).ok_or_else(|| {
        DecodeError::new("the object has no attribute of this name").under(Step::Attribute(name))
    })
}

fn key_bytes<'a>(reader: &mut Reader<'a>) -> Result<&'a [u8], DecodeError> {
    match reader.item()? {
        Item::Text(bytes) => Ok(bytes),
        _ => Err(DecodeError::new("a key must be a string")),
    }
}

fn name(bytes: &[u8]) -> Result<Name, DecodeError> {
    composed(bytes).map(Name::from)
}

pub(super) fn text(bytes: &[u8]) -> Result<String, DecodeError> {
    composed(bytes).map(Cow::into_owned)
}

/// Text in Unicode's composed form, as Terraform keeps it.
fn composed(bytes: &[u8]) -> Result<Cow<'_, str>, DecodeError> {
    match std::str::from_utf8(bytes) {
        Ok(text) => Ok(normalized(text)),
        Err(_) => Err(DecodeError::new("a string must be valid UTF-8")),
    }
}

/// The number that an item is, if it is one.
pub(super) fn number(item: Item<'_>) -> Result<Option<Number>, DecodeError> {
    Ok(match item {
        Item::Int(int) => Some(int.into()),
        Item::Uint(uint) => Some(uint.into()),
        Item::Float(float) => {
            Some(Number::from_f64(float).map_err(|error| DecodeError::new(error.to_string()))?)
        }
        Item::Text(bytes) => std::str::from_utf8(bytes)
            .ok()
            .and_then(|text| text.parse().ok()),
        _ => None,
    })
}

fn unknown(code: u8, payload: &[u8], ty: &Type) -> Result<Value, DecodeError> {
    if code != REFINED {
        return Ok(Value::unknown());
    }
    let mut refinement = match refinement::read(payload)? {
        Known::Null => return Ok(Value::Null),
        Known::Refined(refinement) => refinement,
    };
    if *ty != Type::String {
        refinement.prefix = None;
    }
    if *ty != Type::Number {
        (refinement.min, refinement.max) = (None, None);
    }
    if !matches!(ty, Type::List(_) | Type::Set(_) | Type::Map(_)) {
        (refinement.min_length, refinement.max_length) = (None, None);
    }
    // Terraform can't refine what has no type yet.
    let refined = *ty != Type::Dynamic && !refinement.is_empty();
    Ok(Value::Unknown(refined.then(|| Box::new(refinement))))
}
