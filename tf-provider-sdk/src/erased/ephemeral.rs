//! An ephemeral resource over value trees.

use async_trait::async_trait;

use super::{At, Prepared, Role, Typed, decode_known, encode, validate};
use crate::{
    diagnostic::{Diagnostic, Diagnostics},
    ephemeral::{Ephemeral, Opened, Renewal},
    plan,
    schema::SchemaError,
    value::Value,
};

/// The object-safe face of an [`Ephemeral`].
#[async_trait]
pub(crate) trait AnyEphemeral<C: Send + Sync>: Send + Sync {
    /// [`Ephemeral::TYPE`].
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
    /// Opens it.
    async fn open(&self, config: &Value, at: &At<'_, C>) -> Result<Opened<Value>, Diagnostics>;
    /// Keeps it open.
    async fn renew(&self, handle: Vec<u8>, at: &At<'_, C>) -> Result<Renewal, Diagnostics>;
    /// Closes it.
    async fn close(&self, handle: Vec<u8>, at: &At<'_, C>) -> Result<(), Diagnostics>;
}

#[async_trait]
impl<E: Ephemeral> AnyEphemeral<E::Client> for Typed<E> {
    fn name(&self) -> &'static str {
        E::TYPE
    }

    fn prepared(&self) -> Result<&Prepared, SchemaError> {
        self.prepared(Role::Other, 0)
    }

    fn validate(&self, config: Value) -> Diagnostics {
        match self.prepared(Role::Other, 0) {
            Ok(prepared) => validate::<E>(&prepared.schema, config, E::validate),
            Err(why) => super::schema_fault(E::TYPE, &why).into(),
        }
    }

    async fn open(
        &self,
        config: &Value,
        at: &At<'_, E::Client>,
    ) -> Result<Opened<Value>, Diagnostics> {
        let prepared = self
            .prepared(Role::Other, 0)
            .map_err(|why| super::schema_fault(E::TYPE, &why))?;
        let draft = plan::draft(&prepared.schema, config, &Value::Null, config).planned;
        let model = decode_known::<E>(&plan::known(&draft))?;
        let opened = model.open(&at.context(None)?).await?;
        let (value, _) = plan::settle(&prepared.schema, &draft, &encode(&opened.value)?);
        Ok(Opened {
            value,
            handle: opened.handle,
            renew_in: opened.renew_in,
        })
    }

    async fn renew(&self, handle: Vec<u8>, at: &At<'_, E::Client>) -> Result<Renewal, Diagnostics> {
        E::renew(handle, &at.context(None)?).await
    }

    async fn close(&self, handle: Vec<u8>, at: &At<'_, E::Client>) -> Result<(), Diagnostics> {
        E::close(handle, &at.context(None)?).await
    }
}
