//! The rules that Terraform's core applies to plans and results, written from their description.

use crate::{
    schema::{Attribute, Attributes, Kind, Nesting},
    types::Type,
    value::{Name, Value},
};

/// Core's merge of configuration and prior state: what a plan starts from.
pub(super) fn proposed_new(attributes: &Attributes, prior: &Value, config: &Value) -> Value {
    if config.is_null() || config.is_unknown() {
        return config.clone();
    }
    let of = |(name, attribute): (&Name, &Attribute)| {
        (
            name.clone(),
            proposed(attribute, prior.attribute(name), config.attribute(name)),
        )
    };
    Value::Map(attributes.iter().map(of).collect())
}

fn proposed(attribute: &Attribute, prior: &Value, config: &Value) -> Value {
    if config.is_null() {
        return if attribute.computed {
            prior.clone()
        } else {
            Value::Null
        };
    }
    let Kind::Nested(nesting, nested) = &attribute.kind else {
        return config.clone();
    };
    match (nesting, config) {
        (Nesting::Single, config) => proposed_new(nested, prior, config),
        (Nesting::List, Value::List(items)) => Value::List(
            items
                .iter()
                .enumerate()
                .map(|(index, item)| {
                    proposed_new(
                        nested,
                        prior
                            .as_list()
                            .and_then(|p| p.get(index))
                            .unwrap_or(&Value::Null),
                        item,
                    )
                })
                .collect(),
        ),
        (Nesting::Map, Value::Map(items)) => Value::Map(
            items
                .iter()
                .map(|(key, item)| {
                    (
                        key.clone(),
                        proposed_new(nested, prior.attribute(key), item),
                    )
                })
                .collect(),
        ),
        // Elements of a set are matched by their configured parts; here they have no others.
        (Nesting::Set, Value::List(items)) => Value::List(
            items
                .iter()
                .map(|item| proposed_new(nested, &Value::Null, item))
                .collect(),
        ),
        (_, config) => config.clone(),
    }
}

/// P1, P2, P6, P8: where core would say "Provider produced invalid plan".
pub(super) fn plan_faults(
    attributes: &Attributes,
    config: &Value,
    prior: &Value,
    planned: &Value,
) -> Vec<String> {
    let mut faults = Vec::new();
    object(attributes, config, prior, planned, "", &mut faults);
    faults
}

fn object(
    attributes: &Attributes,
    config: &Value,
    prior: &Value,
    planned: &Value,
    at: &str,
    faults: &mut Vec<String>,
) {
    for (name, attribute) in attributes {
        let at = format!("{at}.{name}");
        let (config, prior, planned) = (
            config.attribute(name),
            prior.attribute(name),
            planned.attribute(name),
        );
        let ty = attribute.ty();
        if attribute.write_only {
            if !planned.is_null() {
                faults.push(format!("{at}: write-only value in a plan"));
            }
            continue;
        }
        if planned.equals(config, &ty) {
            continue;
        }
        if config.is_null() {
            if !attribute.computed {
                faults.push(format!("{at}: planned for a value that is not configured"));
            }
            continue;
        }
        if !prior.is_null() && planned.equals(prior, &ty) {
            continue;
        }
        let Kind::Nested(nesting, nested) = &attribute.kind else {
            faults.push(format!(
                "{at}: planned value differs from the configured one"
            ));
            continue;
        };
        if planned.is_null() || planned.is_unknown() || config.is_unknown() {
            faults.push(format!("{at}: null or unknown for a configured object"));
            continue;
        }
        match (nesting, config, planned) {
            (Nesting::Single, config, planned) => {
                object(nested, config, prior, planned, &at, faults)
            }
            (Nesting::List, Value::List(configs), Value::List(items))
                if configs.len() == items.len() =>
            {
                for (i, (config, item)) in configs.iter().zip(items).enumerate() {
                    let prior = prior
                        .as_list()
                        .and_then(|p| p.get(i))
                        .unwrap_or(&Value::Null);
                    object(nested, config, prior, item, &format!("{at}[{i}]"), faults);
                }
            }
            (Nesting::Map, Value::Map(configs), Value::Map(items))
                if configs.keys().eq(items.keys()) =>
            {
                for (key, config) in configs {
                    object(
                        nested,
                        config,
                        prior.attribute(key),
                        &items[key],
                        &format!("{at}[{key}]"),
                        faults,
                    );
                }
            }
            (Nesting::Set, Value::List(configs), Value::List(items))
                if configs.len() == items.len() =>
            {
                // Each element must correspond to a configured one.
                for item in items {
                    let fits = configs.iter().any(|config| {
                        let mut own = Vec::new();
                        object(nested, config, &Value::Null, item, &at, &mut own);
                        own.is_empty()
                    });
                    if !fits {
                        faults.push(format!("{at}: an element that is not configured"));
                    }
                }
            }
            _ => faults.push(format!("{at}: another number of elements than configured")),
        }
    }
}

