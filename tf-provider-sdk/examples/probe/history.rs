//! A resource with a past: older versions of its state, other types that it takes over, import by ID and by identity.

use serde_json::{Value as Json, json};
use tf_provider_sdk::{prelude::*, value::Value};

use super::{Client, Cx};

/// A record.
#[derive(Clone, Serialize, Deserialize, JsonSchema)]
pub(crate) struct Record {
    /// Where it is.
    region: Replace<String>,
    /// What it is called.
    name: Replace<String>,
    /// How much.
    amount: Option<u64>,
    /// Where the state came from.
    origin: Stable<String>,
}

fn record(region: &str, name: &str, amount: Option<u64>, origin: &str) -> Record {
    Record {
        region: Replace(region.to_owned()),
        name: Replace(name.to_owned()),
        amount,
        origin: origin.to_owned().into(),
    }
}

impl Resource for Record {
    const TYPE: &'static str = "probe_record";
    const VERSION: i64 = 2;
    const IDENTITY: &'static [&'static str] = &["region", "name"];
    type Client = Client;

    async fn create(change: Change<Self>, _: &Cx<'_>) -> Result<Self, Failed<Self>> {
        let mut made = change.planned;
        made.origin = "created".to_owned().into();
        Ok(made)
    }

    async fn read(self, _: &Cx<'_>) -> Result<Option<Self>, Diagnostics> {
        Ok((*self.name != "nowhere").then_some(self))
    }

    async fn update(change: Change<Self>, _: &Cx<'_>) -> Result<Self, Failed<Self>> {
        Ok(change.planned)
    }

    async fn delete(self, _: &Cx<'_>) -> Result<(), Diagnostics> {
        Ok(())
    }

    async fn import(id: ImportId, _: &Cx<'_>) -> Result<Self, Diagnostics> {
        let (region, name) = match &id {
            ImportId::Id(id) => id.split_once('/').ok_or_else(|| {
                Diagnostic::error(
                    "Invalid import ID",
                    format!("The ID is {id:?}. Write REGION/NAME."),
                )
            })?,
            ImportId::Identity(identity) => {
                let text = |name| Value::as_str(identity.attribute(name)).unwrap_or_default();
                (text("region"), text("name"))
            }
        };
        Ok(record(region, name, Some(7), "imported"))
    }

    /// Version 0 had `title` for `name` and no region; version 1 had the amount as text.
    fn upgrade(version: i64, mut state: Json) -> Result<Json, Diagnostic> {
        if version == 0 {
            state["name"] = state["title"].take();
            state["region"] = json!("home");
        }
        if let Some(amount) = state["amount"].as_str() {
            state["amount"] = json!(amount.parse::<u64>().ok());
        }
        state["origin"] = json!(format!("version {version}"));
        Ok(state)
    }

    fn moved_from(source: MoveSource) -> Option<Result<Self, Diagnostic>> {
        if source.type_name != "probe_thing" {
            return None;
        }
        let name = source.state["name"].as_str().unwrap_or_default();
        Some(Ok(record(
            "home",
            name,
            None,
            &format!("moved from {}", source.provider),
        )))
    }
}
