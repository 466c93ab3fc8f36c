//! The `## Schema` section of a page: attributes by whether they are set or read, nested ones below with an anchor each.

use tf_provider_sdk::{
    schema::{Attribute, Attributes, Check, Kind, Nesting, Schema},
    types::Type,
    value::Value,
};

const WRITE_ONLY: &str = "> **NOTE**: [Write-only arguments](https://developer.hashicorp.com/terraform/language/resources/ephemeral#write-only-arguments) are supported in Terraform 1.11 and later.";

/// The section.
pub(super) fn render(schema: &Schema) -> String {
    let mut text = "## Schema\n".to_owned();
    let mut nested = Vec::new();
    for (heading, attributes) in groups(&schema.attributes) {
        text.push_str(&format!("\n### {heading}\n\n"));
        if attributes.iter().any(|(_, attribute)| attribute.write_only) {
            text.push_str(&format!("{WRITE_ONLY}\n\n"));
        }
        list(&mut text, &mut nested, &[], &attributes);
    }
    // Each may add more of its own: they come right after it.
    while !nested.is_empty() {
        let (path, attributes) = nested.remove(0);
        let mut inner = Vec::new();
        text.push_str(&format!(
            "\n<a id=\"{}\"></a>\n### Nested Schema for `{}`\n",
            anchor(&path),
            path.join(".")
        ));
        for (heading, attributes) in groups(attributes) {
            text.push_str(&format!("\n{heading}:\n\n"));
            list(&mut text, &mut inner, &path, &attributes);
        }
        nested.splice(0..0, inner);
    }
    text
}

type Named<'a> = Vec<(&'a str, &'a Attribute)>;

/// The attributes by heading; a heading without any is left out.
fn groups(attributes: &Attributes) -> Vec<(&'static str, Named<'_>)> {
    let of = |wanted: fn(&Attribute) -> bool| -> Named<'_> {
        attributes
            .iter()
            .filter(|(_, attribute)| wanted(attribute))
            .map(|(name, attribute)| (name.as_str(), attribute))
            .collect()
    };
    [
        ("Required", of(|it| it.required)),
        ("Optional", of(|it| it.optional)),
        ("Read-Only", of(|it| !it.required && !it.optional)),
    ]
    .into_iter()
    .filter(|(_, attributes)| !attributes.is_empty())
    .collect()
}

