use std::collections::BTreeMap;

use serde::Deserialize;

use super::*;
use crate::{
    field::{Computed, Maybe, Opt, Replace, Sensitive, SetOf, WriteOnly},
    value::Dynamic,
};

#[derive(Debug, PartialEq, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Mode {
    ReadOnly,
    ReadWriteMany,
}

#[derive(Debug, PartialEq, Deserialize)]
struct Gpu {
    kind: Option<String>,
    count: u32,
}

#[derive(Debug, PartialEq, Deserialize)]
struct Service {
    name: Replace<Maybe<String>>,
    size: Option<Gpu>,
    #[serde(rename = "mode")]
    access: Option<Mode>,
    env: Option<BTreeMap<String, Maybe<String>>>,
    gpus: Option<SetOf<Gpu>>,
    id: Computed<String>,
    token: Sensitive<WriteOnly<Opt<String>>>,
    price: Computed<Gpu>,
    any: Value,
}

fn service(attribute: &str, value: Value) -> Result<Service, FromValueError> {
    let mut all = Value::object([("name", Value::from("web"))]);
    all.set_attribute(attribute, value);
    from_value(&all)
}

fn message(attribute: &str, value: Value) -> String {
    let error = service(attribute, value).unwrap_err();
    assert!(!error.unknown, "{error}");
    error.to_string()
}

#[test]
fn what_is_not_there_is_null() {
    let read = service("more", 1.into()).unwrap();
    assert_eq!(read.name.0, Maybe::Known("web".to_owned()));
    assert_eq!(
        (read.size, read.access, read.env, read.gpus),
        (None, None, None, None)
    );
    assert_eq!(
        (read.id.0, read.price.0, read.any),
        (Opt::Null, Opt::Null, Value::Null)
    );
    assert_eq!(message("name", Value::Null), "name: a value is required");
}

#[test]
fn unknown_is_taken_where_a_type_can_hold_it() {
    let read = service("name", Value::unknown()).unwrap();
    assert!(read.name.is_unknown());
    let read = service(
        "env",
        Value::object([("A", Value::unknown()), ("B", "b".into())]),
    )
    .unwrap();
    assert_eq!(
        read.env.unwrap().into_values().collect::<Vec<_>>(),
        [Maybe::Unknown, Maybe::Known("b".into())]
    );
    assert!(service("id", Value::unknown()).unwrap().id.is_unknown());
    assert!(
        service("token", Value::unknown())
            .unwrap()
            .token
            .is_unknown()
    );
    assert!(service("any", Value::unknown()).unwrap().any.is_unknown());
}

#[test]
fn unknown_elsewhere_is_an_error_that_says_so() {
    let one = |count| Value::List(vec![Value::object([("count", count)])]);
    for (attribute, value, path) in [
        ("size", Value::unknown(), "size"),
        (
            "size",
            Value::object([("count", Value::unknown())]),
            "size.count",
        ),
        (
            "size",
            Value::object([("kind", Value::unknown()), ("count", 1.into())]),
            "size.kind",
        ),
        (
            "price",
            Value::object([("count", Value::unknown())]),
            "price.count",
        ),
        ("gpus", one(Value::unknown()), "gpus[0].count"),
        ("mode", Value::unknown(), "mode"),
        ("env", Value::unknown(), "env"),
    ] {
        let error = service(attribute, value).unwrap_err();
        assert!(error.unknown, "{error}");
        assert_eq!(error.path.to_string(), path);
        assert_eq!(error.message, "the value is not known yet");
    }
    assert!(from_value::<u8>(&Value::unknown()).unwrap_err().unknown);
    assert!(from_value::<f64>(&Value::unknown()).unwrap_err().unknown);
    assert!(from_value::<bool>(&Value::unknown()).unwrap_err().unknown);
    assert!(from_value::<Number>(&Value::unknown()).unwrap_err().unknown);
    assert!(
        from_value::<Vec<u8>>(&Value::unknown())
            .unwrap_err()
            .unknown
    );
    assert!(
        from_value::<serde_json::Value>(&Value::unknown())
            .unwrap_err()
            .unknown
    );
}

