//! A resource with every kind of attribute.

use std::collections::BTreeMap;

use tf_provider_sdk::{number::Number, prelude::*, value::Value};

use super::{Client, Cx};

fn three() -> u32 {
    3
}

/// One kind of everything.
#[derive(Clone, Serialize, Deserialize, JsonSchema)]
pub(crate) struct Shape {
    /// Its name.
    name: String,
    /// One object.
    single: Option<Part>,
    /// Objects in order.
    list: Option<Vec<Part>>,
    /// Objects by key.
    map: Option<BTreeMap<String, Part>>,
    /// Objects without order.
    set: Option<SetOf<Port>>,
    /// What the provider made.
    made: Computed<Vec<Made>>,
    /// Given or made.
    either: OptionalComputed<String>,
    /// Three unless said otherwise.
    #[serde(default = "three")]
    #[schemars(range(min = 1, max = 9))]
    size: u32,
    /// Any number.
    number: Option<Number>,
    /// The same number, made by the provider.
    number_again: Computed<Number>,
    /// Any value.
    any: Option<Value>,
    /// A secret that is stored.
    secret: Option<Sensitive<String>>,
    /// A secret that is not stored.
    password: WriteOnly<Option<String>>,
    /// Raise it when the password changes.
    password_version: Option<u32>,
    /// The length of the password that was set.
    password_length: Computed<u64>,
    /// The old word for `name`.
    #[schemars(extend("x-tf-deprecated" = "Say name."))]
    title: Option<String>,
}

/// A part.
#[derive(Clone, Serialize, Deserialize, JsonSchema)]
struct Part {
    /// What it is.
    kind: String,
    /// How many.
    #[serde(default = "three")]
    count: u32,
    /// Perhaps more about it.
    note: Option<String>,
    /// Given or made.
    color: OptionalComputed<String>,
    /// Made.
    id: Computed<String>,
    /// Made once.
    serial: Stable<String>,
}

/// A port.
#[derive(Clone, Serialize, Deserialize, JsonSchema)]
struct Port {
    /// Its number.
    port: u16,
    /// Its protocol.
    protocol: Option<Protocol>,
}

/// A protocol.
#[derive(Clone, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum Protocol {
    Tcp,
    Udp,
}

/// What was made.
#[derive(Clone, Serialize, Deserialize, JsonSchema)]
struct Made {
    /// Of which part.
    of: String,
}

impl Part {
    fn finish(&mut self) {
        if self.color.known().is_none() {
            self.color = "gray".to_owned().into();
        }
        self.id = format!("{}-{}", self.kind, self.count).into();
        if self.serial.known().is_none() {
            self.serial = format!("s-{}", self.kind).into();
        }
    }
}

impl Shape {
    fn finished(mut self, config: &Self) -> Self {
        let single = self.single.iter_mut();
        let list = self.list.iter_mut().flatten();
        let map = self.map.iter_mut().flat_map(BTreeMap::values_mut);
        let mut made = Vec::new();
        for part in single.chain(list).chain(map) {
            part.finish();
            made.push(Made {
                of: part.kind.clone(),
            });
        }
        self.made = made.into();
        if self.either.known().is_none() {
            self.either = "made".to_owned().into();
        }
        self.number_again = Computed(self.number.clone().into());
        let password = config.password.as_deref().unwrap_or_default();
        self.password_length = (password.len() as u64).into();
        self
    }
}

impl Resource for Shape {
    const TYPE: &'static str = "probe_shape";
    type Client = Client;

    async fn create(change: Change<Self>, cx: &Cx<'_>) -> Result<Self, Failed<Self>> {
        cx.client.note("create shape");
        Ok(change.planned.finished(&change.config))
    }

    async fn read(self, _: &Cx<'_>) -> Result<Option<Self>, Diagnostics> {
        Ok(Some(self))
    }

    async fn update(change: Change<Self>, cx: &Cx<'_>) -> Result<Self, Failed<Self>> {
        cx.client.note("update shape");
        Ok(change.planned.finished(&change.config))
    }

    async fn delete(self, _: &Cx<'_>) -> Result<(), Diagnostics> {
        Ok(())
    }
}
