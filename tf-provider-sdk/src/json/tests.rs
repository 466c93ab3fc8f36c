use super::*;
use crate::{types::Type, value::Value};

fn read(json: &str, ty: &Type) -> Result<Value, String> {
    decode(json.as_bytes(), ty).map_err(|error| error.to_string())
}

fn gpu() -> Type {
    Type::object([("kind", Type::String), ("count", Type::Number)])
}

#[test]
fn attributes_that_are_not_there_are_null_and_extra_ones_refused_or_dropped() {
    let null = Value::object([("kind", "t4".into()), ("count", Value::Null)]);
    assert_eq!(read(r#" { "kind" : "t4" } "#, &gpu()), Ok(null.clone()));
    let extra = r#"{"kind":"t4","old":{"a":[1,"x",null,true,{}]},"older":-1.5e3}"#;
    assert_eq!(
        read(extra, &gpu()),
        Err("old: the object has no attribute of this name".into())
    );
    assert_eq!(decode_lenient(extra.as_bytes(), &gpu()), Ok(null));
    let nested = decode_lenient(br#"[{"old":1}]"#, &Type::list(gpu())).unwrap();
    assert_eq!(nested.as_list().unwrap()[0].as_map().unwrap().len(), 2);
}

#[test]
fn a_dynamic_value_has_its_type_first_or_last() {
    let first = read(
        r#"{"type":["list","number"],"value":[1,2.5]}"#,
        &Type::Dynamic,
    )
    .unwrap();
    assert_eq!(
        read(
            r#"{"value":[1,2.5],"type":["list","number"]}"#,
            &Type::Dynamic
        ),
        Ok(first.clone())
    );
    assert_eq!(
        first.as_list().unwrap()[1],
        "2.5".parse::<crate::number::Number>().unwrap().into()
    );
    for json in [
        r#"{"value":1}"#,
        r#"{"type":"number"}"#,
        r#"{"value":1,"type":"number","more":1}"#,
        "{}",
        "1",
        "[]",
        "\"a\"",
        r#"{"value":1,"value":1}"#,
        r#"{"value":1,"type":"text"}"#,
        r#"{"value":[],"type":"number"}"#,
    ] {
        assert!(read(json, &Type::Dynamic).is_err(), "{json}");
    }
}

#[test]
fn numbers_keep_their_digits() {
    for digits in [
        "123456789012345678901234567890",
        "0.1",
        "-0.00000015",
        "18446744073709551616.5",
    ] {
        let value = read(digits, &Type::Number).unwrap();
        assert_eq!(encode(&value, &Type::Number).unwrap(), digits.as_bytes());
    }
    let short = read("1e1000000000", &Type::Number).unwrap();
    assert_eq!(encode(&short, &Type::Number).unwrap(), b"1e1000000000");
}

#[test]
fn primitives_that_changed_their_type_are_read_as_terraform_does() {
    assert_eq!(read("\"8\"", &Type::Number), Ok(8.into()));
    assert_eq!(read("8", &Type::String), Ok("8".into()));
    assert_eq!(read("true", &Type::String), Ok("true".into()));
    assert_eq!(read("\"1\"", &Type::Bool), Ok(true.into()));
    assert!(read("\"x\"", &Type::Number).is_err());
    assert!(read("\"x\"", &Type::Bool).is_err());
    assert!(read("1", &Type::Bool).is_err());
    assert!(read("true", &Type::Number).is_err());
}

#[test]
fn strings_are_unescaped_and_composed() {
    assert_eq!(
        read(r#""a\n\u00e9\ud83d\ude80\"e\u0301""#, &Type::String),
        Ok("a\né🚀\"é".into())
    );
    for json in [
        r#""\ud83d""#,
        r#""\x""#,
        "\"a\nb\"",
        "\"a",
        "\"a\\",
        "\"\\\"",
        "'a'",
    ] {
        assert!(read(json, &Type::String).is_err(), "{json}");
    }
    assert!(decode(b"\"\xff\"", &Type::String).is_err());
}

#[test]
fn what_is_no_json_is_refused() {
    for json in [
        "", " ", "nul", "01", "1.", "-", "1e", "+1", ".5", "1 2", "NaN", "Infinity", "0x1",
    ] {
        assert!(read(json, &Type::Number).is_err(), "{json}");
    }
    for json in ["[", "[1", "[1,", "[1,]", "[,1]", "[1 2]", "[1]]", "{}"] {
        assert!(read(json, &Type::list(Type::Number)).is_err(), "{json}");
    }
    for json in [
        "{",
        "{\"a\"",
        "{\"a\":",
        "{\"a\":1",
        "{\"a\":1,",
        "{\"a\":1,}",
        "{a:1}",
        "{1:1}",
        "[]",
    ] {
        assert!(read(json, &Type::map(Type::Number)).is_err(), "{json}");
    }
}

#[test]
fn errors_say_where() {
    let ty = Type::object([
        ("gpus", Type::list(gpu())),
        ("env", Type::map(Type::String)),
    ]);
    let json = r#"{"gpus":[{"count":1},{"count":[]}],"env":{}}"#;
    assert_eq!(
        read(json, &ty),
        Err("gpus[1].count: a number is required".into())
    );
    assert_eq!(
        read(r#"{"env":{"A":{}}}"#, &ty),
        Err("env[\"A\"]: a string is required".into())
    );
    let value = Value::object([("env", Value::object([("A", Value::unknown())]))]);
    let error = encode(&value, &ty).unwrap_err().to_string();
    assert_eq!(
        error,
        "env[\"A\"]: the value is not known yet, so JSON can't hold it"
    );
}

#[test]
fn depth_is_bounded() {
    for levels in [1_000, 1_000_000] {
        let dropped = format!("{{\"old\":{}", "[".repeat(levels));
        assert!(decode_lenient(dropped.as_bytes(), &gpu()).is_err());
        let nested = "{\"type\":\"dynamic\",\"value\":".repeat(levels);
        assert!(read(&nested, &Type::Dynamic).is_err());
        let closed = format!("{nested}null{}", "}".repeat(levels));
        assert!(
            read(&closed, &Type::Dynamic)
                .unwrap_err()
                .contains("levels deep")
        );
    }
}