#[test]
fn errors_are_in_a_practitioners_words() {
    let size = |count: Value| Value::object([("count", count)]);
    for (attribute, value, expected) in [
        (
            "size",
            size("8".into()),
            "size.count: a number is required, not a string",
        ),
        (
            "size",
            size(Value::Null),
            "size.count: a number is required",
        ),
        (
            "size",
            size((-1).into()),
            "size.count: a whole number between 0 and 4294967295 is required, not -1",
        ),
        (
            "size",
            size(Value::Number("1.5".parse().unwrap())),
            "size.count: a whole number is required, not 1.5",
        ),
        (
            "size",
            size(Value::Number("1e30".parse().unwrap())),
            "size.count: a whole number between 0 and 4294967295 is required, not 1000000000000000000000000000000",
        ),
        (
            "size",
            "large".into(),
            "size: an object is required, not a string",
        ),
        (
            "mode",
            "append".into(),
            "mode: \"append\" is not allowed here; what is: \"read-only\", \"read-write-many\"",
        ),
        ("mode", 1.into(), "mode: a string is required, not a number"),
        (
            "env",
            Value::List(vec![]),
            "env: a map is required, not a list",
        ),
        (
            "env",
            Value::object([("A", Value::from(1))]),
            "env[\"A\"]: a string is required, not a number",
        ),
        (
            "gpus",
            "t4".into(),
            "gpus: a list is required, not a string",
        ),
        (
            "gpus",
            Value::List(vec![size(1.into()), 7.into()]),
            "gpus[1]: an object is required, not a number",
        ),
        (
            "price",
            size(true.into()),
            "price.count: a number is required, not true or false",
        ),
    ] {
        assert_eq!(message(attribute, value), expected);
    }
}

#[test]
fn numbers_are_read_as_what_they_are() {
    let number = |text: &str| Value::Number(text.parse().unwrap());
    assert_eq!(from_value::<u32>(&number("8.0")), Ok(8));
    assert_eq!(
        from_value::<i64>(&number("-9223372036854775808")),
        Ok(i64::MIN)
    );
    assert_eq!(
        from_value::<u64>(&number("18446744073709551615")),
        Ok(u64::MAX)
    );
    assert_eq!(
        from_value::<i128>(&number("18446744073709551616")),
        Ok(18_446_744_073_709_551_616)
    );
    assert_eq!(from_value::<f64>(&number("3.39")), Ok(3.39));
    assert_eq!(from_value::<f32>(&number("0.1")), Ok(0.1));
    assert!(from_value::<u8>(&number("256")).is_err());
    assert!(from_value::<i8>(&number("-129")).is_err());
    let exact = "123456789012345678901234567890.123";
    assert_eq!(
        from_value::<Number>(&number(exact)).unwrap().to_string(),
        exact
    );
    assert_eq!(
        from_value::<Opt<Number>>(&number("0.1")).unwrap(),
        Opt::Known("0.1".parse().unwrap())
    );
    assert_eq!(
        from_value::<Number>(&"8".into()).unwrap_err().message,
        "a number is required, not a string"
    );
}

#[test]
fn a_dynamic_value_is_read_with_or_without_its_type() {
    let value = Value::Dynamic(Box::new(Dynamic {
        ty: Type::list(Type::Number),
        value: Value::List(vec![1.into()]),
    }));
    assert_eq!(service("any", value.clone()).unwrap().any, value);
    assert_eq!(from_value::<Vec<u8>>(&value), Ok(vec![1]));
    assert_eq!(from_value::<Opt<Vec<u8>>>(&value), Ok(Opt::Known(vec![1])));
    assert_eq!(
        from_value::<serde_json::Value>(&value),
        Ok(serde_json::json!([1]))
    );
}

use crate::types::Type;

#[test]
fn tuples_have_their_length() {
    let pair = Value::List(vec![1.into(), "a".into()]);
    assert_eq!(from_value::<(u8, String)>(&pair), Ok((1, "a".to_owned())));
    assert_eq!(
        from_value::<(u8,)>(&pair).unwrap_err().message,
        "1 elements are required, not 2"
    );
}