/// A2: where core would say "Provider produced inconsistent result after apply".
pub(super) fn apply_faults(ty: &Type, planned: &Value, actual: &Value) -> Vec<String> {
    let mut faults = Vec::new();
    compatible(ty, planned, actual, "", &mut faults);
    if !actual.is_wholly_known() {
        faults.push("unknown values after apply".to_owned());
    }
    faults
}

fn compatible(ty: &Type, planned: &Value, actual: &Value, at: &str, faults: &mut Vec<String>) {
    if planned.is_unknown() {
        return;
    }
    match (ty, planned, actual) {
        (Type::List(element), Value::List(a), Value::List(b)) if a.len() == b.len() => {
            a.iter()
                .zip(b)
                .enumerate()
                .for_each(|(i, (a, b))| compatible(element, a, b, &format!("{at}[{i}]"), faults));
        }
        (Type::Set(element), Value::List(a), Value::List(b)) if b.len() <= a.len() => {
            let fits = |planned: &Value, actual: &Value| {
                let mut own = Vec::new();
                compatible(element, planned, actual, at, &mut own);
                own.is_empty()
            };
            let both = a.iter().all(|a| b.iter().any(|b| fits(a, b)))
                && b.iter().all(|b| a.iter().any(|a| fits(a, b)));
            if !both {
                faults.push(format!("{at}: set elements do not correlate"));
            }
        }
        (Type::Map(element), Value::Map(a), Value::Map(b)) if a.keys().eq(b.keys()) => {
            a.iter().for_each(|(key, a)| {
                compatible(element, a, &b[key], &format!("{at}[{key}]"), faults)
            });
        }
        (Type::Object { attributes, .. }, Value::Map(a), Value::Map(b)) => {
            attributes.iter().for_each(|(name, ty)| {
                compatible(ty, &a[name], &b[name], &format!("{at}.{name}"), faults)
            });
        }
        (ty, planned, actual) => {
            if !planned.equals(actual, ty) {
                faults.push(format!("{at}: planned {planned:?}, got {actual:?}"));
            }
        }
    }
}

/// A1: where core would say "Provider produced inconsistent final plan".
pub(super) fn final_plan_faults(first: &Value, second: &Value) -> Vec<String> {
    let mut faults = Vec::new();
    kept(first, second, "", &mut faults);
    faults
}

fn kept(first: &Value, second: &Value, at: &str, faults: &mut Vec<String>) {
    match (first, second) {
        (Value::Unknown(_), _) => {}
        (Value::List(a), Value::List(b)) if a.len() == b.len() => {
            a.iter()
                .zip(b)
                .enumerate()
                .for_each(|(i, (a, b))| kept(a, b, &format!("{at}[{i}]"), faults));
        }
        (Value::Map(a), Value::Map(b)) if a.keys().eq(b.keys()) => {
            a.iter()
                .for_each(|(key, a)| kept(a, &b[key], &format!("{at}.{key}"), faults));
        }
        (a, b) => {
            if a != b {
                faults.push(format!("{at}: {a:?} became {b:?}"));
            }
        }
    }
}

/// Whether a value has the type, whole objects included.
pub(super) fn conforms(value: &Value, ty: &Type, unknown: bool) -> bool {
    match (value, ty) {
        (Value::Null, _) => true,
        (Value::Unknown(_), _) => unknown,
        (Value::String(_), Type::String)
        | (Value::Number(_), Type::Number)
        | (Value::Bool(_), Type::Bool) => true,
        (Value::List(items), Type::List(element) | Type::Set(element)) => {
            items.iter().all(|item| conforms(item, element, unknown))
        }
        (Value::Map(items), Type::Map(element)) => {
            items.values().all(|item| conforms(item, element, unknown))
        }
        (Value::Map(items), Type::Object { attributes, .. }) => {
            items.keys().eq(attributes.keys())
                && items
                    .iter()
                    .all(|(name, item)| conforms(item, &attributes[name], unknown))
        }
        _ => false,
    }
}
