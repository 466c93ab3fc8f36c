use super::*;

fn list(elements: &[Value]) -> Value {
    Value::List(elements.to_vec())
}

fn gpu(kind: &str, count: i64) -> Value {
    Value::object([("kind", Value::from(kind)), ("count", count.into())])
}

fn gpu_type() -> Type {
    Type::object([("kind", Type::String), ("count", Type::Number)])
}

fn dynamic(ty: Type, value: Value) -> Value {
    Value::Dynamic(Box::new(Dynamic { ty, value }))
}

#[test]
fn sets_have_no_order_and_no_duplicates_and_lists_have() {
    let (a, b) = (gpu("t4", 1), gpu("h100", 8));
    let set = Type::set(gpu_type());
    assert!(list(&[a.clone(), b.clone()]).equals(&list(&[b.clone(), a.clone(), b.clone()]), &set));
    assert!(
        !list(&[a.clone(), b.clone()])
            .equals(&list(&[b.clone(), a.clone()]), &Type::list(gpu_type()))
    );
    assert!(!list(&[a.clone(), b]).equals(&list(std::slice::from_ref(&a)), &set));
    // A set within a set.
    let sets = Type::set(Type::set(Type::Number));
    let (x, y) = (list(&[1.into(), 2.into()]), list(&[2.into(), 1.into()]));
    assert!(list(&[x.clone(), y]).equals(&list(&[x]), &sets));
}

#[test]
fn an_attribute_that_is_not_there_is_null() {
    let bare = Value::object([("kind", "t4")].map(|(name, kind)| (name, Value::from(kind))));
    let full = Value::object([("kind", "t4".into()), ("count", Value::Null)]);
    assert!(bare.equals(&full, &gpu_type()));
    assert!(!bare.equals(&gpu("t4", 1), &gpu_type()));
    // In a map, it is not.
    assert!(!bare.equals(&full, &Type::map(Type::Dynamic)));
    // What the type lacks still makes a difference.
    let extra = Value::object([("kind", "t4".into()), ("more", Value::from(1))]);
    assert!(!bare.equals(&extra, &gpu_type()));
    assert!(extra.equals(&extra, &gpu_type()));
}

#[test]
fn promises_of_unknown_values_make_no_difference() {
    let refinement = Refinement {
        not_null: true,
        ..Default::default()
    };
    let refined = Value::Unknown(Some(Box::new(refinement)));
    assert!(refined.equals(&Value::unknown(), &Type::String));
    assert!(!refined.equals(&Value::Null, &Type::String));
    assert!(!refined.equals(&"".into(), &Type::String));
}

#[test]
fn text_is_equal_in_composed_form() {
    assert!(Value::from("e\u{301}").equals(&"é".into(), &Type::String));
    assert!(!Value::from("e").equals(&"é".into(), &Type::String));
    assert_eq!(normalized("e\u{301}"), "é");
}

#[test]
fn dynamic_values_are_equal_when_their_types_are_too() {
    let any = Type::Dynamic;
    assert!(dynamic(Type::String, "a".into()).equals(&"a".into(), &any));
    assert!(!dynamic(Type::String, "1".into()).equals(&dynamic(Type::Number, 1.into()), &any));
    let (a, b) = (
        list(&["a".into(), "b".into()]),
        list(&["b".into(), "a".into()]),
    );
    let set = Type::set(Type::String);
    assert!(dynamic(set.clone(), a.clone()).equals(&dynamic(set, b.clone()), &any));
    assert!(!a.equals(&b, &any));
}

#[test]
fn what_is_unknown_is_found_with_its_path() {
    let ty = Type::object([
        ("env", Type::map(Type::String)),
        ("size", Type::list(gpu_type())),
        ("any", Type::Dynamic),
        ("name", Type::String),
    ]);
    let value = Value::object([
        ("env", Value::object([("A.B", Value::unknown())])),
        (
            "size",
            list(&[Value::object([
                ("count", Value::unknown()),
                ("kind", "t4".into()),
            ])]),
        ),
        (
            "any",
            dynamic(Type::list(Type::String), list(&[Value::unknown()])),
        ),
        ("name", "x".into()),
    ]);
    let paths: Vec<String> = value
        .unknown_paths(&ty)
        .iter()
        .map(Path::to_string)
        .collect();
    assert_eq!(paths, ["any[0]", "env[\"A.B\"]", "size[0].count"]);
    assert!(!value.is_wholly_known());
    for path in value.unknown_paths(&ty) {
        assert!(value.get(&path).is_some_and(Value::is_unknown), "{path}");
    }
    let mut known = value.clone();
    for path in value.unknown_paths(&ty) {
        *known.get_mut(&path).unwrap() = Value::Null;
    }
    assert!(known.is_wholly_known());
}

#[test]
fn attributes_are_read_and_set() {
    let mut value = Value::Null;
    assert!(value.attribute("kind").is_null());
    value.set_attribute("kind", "t4".into());
    assert_eq!(value.attribute("kind").as_str(), Some("t4"));
    assert!(value.attribute("count").is_null());
    assert!(Value::unknown().attribute("count").is_unknown());
    assert_eq!(value.get(&Path::attribute("count")), None);
    assert_eq!(value.get(&Path::root()), Some(&value));
}

#[test]
fn a_value_is_small() {
    assert!(size_of::<Value>() <= 32, "{}", size_of::<Value>());
}
