//! The result of an apply, held to its plan.

use super::{known, member, strip};
use crate::{
    path::{Path, Trail},
    schema::{Attribute, Attributes, Kind, Nesting, Schema},
    value::{InOrder, Value},
};

/// The state to store after an apply: what was planned, verbatim, with the result in place of what was unknown. Also the paths where
/// the result says otherwise: the next refresh shows what is really there.
///
/// With this, an apply can't end in "inconsistent result", which would leave the user with a tainted object.
pub fn settle(schema: &Schema, planned: &Value, result: &Value) -> (Value, Vec<Path>) {
    let mut differs = Vec::new();
    let mut state = match planned {
        Value::Map(_) => settle_object(
            &schema.attributes,
            planned,
            result,
            &Trail::Root,
            &mut differs,
        ),
        _ => known(result),
    };
    strip(&schema.attributes, &mut state);
    (state, differs)
}

fn settle_object(
    attributes: &Attributes,
    planned: &Value,
    result: &Value,
    path: &Trail<'_>,
    differs: &mut Vec<Path>,
) -> Value {
    let (mut planned, mut result) = (InOrder::of(planned), InOrder::of(result));
    let state = attributes.iter().map(|(name, attribute)| {
        let path = &Trail::Attribute(path, name);
        (
            name.clone(),
            settle_attribute(
                attribute,
                planned.member(name),
                result.member(name),
                path,
                differs,
            ),
        )
    });
    Value::Map(state.collect())
}

fn settle_attribute(
    attribute: &Attribute,
    planned: &Value,
    result: &Value,
    path: &Trail<'_>,
    differs: &mut Vec<Path>,
) -> Value {
    if planned.is_unknown() {
        return known(result);
    }
    if planned.is_wholly_known() {
        if !attribute.write_only && !attribute.same(planned, result) {
            differs.push(path.to_path());
        }
        return planned.clone();
    }
    match (&attribute.kind, planned, result) {
        (Kind::Nested(Nesting::Single, attributes), Value::Map(_), Value::Map(_)) => {
            settle_object(attributes, planned, result, path, differs)
        }
        (Kind::Nested(Nesting::Map, attributes), Value::Map(items), Value::Map(_)) => Value::Map(
            items
                .iter()
                .map(|(key, item)| {
                    let path = &Trail::Key(path, key);
                    (
                        key.clone(),
                        settle_object(attributes, item, member(result, key), path, differs),
                    )
                })
                .collect(),
        ),
        (Kind::Nested(Nesting::List, attributes), Value::List(items), Value::List(results))
            if items.len() == results.len() =>
        {
            Value::List(
                items
                    .iter()
                    .zip(results)
                    .enumerate()
                    .map(|(index, (item, result))| {
                        settle_object(
                            attributes,
                            item,
                            result,
                            &Trail::Index(path, index),
                            differs,
                        )
                    })
                    .collect(),
            )
        }
        _ => settle_plain(planned, result, path, differs),
    }
}

/// A value without a schema of its own, or whose shapes differ: unknown parts from the result where it has them.
fn settle_plain(
    planned: &Value,
    result: &Value,
    path: &Trail<'_>,
    differs: &mut Vec<Path>,
) -> Value {
    match (planned, result) {
        (Value::Unknown(_), result) => known(result),
        (Value::Map(items), Value::Map(results)) => Value::Map(
            items
                .iter()
                .map(|(key, item)| {
                    let result = results.get(key).unwrap_or(&Value::Null);
                    (
                        key.clone(),
                        settle_plain(item, result, &Trail::Key(path, key), differs),
                    )
                })
                .collect(),
        ),
        (Value::List(items), Value::List(results)) if items.len() == results.len() => Value::List(
            items
                .iter()
                .zip(results)
                .enumerate()
                .map(|(index, (item, result))| {
                    settle_plain(item, result, &Trail::Index(path, index), differs)
                })
                .collect(),
        ),
        (planned, result) => {
            if planned != result {
                differs.push(path.to_path());
            }
            known(planned)
        }
    }
}