fn list<'a>(
    text: &mut String,
    nested: &mut Vec<(Vec<String>, &'a Attributes)>,
    above: &[String],
    attributes: &[(&str, &'a Attribute)],
) {
    for (name, attribute) in attributes {
        let mut line = format!("- `{name}` ({})", notes(attribute).join(", "));
        for part in [said(attribute), deprecation(attribute)]
            .into_iter()
            .filter(|part| !part.is_empty())
        {
            line.push(' ');
            line.push_str(&part);
        }
        if let Some((_, inner)) = attribute.nested() {
            let mut path = above.to_vec();
            path.push((*name).to_owned());
            line.push_str(&format!(
                " (see [below for nested schema](#{}))",
                anchor(&path)
            ));
            nested.push((path, inner));
        }
        text.push_str(&line);
        text.push('\n');
    }
}

fn anchor(path: &[String]) -> String {
    format!("nestedatt--{}", path.join("--"))
}

fn notes(attribute: &Attribute) -> Vec<String> {
    let mut notes = vec![match &attribute.kind {
        Kind::Plain(ty) => type_name(ty),
        Kind::Nested(Nesting::Single, _) => "Attributes".to_owned(),
        Kind::Nested(nesting, _) => format!("Attributes {nesting:?}"),
    }];
    if attribute.sensitive {
        notes.push("Sensitive".to_owned());
    }
    if attribute.write_only {
        notes.push("Write-only".to_owned());
    }
    if attribute.deprecated.is_some() {
        notes.push("Deprecated".to_owned());
    }
    notes
}

/// A type in the registries' words: `Map of String`.
pub(super) fn type_name(ty: &Type) -> String {
    match ty {
        Type::String => "String".to_owned(),
        Type::Number => "Number".to_owned(),
        Type::Bool => "Boolean".to_owned(),
        Type::Dynamic => "Dynamic".to_owned(),
        Type::List(element) => format!("List of {}", type_name(element)),
        Type::Set(element) => format!("Set of {}", type_name(element)),
        Type::Map(element) => format!("Map of {}", type_name(element)),
        Type::Tuple(_) => "Tuple".to_owned(),
        Type::Object { .. } => "Object".to_owned(),
    }
}

fn deprecation(attribute: &Attribute) -> String {
    attribute
        .deprecated
        .as_ref()
        .map_or_else(String::new, |why| format!("**Deprecated:** {why}"))
}

/// The description, and what the schema knows beyond it: conditions, default, replacement. What the author wrote is not said twice.
fn said(attribute: &Attribute) -> String {
    let description = attribute
        .description
        .split_whitespace()
        .collect::<Vec<_>>()
        .join(" ");
    let mut sentences = vec![description.clone()];
    if attribute.required || attribute.optional {
        let new: Vec<_> = attribute
            .checks
            .iter()
            .filter(|check| !is_said(check, &description))
            .map(condition)
            .collect();
        if !new.is_empty() {
            sentences.push(format!("Must {}.", new.join(" and ")));
        }
    }
    if let Some(default) = attribute.default.as_ref().and_then(literal)
        && !description.contains("efault")
    {
        sentences.push(format!("Default: `{default}`."));
    }
    if attribute.replace && !description.contains("makes a new") {
        sentences.push("A new value makes a new object.".to_owned());
    }
    sentences.retain(|sentence| !sentence.is_empty());
    sentences.join(" ")
}

fn is_said(check: &Check, description: &str) -> bool {
    match check {
        Check::OneOf(values) => values
            .iter()
            .all(|value| description.contains(&format!("`{value}`"))),
        Check::Range {
            min: Some(min),
            max: Some(max),
            ..
        } => description.contains(&format!("{min} to {max}")),
        // That a number of things is whole needs no words, nor that a name is not empty.
        Check::Range {
            min: None,
            max: None,
            ..
        } => true,
        Check::Length {
            min: Some(1),
            max: None,
        } => true,
        Check::Each(checks) => checks.iter().all(|check| is_said(check, description)),
        _ => false,
    }
}

/// What must hold, as the end of a sentence, in Markdown.
fn condition(check: &Check) -> String {
    match check {
        Check::OneOf(values) => {
            let values: Vec<_> = values.iter().map(|value| format!("`{value}`")).collect();
            format!("be one of {}", values.join(", "))
        }
        Check::Pattern(pattern) => format!("match `{}`", pattern.as_str()),
        Check::Each(checks) => {
            let each: Vec<_> = checks.iter().map(condition).collect();
            format!("have elements that {}", each.join(" and "))
        }
        other => other.text(),
    }
}

/// A default as it would be written in a configuration; `None` for one that says nothing.
fn literal(value: &Value) -> Option<String> {
    match value {
        Value::Bool(value) => Some(value.to_string()),
        Value::Number(value) => Some(value.to_string()),
        Value::String(value) => Some(format!("{value:?}")),
        Value::List(items) => {
            let items: Option<Vec<_>> = items.iter().map(literal).collect();
            Some(format!("[{}]", items?.join(", ")))
        }
        Value::Map(items) => {
            let items: Option<Vec<_>> = items
                .iter()
                .map(|(key, value)| Some(format!("{key} = {}", literal(value)?)))
                .collect();
            Some(format!("{{ {} }}", items?.join(", ")))
        }
        Value::Null | Value::Unknown(_) | Value::Dynamic(_) => None,
    }
}
