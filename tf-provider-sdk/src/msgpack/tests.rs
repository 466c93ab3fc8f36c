use super::*;
use crate::{
    types::Type,
    value::{Bound, Dynamic, Refinement, Value},
};

fn gpu() -> Type {
    Type::object([("kind", Type::String), ("count", Type::Number)])
}

#[test]
fn objects_are_written_whole() {
    let bare = Value::object([("kind", Value::from("t4"))]);
    let read = decode(&encode(&bare, &gpu()).unwrap(), &gpu()).unwrap();
    assert_eq!(
        read,
        Value::object([("kind", "t4".into()), ("count", Value::Null)])
    );
    let extra = Value::object([("kind", Value::from("t4")), ("old", 1.into())]);
    let error = encode(&Value::List(vec![extra]), &Type::list(gpu())).unwrap_err();
    assert_eq!(
        error.to_string(),
        "[0].old: the object has no attribute of this name"
    );
}

#[test]
fn errors_say_where() {
    let ty = Type::object([("size", Type::map(Type::list(gpu())))]);
    let wrong = Value::object([("count", Value::from("many"))]);
    let value = Value::object([("size", Value::object([("a b", Value::List(vec![wrong]))]))]);
    let error = encode(&value, &ty).unwrap_err();
    assert_eq!(
        error.to_string(),
        "size[\"a b\"][0].count: a number is required, not a string"
    );
    // The same on the way in: what is a string there is written as one.
    let loose = Type::object([(
        "size",
        Type::map(Type::list(Type::object([
            ("kind", Type::String),
            ("count", Type::String),
        ]))),
    )]);
    let error = decode(&encode(&value, &loose).unwrap(), &ty).unwrap_err();
    assert_eq!(
        error.to_string(),
        "size[\"a b\"][0].count: a number is required"
    );
}

#[test]
fn a_value_without_a_type_gets_one_where_it_is_dynamic() {
    let value = Value::object([("a", Value::List(vec![1.into(), "x".into(), Value::Null]))]);
    let read = decode(&encode(&value, &Type::Dynamic).unwrap(), &Type::Dynamic).unwrap();
    let ty = Type::object([(
        "a",
        Type::Tuple(vec![Type::Number, Type::String, Type::Dynamic]),
    )]);
    assert_eq!(
        read,
        Value::Dynamic(Box::new(Dynamic {
            ty,
            value: value.clone()
        }))
    );
    assert!(read.equals(&value, &Type::Dynamic));
}

#[test]
fn a_type_that_is_carried_must_be_the_one_that_is_wanted() {
    let carried = Value::Dynamic(Box::new(Dynamic {
        ty: Type::String,
        value: "a".into(),
    }));
    assert_eq!(encode(&carried, &Type::String).unwrap(), b"\xa1a");
    assert!(encode(&carried, &Type::Number).is_err());
}

#[test]
fn text_is_composed_on_the_way_out_and_in() {
    assert_eq!(
        encode(&"e\u{301}".into(), &Type::String).unwrap(),
        b"\xa2\xc3\xa9"
    );
    assert_eq!(decode(b"\xa3e\xcc\x81", &Type::String), Ok("é".into()));
    let map = Value::object([("e\u{301}", Value::from(1))]);
    assert_eq!(
        decode(
            &encode(&map, &Type::map(Type::Number)).unwrap(),
            &Type::map(Type::Number)
        )
        .unwrap(),
        Value::object([("é", Value::from(1))])
    );
    let twice = Value::object([("e\u{301}", Value::from(1)), ("é", Value::from(2))]);
    assert!(encode(&twice, &Type::map(Type::Number)).is_err());
}

#[test]
fn promises_that_do_not_fit_say_less() {
    let refined = |refinement| Value::Unknown(Some(Box::new(refinement)));
    let nothing = refined(Refinement::default());
    assert_eq!(encode(&nothing, &Type::String).unwrap(), [0xd4, 0, 0]);
    let long = refined(Refinement {
        prefix: Some("é".repeat(300)),
        ..Default::default()
    });
    let read = decode(&encode(&long, &Type::String).unwrap(), &Type::String).unwrap();
    assert_eq!(
        read,
        refined(Refinement {
            prefix: Some("é".repeat(127)),
            ..Default::default()
        })
    );
    let number = "7".repeat(2_000).parse().unwrap();
    let far = refined(Refinement {
        not_null: true,
        min: Some(Bound {
            number,
            inclusive: true,
        }),
        ..Default::default()
    });
    let read = decode(&encode(&far, &Type::Number).unwrap(), &Type::Number).unwrap();
    assert_eq!(
        read,
        refined(Refinement {
            not_null: true,
            ..Default::default()
        })
    );
}

#[test]
fn promises_of_another_type_are_passed_over() {
    // A prefix and a length of a number.
    let bytes = [0xc7, 6, 12, 0x82, 2, 0xa1, b'x', 5, 1];
    assert_eq!(decode(&bytes, &Type::Number), Ok(Value::unknown()));
    // More than Terraform reads.
    let mut long = vec![0xc8, 0x04, 0x01, 12];
    long.extend([0xff; 0x401]);
    assert_eq!(decode(&long, &Type::String), Ok(Value::unknown()));
    // No payload at all.
    assert_eq!(decode(&[0xc7, 0, 12], &Type::String), Ok(Value::unknown()));
    assert!(decode(&[0xc7, 1, 12, 0x01], &Type::String).is_err());
}

#[test]
fn depth_is_bounded_both_ways() {
    let dynamic = b"\x92\xc4\x09\"dynamic\"";
    assert!(
        decode(
            &[&dynamic.repeat(150)[..], b"\xc0"].concat(),
            &Type::Dynamic
        )
        .is_ok()
    );
    assert!(
        decode(
            &[&dynamic.repeat(1_000)[..], b"\xc0"].concat(),
            &Type::Dynamic
        )
        .is_err()
    );
    let ty = (0..1_000).fold(Type::String, |ty, _| Type::list(ty));
    assert!(
        decode(&[0x91; 1_001], &ty)
            .unwrap_err()
            .message
            .contains("levels deep")
    );
    let value = (0..1_000).fold(Value::from("a"), |value, _| Value::List(vec![value]));
    assert!(
        encode(&value, &ty)
            .unwrap_err()
            .message
            .contains("levels deep")
    );
}

#[test]
fn lengths_at_every_edge_read_back() {
    for length in [0, 15, 16, 31, 32, 255, 256, 65_535, 65_536] {
        let text = Value::from("x".repeat(length).as_str());
        assert_eq!(
            decode(&encode(&text, &Type::String).unwrap(), &Type::String),
            Ok(text)
        );
        let ty = Type::list(Type::Bool);
        let list = Value::List(vec![true.into(); length]);
        assert_eq!(decode(&encode(&list, &ty).unwrap(), &ty), Ok(list));
        let ty = Type::map(Type::Bool);
        let map = Value::object((0..length).map(|i| (i.to_string(), Value::from(true))));
        assert_eq!(decode(&encode(&map, &ty).unwrap(), &ty), Ok(map));
    }
}
