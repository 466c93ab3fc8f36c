//! Terraform's types, and the JSON in which they travel: `"string"`, `["list", "number"]`, `["object", {...}]`.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
};

use crate::{path::Step, value::Name};
use serde::{
    Deserialize, Deserializer, Serialize, Serializer,
    de::{self, SeqAccess, Visitor},
    ser::SerializeSeq,
};

/// The type of a value.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Type {
    /// Text.
    String,
    /// A number of any size and precision.
    Number,
    /// True or false.
    Bool,
    /// Any type: each value carries its own.
    Dynamic,
    /// Elements of one type, in order.
    List(Box<Type>),
    /// Elements of one type, without order or duplicates.
    Set(Box<Type>),
    /// Elements of one type, by key.
    Map(Box<Type>),
    /// A fixed number of elements, each of its own type.
    Tuple(Vec<Type>),
    /// Named attributes, each of its own type.
    Object {
        /// The type of each attribute.
        attributes: BTreeMap<Name, Type>,
        /// The attributes that a user may leave out.
        optional: BTreeSet<String>,
    },
}

/// Bytes that are not the JSON of a type.
#[derive(Debug, thiserror::Error)]
#[error("not a type: {0}")]
pub struct ParseTypeError(String);

impl Type {
    /// An object without optional attributes.
    pub fn object<K: Into<Name>>(attributes: impl IntoIterator<Item = (K, Type)>) -> Self {
        Type::Object {
            attributes: attributes
                .into_iter()
                .map(|(name, ty)| (name.into(), ty))
                .collect(),
            optional: BTreeSet::new(),
        }
    }

    /// A list of `element`.
    pub fn list(element: Type) -> Self {
        Type::List(Box::new(element))
    }

    /// A set of `element`.
    pub fn set(element: Type) -> Self {
        Type::Set(Box::new(element))
    }

    /// A map of `element`.
    pub fn map(element: Type) -> Self {
        Type::Map(Box::new(element))
    }

    /// Reads a type from its JSON. Types more than about a hundred levels deep are refused.
    pub fn from_json(json: &[u8]) -> Result<Self, ParseTypeError> {
        // serde_json stops at 128 levels, which is what bounds the recursion below.
        serde_json::from_slice(json).map_err(|error| ParseTypeError(error.to_string()))
    }

    /// The JSON of this type, as Terraform writes it: no spaces, attributes in order.
    pub fn to_json(&self) -> Vec<u8> {
        // A type has string keys only and no serializer of its own that fails, so writing it to memory can't fail.
        serde_json::to_vec(self).unwrap_or_default()
    }

    /// The type of an element of a list, set or tuple; dynamic where there is none.
    pub(crate) fn element(&self, index: usize) -> &Type {
        match self {
            Type::List(element) | Type::Set(element) => element,
            Type::Tuple(elements) => elements.get(index).unwrap_or(&Type::Dynamic),
            _ => &Type::Dynamic,
        }
    }

    /// The type of an attribute of an object or of an element of a map; dynamic where there is none.
    pub(crate) fn attribute(&self, name: &str) -> &Type {
        match self {
            Type::Map(element) => element,
            Type::Object { attributes, .. } => attributes.get(name).unwrap_or(&Type::Dynamic),
            _ => &Type::Dynamic,
        }
    }

    /// The step of a path that leads to an attribute or to an element of a map.
    pub(crate) fn step(&self, name: &str) -> Step {
        match self {
            Type::Map(_) => Step::Key(name.into()),
            _ => Step::Attribute(name.into()),
        }
    }

    /// The kind of value in words, for messages: "a string", "an object".
    pub fn in_words(&self) -> &'static str {
        match self {
            Type::String => "a string",
            Type::Number => "a number",
            Type::Bool => "true or false",
            Type::Dynamic => "a value",
            Type::List(_) => "a list",
            Type::Set(_) => "a set",
            Type::Map(_) => "a map",
            Type::Tuple(_) => "a tuple",
            Type::Object { .. } => "an object",
        }
    }
}

/// As the type is written in a Terraform configuration: `list(string)`, `object({ count = number })`.
impl fmt::Display for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Type::String => f.write_str("string"),
            Type::Number => f.write_str("number"),
            Type::Bool => f.write_str("bool"),
            Type::Dynamic => f.write_str("any"),
            Type::List(element) => write!(f, "list({element})"),
            Type::Set(element) => write!(f, "set({element})"),
            Type::Map(element) => write!(f, "map({element})"),
            Type::Tuple(elements) => {
                f.write_str("tuple([")?;
                for (i, element) in elements.iter().enumerate() {
                    write!(f, "{}{element}", if i == 0 { "" } else { ", " })?;
                }
                f.write_str("])")
            }
            Type::Object {
                attributes,
                optional,
            } => {
                f.write_str("object({")?;
                for (i, (name, ty)) in attributes.iter().enumerate() {
                    f.write_str(if i == 0 { " " } else { ", " })?;
                    match optional.contains(name.as_str()) {
                        true => write!(f, "{name} = optional({ty})")?,
                        false => write!(f, "{name} = {ty}")?,
                    }
                }
                f.write_str(if attributes.is_empty() { "})" } else { " })" })
            }
        }
    }
}

