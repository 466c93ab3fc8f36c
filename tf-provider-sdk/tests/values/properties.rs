//! Laws that hold for any type and value.

use std::{
    collections::{BTreeMap, HashSet},
    hash::{DefaultHasher, Hash, Hasher},
};

use proptest::{collection, option, prelude::*};
use serde::{Deserialize, Serialize};
use tf_provider_sdk::{
    de::from_value,
    field::{Computed, Maybe, Opt, Sensitive, SetOf},
    json, msgpack,
    number::Number,
    ser::to_value,
    types::Type,
    value::{Bound, Dynamic, Name, Refinement, Value},
};

fn any_type() -> impl Strategy<Value = Type> {
    let leaf = prop_oneof![
        Just(Type::String),
        Just(Type::Number),
        Just(Type::Bool),
        Just(Type::Dynamic)
    ];
    leaf.prop_recursive(3, 12, 4, |inner| {
        prop_oneof![
            inner.clone().prop_map(Type::list),
            inner.clone().prop_map(Type::set),
            inner.clone().prop_map(Type::map),
            collection::vec(inner.clone(), 0..4).prop_map(Type::Tuple),
            collection::btree_map("[a-z_]{1,6}", inner, 0..4).prop_map(Type::object),
        ]
    })
}

fn any_number() -> impl Strategy<Value = Number> {
    prop_oneof![
        any::<i64>().prop_map(Number::from),
        any::<u64>().prop_map(Number::from),
        (-1_000_i64..1_000).prop_map(Number::from),
        any::<f64>().prop_filter_map("a finite number", |f| Number::from_f64(f)
            .ok()
            .filter(Number::is_finite)),
        "-?[0-9]{1,40}(\\.[0-9]{1,40})?([eE][+-]?[0-9]{1,3})?"
            .prop_map(|text| text.parse().unwrap()),
        "-?[0-9]\\.[0-9]{0,2}".prop_map(|text| text.parse().unwrap()),
    ]
}

fn any_refinement(ty: &Type) -> BoxedStrategy<Refinement> {
    let short = || any_number().prop_filter("a bound that fits", |n| n.to_string().len() < 330);
    let bound = || {
        option::of(
            (short(), any::<bool>()).prop_map(|(number, inclusive)| Bound { number, inclusive }),
        )
    };
    let not_null = any::<bool>();
    match ty {
        Type::String => (not_null, option::of("[a-zäß/:]{0,9}"))
            .prop_map(|(not_null, prefix)| Refinement {
                not_null,
                prefix,
                ..Default::default()
            })
            .boxed(),
        Type::Number => (not_null, bound(), bound())
            .prop_map(|(not_null, min, max)| Refinement {
                not_null,
                min,
                max,
                ..Default::default()
            })
            .boxed(),
        Type::List(_) | Type::Set(_) | Type::Map(_) => {
            (not_null, option::of(any::<u64>()), option::of(0..9_u64))
                .prop_map(|(not_null, min_length, max_length)| Refinement {
                    not_null,
                    min_length,
                    max_length,
                    ..Default::default()
                })
                .boxed()
        }
        _ => Just(Refinement {
            not_null: true,
            ..Default::default()
        })
        .boxed(),
    }
}

/// A value as the codecs read it back: text composed, a dynamic value with its type, nothing promised of what has none.
fn value_of(ty: &Type, unknown: bool) -> BoxedStrategy<Value> {
    let known: BoxedStrategy<Value> = match ty {
        Type::String => prop_oneof!["[a-zäöü世🚀\"\\\\\n\u{0}<>]{0,40}", Just("x".repeat(300))]
            .prop_map(Value::from)
            .boxed(),
        Type::Number => any_number().prop_map(Value::from).boxed(),
        Type::Bool => any::<bool>().prop_map(Value::from).boxed(),
        Type::Dynamic => any_type()
            .prop_filter("a type", |ty| *ty != Type::Dynamic)
            .prop_flat_map(move |ty| {
                value_of(&ty, unknown).prop_map(move |value| (ty.clone(), value))
            })
            .prop_map(|(ty, value)| Value::Dynamic(Box::new(Dynamic { ty, value })))
            .boxed(),
        Type::List(element) | Type::Set(element) => {
            collection::vec(value_of(element, unknown), 0..4)
                .prop_map(Value::List)
                .boxed()
        }
        Type::Map(element) => {
            collection::btree_map("[a-zÄ. ]{0,5}", value_of(element, unknown), 0..4)
                .prop_map(Value::object)
                .boxed()
        }
        Type::Tuple(types) => types
            .iter()
            .map(|ty| value_of(ty, unknown))
            .collect::<Vec<_>>()
            .prop_map(Value::List)
            .boxed(),
        Type::Object { attributes, .. } => {
            let names: Vec<Name> = attributes.keys().cloned().collect();
            let values: Vec<_> = attributes
                .values()
                .map(|ty| value_of(ty, unknown))
                .collect();
            values
                .prop_map(move |values| Value::object(names.iter().cloned().zip(values)))
                .boxed()
        }
    };
    let refined = any_refinement(ty);
    let may_be_refined = *ty != Type::Dynamic;
    let unknown_value = option::of(refined).prop_map(move |refinement| {
        let refinement =
            refinement.filter(|refinement| may_be_refined && *refinement != Refinement::default());
        Value::Unknown(refinement.map(Box::new))
    });
    prop_oneof![8 => known, 1 => Just(Value::Null), u32::from(unknown) => unknown_value].boxed()
}

