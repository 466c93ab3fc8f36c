//! What a provider offers, as data: for documentation and for tests that look at all of it.

use std::collections::BTreeMap;

use crate::{
    provider::Provider,
    schema::{Schema, SchemaError},
    types::Type,
};

/// Everything that a provider offers.
#[derive(Debug, Clone)]
pub struct Description {
    /// The `provider` block.
    pub provider: Schema,
    /// Resources by type name.
    pub resources: BTreeMap<&'static str, Schema>,
    /// Data sources by type name.
    pub data_sources: BTreeMap<&'static str, Schema>,
    /// Ephemeral resources by type name.
    pub ephemerals: BTreeMap<&'static str, Schema>,
    /// Functions by name.
    pub functions: BTreeMap<&'static str, FunctionDescription>,
}

/// A function.
#[derive(Debug, Clone)]
pub struct FunctionDescription {
    /// What it does, in a line.
    pub summary: &'static str,
    /// What it does, takes and returns, in Markdown.
    pub description: &'static str,
    /// What it takes, in order.
    pub parameters: Vec<ParameterDescription>,
    /// What it returns.
    pub output: Type,
}

/// A parameter of a function.
#[derive(Debug, Clone)]
pub struct ParameterDescription {
    /// Its name.
    pub name: &'static str,
    /// What it means.
    pub description: &'static str,
    /// Its type.
    pub ty: Type,
}

/// Describes a provider.
///
/// # Errors
/// Where a model can't be expressed as a Terraform schema: the author's fault.
pub fn describe<P: Provider>(provider: &P) -> Result<Description, SchemaError> {
    let offers = provider.offers();
    let mut found = Description {
        provider: Schema::of::<P::Config>(0)?,
        resources: BTreeMap::new(),
        data_sources: BTreeMap::new(),
        ephemerals: BTreeMap::new(),
        functions: BTreeMap::new(),
    };
    for it in &offers.resources {
        found
            .resources
            .insert(it.name(), it.prepared()?.schema.clone());
    }
    for it in &offers.data_sources {
        found
            .data_sources
            .insert(it.name(), it.prepared()?.schema.clone());
    }
    for it in &offers.ephemerals {
        found
            .ephemerals
            .insert(it.name(), it.prepared()?.schema.clone());
    }
    for it in &offers.functions {
        let mut parameters = Vec::new();
        for parameter in it.parameters() {
            parameters.push(ParameterDescription {
                name: parameter.name,
                description: parameter.description,
                ty: (parameter.ty)()?,
            });
        }
        let function = FunctionDescription {
            summary: it.summary(),
            description: it.description(),
            parameters,
            output: it.output()?,
        };
        found.functions.insert(it.name(), function);
    }
    Ok(found)
}
