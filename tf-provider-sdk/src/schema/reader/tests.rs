use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    field::{Computed, Maybe, Opt, OptionalComputed, Replace, Sensitive, SetOf, Stable, WriteOnly},
    schema::{Check, Kind, Nesting, Schema},
    types::Type,
    value::Value,
};

/// Which engine serves.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum Engine {
    /// The usual one.
    Fast,
    Slow,
}

#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
struct Port {
    /// Number of the port.
    #[schemars(range(min = 1, max = 65535))]
    port: u16,
    name: Option<String>,
}

fn three() -> u32 {
    3
}

/// A model server.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
struct Model {
    id: Stable<String>,
    /// Name of the service.
    #[schemars(length(min = 1, max = 63), regex(pattern = "^[a-z]+$"))]
    name: Replace<Maybe<String>>,
    engine: Option<Sensitive<Engine>>,
    password: WriteOnly<Option<String>>,
    #[serde(default = "three")]
    replicas: u32,
    ports: Option<Vec<Port>>,
    tags: SetOf<String>,
    env: Option<BTreeMap<String, Maybe<String>>>,
    gpu: Opt<Port>,
    price: Computed<Port>,
    namespace: OptionalComputed<String>,
    #[schemars(extend("x-tf-deprecated" = "Use `name`."))]
    old: Replace<Option<String>>,
    #[schemars(inner(length(min = 2)))]
    words: Option<Vec<String>>,
}

fn model() -> Schema {
    Schema::of::<Model>(0).unwrap()
}

#[test]
fn wrappers_say_how_an_attribute_behaves() {
    let schema = model();
    let flags = |name: &str| {
        let a = &schema.attributes[name];
        (
            a.required,
            a.optional,
            a.computed,
            a.sensitive,
            a.write_only,
            a.stable,
            a.replace,
        )
    };
    assert_eq!(flags("id"), (false, false, true, false, false, true, false));
    assert_eq!(
        flags("name"),
        (true, false, false, false, false, false, true)
    );
    assert_eq!(
        flags("engine"),
        (false, true, false, true, false, false, false)
    );
    assert_eq!(
        flags("password"),
        (false, true, false, false, true, false, false)
    );
    assert_eq!(
        flags("replicas"),
        (false, true, true, false, false, false, false)
    );
    assert_eq!(
        flags("gpu"),
        (false, true, false, false, false, false, false)
    );
    assert_eq!(
        flags("price"),
        (false, false, true, false, false, false, false)
    );
    assert_eq!(
        flags("namespace"),
        (false, true, true, false, false, true, false)
    );
    assert_eq!(
        flags("old"),
        (false, true, false, false, false, false, true)
    );
    assert_eq!(
        flags("tags"),
        (true, false, false, false, false, false, false)
    );
}

#[test]
fn types_descriptions_defaults_and_deprecation_are_read() {
    let schema = model();
    assert_eq!(schema.description, "A model server.");
    assert_eq!(
        schema.attributes["name"].description,
        "Name of the service."
    );
    assert_eq!(schema.attributes["engine"].ty(), Type::String);
    assert_eq!(
        schema.attributes["engine"].checks,
        [Check::OneOf(vec!["slow".into(), "fast".into()])]
    );
    assert_eq!(
        schema.attributes["replicas"].default,
        Some(Value::Number(3.into()))
    );
    assert_eq!(
        schema.attributes["tags"].ty(),
        Type::Set(Box::new(Type::String))
    );
    assert_eq!(
        schema.attributes["env"].ty(),
        Type::Map(Box::new(Type::String))
    );
    assert_eq!(
        schema.attributes["old"].deprecated.as_deref(),
        Some("Use `name`.")
    );
    let Kind::Nested(Nesting::List, port) = &schema.attributes["ports"].kind else {
        panic!()
    };
    assert!(port["port"].required && port["name"].optional);
}

#[test]
fn inside_a_computed_object_everything_is_computed() {
    let schema = model();
    let Kind::Nested(Nesting::Single, price) = &schema.attributes["price"].kind else {
        panic!()
    };
    assert!(
        price
            .values()
            .all(|a| a.computed && !a.required && !a.optional)
    );
}