fn typed(unknown: bool) -> impl Strategy<Value = (Type, Value)> {
    any_type()
        .prop_flat_map(move |ty| value_of(&ty, unknown).prop_map(move |value| (ty.clone(), value)))
}

/// Every set in the value in another order and with duplicates.
fn disordered(value: &Value, ty: &Type) -> Value {
    match (ty, value) {
        (Type::Set(element), Value::List(elements)) => {
            let mut elements: Vec<Value> = elements
                .iter()
                .rev()
                .map(|e| disordered(e, element))
                .collect();
            elements.extend(elements.first().cloned());
            Value::List(elements)
        }
        (Type::List(element), Value::List(elements)) => {
            Value::List(elements.iter().map(|e| disordered(e, element)).collect())
        }
        (Type::Tuple(types), Value::List(elements)) => Value::List(
            elements
                .iter()
                .zip(types)
                .map(|(e, ty)| disordered(e, ty))
                .collect(),
        ),
        (Type::Map(element), Value::Map(elements)) => Value::Map(
            elements
                .iter()
                .map(|(k, e)| (k.clone(), disordered(e, element)))
                .collect(),
        ),
        (Type::Object { attributes, .. }, Value::Map(elements)) => Value::Map(
            elements
                .iter()
                .map(|(k, e)| (k.clone(), disordered(e, &attributes[k])))
                .collect(),
        ),
        (_, Value::Dynamic(dynamic)) => Value::Dynamic(Box::new(Dynamic {
            ty: dynamic.ty.clone(),
            value: disordered(&dynamic.value, &dynamic.ty),
        })),
        (_, Value::Unknown(_)) => Value::unknown(),
        (_, value) => value.clone(),
    }
}

