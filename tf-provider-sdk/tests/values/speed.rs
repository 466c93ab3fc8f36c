//! A plan of a thousand resources must stay cheap.

use std::time::{Duration, Instant};

use tf_provider_sdk::{msgpack, types::Type, value::Value};

/// Generous: the build is a debug one and the machine may be busy. A release build takes about a fiftieth.
const LIMIT: Duration = Duration::from_secs(5);

#[test]
fn a_thousand_resources_of_sixty_attributes_are_read_and_written_in_no_time() {
    let ty = Type::object((0..60).map(|i| {
        let ty = match i % 4 {
            0 => Type::String,
            1 => Type::Number,
            2 => Type::list(Type::String),
            _ => Type::object([("count", Type::Number), ("kind", Type::String)]),
        };
        (format!("attribute_{i:02}"), ty)
    }));
    let value = Value::object((0..60).map(|i| {
        let value = match i % 4 {
            0 => "registry.example.com/team/model:1.2.3".into(),
            1 => i.into(),
            2 => Value::List(vec!["a".into(), Value::unknown()]),
            _ => Value::object([
                ("count", Value::from(8)),
                ("kind", "nvidia-h100-80gb".into()),
            ]),
        };
        (format!("attribute_{i:02}"), value)
    }));
    let bytes = msgpack::encode(&value, &ty).unwrap();
    let start = Instant::now();
    for _ in 0..1_000 {
        let read = msgpack::decode(&bytes, &ty).unwrap();
        assert_eq!(msgpack::encode(&read, &ty).unwrap().len(), bytes.len());
    }
    let took = start.elapsed();
    println!("1,000 x {} bytes: {took:?}", bytes.len());
    assert!(took < LIMIT, "{took:?}");
}
