//! A data source over value trees.

use async_trait::async_trait;

use super::{At, Prepared, Role, Typed, decode_known, encode, validate, warn_of};
use crate::{
    data_source::DataSource,
    diagnostic::{Diagnostic, Diagnostics},
    plan,
    schema::SchemaError,
    value::Value,
};

/// The object-safe face of a [`DataSource`].
#[async_trait]
pub(crate) trait AnyDataSource<C: Send + Sync>: Send + Sync {
    /// [`DataSource::TYPE`].
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
    /// Judges a configuration.
    fn validate(&self, config: Value) -> Diagnostics;
    /// Reads it.
    async fn read(&self, config: &Value, at: &At<'_, C>) -> Result<Value, Diagnostics>;
}

#[async_trait]
impl<D: DataSource> AnyDataSource<D::Client> for Typed<D> {
    fn name(&self) -> &'static str {
        D::TYPE
    }

    fn prepared(&self) -> Result<&Prepared, SchemaError> {
        self.prepared(Role::Other, 0)
    }

    fn validate(&self, config: Value) -> Diagnostics {
        match self.prepared(Role::Other, 0) {
            Ok(prepared) => validate::<D>(&prepared.schema, config, D::validate),
            Err(why) => super::schema_fault(D::TYPE, &why).into(),
        }
    }

    async fn read(&self, config: &Value, at: &At<'_, D::Client>) -> Result<Value, Diagnostics> {
        let prepared = self
            .prepared(Role::Other, 0)
            .map_err(|why| super::schema_fault(D::TYPE, &why))?;
        // A data source has no plan: defaults go in here.
        let draft = plan::draft(&prepared.schema, config, &Value::Null, config).planned;
        let model = decode_known::<D>(&plan::known(&draft))?;
        let cx = at.context(Some(std::time::Duration::from_secs(20 * 60)))?;
        let result = encode(&model.read(&cx).await?)?;
        let (state, differs) = plan::settle(&prepared.schema, &draft, &result);
        let mut report = Diagnostics::none();
        warn_of(differs, "configured", &mut report);
        report.0.into_iter().for_each(|warning| cx.warn(warning));
        Ok(state)
    }
}
