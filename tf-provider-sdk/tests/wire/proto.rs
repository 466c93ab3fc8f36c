//! `proto/` says exactly what the table of the wire says: names, numbers and types are the interface.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use protox::prost_reflect::prost_types::field_descriptor_proto::{Label, Type};
use protox::prost_reflect::prost_types::{
    DescriptorProto, EnumDescriptorProto, FileDescriptorProto, FileDescriptorSet,
};
use serde_json::{Map, Value, json};

/// The folder of `.proto` files.
pub(crate) fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../proto")
}

/// All of `proto/`, compiled without protoc.
pub(crate) fn compile() -> FileDescriptorSet {
    protox::compile(
        ["tfplugin6.proto", "go_plugin.proto", "grpc_health.proto"],
        [folder()],
    )
    .expect("proto/ compiles")
}

fn messages(
    prefix: &str,
    found: &[DescriptorProto],
    out: &mut BTreeMap<String, Value>,
    enums: &mut BTreeMap<String, Value>,
) {
    for message in found {
        if message.options.as_ref().is_some_and(|o| o.map_entry()) {
            continue;
        }
        let path = format!("{prefix}{}", message.name());
        out.insert(path.clone(), Value::Array(fields(message)));
        enumerations(&format!("{path}."), &message.enum_type, enums);
        messages(&format!("{path}."), &message.nested_type, out, enums);
    }
}

fn enumerations(prefix: &str, found: &[EnumDescriptorProto], out: &mut BTreeMap<String, Value>) {
    for each in found {
        let values: Map<String, Value> = each
            .value
            .iter()
            .map(|v| (v.name().to_owned(), json!(v.number())))
            .collect();
        out.insert(format!("{prefix}{}", each.name()), Value::Object(values));
    }
}

fn type_name(field: &protox::prost_reflect::prost_types::FieldDescriptorProto) -> String {
    match field.r#type() {
        Type::Message | Type::Enum => field.type_name().trim_start_matches('.').to_owned(),
        scalar => scalar
            .as_str_name()
            .trim_start_matches("TYPE_")
            .to_lowercase(),
    }
}

fn fields(message: &DescriptorProto) -> Vec<Value> {
    let mut out: Vec<(i32, Value)> = Vec::new();
    for field in &message.field {
        let mut entry = json!({ "number": field.number(), "name": field.name() });
        let own = field.type_name().rsplit('.').next().unwrap_or_default();
        let map = message
            .nested_type
            .iter()
            .find(|n| n.name() == own && n.options.as_ref().is_some_and(|o| o.map_entry()));
        if let Some(map) = map {
            entry["type"] = json!(format!(
                "map<{}, {}>",
                type_name(&map.field[0]),
                type_name(&map.field[1])
            ));
        } else {
            entry["type"] = json!(type_name(field));
            if field.label() == Label::Repeated {
                entry["repeated"] = json!(true);
            }
        }
        if field.proto3_optional() {
            entry["optional"] = json!(true);
        } else if let Some(index) = field.oneof_index {
            entry["oneof"] = json!(message.oneof_decl[index as usize].name());
        }
        if field.options.as_ref().is_some_and(|o| o.deprecated()) {
            entry["deprecated"] = json!(true);
        }
        out.push((field.number(), entry));
    }
    out.sort_by_key(|(number, _)| *number);
    out.into_iter().map(|(_, entry)| entry).collect()
}

fn services(file: &FileDescriptorProto) -> BTreeMap<String, Value> {
    let mut out = BTreeMap::new();
    for service in &file.service {
        for method in &service.method {
            let mut entry = json!({
                "request": method.input_type().trim_start_matches('.'),
                "response": method.output_type().trim_start_matches('.'),
            });
            if method.client_streaming() {
                entry["client_streaming"] = json!(true);
            }
            if method.server_streaming() {
                entry["server_streaming"] = json!(true);
            }
            out.insert(format!("{}/{}", service.name(), method.name()), entry);
        }
    }
    out
}

fn object(value: &Value) -> &Map<String, Value> {
    value.as_object().expect("an object")
}

#[test]
fn proto_files_say_what_the_table_of_the_wire_says() {
    let table =
        std::fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/plugin-wire.json"))
            .expect("the table");
    let table: Value = serde_json::from_slice(&table).expect("the table is JSON");
    let compiled = compile();
    let mut packages = BTreeSet::new();
    for (package, expected) in object(&table) {
        packages.insert(package.clone());
        let file = compiled
            .file
            .iter()
            .find(|f| f.package() == package)
            .expect("the package has a file in proto/");
        let (mut found_messages, mut found_enums) = (BTreeMap::new(), BTreeMap::new());
        messages(
            "",
            &file.message_type,
            &mut found_messages,
            &mut found_enums,
        );
        enumerations("", &file.enum_type, &mut found_enums);

        let mut wanted_messages = BTreeMap::new();
        for (name, message) in object(&expected["messages"]) {
            assert_eq!(
                object(message).keys().collect::<Vec<_>>(),
                ["fields"],
                "{name}: the table says more than this test reads"
            );
            let mut fields = message["fields"].as_array().expect("a list").clone();
            fields.sort_by_key(|f| f["number"].as_i64());
            wanted_messages.insert(name.clone(), Value::Array(fields));
        }
        let wanted_enums: BTreeMap<String, Value> =
            object(&expected["enums"]).clone().into_iter().collect();
        let mut wanted_services = BTreeMap::new();
        for (service, methods) in object(&expected["services"]) {
            for (method, entry) in object(methods) {
                wanted_services.insert(format!("{service}/{method}"), entry.clone());
            }
        }
        for (kind, wanted, found) in [
            ("message", wanted_messages, found_messages),
            ("enum", wanted_enums, found_enums),
            ("method", wanted_services, services(file)),
        ] {
            assert!(!wanted.is_empty(), "{package}: the table lists no {kind}");
            let names: BTreeSet<_> = wanted.keys().chain(found.keys()).collect();
            for name in names {
                assert_eq!(
                    found.get(name),
                    wanted.get(name),
                    "{kind} {package}.{name}: left is proto/, right is the table"
                );
            }
        }
    }
    assert_eq!(
        packages.into_iter().collect::<Vec<_>>(),
        ["plugin", "tfplugin6"]
    );
}
