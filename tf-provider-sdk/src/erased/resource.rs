//! A resource over value trees.

use async_trait::async_trait;

use super::{At, Prepared, Role, Typed, decode, decode_known, encode, validate, warn_of};
use crate::{
    diagnostic::{Diagnostic, Diagnostics},
    path::Path,
    plan,
    resource::{Change, Failed, ImportId, MoveSource, Resource},
    schema::SchemaError,
    timeouts::Operation,
    value::Value,
};

/// The object-safe face of a [`Resource`].
#[async_trait]
pub(crate) trait AnyResource<C: Send + Sync>: Send + Sync {
    /// [`Resource::TYPE`].
    fn name(&self) -> &'static str;
    /// The schema.
    ///
    /// # Errors
    /// Where the model can't be expressed.
    fn prepared(&self) -> Result<&Prepared, SchemaError>;
    /// The schema, or what to tell the user where there is none.
    ///
    /// # Errors
    /// Where the model can't be expressed.
    fn ready(&self) -> Result<&Prepared, Diagnostic> {
        self.prepared()
            .map_err(|why| super::schema_fault(self.name(), &why))
    }
    /// [`Resource::IDENTITY`].
    fn identity(&self) -> &'static [&'static str];
    /// Judges a configuration.
    fn validate(&self, config: Value) -> Diagnostics;
    /// Plans; the paths are those that need a new object.
    async fn plan(
        &self,
        input: PlanInput,
        at: &At<'_, C>,
    ) -> Result<(Value, Vec<Path>), Diagnostics>;
    /// Makes, changes or deletes; the value is the state to store, also beside errors.
    async fn apply(&self, input: PlanInput, at: &At<'_, C>) -> (Value, Diagnostics);
    /// Refreshes; null when the object is gone.
    async fn read(&self, state: &Value, at: &At<'_, C>) -> Result<Value, Diagnostics>;
    /// Imports.
    async fn import(&self, id: ImportId, at: &At<'_, C>) -> Result<Value, Diagnostics>;
    /// What the operation said is there, should it fail: see [`crate::context::Context::keep`].
    fn kept(&self, at: &At<'_, C>) -> Option<Value>;
    /// Upgrades a stored state.
    ///
    /// # Errors
    /// Where the state can't be read.
    fn upgrade(&self, version: i64, json: &[u8]) -> Result<Value, Diagnostic>;
    /// Takes over the state of another type.
    fn moved_from(&self, source: MoveSource) -> Moved;
}

/// The outcome of a move: `None` where the source is not one that can be moved.
pub(crate) type Moved = Option<Result<Value, Diagnostic>>;

/// The values of a plan or an apply.
pub(crate) struct PlanInput {
    pub(crate) config: Value,
    pub(crate) prior: Value,
    /// Terraform's merge of both when planning, the planned value when applying.
    pub(crate) proposed: Value,
}

const fn resource_role<R: Resource>() -> Role {
    Role::Resource {
        identity: R::IDENTITY,
    }
}

impl<R: Resource> Typed<R> {
    fn prepare(&self) -> Result<&Prepared, Diagnostic> {
        self.prepared(resource_role::<R>(), R::VERSION)
            .map_err(|why| super::schema_fault(R::TYPE, &why))
    }

    /// Runs the author's hook on a draft; `None` where a value is unknown that the model does not admit as such.
    async fn hook(
        &self,
        input: &PlanInput,
        draft: &plan::Draft,
        at: &At<'_, R::Client>,
    ) -> Result<Option<Change<R>>, Diagnostics> {
        let Prepared { schema, .. } = self.prepare()?;
        let (Some(config), Some(planned)) = (
            decode::<R>(&plan::with_defaults(schema, input.config.clone()))?,
            decode::<R>(&draft.planned)?,
        ) else {
            return Ok(None);
        };
        let prior = match &input.prior {
            Value::Null => None,
            prior => Some(decode_known::<R>(prior)?),
        };
        let mut change = Change {
            config,
            prior,
            planned,
            changed: draft.changed,
            touched: false,
            replaced: Vec::new(),
        };
        let cx = at.context(Some(change.planned.timeout(Operation::Read)))?;
        R::plan(&mut change, &cx).await?;
        Ok(Some(change))
    }
}

#[async_trait]
impl<R: Resource> AnyResource<R::Client> for Typed<R> {
    fn name(&self) -> &'static str {
        R::TYPE
    }

    fn prepared(&self) -> Result<&Prepared, SchemaError> {
        self.prepared(resource_role::<R>(), R::VERSION)
    }

    fn identity(&self) -> &'static [&'static str] {
        R::IDENTITY
    }

    fn validate(&self, config: Value) -> Diagnostics {
        match self.prepare() {
            Ok(prepared) => validate::<R>(&prepared.schema, config, R::validate),
            Err(why) => why.into(),
        }
    }

    async fn plan(
        &self,
        input: PlanInput,
        at: &At<'_, R::Client>,
    ) -> Result<(Value, Vec<Path>), Diagnostics> {
        let Prepared { schema, .. } = self.prepare()?;
        if input.proposed.is_null() {
            // Without a client nothing can be said about a deletion, and the plan must go on.
            if let (Ok(cx), Ok(prior)) = (at.context(None), decode_known::<R>(&input.prior)) {
                R::plan_delete(prior, &cx).await?;
            }
            return Ok((Value::Null, Vec::new()));
        }
        let mut input = input;
        let proposed = std::mem::take(&mut input.proposed);
        let mut draft = plan::draft_of(schema, &input.config, &input.prior, proposed);
        if at.client.is_none() {
            return Ok((
                draft.planned.clone(),
                plan::replaced(schema, &input.prior, &draft.planned),
            ));
        }
        let mut change = self.hook(&input, &draft, at).await?;
        if !draft.changed && change.as_ref().is_some_and(|change| change.touched) {
            plan::mark_computed(schema, &input.config, &mut draft.planned);
            draft.changed = true;
            change = self.hook(&input, &draft, at).await?;
        }
        let Some(change) = change else {
            return Ok((
                draft.planned.clone(),
                plan::replaced(schema, &input.prior, &draft.planned),
            ));
        };
        let mut planned = encode(&change.planned)?;
        plan::restore_refinements(&mut planned, &draft.planned);
        let found = plan::violations(schema, &input.config, &input.prior, &planned);
        if !found.is_empty() {
            let mut report = Diagnostics::none();
            for (path, what) in found {
                let detail =
                    format!("{path}: {what}. This is a bug in the provider: please report it.");
                report.error(path, "The provider made an invalid plan", detail);
            }
            return Err(report);
        }
        let mut replaced = plan::replaced(schema, &input.prior, &planned);
        if change.prior.is_some() {
            for path in change.replaced {
                let differs = planned.get(&path) != input.prior.get(&path)
                    || plan::make_unknown(schema, &input.config, &path, &mut planned);
                if differs && !replaced.contains(&path) {
                    replaced.push(path);
                }
            }
        }
        Ok((planned, replaced))
    }

    async fn apply(&self, input: PlanInput, at: &At<'_, R::Client>) -> (Value, Diagnostics) {
        let PlanInput {
            config,
            prior,
            proposed: planned,
        } = input;
        let prepared = match self.prepare() {
            Ok(prepared) => prepared,
            Err(why) => return (prior, why.into()),
        };
        let outcome = if planned.is_null() {
            match delete::<R>(&prior, at).await {
                Ok(()) => return (Value::Null, Diagnostics::none()),
                Err(why) => Err(Failed { why, left: None }),
            }
        } else {
            make_or_change::<R>(
                &plan::with_defaults(&prepared.schema, config),
                &prior,
                &planned,
                at,
            )
            .await
        };
        let finish = |model: &R| {
            encode(model).map(|mut value| {
                plan::without_write_only(&prepared.schema, &mut value);
                value
            })
        };
        match outcome {
            Ok(model) => match finish(&model) {
                Ok(result) => {
                    let (state, differs) = plan::settle(&prepared.schema, &planned, &result);
                    let mut report = Diagnostics::none();
                    warn_of(differs, "planned", &mut report);
                    (state, report)
                }
                Err(why) => (plan::known(&planned), why.into()),
            },
            Err(Failed { mut why, left }) => {
                if !why.has_error() {
                    why.push(Diagnostic::error(
                        "The operation failed",
                        "The provider did not say why: please report it.",
                    ));
                }
                match left.map(|model| finish(&model)) {
                    None => (self.kept(at).unwrap_or(prior), why),
                    Some(Ok(value)) => (plan::known(&value), why),
                    Some(Err(fault)) => {
                        why.push(fault);
                        (plan::known(&planned), why)
                    }
                }
            }
        }
    }

    async fn read(&self, state: &Value, at: &At<'_, R::Client>) -> Result<Value, Diagnostics> {
        let Prepared { schema, .. } = self.prepare()?;
        let model = decode_known::<R>(state)?;
        let cx = at.context(Some(model.timeout(Operation::Read)))?;
        match model.read(&cx).await? {
            None => Ok(Value::Null),
            Some(model) => {
                let mut value = encode(&model)?;
                plan::without_write_only(schema, &mut value);
                Ok(plan::known(&value))
            }
        }
    }

    async fn import(&self, id: ImportId, at: &At<'_, R::Client>) -> Result<Value, Diagnostics> {
        let Prepared { schema, .. } = self.prepare()?;
        let cx = at.context(Some(std::time::Duration::from_secs(20 * 60)))?;
        let mut value = encode(&R::import(id, &cx).await?)?;
        plan::without_write_only(schema, &mut value);
        Ok(plan::known(&value))
    }

    fn kept(&self, at: &At<'_, R::Client>) -> Option<Value> {
        let mut value = at.shared.take_kept()?;
        plan::without_write_only(&self.prepare().ok()?.schema, &mut value);
        Some(plan::known(&value))
    }

    fn upgrade(&self, version: i64, json: &[u8]) -> Result<Value, Diagnostic> {
        let prepared = self.prepare()?;
        let unreadable = |why: String| {
            Diagnostic::error(
                "This state can't be read",
                format!(
                    "The stored state of {} (version {version}) is not what the provider wrote: {why}.",
                    R::TYPE
                ),
            )
        };
        if version > R::VERSION {
            return Err(Diagnostic::error(
                "This state is from a newer version of the provider",
                format!(
                    "The state of {} has version {version}, and this provider knows versions up to {}. Use a newer provider.",
                    R::TYPE,
                    R::VERSION
                ),
            ));
        }
        let read = |json: &[u8]| {
            let mut value = crate::json::decode_lenient(json, &prepared.ty)
                .map_err(|why| unreadable(why.to_string()))?;
            // An attribute may have become write-only since.
            plan::without_write_only(&prepared.schema, &mut value);
            Ok(value)
        };
        if version == R::VERSION {
            return read(json);
        }
        let old = serde_json::from_slice(json).map_err(|why| unreadable(why.to_string()))?;
        let new = serde_json::to_vec(&R::upgrade(version, old)?)
            .map_err(|why| unreadable(why.to_string()))?;
        read(&new)
    }

    fn moved_from(&self, source: MoveSource) -> Moved {
        let moved = R::moved_from(source)?;
        Some(moved.and_then(|model| {
            let prepared = self.prepare()?;
            let mut value = encode(&model)?;
            plan::without_write_only(&prepared.schema, &mut value);
            Ok(plan::known(&value))
        }))
    }
}

async fn make_or_change<R: Resource>(
    config: &Value,
    prior: &Value,
    planned: &Value,
    at: &At<'_, R::Client>,
) -> Result<R, Failed<R>> {
    let change = Change {
        config: decode_known::<R>(config)?,
        prior: match prior {
            Value::Null => None,
            prior => Some(decode_known::<R>(prior)?),
        },
        planned: decode::<R>(planned)?.ok_or_else(|| {
            Diagnostic::error(
                "The plan holds an unknown value where none can be",
                format!("{} was planned with a value that was not known and that the provider can't fill in. This is a bug in the provider: please report it.", R::TYPE),
            )
        })?,
        changed: true,
        touched: false,
        replaced: Vec::new(),
    };
    let operation = if prior.is_null() {
        Operation::Create
    } else {
        Operation::Update
    };
    let cx = at.context(Some(change.planned.timeout(operation)))?;
    if prior.is_null() {
        R::create(change, &cx).await
    } else {
        R::update(change, &cx).await
    }
}

async fn delete<R: Resource>(prior: &Value, at: &At<'_, R::Client>) -> Result<(), Diagnostics> {
    let model = decode_known::<R>(prior)?;
    let cx = at.context(Some(model.timeout(Operation::Delete)))?;
    model.delete(&cx).await
}
