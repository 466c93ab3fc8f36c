//! From a model's JSON schema (schemars) to a Terraform schema.
//!
//! Strict: a keyword that is not understood is an error, since dropping it silently could drop "sensitive".

mod fitness;

use std::collections::{BTreeMap, BTreeSet};

use fitness::{behaves, holds_dynamic, holds_write_only, make_computed, unfit_for_a_set};

use schemars::{JsonSchema, generate::SchemaSettings};
use serde_json::{Map as Object, Value as Json};

use super::{Attribute, Attributes, Check, Kind, Nesting, Schema, object_type};
use crate::{field::flag, types::Type, value::Value};

/// A model that a Terraform schema can't express.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{path}: {message}")]
pub struct SchemaError {
    /// Where in the model.
    pub path: String,
    /// What is wrong with it.
    pub message: String,
}

const DEPRECATED: &str = "x-tf-deprecated";

/// Root names that Terraform keeps for itself.
const RESERVED: [&str; 7] = [
    "connection",
    "count",
    "depends_on",
    "for_each",
    "lifecycle",
    "provider",
    "provisioner",
];

pub(super) fn read<T: JsonSchema>(version: i64) -> Result<Schema, SchemaError> {
    let settings =
        SchemaSettings::draft2020_12().with(|settings| settings.inline_subschemas = true);
    let root = settings.into_generator().into_root_schema_for::<T>();
    let json = Json::from(root);
    let node = Node::read(&json, "")?;
    let Shape::Object(attributes) = node.shape else {
        return Err(error("", "a model must be a struct with named fields"));
    };
    for name in RESERVED {
        if attributes.contains_key(name) {
            return Err(error(name, "Terraform keeps this name for itself"));
        }
    }
    Ok(Schema {
        version,
        description: node.description,
        attributes,
    })
}

fn error(path: &str, message: impl Into<String>) -> SchemaError {
    SchemaError {
        path: if path.is_empty() {
            "the model".to_owned()
        } else {
            path.to_owned()
        },
        message: message.into(),
    }
}

/// What one subschema says, its flags and those of the schema inside `anyOf` joined.
#[derive(Debug)]
struct Node {
    description: String,
    shape: Shape,
    nullable: bool,
    flags: BTreeSet<&'static str>,
    deprecated: Option<String>,
    default: Option<Json>,
    checks: Vec<Check>,
}

#[derive(Debug)]
enum Shape {
    Plain(Type),
    Object(Attributes),
    Nested(Nesting, Attributes),
}

const FLAGS: [&str; 7] = [
    flag::OPTIONAL,
    flag::COMPUTED,
    flag::STABLE,
    flag::REPLACE,
    flag::SENSITIVE,
    flag::WRITE_ONLY,
    flag::SET,
];

impl Node {
    fn read(json: &Json, path: &str) -> Result<Self, SchemaError> {
        let empty = Object::new();
        let object = match json {
            Json::Bool(true) => &empty,
            Json::Object(object) => object,
            _ => return Err(error(path, "not a schema")),
        };
        let mut node = Node {
            description: String::new(),
            shape: Shape::Plain(Type::Dynamic),
            nullable: false,
            flags: BTreeSet::new(),
            deprecated: None,
            default: None,
            checks: Vec::new(),
        };
        let mut keys = Keys {
            object,
            read: BTreeSet::from(["$schema", "title", "readOnly", "writeOnly"]),
        };
        if let Some(any) = keys.get("anyOf") {
            let inner = any.as_array().and_then(|any| match any.as_slice() {
                [inner, null] if null.get("type").and_then(Json::as_str) == Some("null") => {
                    Some(inner)
                }
                _ => None,
            });
            let inner = inner.ok_or_else(|| {
                error(path, "a choice between several types has no Terraform type")
            })?;
            node = Node::read(inner, path)?;
            node.nullable = true;
        } else {
            node.shape = keys.shape(path, &mut node.nullable, &mut node.checks)?;
        }
        for flag in FLAGS {
            match keys.get(flag) {
                Some(Json::Bool(true)) => drop(node.flags.insert(flag)),
                Some(_) => return Err(error(path, format!("{flag} must be true"))),
                None => {}
            }
        }
        if let Some(Json::String(text)) = keys.get("description") {
            node.description.clone_from(text);
        }
        if let Some(Json::Bool(true)) = keys.get("deprecated") {
            node.deprecated
                .get_or_insert_with(|| "Deprecated.".to_owned());
        }
        if let Some(Json::String(text)) = keys.get(DEPRECATED) {
            node.deprecated = Some(text.clone());
        }
        if let Some(default) = keys.get("default") {
            node.default = Some(default.clone()).filter(|default| !default.is_null());
        }
        keys.all_read(path)?;
        if node.flags.contains(flag::SET) {
            if holds_dynamic(&node.shape) {
                return Err(error(path, "a set can't hold values of any type"));
            }
            node.shape = match node.shape {
                Shape::Plain(Type::List(element)) => Shape::Plain(Type::Set(element)),
                Shape::Nested(Nesting::List, attributes) => Shape::Nested(Nesting::Set, attributes),
                other => other,
            };
        }
        Ok(node)
    }

