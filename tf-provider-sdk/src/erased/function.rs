//! A function over value trees.

use super::Typed;
use crate::{
    function::{Arguments, Function, FunctionError, Parameter, type_of},
    schema::SchemaError,
    types::Type,
    value::Value,
};

/// The object-safe face of a [`Function`].
pub(crate) trait AnyFunction: Send + Sync {
    /// [`Function::NAME`].
    fn name(&self) -> &'static str;
    /// [`Function::SUMMARY`].
    fn summary(&self) -> &'static str;
    /// [`Function::DESCRIPTION`].
    fn description(&self) -> &'static str;
    /// [`Function::parameters`].
    fn parameters(&self) -> Vec<Parameter>;
    /// [`Function::variadic`].
    fn variadic(&self) -> Option<Parameter>;
    /// The type of the result.
    ///
    /// # Errors
    /// Where it can't be expressed.
    fn output(&self) -> Result<Type, SchemaError>;
    /// Calls it.
    ///
    /// # Errors
    /// What is wrong, and with which argument.
    fn call(&self, arguments: Vec<Value>) -> Result<Value, FunctionError>;
}

impl<F: Function> AnyFunction for Typed<F> {
    fn name(&self) -> &'static str {
        F::NAME
    }
    fn summary(&self) -> &'static str {
        F::SUMMARY
    }
    fn description(&self) -> &'static str {
        F::DESCRIPTION
    }
    fn parameters(&self) -> Vec<Parameter> {
        F::parameters()
    }
    fn variadic(&self) -> Option<Parameter> {
        F::variadic()
    }
    fn output(&self) -> Result<Type, SchemaError> {
        type_of::<F::Output>()
    }
    fn call(&self, arguments: Vec<Value>) -> Result<Value, FunctionError> {
        let output = F::call(Arguments(arguments))?;
        crate::ser::to_value(&output).map_err(|why| {
            FunctionError::new(format!(
                "{} made a result that has no form as a value: {why}. This is a bug in the provider: please report it.",
                F::NAME
            ))
        })
    }
}
