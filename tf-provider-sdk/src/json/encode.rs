//! Values to state JSON.

use std::collections::BTreeMap;

use crate::{
    path::Step,
    types::Type,
    value::{EncodeError, MAX_DEPTH, Name, Value, ValueMap, normalized},
};

/// Writes a value as a type, without spaces. As [`crate::msgpack::encode`], but what is unknown or infinite is an error.
pub fn encode(value: &Value, ty: &Type) -> Result<Vec<u8>, EncodeError> {
    let mut json = Vec::new();
    write(&mut json, value, ty, 0)?;
    Ok(json)
}

fn write(json: &mut Vec<u8>, value: &Value, ty: &Type, depth: usize) -> Result<(), EncodeError> {
    if depth > MAX_DEPTH {
        return Err(EncodeError::new(format!(
            "the value is more than {MAX_DEPTH} levels deep"
        )));
    }
    match (ty, value) {
        (_, Value::Null) => json.extend(b"null"),
        (_, Value::Unknown(_)) => {
            return Err(EncodeError::new(
                "the value is not known yet, so JSON can't hold it",
            ));
        }
        (Type::Dynamic, value) => dynamic(json, value, depth)?,
        (ty, Value::Dynamic(dynamic)) => {
            if dynamic.ty != *ty && dynamic.ty != Type::Dynamic {
                return Err(EncodeError::new(format!(
                    "{ty} is required, not {}",
                    dynamic.ty
                )));
            }
            write(json, &dynamic.value, ty, depth + 1)?;
        }
        (Type::Bool, Value::Bool(value)) => json.extend(value.to_string().bytes()),
        (Type::String, Value::String(value)) => text(json, value)?,
        (Type::Number, Value::Number(number)) if number.is_finite() => {
            json.extend(number.to_string().bytes())
        }
        (Type::Number, Value::Number(_)) => {
            return Err(EncodeError::new("JSON can't hold an infinite number"));
        }
        (Type::List(_) | Type::Set(_), Value::List(elements)) => list(json, elements, ty, depth)?,
        (Type::Tuple(types), Value::List(elements)) if elements.len() == types.len() => {
            list(json, elements, ty, depth)?;
        }
        (Type::Tuple(types), Value::List(elements)) => {
            let (wanted, given) = (types.len(), elements.len());
            return Err(EncodeError::new(format!(
                "a tuple of {wanted} is required ({given} given)"
            )));
        }
        (Type::Map(_), Value::Map(elements)) => members(json, elements.iter(), ty, depth)?,
        (Type::Object { attributes, .. }, Value::Map(elements)) => {
            object(json, elements, attributes, ty, depth)?
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

fn dynamic(json: &mut Vec<u8>, value: &Value, depth: usize) -> Result<(), EncodeError> {
    let inferred;
    let (ty, value) = match value {
        Value::Dynamic(dynamic) => (&dynamic.ty, &dynamic.value),
        value => {
            inferred = value.infer_type();
            (&inferred, value)
        }
    };
    if *ty == Type::Dynamic {
        return write(json, value, ty, depth + 1);
    }
    json.extend(b"{\"value\":");
    write(json, value, ty, depth + 1)?;
    json.extend(b",\"type\":");
    json.extend(ty.to_json());
    json.push(b'}');
    Ok(())
}

fn text(json: &mut Vec<u8>, text: &str) -> Result<(), EncodeError> {
    serde_json::to_writer(json, &normalized(text))
        .map_err(|error| EncodeError::new(error.to_string()))
}

fn list(
    json: &mut Vec<u8>,
    elements: &[Value],
    ty: &Type,
    depth: usize,
) -> Result<(), EncodeError> {
    json.push(b'[');
    for (index, element) in elements.iter().enumerate() {
        if index > 0 {
            json.push(b',');
        }
        write(json, element, ty.element(index), depth + 1)
            .map_err(|e| e.under(Step::Index(index)))?;
    }
    json.push(b']');
    Ok(())
}

fn object(
    json: &mut Vec<u8>,
    elements: &ValueMap,
    types: &BTreeMap<Name, Type>,
    ty: &Type,
    depth: usize,
) -> Result<(), EncodeError> {
    if let Some(name) = elements.keys().find(|name| !types.contains_key(*name)) {
        return Err(EncodeError::new("the object has no attribute of this name")
            .under(Step::Attribute(name.clone())));
    }
    let all = types
        .keys()
        .map(|name| (name, elements.get(name).unwrap_or(&Value::Null)));
    members(json, all, ty, depth)
}

fn members<'a>(
    json: &mut Vec<u8>,
    members: impl Iterator<Item = (&'a Name, &'a Value)>,
    ty: &Type,
    depth: usize,
) -> Result<(), EncodeError> {
    json.push(b'{');
    for (index, (name, element)) in members.enumerate() {
        if index > 0 {
            json.push(b',');
        }
        text(json, name)?;
        json.push(b':');
        write(json, element, ty.attribute(name), depth + 1).map_err(|e| e.under(ty.step(name)))?;
    }
    json.push(b'}');
    Ok(())
}