    /// What is in a collection has a type and checks, and nothing else that Terraform could know.
    fn for_element(self, path: &str) -> Result<Self, SchemaError> {
        let lost = self
            .flags
            .iter()
            .find(|flag| ![flag::OPTIONAL, flag::SET].contains(flag));
        if let Some(flag) = lost {
            return Err(error(
                path,
                format!("{flag} on an element would be lost: put it around the whole collection"),
            ));
        }
        if let Shape::Nested(_, attributes) = &self.shape
            && let Some(name) = behaves(attributes)
        {
            return Err(error(
                path,
                format!(
                    "a collection in a collection is a plain type, and what {name} says beside its type would be lost"
                ),
            ));
        }
        Ok(self)
    }

    fn attribute(self, path: &str, required_key: bool) -> Result<Attribute, SchemaError> {
        let has = |flag| self.flags.contains(flag);
        let (computed, write_only) = (has(flag::COMPUTED), has(flag::WRITE_ONLY));
        let default = self
            .default
            .as_ref()
            .map(|json| default_value(json, path))
            .transpose()?;
        let optional = has(flag::OPTIONAL) || (!computed && (self.nullable || default.is_some()));
        let required = !optional && !computed;
        // serde's own idea of "required" says nothing under the wrappers; only a field that it may leave out and that has no
        // default would be a surprise: it would be stored as null and refused when read back.
        if required && !required_key && !self.flags.is_empty() && default.is_none() && self.nullable
        {
            return Err(error(path, "required, but its type allows null"));
        }
        if write_only && !optional {
            return Err(error(
                path,
                "write-only: the type inside must be Option<T> or Opt<T>",
            ));
        }
        let kind = match self.shape {
            Shape::Plain(ty) => Kind::Plain(ty),
            Shape::Object(attributes) => Kind::Nested(Nesting::Single, attributes),
            Shape::Nested(nesting, attributes) => Kind::Nested(nesting, attributes),
        };
        let mut attribute = Attribute {
            description: self.description,
            kind,
            required,
            optional,
            computed: computed || default.is_some(),
            sensitive: self.flags.contains(flag::SENSITIVE),
            write_only,
            deprecated: self.deprecated,
            stable: self.flags.contains(flag::STABLE),
            replace: self.flags.contains(flag::REPLACE),
            default,
            checks: self.checks,
        };
        if attribute.computed && !attribute.optional {
            if let Kind::Nested(_, nested) = &attribute.kind
                && holds_write_only(nested)
            {
                return Err(error(
                    path,
                    "what is computed can't hold write-only attributes",
                ));
            }
            make_computed(&mut attribute);
        } else if let Kind::Nested(Nesting::Set, nested) = &attribute.kind
            && unfit_for_a_set(nested)
        {
            return Err(error(
                path,
                "elements of a set can't hold computed or write-only attributes: they could not be told apart",
            ));
        }
        Ok(attribute)
    }
}

