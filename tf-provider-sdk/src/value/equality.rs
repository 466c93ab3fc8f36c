//! When Terraform takes two values for equal.

use std::{borrow::Cow, cmp::Ordering};

use unicode_normalization::UnicodeNormalization;

use super::{NULL, Value, ValueMap};
use crate::types::Type;

impl Value {
    /// Whether Terraform takes the two for equal: sets without regard to order and duplicates, numbers by value, text by
    /// its composed form, an attribute that is not there as null. Unknown equals unknown, whatever is promised of each.
    pub fn equals(&self, other: &Value, ty: &Type) -> bool {
        compare(self, other, ty) == Ordering::Equal
    }
}

/// A total order whose "equal" is [`Value::equals`]; sets are sorted by it.
fn compare(a: &Value, b: &Value, ty: &Type) -> Ordering {
    match (a, b) {
        (Value::Bool(a), Value::Bool(b)) => a.cmp(b),
        (Value::Number(a), Value::Number(b)) => a.cmp(b),
        (Value::String(a), Value::String(b)) => compare_text(a, b),
        (Value::Dynamic(_), _) | (_, Value::Dynamic(_)) => compare_typed(a, b, ty),
        (Value::List(a), Value::List(b)) => match ty {
            Type::Set(element) => {
                let (a, b) = (as_set(a, element), as_set(b, element));
                compare_lists(a.into_iter(), b.into_iter(), |_| element)
            }
            _ => compare_lists(a.iter(), b.iter(), |index| ty.element(index)),
        },
        (Value::Map(a), Value::Map(b)) => compare_maps(a, b, ty),
        _ => rank(a).cmp(&rank(b)),
    }
}

fn compare_text(a: &str, b: &str) -> Ordering {
    if a == b || (a.is_ascii() && b.is_ascii()) {
        return a.cmp(b);
    }
    a.nfc().cmp(b.nfc())
}

/// At least one of the two carries its type; the other has the type that Terraform would give it.
fn compare_typed(a: &Value, b: &Value, ty: &Type) -> Ordering {
    fn typed<'a>(value: &'a Value, ty: &'a Type) -> (&'a Value, Cow<'a, Type>) {
        match value {
            Value::Dynamic(dynamic) => typed(&dynamic.value, &dynamic.ty),
            _ if *ty == Type::Dynamic => (value, Cow::Owned(value.infer_type())),
            _ => (value, Cow::Borrowed(ty)),
        }
    }
    let ((a, a_type), (b, b_type)) = (typed(a, ty), typed(b, ty));
    a_type.cmp(&b_type).then_with(|| compare(a, b, &a_type))
}

fn as_set<'a>(elements: &'a [Value], ty: &Type) -> Vec<&'a Value> {
    let mut elements: Vec<&Value> = elements.iter().collect();
    elements.sort_by(|a, b| compare(a, b, ty));
    elements.dedup_by(|a, b| compare(a, b, ty) == Ordering::Equal);
    elements
}

fn compare_lists<'a, 't>(
    a: impl ExactSizeIterator<Item = &'a Value>,
    b: impl ExactSizeIterator<Item = &'a Value>,
    ty: impl Fn(usize) -> &'t Type,
) -> Ordering {
    a.len().cmp(&b.len()).then_with(|| {
        let pairs = a.zip(b).enumerate();
        first_difference(pairs.map(|(index, (a, b))| compare(a, b, ty(index))))
    })
}

fn compare_maps(a: &ValueMap, b: &ValueMap, ty: &Type) -> Ordering {
    if let Type::Object { attributes, .. } = ty {
        let known = attributes.iter().map(|(name, ty)| {
            compare(
                a.get(name).unwrap_or(&NULL),
                b.get(name).unwrap_or(&NULL),
                ty,
            )
        });
        // What the type does not have still makes a difference.
        return first_difference(known).then_with(|| {
            let extra_a = a.iter().filter(|(name, _)| !attributes.contains_key(*name));
            let mut extra_b = b.iter().filter(|(name, _)| !attributes.contains_key(*name));
            for (a_name, a) in extra_a {
                let Some((b_name, b)) = extra_b.next() else {
                    return Ordering::Greater;
                };
                let order = a_name
                    .cmp(b_name)
                    .then_with(|| compare(a, b, &Type::Dynamic));
                if order != Ordering::Equal {
                    return order;
                }
            }
            extra_b.next().map_or(Ordering::Equal, |_| Ordering::Less)
        });
    }
    a.len().cmp(&b.len()).then_with(|| {
        first_difference(a.iter().zip(b).map(|((a_key, a), (b_key, b))| {
            compare_text(a_key, b_key).then_with(|| compare(a, b, ty.attribute(a_key)))
        }))
    })
}

fn first_difference(mut orders: impl Iterator<Item = Ordering>) -> Ordering {
    orders
        .find(|order| *order != Ordering::Equal)
        .unwrap_or(Ordering::Equal)
}

fn rank(value: &Value) -> u8 {
    match value {
        Value::Null => 0,
        Value::Unknown(_) => 1,
        Value::Bool(_) => 2,
        Value::Number(_) => 3,
        Value::String(_) => 4,
        Value::List(_) => 5,
        Value::Map(_) => 6,
        Value::Dynamic(_) => 7,
    }
}
