//! A resource that fails as its `fault` says: `OPERATION-HOW`, such as `create-panic`.

use std::time::Duration;

use tf_provider_sdk::prelude::*;

use super::{Client, Cx};

/// A thing that may fail.
#[derive(Clone, Serialize, Deserialize, JsonSchema)]
pub(crate) struct Thing {
    /// Its name. Another name is another thing.
    name: Replace<String>,
    /// What it holds.
    value: Option<String>,
    /// What goes wrong.
    fault: Option<String>,
    /// How long create and update take, in milliseconds.
    takes: Option<u64>,
    /// Given when it is made.
    id: Stable<String>,
    /// How often it was written, from private data.
    writes: Computed<u64>,
    /// Limits.
    timeouts: Option<Timeouts>,
}

impl Thing {
    fn is_to(&self, fault: &str) -> bool {
        self.fault.as_deref() == Some(fault)
    }

    /// Panics or fails if that is what it shall do.
    fn tried(&self, operation: &str) -> Result<(), Diagnostics> {
        if self.is_to(&format!("{operation}-panic")) {
            panic!("{operation} of {} fell over", *self.name);
        }
        if self.is_to(&format!("{operation}-error")) {
            return Err(Diagnostic::error(
                format!("Can't {operation} {}", *self.name),
                "It was told to fail.",
            )
            .at("fault")
            .into());
        }
        Ok(())
    }

    async fn written(mut self, operation: &str, cx: &Cx<'_>) -> Result<Self, Failed<Self>> {
        cx.client.note(&format!("{operation} {}", *self.name));
        self.tried(operation)?;
        let writes = cx.private::<u64>("writes").unwrap_or(0) + 1;
        cx.set_private("writes", Some(writes));
        self.id = self
            .id
            .0
            .into_known()
            .unwrap_or_else(|| format!("id-{}", *self.name))
            .into();
        self.writes = writes.into();
        if self.is_to(&format!("{operation}-kept-panic")) {
            cx.keep(&self);
            panic!("{operation} of {} fell over late", *self.name);
        }
        if self.is_to(&format!("{operation}-kept-error")) {
            cx.keep(&self);
            return Err(Diagnostic::error("Late", "It was told to fail late.").into());
        }
        if self.is_to(&format!("{operation}-left")) {
            self.value = Some("half".to_owned());
            return Err(Failed::leaving(
                Diagnostic::error("Half done", "It was told to stop halfway."),
                self,
            ));
        }
        let work = tokio::time::sleep(Duration::from_millis(self.takes.unwrap_or(0)));
        match cx.run(work).await {
            Ok(()) => Ok(self),
            Err(why) => Err(Failed::leaving(
                Diagnostic::error(
                    format!("Can't {operation} {}", *self.name),
                    format!("{why}."),
                ),
                self,
            )),
        }
    }
}

impl Resource for Thing {
    const TYPE: &'static str = "probe_thing";
    type Client = Client;

    fn validate(&self, report: &mut Diagnostics) {
        if let Some(timeouts) = &self.timeouts {
            timeouts.check(report);
        }
        if self.is_to("validate-error") {
            report.error("fault", "Invalid fault", "fault is \"validate-error\".");
            report.warning("name", "A warning beside it", "About name.");
        }
    }

    async fn plan(change: &mut Change<Self>, cx: &Cx<'_>) -> Result<(), Diagnostics> {
        change.planned.tried("plan")?;
        if change.planned.is_to("plan-lie") {
            change.planned.value = Some("not what was configured".to_owned());
        }
        if change.planned.is_to("plan-touch") && change.prior.is_some() {
            change.touch();
        }
        if change.planned.is_to("plan-replace") && change.prior.is_some() {
            change.replace("id");
        }
        if change.planned.is_to("plan-warn") {
            cx.warn(Diagnostic::warning("Take care", "It was told to warn.").at("fault"));
        }
        Ok(())
    }

    async fn plan_delete(self, _: &Cx<'_>) -> Result<(), Diagnostics> {
        self.tried("plan_delete")
    }

    async fn create(change: Change<Self>, cx: &Cx<'_>) -> Result<Self, Failed<Self>> {
        let lies = change.planned.is_to("create-lie");
        let mut made = change.planned.written("create", cx).await?;
        if lies {
            made.value = Some("another value".to_owned());
        }
        Ok(made)
    }

    async fn read(self, cx: &Cx<'_>) -> Result<Option<Self>, Diagnostics> {
        self.tried("read")?;
        cx.client.note(&format!("read {}", *self.name));
        Ok((!self.is_to("read-gone")).then_some(self))
    }

    async fn update(change: Change<Self>, cx: &Cx<'_>) -> Result<Self, Failed<Self>> {
        change.planned.written("update", cx).await
    }

    async fn delete(self, cx: &Cx<'_>) -> Result<(), Diagnostics> {
        self.tried("delete")?;
        cx.client.note(&format!("delete {}", *self.name));
        Ok(())
    }

    fn timeout(&self, operation: Operation) -> Duration {
        let configured = self
            .timeouts
            .as_ref()
            .and_then(|timeouts| timeouts.get(operation));
        configured.unwrap_or(Duration::from_secs(60))
    }
}
