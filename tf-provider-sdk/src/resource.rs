//! What an author writes for a resource: one struct that is the model, the schema and the documentation, and what to do with it.

use std::{future::Future, time::Duration};

use schemars::JsonSchema;
use serde::{Serialize, de::DeserializeOwned};

use crate::{
    context::Context,
    diagnostic::{Diagnostic, Diagnostics},
    path::Path,
    timeouts::Operation,
    value::Value,
};

/// A resource type. The struct's fields are its attributes: see [`crate::field`].
pub trait Resource:
    Serialize + DeserializeOwned + JsonSchema + Clone + Send + Sync + 'static
{
    /// Name in a configuration, such as `loomplane_gpu_service`.
    const TYPE: &'static str;
    /// Version of the stored state. Raise it with an incompatible change, and read the old form in [`Resource::upgrade`].
    const VERSION: i64 = 0;
    /// Names of the attributes that together say which object this is (resource identity, Terraform 1.12).
    const IDENTITY: &'static [&'static str] = &[];
    /// What operations work with: what the provider's `configure` makes.
    type Client: Send + Sync + 'static;

    /// What is wrong with a configuration, beyond what the field types say. Values may be unknown.
    fn validate(&self, report: &mut Diagnostics) {
        let _ = report;
    }

    /// Adjusts the plan of a new or changed object, and may refuse it. Called in every plan, also where nothing changed.
    /// Not called while a value is unknown in a field whose type does not admit that.
    ///
    /// Terraform plans again in another process before it applies: a value that is known in the first plan is a promise.
    fn plan(
        change: &mut Change<Self>,
        cx: &Context<'_, Self::Client>,
    ) -> impl Future<Output = Result<(), Diagnostics>> + Send {
        let _ = (change, cx);
        async { Ok(()) }
    }

    /// May refuse or warn of a deletion at plan.
    fn plan_delete(
        self,
        cx: &Context<'_, Self::Client>,
    ) -> impl Future<Output = Result<(), Diagnostics>> + Send {
        let _ = (self, cx);
        async { Ok(()) }
    }

    /// Makes the object, and returns the planned value with everything that was unknown filled in. What fails after something was made must
    /// say what is left ([`Failed::leaving`]), or have said so before ([`Context::keep`]).
    fn create(
        change: Change<Self>,
        cx: &Context<'_, Self::Client>,
    ) -> impl Future<Output = Result<Self, Failed<Self>>> + Send;

    /// The object as it is now; `None` only when it is proven to be gone.
    fn read(
        self,
        cx: &Context<'_, Self::Client>,
    ) -> impl Future<Output = Result<Option<Self>, Diagnostics>> + Send;

    /// Changes the object from `change.prior` to `change.planned`.
    fn update(
        change: Change<Self>,
        cx: &Context<'_, Self::Client>,
    ) -> impl Future<Output = Result<Self, Failed<Self>>> + Send;

    /// Deletes the object. One that is gone already is deleted.
    fn delete(
        self,
        cx: &Context<'_, Self::Client>,
    ) -> impl Future<Output = Result<(), Diagnostics>> + Send;

    /// The object behind an import ID. Terraform reads it once more afterwards.
    fn import(
        id: ImportId,
        cx: &Context<'_, Self::Client>,
    ) -> impl Future<Output = Result<Self, Diagnostics>> + Send {
        let _ = (id, cx);
        async {
            Err(Diagnostic::error(
                format!("{} can't be imported", Self::TYPE),
                "This type of resource has no import.",
            )
            .into())
        }
    }

    /// Turns a state that version `version` wrote into the present form.
    ///
    /// # Errors
    /// Where that version is not known.
    fn upgrade(version: i64, state: serde_json::Value) -> Result<serde_json::Value, Diagnostic> {
        let _ = state;
        Err(Diagnostic::error(
            "This state is too old",
            format!(
                "{} has no way from version {version} of its state to version {}.",
                Self::TYPE,
                Self::VERSION
            ),
        ))
    }

    /// Takes over the state of another type (`moved` in a configuration); `None` when it can't be taken over from that type.
    fn moved_from(source: MoveSource) -> Option<Result<Self, Diagnostic>> {
        let _ = source;
        None
    }

    /// How long an operation on this object may take.
    fn timeout(&self, operation: Operation) -> Duration {
        let _ = operation;
        Duration::from_secs(20 * 60)
    }
}

/// A planned change of one object.
#[derive(Debug, Clone)]
pub struct Change<T> {
    /// What the user wrote. The only place that holds write-only values.
    pub config: T,
    /// What is there; `None` for a new object.
    pub prior: Option<T>,
    /// What shall be.
    pub planned: T,
    pub(crate) changed: bool,
    pub(crate) touched: bool,
    pub(crate) replaced: Vec<Path>,
}

impl<T> Change<T> {
    /// Whether a new object is made.
    pub fn is_create(&self) -> bool {
        self.prior.is_none()
    }
    /// Whether the object is made or changed, as far as the configuration says.
    pub fn is_change(&self) -> bool {
        self.changed
    }
    /// Asks for a change although the configuration is as it was: the plan is made again with computed attributes unknown.
    pub fn touch(&mut self) {
        self.touched = true;
    }
    /// Asks for a new object, because of the attribute at `path`: one that differs from before, or one that the provider computes (it is
    /// then planned as unknown). Another attribute that is as it was is no reason, and Terraform would pass over it.
    pub fn replace(&mut self, path: impl Into<Path>) {
        self.replaced.push(path.into());
    }
}

/// An operation that failed, and what it left behind: the state must know what exists.
#[derive(Debug)]
pub struct Failed<T> {
    /// Why.
    pub why: Diagnostics,
    /// The object as it is now: after a failed create `None` only when nothing was made; after a failed update `None` when
    /// nothing was changed.
    pub left: Option<Box<T>>,
}

impl<T> Failed<T> {
    /// Failed, but this is there now.
    pub fn leaving(why: impl Into<Diagnostics>, left: T) -> Self {
        Self {
            why: why.into(),
            left: Some(Box::new(left)),
        }
    }
}

impl<T> From<Diagnostic> for Failed<T> {
    fn from(why: Diagnostic) -> Self {
        Self {
            why: why.into(),
            left: None,
        }
    }
}

impl<T> From<Diagnostics> for Failed<T> {
    fn from(why: Diagnostics) -> Self {
        Self { why, left: None }
    }
}

/// What the user gave to say which object to import.
#[derive(Debug, Clone, PartialEq)]
pub enum ImportId {
    /// `terraform import ADDRESS ID`, or `id` in an `import` block.
    Id(String),
    /// `identity` in an `import` block: the attributes of [`Resource::IDENTITY`].
    Identity(Value),
}

impl ImportId {
    /// The ID as text, for a resource that is imported in no other way.
    ///
    /// # Errors
    /// Where an identity was given.
    pub fn into_id(self) -> Result<String, Diagnostic> {
        match self {
            ImportId::Id(id) => Ok(id),
            ImportId::Identity(_) => Err(Diagnostic::error(
                "An ID is required",
                "This resource is imported by its ID, not by an identity: write `id` in the `import` block.",
            )),
        }
    }
}

/// The state of another type of resource, which a `moved` block gives to this one.
#[derive(Debug, Clone)]
pub struct MoveSource {
    /// Address of the provider, such as `registry.terraform.io/hashicorp/kubernetes`.
    pub provider: String,
    /// Name of the type.
    pub type_name: String,
    /// Version of its state.
    pub version: i64,
    /// Its state.
    pub state: serde_json::Value,
}
