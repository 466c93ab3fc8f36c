//! What a configured value must satisfy, as far as the schema alone says. Unknown and null values satisfy everything: Terraform
//! asks again when they are known.

use regex_lite::Regex;

use super::{Attributes, Kind, Nesting, Schema};
use crate::{
    diagnostic::Diagnostics,
    path::Trail,
    value::{InOrder, Value},
};

/// One condition on a value.
#[derive(Debug, Clone)]
pub enum Check {
    /// One of these strings.
    OneOf(Vec<String>),
    /// A number between these, both included.
    Range {
        /// The smallest.
        min: Option<f64>,
        /// The largest.
        max: Option<f64>,
        /// Whether fractions are refused.
        whole: bool,
    },
    /// A string of this many characters.
    Length {
        /// At least.
        min: Option<u64>,
        /// At most.
        max: Option<u64>,
    },
    /// A collection of this many elements.
    Items {
        /// At least.
        min: Option<u64>,
        /// At most.
        max: Option<u64>,
    },
    /// A string that matches.
    Pattern(Regex),
    /// Each element of a collection.
    Each(Vec<Check>),
}

impl PartialEq for Check {
    fn eq(&self, other: &Self) -> bool {
        format!("{self:?}") == format!("{other:?}")
    }
}

impl Check {
    /// A string that matches the regular expression `pattern`.
    ///
    /// # Errors
    /// Where `pattern` is not a regular expression.
    pub fn pattern(pattern: &str) -> Result<Self, String> {
        Regex::new(pattern)
            .map(Check::Pattern)
            .map_err(|why| format!("the pattern {pattern:?} is not a regular expression: {why}"))
    }

    /// What must hold, as the end of a sentence that starts with "must".
    pub fn text(&self) -> String {
        let between = |min: Option<String>, max: Option<String>, unit: &str| match (min, max) {
            (Some(min), Some(max)) if min == max => format!("{min}{unit}"),
            (Some(min), Some(max)) => format!("{min} to {max}{unit}"),
            (Some(min), None) => format!("at least {min}{unit}"),
            (None, Some(max)) => format!("at most {max}{unit}"),
            (None, None) => format!("any number{unit}"),
        };
        let number = |n: &Option<f64>| n.map(|n| n.to_string());
        let count = |n: &Option<u64>| n.map(|n| n.to_string());
        match self {
            Check::OneOf(values) => format!(
                "be one of {}",
                values
                    .iter()
                    .map(|v| format!("{v:?}"))
                    .collect::<Vec<_>>()
                    .join(", ")
            ),
            Check::Range {
                min: None,
                max: None,
                whole: true,
            } => "be a whole number".to_owned(),
            Check::Range {
                min: None,
                max: None,
                whole: false,
            } => "be a number".to_owned(),
            Check::Range { min, max, whole } => {
                format!(
                    "be {}{}",
                    if *whole { "a whole number, " } else { "" },
                    between(number(min), number(max), "")
                )
            }
            Check::Length {
                min: Some(1),
                max: None,
            }
            | Check::Items {
                min: Some(1),
                max: None,
            } => "not be empty".to_owned(),
            Check::Length { min, max } => {
                format!("have {}", between(count(min), count(max), " characters"))
            }
            Check::Items { min, max } => {
                format!("have {}", between(count(min), count(max), " elements"))
            }
            Check::Pattern(pattern) => format!("match {}", pattern.as_str()),
            Check::Each(checks) => format!(
                "have elements that {}",
                checks
                    .iter()
                    .map(Check::text)
                    .collect::<Vec<_>>()
                    .join(" and ")
            ),
        }
    }

    fn holds(&self, value: &Value) -> bool {
        match (self, value) {
            (Check::OneOf(values), Value::String(text)) => values.contains(text),
            (Check::Range { min, max, whole }, Value::Number(number)) => {
                let n = number.to_f64();
                min.is_none_or(|min| n >= min)
                    && max.is_none_or(|max| n <= max)
                    && (!whole || number.is_whole())
            }
            (Check::Length { min, max }, Value::String(text)) => {
                within(text.chars().count(), *min, *max)
            }
            (Check::Items { min, max }, Value::List(items)) => within(items.len(), *min, *max),
            (Check::Items { min, max }, Value::Map(items)) => within(items.len(), *min, *max),
            (Check::Pattern(pattern), Value::String(text)) => pattern.is_match(text),
            _ => true,
        }
    }
}

fn within(len: usize, min: Option<u64>, max: Option<u64>) -> bool {
    let len = len as u64;
    min.is_none_or(|min| len >= min) && max.is_none_or(|max| len <= max)
}

pub(super) fn check(schema: &Schema, config: &Value) -> Diagnostics {
    let mut report = Diagnostics::none();
    attributes(&schema.attributes, config, &Trail::Root, false, &mut report);
    report
}

fn attributes(
    schema: &Attributes,
    value: &Value,
    path: &Trail<'_>,
    secret: bool,
    report: &mut Diagnostics,
) {
    let mut values = InOrder::of(value);
    for (name, attribute) in schema {
        let Some(value) = values.find(name) else {
            continue;
        };
        let path = &Trail::Attribute(path, name);
        let secret = secret || attribute.sensitive || attribute.write_only;
        one(&attribute.checks, value, path, secret, report);
        // Terraform itself says nothing of it before 1.15.
        if let Some(instead) = attribute.deprecated.as_ref().filter(|_| !value.is_null()) {
            let path = path.to_path();
            report.warning(path.clone(), format!("{path} is deprecated"), instead);
        }
        let Kind::Nested(nesting, nested) = &attribute.kind else {
            continue;
        };
        match (nesting, value) {
            (Nesting::Single, object) => attributes(nested, object, path, secret, report),
            (Nesting::List, Value::List(items)) => {
                for (index, item) in items.iter().enumerate() {
                    attributes(nested, item, &Trail::Index(path, index), secret, report);
                }
            }
            // Terraform has no path into a set.
            (Nesting::Set, Value::List(items)) => items
                .iter()
                .for_each(|item| attributes(nested, item, path, secret, report)),
            (Nesting::Map, Value::Map(items)) => {
                for (key, item) in items {
                    attributes(nested, item, &Trail::Key(path, key), secret, report);
                }
            }
            _ => {}
        }
    }
}

fn one(checks: &[Check], value: &Value, path: &Trail<'_>, secret: bool, report: &mut Diagnostics) {
    for check in checks {
        if let Check::Each(checks) = check {
            match value {
                Value::List(items) => {
                    for (index, item) in items.iter().enumerate() {
                        one(checks, item, &Trail::Index(path, index), secret, report);
                    }
                }
                Value::Map(items) => {
                    for (key, item) in items {
                        one(checks, item, &Trail::Key(path, key), secret, report);
                    }
                }
                _ => {}
            }
        } else if !check.holds(value) {
            let found = match value {
                _ if secret => "a sensitive value that does not".to_owned(),
                Value::String(text) => format!("{:?}", text.chars().take(200).collect::<String>()),
                Value::Number(number) => number.to_string(),
                Value::List(items) => format!("{} elements", items.len()),
                Value::Map(items) => format!("{} elements", items.len()),
                _ => "another type".to_owned(),
            };
            let path = path.to_path();
            report.error(
                path.clone(),
                format!("Invalid value for {path}"),
                format!("{path} must {}; it is {found}.", check.text()),
            );
        }
    }
}
