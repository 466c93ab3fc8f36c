//! Values to msgpack, byte for byte as Terraform writes them.

use std::collections::BTreeMap;

use super::{REFINED, refinement, writer::Writer};
use crate::{
    number::Number,
    path::Step,
    types::Type,
    value::{EncodeError, MAX_DEPTH, Name, Value, ValueMap, normalized},
};

/// Writes a value as a type. An attribute of the type that the value lacks is written as null; one that the type
/// lacks is an error. Where the type is dynamic, a value that carries no type is written with the one that
/// [`Value::infer_type`] finds.
pub fn encode(value: &Value, ty: &Type) -> Result<Vec<u8>, EncodeError> {
    let mut writer = Writer::default();
    write(&mut writer, value, ty, 0)?;
    Ok(writer.bytes)
}

fn write(writer: &mut Writer, value: &Value, ty: &Type, depth: usize) -> Result<(), EncodeError> {
    if depth > MAX_DEPTH {
        return Err(EncodeError::new(format!(
            "the value is more than {MAX_DEPTH} levels deep"
        )));
    }
    match (ty, value) {
        (_, Value::Null) => writer.nil(),
        (_, Value::Unknown(Some(refinement))) if *ty != Type::Dynamic && !refinement.is_empty() => {
            let payload = refinement::bytes(refinement);
            writer.ext(REFINED, &payload).ok_or_else(too_long)?;
        }
        (_, Value::Unknown(_)) => writer.unknown(),
        (Type::Dynamic, value) => dynamic(writer, value, depth)?,
        // The type says how to write it; what the value carries must agree.
        (ty, Value::Dynamic(dynamic)) => {
            if dynamic.ty != *ty && dynamic.ty != Type::Dynamic {
                return Err(EncodeError::new(format!(
                    "{ty} is required, not {}",
                    dynamic.ty
                )));
            }
            write(writer, &dynamic.value, ty, depth + 1)?;
        }
        (Type::Bool, Value::Bool(value)) => writer.bool(*value),
        (Type::String, Value::String(text)) => {
            writer.string(&normalized(text)).ok_or_else(too_long)?
        }
        (Type::Number, Value::Number(value)) => number(writer, value).ok_or_else(too_long)?,
        (Type::List(_) | Type::Set(_), Value::List(elements)) => list(writer, elements, ty, depth)?,
        (Type::Tuple(types), Value::List(elements)) if elements.len() == types.len() => {
            list(writer, elements, ty, depth)?;
        }
        (Type::Tuple(types), Value::List(elements)) => {
            let (wanted, given) = (types.len(), elements.len());
            return Err(EncodeError::new(format!(
                "a tuple of {wanted} is required ({given} given)"
            )));
        }
        (Type::Map(element), Value::Map(elements)) => map(writer, elements, element, depth)?,
        (Type::Object { attributes, .. }, Value::Map(elements)) => {
            object(writer, elements, attributes, depth)?
        }
        (ty, value) => {
            return Err(EncodeError::new(format!(
                "{} is required, not {}",
                ty.in_words(),
                value.in_words()
            )));
        }
    }
    Ok(())
}

fn dynamic(writer: &mut Writer, value: &Value, depth: usize) -> Result<(), EncodeError> {
    let inferred;
    let (ty, value) = match value {
        Value::Dynamic(dynamic) => (&dynamic.ty, &dynamic.value),
        value => {
            inferred = value.infer_type();
            (&inferred, value)
        }
    };
    if *ty == Type::Dynamic {
        return write(writer, value, ty, depth + 1);
    }
    writer.array(2).ok_or_else(too_long)?;
    writer.bin(&ty.to_json()).ok_or_else(too_long)?;
    write(writer, value, ty, depth + 1)
}

/// `None` where the number is too long for msgpack.
pub(super) fn number(writer: &mut Writer, number: &Number) -> Option<()> {
    if let Some(int) = number.as_i64() {
        writer.int(int);
    } else if let Some(float) = number.as_fraction() {
        writer.float(float);
    } else {
        writer.string(&number.to_string())?;
    }
    Some(())
}

fn list(
    writer: &mut Writer,
    elements: &[Value],
    ty: &Type,
    depth: usize,
) -> Result<(), EncodeError> {
    writer.array(elements.len()).ok_or_else(too_long)?;
    for (index, element) in elements.iter().enumerate() {
        write(writer, element, ty.element(index), depth + 1)
            .map_err(|e| e.under(Step::Index(index)))?;
    }
    Ok(())
}

fn map(
    writer: &mut Writer,
    elements: &ValueMap,
    ty: &Type,
    depth: usize,
) -> Result<(), EncodeError> {
    // Composing keys may change their order, or make two of them one; ASCII stays as it is.
    if elements.keys().all(|key| key.is_ascii()) {
        return entries(writer, elements.iter(), ty, depth);
    }
    let composed: BTreeMap<Name, &Value> = elements
        .iter()
        .map(|(key, value)| (Name::from(normalized(key)), value))
        .collect();
    if composed.len() < elements.len() {
        return Err(EncodeError::new(
            "two keys of the map are the same text in Unicode's composed form",
        ));
    }
    entries(
        writer,
        composed.iter().map(|(key, value)| (key, *value)),
        ty,
        depth,
    )
}

fn entries<'a>(
    writer: &mut Writer,
    entries: impl ExactSizeIterator<Item = (&'a Name, &'a Value)>,
    ty: &Type,
    depth: usize,
) -> Result<(), EncodeError> {
    writer.map(entries.len()).ok_or_else(too_long)?;
    for (key, element) in entries {
        writer.string(key).ok_or_else(too_long)?;
        write(writer, element, ty, depth + 1).map_err(|e| e.under(Step::Key(key.clone())))?;
    }
    Ok(())
}

fn object(
    writer: &mut Writer,
    elements: &ValueMap,
    types: &BTreeMap<Name, Type>,
    depth: usize,
) -> Result<(), EncodeError> {
    writer.map(types.len()).ok_or_else(too_long)?;
    // Both are in order: they are walked side by side.
    let mut elements = elements.iter().peekable();
    for (name, ty) in types {
        writer.string(name).ok_or_else(too_long)?;
        match elements.next_if(|(found, _)| *found == name) {
            Some((_, element)) => write(writer, element, ty, depth + 1)
                .map_err(|e| e.under(Step::Attribute(name.clone())))?,
            None => writer.nil(),
        }
    }
    match elements.next() {
        Some((name, _)) => Err(EncodeError::new("the object has no attribute of this name")
            .under(Step::Attribute(name.clone()))),
        None => Ok(()),
    }
}

fn too_long() -> EncodeError {
    EncodeError::new("the value is too long for msgpack (4 GiB)")
}
