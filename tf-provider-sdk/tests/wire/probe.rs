//! The typed API behind the protocol, where Terraform can't show it: the probe, driven by a host of our own.

use tf_provider_sdk::{generated::tfplugin6 as pb, msgpack, types::Type, value::Value};
use tokio::time::timeout;
use tonic::Code;

use super::host::{Channel, Identity, PATIENCE, Plugin, Start};

async fn connected() -> (Plugin, Channel) {
    let identity = Identity::like_terraform();
    let start = Start {
        identity: Some(&identity),
        variables: &[],
        arguments: &[],
    };
    let plugin = Plugin::spawn(start.command(env!("CARGO_BIN_EXE_probe-provider").as_ref())).await;
    let channel = Channel::connect(&plugin.line, Some(&identity))
        .await
        .expect("connected");
    (plugin, channel)
}

/// The types of the probe's schemas, as a host reads them from its answer.
struct Types(pb::get_provider_schema::Response);

impl Types {
    async fn of(channel: &Channel) -> Self {
        let request = pb::get_provider_schema::Request {};
        let answer = channel.provider().get_provider_schema(request).await;
        Self(answer.expect("a schema").into_inner())
    }

    fn of_block(schema: &pb::Schema) -> Type {
        fn of(attribute: &pb::schema::Attribute) -> Type {
            use pb::schema::object::NestingMode;
            let Some(nested) = &attribute.nested_type else {
                return Type::from_json(&attribute.r#type).expect("a type");
            };
            let object = object(&nested.attributes);
            match nested.nesting() {
                NestingMode::List => Type::list(object),
                NestingMode::Set => Type::set(object),
                NestingMode::Map => Type::map(object),
                _ => object,
            }
        }
        fn object(attributes: &[pb::schema::Attribute]) -> Type {
            Type::object(attributes.iter().map(|it| (it.name.clone(), of(it))))
        }
        object(&schema.block.as_ref().expect("a block").attributes)
    }

    fn resource(&self, name: &str) -> Type {
        Self::of_block(&self.0.resource_schemas[name])
    }

    /// An object of a resource with these attributes, and null for the rest.
    fn object<const N: usize>(&self, name: &str, given: [(&str, Value); N]) -> pb::DynamicValue {
        dynamic(&self.resource(name), given)
    }
}

fn dynamic<const N: usize>(ty: &Type, given: [(&str, Value); N]) -> pb::DynamicValue {
    let Type::Object { attributes, .. } = ty else {
        panic!("an object: {ty}")
    };
    let mut value = Value::object(attributes.keys().map(|name| (name.clone(), Value::Null)));
    for (name, it) in given {
        value.set_attribute(name, it);
    }
    pb::DynamicValue {
        msgpack: msgpack::encode(&value, ty).expect("of the type"),
        json: Vec::new(),
    }
}

fn null() -> Option<pb::DynamicValue> {
    Some(pb::DynamicValue {
        msgpack: vec![0xc0],
        json: Vec::new(),
    })
}

async fn configure(channel: &Channel, types: &Types, label: &str) -> Vec<pb::Diagnostic> {
    let ty = Types::of_block(types.0.provider.as_ref().expect("a provider"));
    let request = pb::configure_provider::Request {
        config: Some(dynamic(&ty, [("label", label.into())])),
        ..Default::default()
    };
    let answer = channel.provider().configure_provider(request).await;
    answer.expect("answered").into_inner().diagnostics
}

#[tokio::test]
async fn capabilities_and_names_are_the_same_in_metadata_and_schema() {
    let (_plugin, channel) = connected().await;
    let request = pb::get_metadata::Request {};
    let metadata = channel.provider().get_metadata(request).await;
    let metadata = metadata.expect("answered").into_inner();
    let Types(schema) = Types::of(&channel).await;
    assert_eq!(schema.diagnostics, []);
    assert_eq!(metadata.server_capabilities, schema.server_capabilities);
    let capabilities = schema.server_capabilities.expect("some");
    assert!(capabilities.plan_destroy && capabilities.get_provider_schema_optional);
    assert!(capabilities.move_resource_state);
    assert_eq!(metadata.resources.len(), schema.resource_schemas.len());
    assert!(
        metadata
            .resources
            .iter()
            .all(|it| schema.resource_schemas.contains_key(&it.type_name))
    );
    assert!(
        metadata
            .functions
            .iter()
            .all(|it| schema.functions.contains_key(&it.name))
    );
    let functions = channel
        .provider()
        .get_functions(pb::get_functions::Request {})
        .await
        .expect("answered")
        .into_inner();
    assert_eq!(functions.functions, schema.functions);
    assert!(functions.functions["join"].variadic_parameter.is_some());
    assert!(functions.functions["or_else"].parameters[0].allow_null_value);
    assert!(!functions.functions["or_else"].parameters[1].allow_null_value);
}

#[tokio::test]
async fn what_is_not_offered_is_unimplemented() {
    let (_plugin, channel) = connected().await;
    let mut provider = channel.provider();
    let status = provider
        .validate_list_resource_config(pb::validate_list_resource_config::Request::default())
        .await
        .expect_err("not offered");
    assert_eq!(status.code(), Code::Unimplemented);
    let status = provider
        .plan_action(pb::plan_action::Request::default())
        .await
        .expect_err("not offered");
    assert_eq!(status.code(), Code::Unimplemented);
    let status = provider
        .generate_resource_config(pb::generate_resource_config::Request::default())
        .await
        .expect_err("not offered");
    assert_eq!(status.code(), Code::Unimplemented);
}

#[tokio::test]
async fn calls_work_without_a_schema_call_before_and_name_what_is_unknown() {
    let (_plugin, channel) = connected().await;
    let request = pb::upgrade_resource_state::Request {
        type_name: "probe_record".to_owned(),
        version: 0,
        raw_state: Some(pb::RawState {
            json: br#"{"title":"t"}"#.to_vec(),
            ..Default::default()
        }),
    };
    let answer = channel.provider().upgrade_resource_state(request).await;
    let answer = answer.expect("answered").into_inner();
    assert_eq!(answer.diagnostics, []);
    assert!(answer.upgraded_state.is_some());
    let request = pb::read_resource::Request {
        type_name: "probe_nothing".to_owned(),
        current_state: null(),
        ..Default::default()
    };
    let answer = channel.provider().read_resource(request).await;
    let answer = answer.expect("answered").into_inner();
    assert_eq!(
        answer.diagnostics[0].summary,
        "Unknown resource type probe_nothing"
    );
    assert_eq!(answer.new_state, null(), "the state is kept");
}

#[tokio::test]
async fn p8_a_write_only_value_is_refused_from_a_host_that_would_store_it() {
    let (_plugin, channel) = connected().await;
    let types = Types::of(&channel).await;
    for (allowed, password, errors) in [
        (false, Value::from("secret"), 1),
        (false, Value::unknown(), 1),
        (false, Value::Null, 0),
        (true, Value::from("secret"), 0),
    ] {
        let request = pb::validate_resource_config::Request {
            type_name: "probe_shape".to_owned(),
            config: Some(types.object(
                "probe_shape",
                [("name", "n".into()), ("password", password)],
            )),
            client_capabilities: Some(pb::ClientCapabilities {
                write_only_attributes_allowed: allowed,
                ..Default::default()
            }),
        };
        let answer = channel.provider().validate_resource_config(request).await;
        let found = answer.expect("answered").into_inner().diagnostics;
        assert_eq!(found.len(), errors, "{allowed} {found:?}");
        assert!(
            found
                .iter()
                .all(|it| it.detail.contains("password is write-only"))
        );
    }
}

#[tokio::test]
async fn p7_a_planned_deletion_is_null_with_and_without_a_client() {
    let (_plugin, channel) = connected().await;
    let types = Types::of(&channel).await;
    for configured in [false, true] {
        if configured {
            assert_eq!(configure(&channel, &types, "l").await, []);
        }
        let prior = types.object("probe_thing", [("name", "n".into()), ("id", "i".into())]);
        let request = pb::plan_resource_change::Request {
            type_name: "probe_thing".to_owned(),
            prior_state: Some(prior),
            proposed_new_state: null(),
            config: null(),
            prior_private: br#"{"writes":4}"#.to_vec(),
            ..Default::default()
        };
        let answer = channel.provider().plan_resource_change(request).await;
        let answer = answer.expect("answered").into_inner();
        assert!(
            answer
                .diagnostics
                .iter()
                .all(|it| it.severity() != pb::diagnostic::Severity::Error)
        );
        assert_eq!(answer.planned_state, null());
        assert_eq!(answer.planned_private, br#"{"writes":4}"#);
    }
}

#[tokio::test]
async fn the_last_configuration_counts_and_a_refused_one_changes_nothing() {
    let (_plugin, channel) = connected().await;
    let types = Types::of(&channel).await;
    let label = async || {
        let gate = |label| {
            types.object(
                "probe_gate",
                [("text", "t".into()), ("length", 1.into()), ("label", label)],
            )
        };
        let request = pb::apply_resource_change::Request {
            type_name: "probe_gate".to_owned(),
            prior_state: null(),
            config: Some(types.object("probe_gate", [("text", "t".into())])),
            planned_state: Some(gate(Value::unknown())),
            ..Default::default()
        };
        let answer = channel.provider().apply_resource_change(request).await;
        let answer = answer.expect("answered").into_inner();
        let state = answer.new_state.expect("a state").msgpack;
        let state = msgpack::decode(&state, &types.resource("probe_gate")).expect("a value");
        (
            state.attribute("label").as_str().map(str::to_owned),
            answer.diagnostics,
        )
    };
    let (_, diagnostics) = label().await;
    assert_eq!(diagnostics[0].summary, "The provider is not configured");
    for name in ["first", "second"] {
        assert_eq!(configure(&channel, &types, name).await, []);
        assert_eq!(label().await.0.as_deref(), Some(name));
    }
    assert_eq!(configure(&channel, &types, "refused").await.len(), 1);
    assert_eq!(label().await.0.as_deref(), Some("second"));
}

#[tokio::test]
async fn stop_ends_an_apply_with_what_it_made_and_later_calls_go_on() {
    let (_plugin, channel) = connected().await;
    let types = Types::of(&channel).await;
    assert_eq!(configure(&channel, &types, "l").await, []);
    let apply = |takes: i64| {
        let name = ("name", Value::from("n"));
        let takes = ("takes", Value::from(takes));
        let config = types.object("probe_thing", [name.clone(), takes.clone()]);
        let unknown = [("id", Value::unknown()), ("writes", Value::unknown())];
        let [id, writes] = unknown;
        let request = pb::apply_resource_change::Request {
            type_name: "probe_thing".to_owned(),
            prior_state: null(),
            config: Some(config),
            planned_state: Some(types.object("probe_thing", [name, takes, id, writes])),
            ..Default::default()
        };
        let mut provider = channel.provider();
        async move { provider.apply_resource_change(request).await }
    };
    let slow = tokio::spawn(apply(60_000));
    tokio::time::sleep(std::time::Duration::from_millis(500)).await;
    let stop = pb::stop_provider::Request {};
    channel
        .provider()
        .stop_provider(stop)
        .await
        .expect("answered");
    let answer = timeout(PATIENCE, slow)
        .await
        .expect("it ends")
        .expect("no panic");
    let answer = answer.expect("answered").into_inner();
    assert!(answer.diagnostics[0].detail.contains("it was interrupted"));
    let ty = types.resource("probe_thing");
    let state = msgpack::decode(&answer.new_state.expect("a state").msgpack, &ty).expect("a value");
    assert_eq!(state.attribute("id").as_str(), Some("id-n"));
    assert!(state.is_wholly_known());
    assert_eq!(answer.private, br#"{"writes":1}"#);
    let answer = apply(1).await.expect("answered").into_inner();
    assert_eq!(answer.diagnostics, []);
}

#[tokio::test]
async fn damaged_values_are_diagnostics_and_keep_the_state() {
    let (_plugin, channel) = connected().await;
    let types = Types::of(&channel).await;
    assert_eq!(configure(&channel, &types, "l").await, []);
    for damaged in [&b"\xc1"[..], b"\x81", b"\x91\xc0", b"\xdd\xff\xff\xff\xff"] {
        let value = Some(pb::DynamicValue {
            msgpack: damaged.to_vec(),
            json: Vec::new(),
        });
        let request = pb::apply_resource_change::Request {
            type_name: "probe_thing".to_owned(),
            prior_state: null(),
            config: value.clone(),
            planned_state: value,
            planned_private: b"{}".to_vec(),
            ..Default::default()
        };
        let answer = channel.provider().apply_resource_change(request).await;
        let answer = answer.expect("answered").into_inner();
        assert_eq!(answer.diagnostics.len(), 1, "{damaged:02x?}");
        assert_eq!(answer.new_state, null());
    }
}
