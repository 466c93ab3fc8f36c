use std::collections::BTreeMap;

use serde::Serialize;

use super::*;
use crate::field::{Computed, Maybe, Opt, Replace, SetOf};

#[derive(Serialize)]
struct Gpu {
    kind: Option<&'static str>,
    count: u32,
}

#[derive(Serialize)]
enum Mode {
    ReadOnly,
    Custom(u8),
}

#[derive(Serialize)]
struct Service<T> {
    name: Replace<Maybe<String>>,
    id: Computed<String>,
    gpus: SetOf<Gpu>,
    env: BTreeMap<String, T>,
}

fn service<T>(value: T) -> Service<T> {
    Service {
        name: Replace(Maybe::Unknown),
        id: Computed(Opt::Null),
        gpus: SetOf(vec![Gpu {
            kind: None,
            count: 8,
        }]),
        env: [("A".to_owned(), value)].into(),
    }
}

#[test]
fn structs_become_objects_with_every_attribute() {
    let gpu = Value::object([("kind", Value::Null), ("count", 8.into())]);
    let expected = Value::object([
        ("name", Value::unknown()),
        ("id", Value::Null),
        ("gpus", Value::List(vec![gpu])),
        ("env", Value::object([("A", Value::from("ReadOnly"))])),
    ]);
    assert_eq!(to_value(&service(Mode::ReadOnly)), Ok(expected));
}

#[test]
fn what_has_no_form_is_an_error_with_its_path() {
    let error = to_value(&service(Mode::Custom(1))).unwrap_err();
    assert_eq!(
        error.to_string(),
        "env[\"A\"]: \"Custom\" has content, which no value holds"
    );
    let error = to_value(&service(vec![1.0, f64::NAN])).unwrap_err();
    assert_eq!(error.to_string(), "env[\"A\"][1]: not a number (NaN)");
    let key = BTreeMap::from([(vec![1], 1)]);
    assert_eq!(
        to_value(&key).unwrap_err().to_string(),
        "a key must be a string, not a list"
    );
}

#[test]
fn numbers_keep_what_they_are() {
    for text in [
        "0.1",
        "123456789012345678901234567890.5",
        "8",
        "1.5",
        "18446744073709551615",
        "1e1000000000",
    ] {
        let number: Number = text.parse().unwrap();
        assert_eq!(to_value(&number), Ok(Value::Number(number)));
    }
    assert_eq!(
        to_value(&u128::MAX)
            .unwrap()
            .as_number()
            .unwrap()
            .to_string(),
        u128::MAX.to_string()
    );
    assert_eq!(
        to_value(&0.1_f32),
        Ok(Value::Number("0.1".parse().unwrap()))
    );
    assert_eq!(
        to_value(&0.1_f64),
        Ok(Value::Number("0.1".parse().unwrap()))
    );
}

#[test]
fn keys_may_be_numbers() {
    let ports = BTreeMap::from([(80, "http")]);
    assert_eq!(
        to_value(&ports),
        Ok(Value::object([("80", Value::from("http"))]))
    );
}
