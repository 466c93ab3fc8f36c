//! The plan engine: from configuration and prior state to the planned value, on value trees and the schema alone.
//!
//! The order is what keeps plans free of perpetual differences: defaults, write-only to null, comparison with the prior state, and
//! only where something differs are computed attributes marked unknown ([`draft`]). Then comes the resource's own hook, then
//! [`violations`] judges the outcome by the rules that Terraform's core will apply, and [`replaced`] says what makes a new object.
//! After apply, [`settle`] holds the result to the plan.

mod judge;
mod settle;

pub use judge::violations;
pub use settle::settle;

use crate::{
    path::{Path, Trail},
    schema::{Attribute, Attributes, Kind, Nesting, Schema},
    value::{InOrder, Name, Value, ValueMap},
};

/// A planned value before the resource's hook has seen it.
#[derive(Debug, Clone, PartialEq)]
pub struct Draft {
    /// The planned value; computed attributes that may change are unknown.
    pub planned: Value,
    /// Whether anything differs from the prior state; always so for a new object.
    pub changed: bool,
}

/// Plans from what the user configured (`config`), what is there (`prior`, null for a new object), and Terraform's merge of both
/// (`proposed`).
pub fn draft(schema: &Schema, config: &Value, prior: &Value, proposed: &Value) -> Draft {
    draft_of(schema, config, prior, proposed.clone())
}

pub(crate) fn draft_of(schema: &Schema, config: &Value, prior: &Value, proposed: Value) -> Draft {
    let mut planned = proposed;
    fill(&schema.attributes, config, &mut planned);
    without_write_only(schema, &mut planned);
    let changed = prior.is_null() || !same(&schema.attributes, prior, &planned);
    if changed {
        mark(&schema.attributes, config, &mut planned);
    }
    Draft { planned, changed }
}

/// Marks computed attributes unknown as [`draft`] does for a change: for a hook that finds work to do where the configuration is
/// as it was.
pub fn mark_computed(schema: &Schema, config: &Value, planned: &mut Value) {
    mark(&schema.attributes, config, planned);
}

/// Makes the attribute at `path` unknown, if it is a computed one that is not configured. Whether it was.
pub(crate) fn make_unknown(
    schema: &Schema,
    config: &Value,
    path: &Path,
    planned: &mut Value,
) -> bool {
    let [crate::path::Step::Attribute(name)] = path.0.as_slice() else {
        return false;
    };
    let computed = schema
        .attributes
        .get(name)
        .is_some_and(|attribute| attribute.computed && attribute.default.is_none());
    if !computed || !member(config, name).is_null() {
        return false;
    }
    planned.set_attribute(name.clone(), Value::unknown());
    true
}

/// Whether two values of this object are the same: sets without order, numbers by value.
pub fn same(attributes: &Attributes, a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Map(_), Value::Map(_)) => {
            let (mut a, mut b) = (InOrder::of(a), InOrder::of(b));
            attributes
                .iter()
                .all(|(name, attribute)| attribute.same(a.member(name), b.member(name)))
        }
        _ => a.is_null() && b.is_null() || a.is_unknown() && b.is_unknown(),
    }
}

impl Attribute {
    /// As [`Value::equals`], without making the type first: this runs for every attribute of every plan.
    fn same(&self, a: &Value, b: &Value) -> bool {
        match (&self.kind, a, b) {
            (Kind::Plain(ty), a, b) => a.equals(b, ty),
            (Kind::Nested(Nesting::Single, nested), a, b) => same(nested, a, b),
            (Kind::Nested(Nesting::List, nested), Value::List(a), Value::List(b)) => {
                a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(nested, a, b))
            }
            (Kind::Nested(Nesting::Map, nested), Value::Map(a), Value::Map(b)) => {
                a.len() == b.len()
                    && a.iter()
                        .zip(b)
                        .all(|((a_key, a), (b_key, b))| a_key == b_key && same(nested, a, b))
            }
            (Kind::Nested(Nesting::Set, _), Value::List(_), Value::List(_)) => {
                a.equals(b, &self.ty())
            }
            (_, a, b) => a.is_null() && b.is_null() || a.is_unknown() && b.is_unknown(),
        }
    }
}

