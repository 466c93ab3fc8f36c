//! A resource whose hook says what it saw.

use tf_provider_sdk::prelude::*;

use super::{Client, Cx};

/// What is known when.
#[derive(Clone, Serialize, Deserialize, JsonSchema)]
pub(crate) struct Gate {
    /// Required; the hook also runs while it is unknown.
    text: Maybe<String>,
    /// Optional; the hook also runs while it is unknown.
    extra: Opt<String>,
    /// The hook does not run while it is unknown.
    strict: Option<String>,
    /// The length of the text, as soon as it is known.
    length: Computed<u64>,
    /// The provider's label, as the hook saw it.
    label: Computed<String>,
}

impl Resource for Gate {
    const TYPE: &'static str = "probe_gate";
    type Client = Client;

    fn validate(&self, report: &mut Diagnostics) {
        if self.text.known().is_some_and(|text| text == "bad") {
            report.error("text", "Bad text", "text is \"bad\".");
        }
    }

    async fn plan(change: &mut Change<Self>, cx: &Cx<'_>) -> Result<(), Diagnostics> {
        let saw = |unknown: bool| if unknown { "unknown" } else { "known" };
        cx.warn(Diagnostic::warning(
            "The hook ran",
            format!(
                "text {}, extra {}, label {}",
                saw(change.planned.text.is_unknown()),
                saw(change.planned.extra.is_unknown()),
                saw(cx.client.label.is_unknown()),
            ),
        ));
        if let Some(text) = change.planned.text.known() {
            change.planned.length = (text.len() as u64).into();
        }
        Ok(())
    }

    async fn create(change: Change<Self>, cx: &Cx<'_>) -> Result<Self, Failed<Self>> {
        let mut gate = change.planned;
        if let Some(text) = gate.text.known() {
            gate.length = (text.len() as u64).into();
        }
        gate.label = Computed(cx.client.label.clone());
        Ok(gate)
    }

    async fn read(self, _: &Cx<'_>) -> Result<Option<Self>, Diagnostics> {
        Ok(Some(self))
    }

    async fn update(change: Change<Self>, cx: &Cx<'_>) -> Result<Self, Failed<Self>> {
        Self::create(change, cx).await
    }

    async fn delete(self, _: &Cx<'_>) -> Result<(), Diagnostics> {
        Ok(())
    }
}