impl Serialize for Type {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Type::String => serializer.serialize_str("string"),
            Type::Number => serializer.serialize_str("number"),
            Type::Bool => serializer.serialize_str("bool"),
            Type::Dynamic => serializer.serialize_str("dynamic"),
            Type::List(element) => ("list", element).serialize(serializer),
            Type::Set(element) => ("set", element).serialize(serializer),
            Type::Map(element) => ("map", element).serialize(serializer),
            Type::Tuple(elements) => ("tuple", elements).serialize(serializer),
            Type::Object {
                attributes,
                optional,
            } => {
                let length = if optional.is_empty() { 2 } else { 3 };
                let mut parts = serializer.serialize_seq(Some(length))?;
                parts.serialize_element("object")?;
                parts.serialize_element(attributes)?;
                if !optional.is_empty() {
                    parts.serialize_element(optional)?;
                }
                parts.end()
            }
        }
    }
}

struct TypeVisitor;

impl<'de> Visitor<'de> for TypeVisitor {
    type Value = Type;
    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the name of a primitive type, or an array that describes a complex one")
    }
    fn visit_str<E: de::Error>(self, name: &str) -> Result<Type, E> {
        match name {
            "string" => Ok(Type::String),
            "number" => Ok(Type::Number),
            "bool" => Ok(Type::Bool),
            "dynamic" => Ok(Type::Dynamic),
            _ => Err(E::custom(format_args!("{name:?} is not a primitive type"))),
        }
    }
    fn visit_seq<A: SeqAccess<'de>>(self, mut parts: A) -> Result<Type, A::Error> {
        let kind: String = part(&mut parts)?;
        let ty = match kind.as_str() {
            "list" => Type::List(part(&mut parts)?),
            "set" => Type::Set(part(&mut parts)?),
            "map" => Type::Map(part(&mut parts)?),
            "tuple" => Type::Tuple(part(&mut parts)?),
            "object" => {
                let attributes: BTreeMap<Name, Type> = part(&mut parts)?;
                let optional: BTreeSet<String> = parts.next_element()?.unwrap_or_default();
                if let Some(name) = optional
                    .iter()
                    .find(|name| !attributes.contains_key(name.as_str()))
                {
                    return Err(de::Error::custom(format_args!(
                        "{name:?} is optional but not an attribute"
                    )));
                }
                Type::Object {
                    attributes,
                    optional,
                }
            }
            _ => {
                return Err(de::Error::custom(format_args!(
                    "{kind:?} is not a complex type"
                )));
            }
        };
        match parts.next_element::<de::IgnoredAny>()? {
            None => Ok(ty),
            Some(_) => Err(de::Error::custom(format_args!(
                "{kind:?} has too many parts"
            ))),
        }
    }
}

fn part<'de, T: Deserialize<'de>, A: SeqAccess<'de>>(parts: &mut A) -> Result<T, A::Error> {
    parts
        .next_element()?
        .ok_or_else(|| de::Error::custom("a complex type lacks a part"))
}

impl<'de> Deserialize<'de> for Type {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(TypeVisitor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reads_and_writes(json: &str) -> Type {
        let ty = Type::from_json(json.as_bytes()).unwrap();
        assert_eq!(String::from_utf8(ty.to_json()).unwrap(), json);
        ty
    }

    #[test]
    fn every_kind_of_type_reads_and_writes_as_terraform_does() {
        for json in [
            "\"string\"",
            "\"number\"",
            "\"bool\"",
            "\"dynamic\"",
            "[\"list\",\"string\"]",
            "[\"tuple\",[]]",
        ] {
            reads_and_writes(json);
        }
        let ty = reads_and_writes(
            r#"["object",{"a":["set",["map","bool"]],"b":["tuple",["number","dynamic"]]},["b"]]"#,
        );
        assert_eq!(
            ty.to_string(),
            "object({ a = set(map(bool)), b = optional(tuple([number, any])) })"
        );
        assert_eq!(
            reads_and_writes(r#"["object",{}]"#),
            Type::object::<String>([])
        );
    }

    #[test]
    fn what_is_no_type_is_refused() {
        for json in [
            "",
            "null",
            "1",
            "\"text\"",
            "{}",
            "[]",
            "[\"list\"]",
            "[\"list\",\"string\",\"string\"]",
            "[\"object\",[]]",
            "[\"object\",{},[\"a\"]]",
            "[\"object\",{},[],1]",
            "[\"tuple\",\"string\"]",
            "[\"vector\",\"string\"]",
            "[1,2]",
            "\"string\" x",
        ] {
            assert!(Type::from_json(json.as_bytes()).is_err(), "{json}");
        }
    }

    #[test]
    fn depth_is_bounded() {
        let deep = |levels: usize| {
            format!(
                "{}\"string\"{}",
                "[\"list\",".repeat(levels),
                "]".repeat(levels)
            )
        };
        assert!(Type::from_json(deep(100).as_bytes()).is_ok());
        for levels in [1_000, 1_000_000] {
            assert!(Type::from_json(deep(levels).as_bytes()).is_err());
        }
    }
}
