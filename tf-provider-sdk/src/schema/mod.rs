//! What an object is made of: attributes, nested attributes, their documentation and how they behave.
//!
//! Read once from a model struct ([`Schema::of`]), it is the single source for what Terraform is told, for the plan engine, for the
//! checks of a configuration and for the documentation pages.
//!
//! - here: the data, and the walk over a value and its attributes together
//! - `reader.rs`: from a model's JSON schema; strict, so that nothing that an author wrote is dropped silently
//! - `check.rs`: what a configured value must satisfy
//!
//! Nested attributes only: blocks are the older form, and a provider on protocol 6 does not need them.

mod check;
mod reader;

use std::collections::{BTreeMap, BTreeSet};

pub use check::Check;
pub use reader::SchemaError;
use schemars::JsonSchema;

use crate::{
    types::Type,
    value::{Name, Value},
};

/// Attributes by name.
pub type Attributes = BTreeMap<Name, Attribute>;

/// The schema of a resource, data source or provider block.
#[derive(Debug, Clone, PartialEq)]
pub struct Schema {
    /// Version of the stored state.
    pub version: i64,
    /// What it is, in Markdown.
    pub description: String,
    /// The attributes.
    pub attributes: Attributes,
}

/// One attribute.
#[derive(Debug, Clone, PartialEq)]
pub struct Attribute {
    /// What it means, in Markdown, with its unit.
    pub description: String,
    /// Its type.
    pub kind: Kind,
    /// Must be configured.
    pub required: bool,
    /// May be configured.
    pub optional: bool,
    /// The provider may set it.
    pub computed: bool,
    /// Never shown.
    pub sensitive: bool,
    /// Never stored.
    pub write_only: bool,
    /// Why not to use it any more, and what instead.
    pub deprecated: Option<String>,
    /// Keeps its value for the life of the object.
    pub stable: bool,
    /// A changed value makes a new object.
    pub replace: bool,
    /// The value where none is configured.
    pub default: Option<Value>,
    /// What a configured value must satisfy.
    pub checks: Vec<Check>,
}

/// The type of an attribute.
#[derive(Debug, Clone, PartialEq)]
pub enum Kind {
    /// A type without attributes of its own.
    Plain(Type),
    /// One or several objects with attributes of their own.
    Nested(Nesting, Attributes),
}

/// How many objects a nested attribute holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Nesting {
    /// One.
    Single,
    /// A list of them.
    List,
    /// A set of them.
    Set,
    /// A map of them.
    Map,
}

impl Schema {
    /// Reads the schema of a model.
    ///
    /// # Errors
    /// Where the model uses a type or a keyword that a Terraform schema can't express; that is the author's fault, and a test of
    /// the provider should call this for every model.
    pub fn of<T: JsonSchema>(version: i64) -> Result<Self, SchemaError> {
        reader::read::<T>(version)
    }

    /// The type of the whole object.
    pub fn ty(&self) -> Type {
        object_type(&self.attributes)
    }

    /// A null of every attribute.
    pub fn empty(&self) -> Value {
        Value::Map(
            self.attributes
                .keys()
                .map(|name| (name.clone(), Value::Null))
                .collect(),
        )
    }

    /// Messages about every configured attribute that a check refuses, and warnings about those that are deprecated.
    pub fn check(&self, config: &Value) -> crate::diagnostic::Diagnostics {
        check::check(self, config)
    }
}

impl Attribute {
    /// The type of its value.
    pub fn ty(&self) -> Type {
        match &self.kind {
            Kind::Plain(ty) => ty.clone(),
            Kind::Nested(nesting, attributes) => nesting.of(object_type(attributes)),
        }
    }

    /// The attributes of its objects, if it is a nested one.
    pub fn nested(&self) -> Option<(Nesting, &Attributes)> {
        match &self.kind {
            Kind::Plain(_) => None,
            Kind::Nested(nesting, attributes) => Some((*nesting, attributes)),
        }
    }
}

impl Nesting {
    fn of(self, element: Type) -> Type {
        match self {
            Nesting::Single => element,
            Nesting::List => Type::List(Box::new(element)),
            Nesting::Set => Type::Set(Box::new(element)),
            Nesting::Map => Type::Map(Box::new(element)),
        }
    }
}

/// The type of an object with these attributes.
pub fn object_type(attributes: &Attributes) -> Type {
    Type::Object {
        attributes: attributes
            .iter()
            .map(|(name, attribute)| (name.clone(), attribute.ty()))
            .collect(),
        optional: BTreeSet::new(),
    }
}
