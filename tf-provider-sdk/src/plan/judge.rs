//! A planned value, judged by the rules of Terraform's core.

use super::member;
use crate::{
    path::{Path, Trail},
    schema::{Attributes, Kind, Nesting, Schema},
    value::{InOrder, Value},
};

/// Where a planned value breaks the rules that Terraform's core will apply: the fault of a hook, named so that its author finds it.
pub fn violations(
    schema: &Schema,
    config: &Value,
    prior: &Value,
    planned: &Value,
) -> Vec<(Path, &'static str)> {
    let mut found = Vec::new();
    judge(
        &schema.attributes,
        config,
        prior,
        planned,
        &Trail::Root,
        &mut found,
    );
    found
}

const STORES_WRITE_ONLY: &str = "a write-only value was planned, and would be stored";

/// Whether a write-only value is somewhere in the objects of a nested attribute.
fn stores_write_only(nesting: Nesting, attributes: &Attributes, value: &Value) -> bool {
    let in_object = |object: &Value| {
        let mut object = InOrder::of(object);
        attributes.iter().any(|(name, attribute)| {
            let value = object.member(name);
            match &attribute.kind {
                _ if attribute.write_only => !value.is_null(),
                Kind::Nested(nesting, nested) => stores_write_only(*nesting, nested, value),
                Kind::Plain(_) => false,
            }
        })
    };
    match (nesting, value) {
        (_, Value::List(items)) => items.iter().any(in_object),
        (Nesting::Map, Value::Map(items)) => items.values().any(in_object),
        (_, Value::Map(_)) => in_object(value),
        _ => false,
    }
}

fn judge(
    attributes: &Attributes,
    config: &Value,
    prior: &Value,
    planned: &Value,
    path: &Trail<'_>,
    found: &mut Vec<(Path, &'static str)>,
) {
    let [mut config, mut prior, mut planned] = [config, prior, planned].map(InOrder::of);
    for (name, attribute) in attributes {
        let (config, prior, planned) = (
            config.member(name),
            prior.member(name),
            planned.member(name),
        );
        let path = &Trail::Attribute(path, name);
        if attribute.write_only {
            if !planned.is_null() {
                found.push((
                    path.to_path(),
                    "a write-only value was planned, and would be stored",
                ));
            }
            continue;
        }
        if config.is_null() {
            if !attribute.computed && !planned.is_null() {
                found.push((
                    path.to_path(),
                    "a value was planned that is neither configured nor computed",
                ));
            } else if let Kind::Nested(nesting, nested) = &attribute.kind
                && stores_write_only(*nesting, nested, planned)
            {
                found.push((path.to_path(), STORES_WRITE_ONLY));
            }
            continue;
        }
        let mut nested = |config: &Value,
                          prior: &Value,
                          planned: &Value,
                          path: &Trail<'_>,
                          attributes: &Attributes| {
            if planned.is_null() != config.is_null() || planned.is_unknown() != config.is_unknown()
            {
                found.push((
                    path.to_path(),
                    "the planned value is not the configured one",
                ));
            } else {
                judge(attributes, config, prior, planned, path, found);
            }
        };
        match (&attribute.kind, config, planned) {
            (Kind::Nested(Nesting::Single, attributes), Value::Map(_), _) => {
                nested(config, prior, planned, path, attributes)
            }
            (Kind::Nested(Nesting::List, attributes), Value::List(configs), Value::List(items))
                if configs.len() == items.len() =>
            {
                for (index, (config, item)) in configs.iter().zip(items).enumerate() {
                    let prior = match prior {
                        Value::List(priors) => priors.get(index).unwrap_or(&Value::Null),
                        _ => &Value::Null,
                    };
                    nested(config, prior, item, &Trail::Index(path, index), attributes);
                }
            }
            (Kind::Nested(Nesting::Set, _), Value::List(configs), Value::List(items))
                if configs.len() == items.len() => {}
            (Kind::Nested(Nesting::Map, attributes), Value::Map(configs), Value::Map(items))
                if configs.len() == items.len()
                    && configs.keys().all(|key| items.contains_key(key)) =>
            {
                for (key, config) in configs {
                    let path = &Trail::Key(path, key);
                    nested(
                        config,
                        member(prior, key),
                        member(planned, key),
                        path,
                        attributes,
                    );
                }
            }
            _ => {
                if !attribute.same(planned, config)
                    && (prior.is_null() || !attribute.same(planned, prior))
                {
                    found.push((
                        path.to_path(),
                        "the planned value is not the configured one",
                    ));
                }
            }
        }
    }
}
