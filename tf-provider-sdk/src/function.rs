//! What an author writes for a function. Pure: it may be called before the provider is configured, and again in apply with the
//! same result.

use schemars::JsonSchema;
use serde::{Serialize, de::DeserializeOwned};

use crate::{
    schema::{Attribute, Schema, SchemaError},
    types::Type,
    value::Value,
};

/// A provider-defined function (Terraform 1.8).
pub trait Function: Send + Sync + 'static {
    /// Name in a configuration: `provider::NAME_OF_PROVIDER::NAME(...)`.
    const NAME: &'static str;
    /// What it does, in a line.
    const SUMMARY: &'static str;
    /// What it does, takes and returns, in Markdown.
    const DESCRIPTION: &'static str = Self::SUMMARY;
    /// What it returns.
    type Output: Serialize + JsonSchema;

    /// What it takes, in order. An argument may only be null where the parameter's type is an `Option`.
    fn parameters() -> Vec<Parameter>;

    /// What it takes after the others, any number of times.
    fn variadic() -> Option<Parameter> {
        None
    }

    /// The result for arguments that are known.
    ///
    /// # Errors
    /// What is wrong, and with which argument.
    fn call(arguments: Arguments) -> Result<Self::Output, FunctionError>;
}

/// One parameter.
#[derive(Debug, Clone)]
pub struct Parameter {
    /// Its name in the documentation.
    pub name: &'static str,
    /// What it means.
    pub description: &'static str,
    pub(crate) ty: fn() -> Result<Type, SchemaError>,
    pub(crate) nullable: bool,
}

impl Parameter {
    /// A parameter of the type `T`.
    pub fn of<T: JsonSchema>(name: &'static str, description: &'static str) -> Self {
        Self {
            name,
            description,
            ty: type_of::<T>,
            nullable: attribute_of::<T>().is_ok_and(|attribute| attribute.optional),
        }
    }
}

/// The type of a Rust type that a schema can express.
pub(crate) fn type_of<T: JsonSchema>() -> Result<Type, SchemaError> {
    Ok(attribute_of::<T>()?.ty())
}

/// The attribute that a field of a Rust type would be.
fn attribute_of<T: JsonSchema>() -> Result<Attribute, SchemaError> {
    #[derive(JsonSchema)]
    #[allow(dead_code)]
    struct Wrapper<T> {
        value: T,
    }
    let mut schema = Schema::of::<Wrapper<T>>(0)?;
    schema
        .attributes
        .remove("value")
        .ok_or_else(|| SchemaError {
            path: "value".to_owned(),
            message: "has no type".to_owned(),
        })
}

/// The arguments of a call.
#[derive(Debug, Clone)]
pub struct Arguments(pub(crate) Vec<Value>);

impl Arguments {
    /// The argument at `index`, from 0.
    ///
    /// # Errors
    /// Where it does not have the type `T`. An argument that was not given is null.
    pub fn get<T: DeserializeOwned>(&self, index: usize) -> Result<T, FunctionError> {
        let value = self.0.get(index).unwrap_or(&Value::Null);
        crate::de::from_value(value).map_err(|why| FunctionError::argument(index, why.to_string()))
    }

    /// The arguments from `index` on: those of the variadic parameter.
    ///
    /// # Errors
    /// Where one of them does not have the type `T`.
    pub fn rest<T: DeserializeOwned>(&self, index: usize) -> Result<Vec<T>, FunctionError> {
        (index..self.0.len()).map(|index| self.get(index)).collect()
    }
}

/// Why a call has no result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FunctionError {
    /// What was asked, what was found, what to do.
    pub text: String,
    /// Which argument is at fault, from 0.
    pub argument: Option<usize>,
}

impl FunctionError {
    /// An error about the call as a whole.
    pub fn new(text: impl Into<String>) -> Self {
        Self {
            text: text.into(),
            argument: None,
        }
    }
    /// An error about one argument.
    pub fn argument(index: usize, text: impl Into<String>) -> Self {
        Self {
            text: text.into(),
            argument: Some(index),
        }
    }
}