fn hash(number: &Number) -> u64 {
    let mut hasher = DefaultHasher::new();
    number.hash(&mut hasher);
    hasher.finish()
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Gpu {
    kind: Option<String>,
    count: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Mode {
    ReadOnly,
    ReadWriteMany,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Model {
    name: Maybe<String>,
    size: Option<Gpu>,
    ports: SetOf<Gpu>,
    env: BTreeMap<String, Opt<String>>,
    ratio: f64,
    small: i8,
    large: u64,
    exact: Number,
    mode: Mode,
    secret: Sensitive<Option<bool>>,
    id: Computed<String>,
    nested: Computed<Gpu>,
    anything: Value,
}

fn any_gpu() -> impl Strategy<Value = Gpu> {
    (option::of("[a-z0-9]{0,4}"), any::<u32>()).prop_map(|(kind, count)| Gpu { kind, count })
}

fn opt<T: std::fmt::Debug + Clone + 'static>(
    known: impl Strategy<Value = T> + 'static,
) -> impl Strategy<Value = Opt<T>> {
    prop_oneof![
        Just(Opt::Null),
        Just(Opt::Unknown),
        known.prop_map(Opt::Known)
    ]
}

fn any_model() -> impl Strategy<Value = Model> {
    let first = (
        option::of(".{0,4}"),
        option::of(any_gpu()),
        collection::vec(any_gpu(), 0..3),
        collection::btree_map(".{0,3}", opt(".{0,3}"), 0..3),
        any::<f64>().prop_filter("a number", |f| !f.is_nan()),
        any::<(i8, u64)>(),
        any_number(),
    );
    let second = (
        prop_oneof![Just(Mode::ReadOnly), Just(Mode::ReadWriteMany)],
        any::<Option<bool>>(),
        opt("[a-z]{0,3}"),
        opt(any_gpu()),
        typed(true),
    );
    (first, second).prop_map(
        |(
            (name, size, ports, env, ratio, (small, large), exact),
            (mode, secret, id, nested, any),
        )| {
            Model {
                name: name.map_or(Maybe::Unknown, Maybe::Known),
                size,
                ports: SetOf(ports),
                env,
                ratio,
                small,
                large,
                exact,
                mode,
                secret: Sensitive(secret),
                id: Computed(id),
                nested: Computed(nested),
                anything: any.1,
            }
        },
    )
}

proptest! {
    #[test]
    fn a_type_reads_back_from_its_json(ty in any_type()) {
        prop_assert_eq!(Type::from_json(&ty.to_json()).unwrap(), ty);
    }

    #[test]
    fn a_value_reads_back_from_msgpack((ty, value) in typed(true)) {
        let bytes = msgpack::encode(&value, &ty).unwrap();
        let read = msgpack::decode(&bytes, &ty).unwrap();
        prop_assert_eq!(&read, &value);
        prop_assert_eq!(msgpack::encode(&read, &ty).unwrap(), bytes);
    }

    #[test]
    fn what_is_written_is_msgpack_to_others_too((ty, value) in typed(true)) {
        let bytes = msgpack::encode(&value, &ty).unwrap();
        let mut rest = bytes.as_slice();
        rmpv::decode::read_value(&mut rest).unwrap();
        prop_assert!(rest.is_empty());
    }

    #[test]
    fn a_known_value_reads_back_from_json((ty, value) in typed(false)) {
        let json = json::encode(&value, &ty).unwrap();
        prop_assert_eq!(&json::decode(&json, &ty).unwrap(), &value);
        prop_assert_eq!(&json::decode_lenient(&json, &ty).unwrap(), &value);
        serde_json::from_slice::<serde::de::IgnoredAny>(&json).unwrap();
    }

    #[test]
    fn equality_ignores_what_terraform_ignores((ty, value) in typed(true)) {
        let other = disordered(&value, &ty);
        prop_assert!(value.equals(&value, &ty));
        prop_assert!(value.equals(&other, &ty));
        prop_assert!(other.equals(&value, &ty));
    }

    #[test]
    fn equality_is_symmetric_and_sees_what_differs(
        (ty, a, b) in any_type().prop_flat_map(|ty| {
            (value_of(&ty, true), value_of(&ty, true)).prop_map(move |(a, b)| (ty.clone(), a, b))
        }),
    ) {
        prop_assert_eq!(a.equals(&b, &ty), b.equals(&a, &ty));
        // Written alike is equal; the other way round, only sets and promises may differ.
        if msgpack::encode(&a, &ty).unwrap() == msgpack::encode(&b, &ty).unwrap() {
            prop_assert!(a.equals(&b, &ty));
        }
        prop_assert!(a.is_null() || !a.equals(&Value::Null, &ty));
    }

    #[test]
    fn a_value_passes_through_serde((_, value) in typed(true)) {
        prop_assert_eq!(&to_value(&value).unwrap(), &value);
        prop_assert_eq!(&from_value::<Value>(&value).unwrap(), &value);
    }

    #[test]
    fn a_struct_reads_back_from_its_value(model in any_model()) {
        let value = to_value(&model).unwrap();
        prop_assert_eq!(from_value::<Model>(&value).unwrap(), model);
    }

    #[test]
    fn a_number_reads_back_from_its_text(number in any_number()) {
        let text = number.to_string();
        prop_assert_eq!(&text.parse::<Number>().unwrap(), &number);
        // serde_json reads floats to within their last binary digit.
        let json = serde_json::to_string(&number).unwrap();
        let read: Number = serde_json::from_str(&json).unwrap();
        prop_assert!(read == number || (read.to_f64() / number.to_f64() - 1.0).abs() < 1e-15);
    }

    #[test]
    fn numbers_are_ordered(a in any_number(), b in any_number(), c in any_number()) {
        prop_assert_eq!(a.cmp(&b), b.cmp(&a).reverse());
        prop_assert!(!(a <= b && b <= c) || a <= c);
        prop_assert!(a != b || hash(&a) == hash(&b));
        if let (Some(x), Some(y)) = (a.as_i128(), b.as_i128()) {
            prop_assert_eq!(a.cmp(&b), x.cmp(&y));
        }
        prop_assert!(a >= b || a.to_f64() <= b.to_f64());
    }

    #[test]
    fn a_float_is_what_it_is_however_written(float in any::<f64>().prop_filter("finite", |f| f.is_finite())) {
        let number = Number::from_f64(float).unwrap();
        prop_assert_eq!(number.to_f64(), float);
        if number.is_whole() {
            prop_assert_eq!(&format!("{float:.0}").parse::<Number>().unwrap(), &number);
        } else {
            prop_assert_eq!(&float.to_string().parse::<Number>().unwrap(), &number);
        }
    }
}

#[test]
fn equal_numbers_hash_alike() {
    let same = ["0.1", "0.10", "1e-1", ".1", "+0.1"].map(|text| text.parse::<Number>().unwrap());
    let mut all: HashSet<Number> = same.into_iter().collect();
    all.insert(Number::from_f64(0.1).unwrap());
    assert_eq!(all.len(), 1);
}
