//! Typed resources, data sources, ephemeral resources and functions behind object-safe faces over value trees, so that different
//! types sit in one list. Translates, calls, translates back; the decisions are in [`crate::plan`].

mod data_source;
mod ephemeral;
mod function;
mod resource;

use std::{marker::PhantomData, sync::OnceLock};

pub(crate) use data_source::AnyDataSource;
pub(crate) use ephemeral::AnyEphemeral;
pub(crate) use function::AnyFunction;
pub(crate) use resource::AnyResource;
pub(crate) use resource::PlanInput;
use schemars::JsonSchema;
use serde::{Serialize, de::DeserializeOwned};

use crate::{
    context::{Context, Shared},
    diagnostic::{Diagnostic, Diagnostics},
    path::Path,
    schema::{Attributes, Kind, Schema, SchemaError},
    stop::StopToken,
    types::Type,
    value::Value,
};

/// A type of an author's, and its schema once it has been asked for.
pub(crate) struct Typed<T> {
    schema: OnceLock<Result<Prepared, SchemaError>>,
    of: PhantomData<fn() -> T>,
}

/// What a schema is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    Provider,
    Resource { identity: &'static [&'static str] },
    Other,
}

/// A schema and the type that it makes.
pub(crate) struct Prepared {
    /// The schema.
    pub(crate) schema: Schema,
    /// The type of its values.
    pub(crate) ty: Type,
}

impl Prepared {
    pub(crate) fn of<T: JsonSchema>(role: Role, version: i64) -> Result<Self, SchemaError> {
        let schema = Schema::of::<T>(version)?;
        if let Some((path, message)) = role.objection(&schema.attributes) {
            return Err(SchemaError {
                path,
                message: message.to_owned(),
            });
        }
        let ty = schema.ty();
        Ok(Self { schema, ty })
    }
}

impl Role {
    /// What Terraform refuses in a schema of this role, or would pass over silently.
    fn objection(self, attributes: &Attributes) -> Option<(String, &'static str)> {
        if let Role::Resource { identity } = self {
            let missing = identity
                .iter()
                .find(|name| !attributes.contains_key(**name))?;
            return Some((
                (*missing).to_owned(),
                "is part of the identity, but not an attribute",
            ));
        }
        if self == Role::Provider
            && let Some(name) = ["alias", "version"]
                .iter()
                .find(|name| attributes.contains_key(**name))
        {
            return Some((
                (*name).to_owned(),
                "Terraform keeps this name for itself in a provider block",
            ));
        }
        attributes
            .iter()
            .find_map(|(name, attribute)| match &attribute.kind {
                _ if attribute.write_only => Some((
                    name.to_string(),
                    "only resources have write-only attributes",
                )),
                Kind::Nested(_, nested) => Role::Other
                    .objection(nested)
                    .map(|(path, message)| (format!("{name}.{path}"), message)),
                Kind::Plain(_) => None,
            })
    }
}

impl<T> Typed<T> {
    pub(crate) fn new() -> Self {
        Self {
            schema: OnceLock::new(),
            of: PhantomData,
        }
    }
}

impl<T: JsonSchema> Typed<T> {
    fn prepared(&self, role: Role, version: i64) -> Result<&Prepared, SchemaError> {
        self.schema
            .get_or_init(|| Prepared::of::<T>(role, version))
            .as_ref()
            .map_err(Clone::clone)
    }
}

/// What an operation runs with.
pub(crate) struct At<'a, C> {
    /// `None` while the provider's configuration is not known.
    pub(crate) client: Option<&'a C>,
    pub(crate) stop: StopToken,
    pub(crate) shared: &'a Shared,
}

impl<C> At<'_, C> {
    fn context(&self, limit: Option<std::time::Duration>) -> Result<Context<'_, C>, Diagnostic> {
        let client = self.client.ok_or_else(not_configured)?;
        Ok(Context::new(client, self.stop.clone(), limit, self.shared))
    }
}

fn not_configured() -> Diagnostic {
    Diagnostic::error(
        "The provider is not configured",
        "This needs the provider's configuration, and part of it is not known yet. Apply what it comes from first (-target), or give \
         the provider values that are known.",
    )
}

pub(crate) fn schema_fault(name: &str, why: &SchemaError) -> Diagnostic {
    Diagnostic::error(
        format!("{name} has an invalid schema"),
        format!("{why}. This is a bug in the provider: please report it."),
    )
}

/// Reads a value into an author's struct; `Ok(None)` where a value is unknown that the struct does not admit as such.
fn decode<T: DeserializeOwned>(value: &Value) -> Result<Option<T>, Diagnostic> {
    match crate::de::from_value(value) {
        Ok(model) => Ok(Some(model)),
        Err(why) if why.unknown => Ok(None),
        Err(why) => Err(Diagnostic::error("Invalid value", why.to_string()).at(why.path)),
    }
}

/// Reads a value that is wholly known.
fn decode_known<T: DeserializeOwned>(value: &Value) -> Result<T, Diagnostic> {
    crate::de::from_value(value)
        .map_err(|why| Diagnostic::error("Invalid value", why.to_string()).at(why.path))
}

fn encode<T: Serialize>(model: &T) -> Result<Value, Diagnostic> {
    crate::ser::to_value(model).map_err(|why| {
        Diagnostic::error(
            "The provider made a value that can't be stored",
            format!("{why}. This is a bug in the provider: please report it."),
        )
    })
}

/// Warns where a result says otherwise than what was planned or configured.
fn warn_of(differs: Vec<Path>, against: &str, report: &mut Diagnostics) {
    for path in differs {
        let detail = format!(
            "{path} came out in another form than {against}. {} is kept; what is really there shows at the next refresh. This is a bug in the provider: please report it.",
            if against == "planned" {
                "The plan"
            } else {
                "The configuration"
            },
        );
        report.warning(
            path,
            format!("The result differs from what was {against}"),
            detail,
        );
    }
}

/// The schema's own checks and the author's.
fn validate<T: DeserializeOwned>(
    schema: &Schema,
    config: Value,
    author: impl FnOnce(&T, &mut Diagnostics),
) -> Diagnostics {
    let mut report = schema.check(&config);
    if report.has_error() {
        return report;
    }
    match decode::<T>(&crate::plan::with_defaults(schema, config)) {
        Ok(Some(model)) => author(&model, &mut report),
        Ok(None) => {}
        Err(why) => report.push(why),
    }
    report
}