#[test]
fn checks_name_the_attribute_and_hide_secrets() {
    let value = |json: serde_json::Value| crate::ser::to_value(&json).unwrap();
    let report = model().check(&value(serde_json::json!({
        "name": "Not ok", "engine": "warp", "replicas": 1.5, "ports": [{"port": 0}], "words": ["ab", "c"],
    })));
    let text: Vec<_> = report
        .0
        .iter()
        .map(|d| format!("{}: {}", d.path, d.detail))
        .collect();
    assert!(
        text.iter().any(|t| t.starts_with("name: name must match")),
        "{text:?}"
    );
    assert!(
        text.iter().any(|t| t.starts_with(
            "ports[0].port: ports[0].port must be a whole number, 1 to 65535; it is 0"
        )),
        "{text:?}"
    );
    assert!(text.iter().any(|t| t.starts_with("words[1]:")), "{text:?}");
    assert!(
        text.iter()
            .any(|t| t.starts_with("replicas: replicas must be a whole number")),
        "{text:?}"
    );
    assert!(
        text.iter().any(|t| t.starts_with("engine:")) && !text.iter().any(|t| t.contains("warp")),
        "{text:?}"
    );
    assert_eq!(report.0.len(), 5, "{text:?}");
}

#[test]
fn what_terraform_cannot_express_is_refused() {
    #[derive(JsonSchema)]
    #[allow(dead_code)]
    struct Tuple {
        pair: (u8, u8),
    }
    #[derive(JsonSchema)]
    #[allow(dead_code)]
    struct Keyword {
        #[schemars(extend("x-unheard-of" = 1))]
        word: String,
    }
    #[derive(JsonSchema)]
    #[allow(dead_code)]
    struct Reserved {
        count: u8,
    }
    assert!(Schema::of::<Tuple>(0).is_err());
    assert!(
        Schema::of::<Keyword>(0)
            .unwrap_err()
            .message
            .contains("x-unheard-of")
    );
    assert!(Schema::of::<Reserved>(0).is_err());
}

#[test]
fn a_value_of_any_type_may_be_optional() {
    #[derive(JsonSchema)]
    #[allow(dead_code)]
    struct Any {
        required: Value,
        optional: Option<Value>,
        hidden: Sensitive<Option<Value>>,
        map: Option<BTreeMap<String, Value>>,
    }
    let schema = Schema::of::<Any>(0).unwrap();
    let of = |name: &str| {
        let attribute = &schema.attributes[name];
        (attribute.required, attribute.optional, attribute.ty())
    };
    assert_eq!(of("required"), (true, false, Type::Dynamic));
    assert_eq!(of("optional"), (false, true, Type::Dynamic));
    assert_eq!(of("hidden"), (false, true, Type::Dynamic));
    assert_eq!(of("map"), (false, true, Type::map(Type::Dynamic)));
}

#[test]
fn what_an_element_says_is_never_lost_silently() {
    #[derive(JsonSchema)]
    #[allow(dead_code)]
    struct Key {
        secret: Sensitive<String>,
    }
    macro_rules! refused {
        ($($name:ident: $ty:ty),*) => { $({
            #[derive(JsonSchema)]
            #[allow(dead_code)]
            struct Model { $name: $ty }
            let why = Schema::of::<Model>(0).expect_err(stringify!($name));
            assert!(why.path.starts_with(stringify!($name)), "{why}");
        })* };
    }
    refused!(
        secrets: Vec<Sensitive<String>>,
        secret_map: BTreeMap<String, Sensitive<String>>,
        replacing: Vec<Replace<String>>,
        deep: Vec<Vec<Key>>,
        deeper: BTreeMap<String, Vec<Key>>,
        set: SetOf<Value>,
        set_of_lists: SetOf<Vec<Value>>,
        computed_write_only: Computed<WriteOnlyKey>
    );
    #[derive(JsonSchema)]
    #[allow(dead_code)]
    struct Fine {
        names: Vec<Opt<String>>,
        sets: Vec<SetOf<String>>,
        keys: Sensitive<Vec<String>>,
        list: Vec<Key>,
    }
    Schema::of::<Fine>(0).unwrap();
}

#[derive(JsonSchema)]
#[allow(dead_code)]
struct WriteOnlyKey {
    key: WriteOnly<Option<String>>,
}