/// A configuration with the defaults of what it leaves out: what an author's struct is read from.
pub fn with_defaults(schema: &Schema, mut config: Value) -> Value {
    fill_in(&schema.attributes, &mut config);
    config
}

/// Defaults in place of the nulls of a configuration.
fn fill_in(attributes: &Attributes, config: &mut Value) {
    let Value::Map(values) = config else { return };
    complete(attributes, values);
    for (_, attribute, value) in side_by_side(attributes, values) {
        if !value.is_null() {
            each_object(attribute, value, fill_in);
        } else if let Some(default) = &attribute.default {
            *value = default.clone();
        }
    }
}

/// Defaults for what is not configured.
fn fill(attributes: &Attributes, config: &Value, planned: &mut Value) {
    let Value::Map(values) = planned else { return };
    complete(attributes, values);
    let mut config = InOrder::of(config);
    for (name, attribute, value) in side_by_side(attributes, values) {
        let configured = config.member(name);
        if configured.is_null() {
            if let Some(default) = &attribute.default {
                *value = default.clone();
            }
        } else {
            each_nested(attribute, configured, value, fill);
        }
    }
}

/// Computed attributes that are not configured become unknown, but those that keep their value.
fn mark(attributes: &Attributes, config: &Value, planned: &mut Value) {
    let Value::Map(values) = planned else { return };
    complete(attributes, values);
    let mut config = InOrder::of(config);
    for (name, attribute, value) in side_by_side(attributes, values) {
        let configured = config.member(name);
        if !configured.is_null() {
            each_nested(attribute, configured, value, mark);
        } else if attribute.computed
            && attribute.default.is_none()
            && (!attribute.stable || value.is_null())
        {
            *value = Value::unknown();
        }
    }
}

/// Null for every attribute that the object lacks.
fn complete(attributes: &Attributes, values: &mut ValueMap) {
    // An object has no members but those of its schema: as many are all of them.
    if values.len() < attributes.len() {
        for name in attributes.keys() {
            values.entry(name.clone()).or_insert(Value::Null);
        }
    }
}

/// The attributes that the object has, each with its value. Both are in the order of their names, and are walked once.
fn side_by_side<'s>(
    attributes: &'s Attributes,
    values: &'s mut ValueMap,
) -> impl Iterator<Item = (&'s Name, &'s Attribute, &'s mut Value)> {
    let mut attributes = attributes.iter().peekable();
    values.iter_mut().filter_map(move |(name, value)| {
        let (name, attribute) = attributes.next_if(|(next, _)| *next == name).or_else(|| {
            while attributes.next_if(|(next, _)| *next < name).is_some() {}
            attributes.next_if(|(next, _)| *next == name)
        })?;
        Some((name, attribute, value))
    })
}

fn member<'a>(object: &'a Value, name: &str) -> &'a Value {
    match object {
        Value::Map(values) => values.get(name).unwrap_or(&Value::Null),
        _ => &Value::Null,
    }
}

/// Calls `visit` for each object of a nested attribute, with its configuration.
fn each_nested(
    attribute: &Attribute,
    config: &Value,
    planned: &mut Value,
    visit: fn(&Attributes, &Value, &mut Value),
) {
    let Kind::Nested(nesting, attributes) = &attribute.kind else {
        return;
    };
    match (nesting, config, planned) {
        (Nesting::Single, config, planned) => visit(attributes, config, planned),
        // The elements of a set have no key: Terraform proposes them in the order of the configuration.
        (Nesting::List | Nesting::Set, Value::List(configs), Value::List(items))
            if configs.len() == items.len() =>
        {
            for (config, item) in configs.iter().zip(items) {
                visit(attributes, config, item);
            }
        }
        (Nesting::Map, Value::Map(configs), Value::Map(items)) => {
            for (key, item) in items {
                visit(attributes, configs.get(key).unwrap_or(&Value::Null), item);
            }
        }
        _ => {}
    }
}

