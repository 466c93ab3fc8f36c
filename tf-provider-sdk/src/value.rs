//! Terraform's values: known, null or not known yet.
//!
//! A [`Value`] is a tree; its [`Type`] stands beside it (in the schema), not in it. [`crate::msgpack`] and [`crate::json`] read
//! and write it, [`crate::de`] and [`crate::ser`] turn it into plain Rust types and back.

mod equality;
mod error;
mod in_order;
mod portable;
mod refinement;

use std::{borrow::Cow, collections::BTreeMap};

use unicode_normalization::{UnicodeNormalization, is_nfc};

use crate::{
    number::Number,
    path::{Path, Step},
    types::Type,
};

pub use error::{DecodeError, EncodeError, FromValueError, ToValueError};
pub(crate) use in_order::InOrder;
pub(crate) use portable::{DYNAMIC, REFINED, VALUE};
pub use refinement::{Bound, Refinement};

/// The name of an attribute, or a key of a map. Names are read, compared and copied for every attribute of every call; those of
/// up to 23 bytes, which is nearly all, are copied without asking for memory.
pub type Name = smol_str::SmolStr;

/// The members of a map or object, in the order of their names. Values are read, copied and dropped whole for every attribute of
/// every call: one piece of memory for all members is a third of the work of a tree of nodes.
pub type ValueMap = litemap::LiteMap<Name, Value>;

/// The deepest value that is read or written. Terraform's own are a handful of levels deep.
pub(crate) const MAX_DEPTH: usize = 200;

/// Null, for what is not there.
static NULL: Value = Value::Null;

/// A value of any type.
///
/// `==` compares the trees as they stand. What Terraform calls equal is [`Value::equals`].
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Value {
    /// Not there.
    #[default]
    Null,
    /// Not known until apply; perhaps with what is known of it already.
    Unknown(Option<Box<Refinement>>),
    /// True or false.
    Bool(bool),
    /// A number.
    Number(Number),
    /// Text.
    String(String),
    /// A list, a set (in any order) or a tuple.
    List(Vec<Value>),
    /// A map or an object.
    Map(ValueMap),
    /// The value of an attribute whose type is [`Type::Dynamic`], with the type that it has this time.
    Dynamic(Box<Dynamic>),
}

/// A value that carries its own type.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Dynamic {
    /// The type of `value`.
    pub ty: Type,
    /// The value.
    pub value: Value,
}

impl Value {
    /// A value that is not known yet, and of which nothing else is known either.
    pub const fn unknown() -> Self {
        Value::Unknown(None)
    }

    /// An object of these attributes.
    pub fn object<K: Into<Name>>(attributes: impl IntoIterator<Item = (K, Value)>) -> Self {
        Value::Map(
            attributes
                .into_iter()
                .map(|(name, value)| (name.into(), value))
                .collect(),
        )
    }

    /// Whether the value is known to be absent.
    pub fn is_null(&self) -> bool {
        match self {
            Value::Null => true,
            Value::Dynamic(dynamic) => dynamic.value.is_null(),
            _ => false,
        }
    }

    /// Whether the value itself is not known yet. Its parts may be unknown all the same: see [`Value::is_wholly_known`].
    pub fn is_unknown(&self) -> bool {
        match self {
            Value::Unknown(_) => true,
            Value::Dynamic(dynamic) => dynamic.value.is_unknown(),
            _ => false,
        }
    }

    /// Whether nothing in the value is unknown.
    pub fn is_wholly_known(&self) -> bool {
        match self {
            Value::Unknown(_) => false,
            Value::List(elements) => elements.iter().all(Value::is_wholly_known),
            Value::Map(elements) => elements.values().all(Value::is_wholly_known),
            Value::Dynamic(dynamic) => dynamic.value.is_wholly_known(),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => true,
        }
    }

    /// The truth value, where this is one.
    pub fn as_bool(&self) -> Option<bool> {
        match self.undressed() {
            Value::Bool(value) => Some(*value),
            _ => None,
        }
    }

    /// The number, where this is one.
    pub fn as_number(&self) -> Option<&Number> {
        match self.undressed() {
            Value::Number(number) => Some(number),
            _ => None,
        }
    }

    /// The text, where this is one.
    pub fn as_str(&self) -> Option<&str> {
        match self.undressed() {
            Value::String(text) => Some(text),
            _ => None,
        }
    }

    /// The elements, where this is a list, set or tuple.
    pub fn as_list(&self) -> Option<&[Value]> {
        match self.undressed() {
            Value::List(elements) => Some(elements),
            _ => None,
        }
    }

    /// The elements or attributes, where this is a map or object.
    pub fn as_map(&self) -> Option<&ValueMap> {
        match self.undressed() {
            Value::Map(elements) => Some(elements),
            _ => None,
        }
    }

    /// The elements or attributes, where this is a map or object.
    pub fn as_map_mut(&mut self) -> Option<&mut ValueMap> {
        match self.undressed_mut() {
            Value::Map(elements) => Some(elements),
            _ => None,
        }
    }

    /// An attribute of this object, or an element of this map: null where it is not there, and where this is null
    /// itself or not an object; unknown where this is unknown.
    pub fn attribute(&self, name: &str) -> &Value {
        match self.undressed() {
            Value::Map(elements) => elements.get(name).unwrap_or(&NULL),
            Value::Unknown(_) => self,
            _ => &NULL,
        }
    }

