//! serde's own complaints, in words for whoever wrote the configuration: no Rust names.

use std::fmt;

use serde::de::{Error, Expected, Unexpected};

use crate::{path::Step, value::FromValueError};

impl Error for FromValueError {
    fn custom<T: fmt::Display>(message: T) -> Self {
        FromValueError::new(message.to_string())
    }

    fn invalid_type(found: Unexpected<'_>, required: &dyn Expected) -> Self {
        let required = required.to_string();
        // A derived visitor names its Rust type.
        let required = match required.split(' ').next() {
            Some("struct" | "enum" | "unit" | "tuple" | "variant" | "newtype") => {
                "another kind of value"
            }
            _ => &required,
        };
        FromValueError::new(format!("{required} is required, not {found}"))
    }

    fn invalid_value(found: Unexpected<'_>, required: &dyn Expected) -> Self {
        Self::invalid_type(found, required)
    }

    fn unknown_variant(name: &str, known: &'static [&'static str]) -> Self {
        FromValueError::new(match known {
            [] => format!("{name:?} is not allowed here"),
            [only] => format!("{name:?} is not allowed here; only {only:?} is"),
            known => {
                let known: Vec<String> = known.iter().map(|name| format!("{name:?}")).collect();
                format!(
                    "{name:?} is not allowed here; what is: {}",
                    known.join(", ")
                )
            }
        })
    }

    fn missing_field(name: &'static str) -> Self {
        FromValueError::new("a value is required").under(Step::Attribute(name.into()))
    }
}