/// The attributes whose change makes a new object.
pub fn replaced(schema: &Schema, prior: &Value, planned: &Value) -> Vec<Path> {
    let mut paths = Vec::new();
    if !prior.is_null() && !planned.is_null() {
        find_replaced(&schema.attributes, prior, planned, &Trail::Root, &mut paths);
    }
    paths
}

fn find_replaced(
    attributes: &Attributes,
    prior: &Value,
    planned: &Value,
    path: &Trail<'_>,
    paths: &mut Vec<Path>,
) {
    let (mut prior, mut planned) = (InOrder::of(prior), InOrder::of(planned));
    for (name, attribute) in attributes {
        let (prior, planned) = (prior.member(name), planned.member(name));
        let path = &Trail::Attribute(path, name);
        if attribute.replace {
            if !attribute.same(prior, planned) {
                paths.push(path.to_path());
            }
            continue;
        }
        let Kind::Nested(nesting, attributes) = &attribute.kind else {
            continue;
        };
        match (nesting, prior, planned) {
            (Nesting::Single, Value::Map(_), Value::Map(_)) => {
                find_replaced(attributes, prior, planned, path, paths)
            }
            (Nesting::List, Value::List(priors), Value::List(items)) => {
                for (index, (prior, item)) in priors.iter().zip(items).enumerate() {
                    find_replaced(attributes, prior, item, &Trail::Index(path, index), paths);
                }
            }
            (Nesting::Map, Value::Map(priors), Value::Map(items)) => {
                for (key, prior) in priors {
                    if let Some(item) = items.get(key) {
                        find_replaced(attributes, prior, item, &Trail::Key(path, key), paths);
                    }
                }
            }
            _ => {}
        }
    }
}

/// Puts back what is known of unknown values (refinements), which the author's types do not carry: core compares them too.
pub fn restore_refinements(planned: &mut Value, draft: &Value) {
    match (planned, draft) {
        (planned @ Value::Unknown(_), Value::Unknown(Some(_))) => planned.clone_from(draft),
        (Value::Map(items), drafts @ Value::Map(_)) => {
            let mut drafts = InOrder::of(drafts);
            for (key, item) in items {
                if let Some(draft) = drafts.find(key) {
                    restore_refinements(item, draft);
                }
            }
        }
        (Value::List(items), Value::List(drafts)) if items.len() == drafts.len() => {
            for (item, draft) in items.iter_mut().zip(drafts) {
                restore_refinements(item, draft);
            }
        }
        _ => {}
    }
}

/// The value with null in place of everything unknown: what may be stored.
pub fn known(value: &Value) -> Value {
    match value {
        Value::Unknown(_) => Value::Null,
        Value::List(items) => Value::List(items.iter().map(known).collect()),
        Value::Map(items) => Value::Map(
            items
                .iter()
                .map(|(key, item)| (key.clone(), known(item)))
                .collect(),
        ),
        Value::Dynamic(dynamic) if !dynamic.value.is_wholly_known() => Value::Null,
        other => other.clone(),
    }
}

/// Null in place of every write-only attribute: what may be returned.
pub fn without_write_only(schema: &Schema, value: &mut Value) {
    strip(&schema.attributes, value);
}

fn strip(attributes: &Attributes, value: &mut Value) {
    let Value::Map(values) = value else { return };
    for (_, attribute, value) in side_by_side(attributes, values) {
        if attribute.write_only {
            *value = Value::Null;
            continue;
        }
        each_object(attribute, value, strip);
    }
}

/// Calls `visit` for each object of a nested attribute.
fn each_object(attribute: &Attribute, value: &mut Value, visit: fn(&Attributes, &mut Value)) {
    match (&attribute.kind, value) {
        (Kind::Nested(Nesting::Single, nested), value) => visit(nested, value),
        (Kind::Nested(_, nested), Value::List(items)) => {
            items.iter_mut().for_each(|item| visit(nested, item))
        }
        (Kind::Nested(_, nested), Value::Map(items)) => {
            items.iter_mut().for_each(|(_, item)| visit(nested, item))
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests;
