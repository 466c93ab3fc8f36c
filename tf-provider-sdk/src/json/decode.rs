//! State JSON to values.

use super::scanner::{Scanner, too_deep};
use crate::{
    number::Number,
    path::Step,
    types::Type,
    value::{DecodeError, Dynamic, MAX_DEPTH, Name, Value, ValueMap, normalized},
};

/// Reads a value of a type. Attributes that are not there are null; others than the type has are an error.
pub fn decode(json: &[u8], ty: &Type) -> Result<Value, DecodeError> {
    read(json, ty, Extra::Refused)
}

/// As [`decode`], but drops attributes that the type does not have: for state that an earlier version wrote.
pub fn decode_lenient(json: &[u8], ty: &Type) -> Result<Value, DecodeError> {
    read(json, ty, Extra::Dropped)
}

#[derive(Clone, Copy, PartialEq)]
enum Extra {
    Refused,
    Dropped,
}

fn read(json: &[u8], ty: &Type, extra: Extra) -> Result<Value, DecodeError> {
    let mut scanner = Scanner::new(json);
    let value = value(&mut scanner, ty, extra, 0)?;
    match scanner.peek() {
        None => Ok(value),
        Some(_) => Err(scanner.malformed()),
    }
}

fn value(
    scanner: &mut Scanner<'_>,
    ty: &Type,
    extra: Extra,
    depth: usize,
) -> Result<Value, DecodeError> {
    if depth > MAX_DEPTH {
        return Err(too_deep());
    }
    let next = scanner.peek().ok_or_else(|| scanner.malformed())?;
    match (ty, next) {
        (_, b'n') => {
            scanner.word("null")?;
            Ok(Value::Null)
        }
        (Type::Dynamic, b'{') => dynamic(scanner, extra, depth),
        (Type::List(_) | Type::Set(_) | Type::Tuple(_), b'[') => list(scanner, ty, extra, depth),
        (Type::Map(_) | Type::Object { .. }, b'{') => map(scanner, ty, extra, depth),
        (Type::String | Type::Number | Type::Bool, _) => primitive(scanner, ty, next),
        _ => Err(DecodeError::new(format!("{} is required", ty.in_words()))),
    }
}

/// As Terraform does, takes text for a number or a truth value and the other way round: the type of an attribute
/// may have changed since the state was written.
fn primitive(scanner: &mut Scanner<'_>, ty: &Type, next: u8) -> Result<Value, DecodeError> {
    let required = || DecodeError::new(format!("{} is required", ty.in_words()));
    match (ty, next) {
        (Type::String, b'"') => Ok(Value::String(normalized(&scanner.string()?).into_owned())),
        (Type::String, b't' | b'f') => Ok(Value::String(scanner.bool()?.to_string())),
        (Type::String, b'-' | b'0'..=b'9') => {
            let number: Number = scanner.number()?.parse().map_err(|_| required())?;
            Ok(Value::String(number.to_string()))
        }
        (Type::Number, b'-' | b'0'..=b'9') => {
            let text = scanner.number()?;
            text.parse()
                .map(Value::Number)
                .map_err(|error| DecodeError::new(format!("{error}")))
        }
        (Type::Number, b'"') => scanner
            .string()?
            .parse()
            .map(Value::Number)
            .map_err(|_| required()),
        (Type::Bool, b't' | b'f') => scanner.bool().map(Value::Bool),
        (Type::Bool, b'"') => match &*scanner.string()? {
            "true" | "1" => Ok(Value::Bool(true)),
            "false" | "0" => Ok(Value::Bool(false)),
            _ => Err(required()),
        },
        _ => Err(required()),
    }
}

fn list(
    scanner: &mut Scanner<'_>,
    ty: &Type,
    extra: Extra,
    depth: usize,
) -> Result<Value, DecodeError> {
    scanner.expect(b'[')?;
    let mut elements = Vec::new();
    while scanner.has_next(b']', elements.is_empty())? {
        let index = elements.len();
        let element = value(scanner, ty.element(index), extra, depth + 1);
        elements.push(element.map_err(|e| e.under(Step::Index(index)))?);
    }
    match ty {
        Type::Tuple(types) if types.len() != elements.len() => Err(DecodeError::new(format!(
            "a tuple of {} is required ({} given)",
            types.len(),
            elements.len()
        ))),
        _ => Ok(Value::List(elements)),
    }
}

fn map(
    scanner: &mut Scanner<'_>,
    ty: &Type,
    extra: Extra,
    depth: usize,
) -> Result<Value, DecodeError> {
    scanner.expect(b'{')?;
    let mut elements = Vec::new();
    let mut first = true;
    while scanner.has_next(b'}', std::mem::take(&mut first))? {
        let key = Name::from(normalized(&scanner.string()?));
        scanner.expect(b':')?;
        let element_type = match ty {
            Type::Object { attributes, .. } => match (attributes.get(&key), extra) {
                (Some(ty), _) => ty,
                (None, Extra::Dropped) => {
                    scanner.skip(depth + 1)?;
                    continue;
                }
                (None, Extra::Refused) => {
                    return Err(DecodeError::new("the object has no attribute of this name")
                        .under(Step::Attribute(key)));
                }
            },
            ty => ty.attribute(&key),
        };
        let element =
            value(scanner, element_type, extra, depth + 1).map_err(|e| e.under(ty.step(&key)))?;
        elements.push((key, element));
    }
    let mut elements: ValueMap = elements.into_iter().collect();
    if let Type::Object { attributes, .. } = ty {
        for name in attributes.keys() {
            if !elements.contains_key(name) {
                elements.insert(name.clone(), Value::Null);
            }
        }
    }
    Ok(Value::Map(elements))
}

/// `{"value": ..., "type": ...}`. Where the value comes first it is passed over, and read once its type is known.
fn dynamic(scanner: &mut Scanner<'_>, extra: Extra, depth: usize) -> Result<Value, DecodeError> {
    scanner.expect(b'{')?;
    let (mut ty, mut start) = (None, None);
    let mut first = true;
    while scanner.has_next(b'}', std::mem::take(&mut first))? {
        let name = scanner.string()?;
        scanner.expect(b':')?;
        let position = scanner.position();
        scanner.skip(depth + 1)?;
        match &*name {
            "type" if ty.is_none() => {
                let read = Type::from_json(scanner.since(position));
                ty = Some(read.map_err(|error| DecodeError::new(error.to_string()))?);
            }
            "value" if start.is_none() => start = Some(position),
            _ => return Err(dynamic_shape()),
        }
    }
    let (Some(ty), Some(start)) = (ty, start) else {
        return Err(dynamic_shape());
    };
    let value = value(&mut scanner.again(start), &ty, extra, depth + 1)?;
    Ok(if ty == Type::Dynamic {
        value
    } else {
        Value::Dynamic(Box::new(Dynamic { ty, value }))
    })
}

fn dynamic_shape() -> DecodeError {
    DecodeError::new("a dynamic value must be an object of exactly a \"value\" and a \"type\"")
}