    /// Sets an attribute of this object. Null and whatever is not an object become an object first.
    pub fn set_attribute(&mut self, name: impl Into<Name>, value: Value) {
        if let Some(attributes) = self.as_map_mut() {
            attributes.insert(name.into(), value);
        } else {
            *self = Value::object([(name, value)]);
        }
    }

    /// What is at a path, where something is.
    pub fn get(&self, path: &Path) -> Option<&Value> {
        path.0
            .iter()
            .try_fold(self, |value, step| match (value.undressed(), step) {
                (Value::Map(elements), Step::Attribute(name) | Step::Key(name)) => {
                    elements.get(name.as_str())
                }
                (Value::List(elements), Step::Index(index)) => elements.get(*index),
                _ => None,
            })
    }

    /// What is at a path, where something is.
    pub fn get_mut(&mut self, path: &Path) -> Option<&mut Value> {
        path.0
            .iter()
            .try_fold(self, |value, step| match (value.undressed_mut(), step) {
                (Value::Map(elements), Step::Attribute(name) | Step::Key(name)) => {
                    elements.get_mut(name.as_str())
                }
                (Value::List(elements), Step::Index(index)) => elements.get_mut(*index),
                _ => None,
            })
    }

    /// Shows every part to `visit` with its path: each before its own parts, an element of a map as the `ty` says
    /// (attribute or key). The parts of what `visit` answers `false` for are skipped.
    pub fn walk(&self, ty: &Type, visit: &mut dyn FnMut(&Path, &Value) -> bool) {
        self.walk_from(ty, &mut Path::root(), visit);
    }

    fn walk_from(&self, ty: &Type, path: &mut Path, visit: &mut dyn FnMut(&Path, &Value) -> bool) {
        if !visit(path, self) {
            return;
        }
        match self {
            Value::Dynamic(dynamic) => dynamic.value.walk_parts(&dynamic.ty, path, visit),
            _ => self.walk_parts(ty, path, visit),
        }
    }

    fn walk_parts(&self, ty: &Type, path: &mut Path, visit: &mut dyn FnMut(&Path, &Value) -> bool) {
        match self {
            Value::List(elements) => {
                for (index, element) in elements.iter().enumerate() {
                    path.0.push(Step::Index(index));
                    element.walk_from(ty.element(index), path, visit);
                    path.0.pop();
                }
            }
            Value::Map(elements) => {
                for (name, element) in elements {
                    path.0.push(ty.step(name));
                    element.walk_from(ty.attribute(name), path, visit);
                    path.0.pop();
                }
            }
            Value::Dynamic(_) => self.walk_from(ty, path, visit),
            _ => {}
        }
    }

    /// The paths of what is unknown, in order.
    pub fn unknown_paths(&self, ty: &Type) -> Vec<Path> {
        let mut paths = Vec::new();
        self.walk(ty, &mut |path, value| {
            if value.is_unknown() {
                paths.push(path.clone());
            }
            !value.is_unknown()
        });
        paths
    }

    /// The value without the type that it may carry.
    pub fn undressed(&self) -> &Value {
        let mut value = self;
        while let Value::Dynamic(dynamic) = value {
            value = &dynamic.value;
        }
        value
    }

    fn undressed_mut(&mut self) -> &mut Value {
        match self {
            Value::Dynamic(dynamic) => dynamic.value.undressed_mut(),
            value => value,
        }
    }

    /// The type that Terraform gives a value written without one: a list is a tuple, a map an object.
    pub fn infer_type(&self) -> Type {
        match self {
            Value::Null | Value::Unknown(_) => Type::Dynamic,
            Value::Bool(_) => Type::Bool,
            Value::Number(_) => Type::Number,
            Value::String(_) => Type::String,
            Value::List(elements) => Type::Tuple(elements.iter().map(Value::infer_type).collect()),
            Value::Map(elements) => Type::object(
                elements
                    .iter()
                    .map(|(name, value)| (name.as_str(), value.infer_type())),
            ),
            // A value inside carries its own type wherever it is written.
            Value::Dynamic(_) => Type::Dynamic,
        }
    }

    /// The kind of value in words, for messages: "null", "a string".
    pub fn in_words(&self) -> &'static str {
        match self.undressed() {
            Value::Null | Value::Dynamic(_) => "null",
            Value::Unknown(_) => "a value that is not known yet",
            Value::Bool(_) => "true or false",
            Value::Number(_) => "a number",
            Value::String(_) => "a string",
            Value::List(_) => "a list",
            Value::Map(_) => "an object",
        }
    }
}

macro_rules! from {
    ($($from:ty => $variant:ident),*) => { $(impl From<$from> for Value {
        fn from(value: $from) -> Self {
            Value::$variant(value.into())
        }
    })* };
}
from!(bool => Bool, Number => Number, String => String, &str => String, i32 => Number, i64 => Number, u32 => Number,
      u64 => Number, Vec<Value> => List, ValueMap => Map);

impl From<BTreeMap<Name, Value>> for Value {
    fn from(members: BTreeMap<Name, Value>) -> Self {
        Value::Map(members.into_iter().collect())
    }
}

impl<T: Into<Value>> From<Option<T>> for Value {
    fn from(value: Option<T>) -> Self {
        value.map_or(Value::Null, Into::into)
    }
}

/// Text as Terraform keeps it: in Unicode's composed form (NFC).
pub fn normalized(text: &str) -> Cow<'_, str> {
    if text.is_ascii() || is_nfc(text) {
        Cow::Borrowed(text)
    } else {
        Cow::Owned(text.nfc().collect())
    }
}

#[cfg(test)]
mod tests;