fn default_value(json: &Json, path: &str) -> Result<Value, SchemaError> {
    crate::ser::to_value(json).map_err(|_| error(path, "this default has no Terraform value"))
}

/// The keywords of one subschema, and which of them have been read.
struct Keys<'a> {
    object: &'a Object<String, Json>,
    read: BTreeSet<&'static str>,
}

impl<'a> Keys<'a> {
    fn get(&mut self, key: &'static str) -> Option<&'a Json> {
        self.read.insert(key);
        self.object.get(key)
    }

    fn all_read(&self, path: &str) -> Result<(), SchemaError> {
        match self
            .object
            .keys()
            .find(|key| !self.read.contains(key.as_str()))
        {
            Some(key) => Err(error(
                path,
                format!("the schema keyword {key:?} is not understood"),
            )),
            None => Ok(()),
        }
    }

    fn shape(
        &mut self,
        path: &str,
        nullable: &mut bool,
        checks: &mut Vec<Check>,
    ) -> Result<Shape, SchemaError> {
        if let Some(variants) = self.get("oneOf") {
            let mut values = Vec::new();
            for variant in variants.as_array().into_iter().flatten() {
                values.extend(
                    variant
                        .get("const")
                        .and_then(Json::as_str)
                        .map(str::to_owned),
                );
                for value in variant
                    .get("enum")
                    .and_then(Json::as_array)
                    .into_iter()
                    .flatten()
                {
                    values.extend(value.as_str().map(str::to_owned));
                }
                if variant.get("properties").is_some() {
                    return Err(error(
                        path,
                        "an enum whose variants hold data has no Terraform type",
                    ));
                }
            }
            checks.push(Check::OneOf(values));
            return Ok(Shape::Plain(Type::String));
        }
        let name = match self.get("type") {
            None => return Ok(Shape::Plain(Type::Dynamic)),
            Some(Json::String(name)) => name.as_str(),
            Some(Json::Array(names)) => {
                let mut names: Vec<_> = names.iter().filter_map(Json::as_str).collect();
                *nullable = names.contains(&"null");
                names.retain(|name| *name != "null");
                match names.as_slice() {
                    [name] => *name,
                    _ => return Err(error(path, "several types at once have no Terraform type")),
                }
            }
            Some(_) => return Err(error(path, "\"type\" is not understood")),
        };
        match name {
            "string" => {
                if let Some(values) = self.get("enum") {
                    let values = values.as_array().into_iter().flatten();
                    checks.push(Check::OneOf(
                        values.filter_map(Json::as_str).map(str::to_owned).collect(),
                    ));
                }
                if let Some(value) = self.get("const").and_then(Json::as_str) {
                    checks.push(Check::OneOf(vec![value.to_owned()]));
                }
                self.get("format");
                let (min, max) = (self.size("minLength"), self.size("maxLength"));
                if min.is_some() || max.is_some() {
                    checks.push(Check::Length { min, max });
                }
                if let Some(pattern) = self.get("pattern").and_then(Json::as_str) {
                    checks.push(Check::pattern(pattern).map_err(|why| error(path, why))?);
                }
                Ok(Shape::Plain(Type::String))
            }
            "integer" | "number" => {
                let format = self
                    .get("format")
                    .and_then(Json::as_str)
                    .unwrap_or_default();
                let (low, high) = integer_range(format);
                let (min, max) = (
                    self.get("minimum").and_then(Json::as_f64),
                    self.get("maximum").and_then(Json::as_f64),
                );
                checks.push(Check::Range {
                    min: min.or(low),
                    max: max.or(high),
                    whole: name == "integer",
                });
                Ok(Shape::Plain(Type::Number))
            }
            "boolean" => Ok(Shape::Plain(Type::Bool)),
            "dynamic" => Ok(Shape::Plain(Type::Dynamic)),
            "array" => self.array(path, checks),
            "object" => self.object(path, checks),
            other => Err(error(
                path,
                format!("the type {other:?} has no Terraform type"),
            )),
        }
    }

    fn size(&mut self, key: &'static str) -> Option<u64> {
        self.get(key).and_then(Json::as_u64)
    }

    fn array(&mut self, path: &str, checks: &mut Vec<Check>) -> Result<Shape, SchemaError> {
        let (min, max) = (self.size("minItems"), self.size("maxItems"));
        if min.is_some() || max.is_some() {
            checks.push(Check::Items { min, max });
        }
        let set = self.get("uniqueItems") == Some(&Json::Bool(true));
        let items = self
            .get("items")
            .ok_or_else(|| error(path, "a tuple has no Terraform type"))?;
        let element = Node::read(items, &format!("{path}[]"))?.for_element(&format!("{path}[]"))?;
        if set && holds_dynamic(&element.shape) {
            return Err(error(path, "a set can't hold values of any type"));
        }
        if !element.checks.is_empty() {
            checks.push(Check::Each(element.checks));
        }
        Ok(match element.shape {
            Shape::Object(attributes) => {
                Shape::Nested(if set { Nesting::Set } else { Nesting::List }, attributes)
            }
            Shape::Plain(ty) if set => Shape::Plain(Type::Set(Box::new(ty))),
            Shape::Plain(ty) => Shape::Plain(Type::List(Box::new(ty))),
            Shape::Nested(nesting, attributes) => {
                Shape::Plain(Type::List(Box::new(nesting.of(object_type(&attributes)))))
            }
        })
    }

    fn object(&mut self, path: &str, checks: &mut Vec<Check>) -> Result<Shape, SchemaError> {
        self.get("minProperties");
        if let Some(element) = self
            .get("additionalProperties")
            .filter(|json| **json != Json::Bool(false))
        {
            let path = format!("{path}[\"\"]");
            let element = Node::read(element, &path)?.for_element(&path)?;
            if !element.checks.is_empty() {
                checks.push(Check::Each(element.checks));
            }
            return Ok(match element.shape {
                Shape::Object(attributes) => Shape::Nested(Nesting::Map, attributes),
                Shape::Plain(ty) => Shape::Plain(Type::Map(Box::new(ty))),
                Shape::Nested(nesting, attributes) => {
                    Shape::Plain(Type::Map(Box::new(nesting.of(object_type(&attributes)))))
                }
            });
        }
        let required: BTreeSet<&str> = self
            .get("required")
            .and_then(Json::as_array)
            .into_iter()
            .flatten()
            .filter_map(Json::as_str)
            .collect();
        let mut attributes = BTreeMap::new();
        for (name, json) in self
            .get("properties")
            .and_then(Json::as_object)
            .into_iter()
            .flatten()
        {
            let path = if path.is_empty() {
                name.clone()
            } else {
                format!("{path}.{name}")
            };
            let valid = name.starts_with(|c: char| c.is_ascii_lowercase())
                && name
                    .chars()
                    .all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_');
            if !valid {
                return Err(error(
                    &path,
                    "attribute names are lower-case letters, digits and underscores",
                ));
            }
            let node = Node::read(json, &path)?;
            attributes.insert(
                name.as_str().into(),
                node.attribute(&path, required.contains(name.as_str()))?,
            );
        }
        Ok(Shape::Object(attributes))
    }
}

/// The range of the Rust integer that schemars names by `format`; floats have none.
fn integer_range(format: &str) -> (Option<f64>, Option<f64>) {
    let bounds = match format {
        "uint8" => (0.0, f64::from(u8::MAX)),
        "uint16" => (0.0, f64::from(u16::MAX)),
        "uint32" => (0.0, f64::from(u32::MAX)),
        "int8" => (f64::from(i8::MIN), f64::from(i8::MAX)),
        "int16" => (f64::from(i16::MIN), f64::from(i16::MAX)),
        "int32" => (f64::from(i32::MIN), f64::from(i32::MAX)),
        // Beyond 2^53 a JSON number may be inexact anyway; serde refuses what does not fit.
        "uint64" | "uint" => return (Some(0.0), None),
        _ => return (None, None),
    };
    (Some(bounds.0), Some(bounds.1))
}

#[cfg(test)]
mod tests;
