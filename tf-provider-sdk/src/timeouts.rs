//! The `timeouts` attribute of a resource.

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{diagnostic::Diagnostics, path::Path};

/// How long each operation may take, as a number with a unit: `90s`, `10m`, `1h30m`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Timeouts {
    /// Limit for making the object.
    pub create: Option<String>,
    /// Limit for reading it.
    pub read: Option<String>,
    /// Limit for changing it.
    pub update: Option<String>,
    /// Limit for deleting it.
    pub delete: Option<String>,
}

/// What is being done to an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operation {
    /// Making it.
    Create,
    /// Reading it.
    Read,
    /// Changing it.
    Update,
    /// Deleting it.
    Delete,
}

impl Timeouts {
    /// The limit for `operation`, if one is configured. One that can't be read was refused by [`Timeouts::check`].
    pub fn get(&self, operation: Operation) -> Option<Duration> {
        let text = match operation {
            Operation::Create => &self.create,
            Operation::Read => &self.read,
            Operation::Update => &self.update,
            Operation::Delete => &self.delete,
        };
        text.as_deref().and_then(parse_duration)
    }

    /// Refuses limits that are not durations.
    pub fn check(&self, report: &mut Diagnostics) {
        for (name, text) in [
            ("create", &self.create),
            ("read", &self.read),
            ("update", &self.update),
            ("delete", &self.delete),
        ] {
            if let Some(text) = text
                .as_deref()
                .filter(|text| parse_duration(text).is_none())
            {
                report.error(
                    Path::from("timeouts").then(crate::path::Step::Attribute(name.into())),
                    "Invalid timeout",
                    format!("timeouts.{name} is {text:?}. Write a number with a unit: \"90s\", \"10m\" or \"1h30m\"."),
                );
            }
        }
    }
}

/// Reads `1h30m`, `90s`, `500ms`, `1.5h`: positive, in units from `ms` to `h`.
pub fn parse_duration(text: &str) -> Option<Duration> {
    let mut rest = text.trim();
    let mut seconds = 0.0;
    while !rest.is_empty() {
        let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let number: f64 = rest[..end].parse().ok()?;
        rest = &rest[end..];
        let end = rest
            .find(|c: char| c.is_ascii_digit() || c == '.')
            .unwrap_or(rest.len());
        seconds += number
            * match &rest[..end] {
                "ms" => 0.001,
                "s" => 1.0,
                "m" => 60.0,
                "h" => 3600.0,
                _ => return None,
            };
        rest = &rest[end..];
    }
    (seconds > 0.0)
        .then(|| Duration::try_from_secs_f64(seconds).ok())
        .flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_read_as_go_writes_them() {
        for (text, seconds) in [
            ("90s", 90.0),
            ("10m", 600.0),
            ("1h30m", 5400.0),
            ("1.5h", 5400.0),
            ("500ms", 0.5),
        ] {
            assert_eq!(
                parse_duration(text),
                Some(Duration::from_secs_f64(seconds)),
                "{text}"
            );
        }
        for text in [
            "",
            "0s",
            "10",
            "m",
            "-5m",
            "1d",
            "ten minutes",
            "1..5h",
            "99999999999999999999h",
        ] {
            assert_eq!(parse_duration(text), None, "{text}");
        }
    }
}
