//! Small types that say how an attribute behaves. A resource is a plain struct of them: the model, the schema and the
//! documentation at once.
//!
//! | type | attribute |
//! |---|---|
//! | `T` | required |
//! | [`Maybe<T>`] | required; the hook also runs while the value is unknown |
//! | `Option<T>` | optional |
//! | [`Opt<T>`] | optional; the hook also runs while the value is unknown |
//! | [`OptionalComputed<T>`] | optional; where it is not configured the provider fills it in, and it is then kept |
//! | [`Computed<T>`] | set by the provider; unknown in a plan that changes the object, unless the hook sets it |
//! | [`Stable<T>`] | set by the provider once; keeps its value for the life of the object |
//! | [`Replace<F>`] | around any of the above: a changed value makes a new object |
//! | [`Sensitive<F>`] | around any of the above: never shown |
//! | [`WriteOnly<F>`] | configured, never stored: `F` is `Option<T>` or `Opt<T>` |
//! | [`SetOf<T>`] | a set: order has no meaning |

use std::{fmt, marker::PhantomData, ops};

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{
    Deserialize, Deserializer, Serialize, Serializer,
    de::{self, Visitor},
};

/// Name of the unit struct that stands for "unknown" on its way through serde.
pub(crate) const UNKNOWN: &str = "$tf::unknown";
/// Name of the newtype that asks a deserializer for null, unknown or a value.
pub(crate) const THREE_STATE: &str = "$tf::three_state";

/// An optional value: null, unknown (only while planning) or known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Opt<T> {
    /// Not there.
    #[default]
    Null,
    /// Not known yet.
    Unknown,
    /// Known.
    Known(T),
}

impl<T> Opt<T> {
    /// The value, when it is known and not null.
    pub fn known(&self) -> Option<&T> {
        match self {
            Opt::Known(value) => Some(value),
            _ => None,
        }
    }
    /// The value, when it is known and not null.
    pub fn into_known(self) -> Option<T> {
        match self {
            Opt::Known(value) => Some(value),
            _ => None,
        }
    }
    /// Whether the value is not known yet.
    pub fn is_unknown(&self) -> bool {
        matches!(self, Opt::Unknown)
    }
    /// Whether the value is known to be absent.
    pub fn is_null(&self) -> bool {
        matches!(self, Opt::Null)
    }
}

impl<T> From<Option<T>> for Opt<T> {
    fn from(value: Option<T>) -> Self {
        value.map_or(Opt::Null, Opt::Known)
    }
}

impl<T: Serialize> Serialize for Opt<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Opt::Null => serializer.serialize_none(),
            Opt::Unknown => serializer.serialize_unit_struct(UNKNOWN),
            Opt::Known(value) => value.serialize(serializer),
        }
    }
}

struct ThreeState<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for ThreeState<T> {
    type Value = Opt<T>;
    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("null, an unknown value or a value")
    }
    fn visit_unit<E: de::Error>(self) -> Result<Opt<T>, E> {
        Ok(Opt::Unknown)
    }
    fn visit_none<E: de::Error>(self) -> Result<Opt<T>, E> {
        Ok(Opt::Null)
    }
    fn visit_newtype_struct<D: Deserializer<'de>>(self, d: D) -> Result<Opt<T>, D::Error> {
        Option::<T>::deserialize(d).map(Opt::from)
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Opt<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_newtype_struct(THREE_STATE, ThreeState(PhantomData))
    }
}

/// A required value: unknown (only while planning) or known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Maybe<T> {
    /// Not known yet.
    Unknown,
    /// Known.
    Known(T),
}

impl<T> Maybe<T> {
    /// The value, when it is known.
    pub fn known(&self) -> Option<&T> {
        match self {
            Maybe::Known(value) => Some(value),
            Maybe::Unknown => None,
        }
    }
    /// Whether the value is not known yet.
    pub fn is_unknown(&self) -> bool {
        matches!(self, Maybe::Unknown)
    }
}

impl<T> From<T> for Maybe<T> {
    fn from(value: T) -> Self {
        Maybe::Known(value)
    }
}

impl<T: Serialize> Serialize for Maybe<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Maybe::Unknown => serializer.serialize_unit_struct(UNKNOWN),
            Maybe::Known(value) => value.serialize(serializer),
        }
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Maybe<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match Opt::deserialize(deserializer)? {
            Opt::Null => Err(de::Error::custom("a value is required")),
            Opt::Unknown => Ok(Maybe::Unknown),
            Opt::Known(value) => Ok(Maybe::Known(value)),
        }
    }
}

/// The keys that the wrappers put into a JSON schema, read back by [`crate::schema`].
pub(crate) mod flag {
    pub(crate) const OPTIONAL: &str = "x-tf-optional";
    pub(crate) const COMPUTED: &str = "x-tf-computed";
    pub(crate) const STABLE: &str = "x-tf-stable";
    pub(crate) const REPLACE: &str = "x-tf-replace";
    pub(crate) const SENSITIVE: &str = "x-tf-sensitive";
    pub(crate) const WRITE_ONLY: &str = "x-tf-write-only";
    pub(crate) const SET: &str = "x-tf-set";
}

fn flagged<T: JsonSchema>(generator: &mut SchemaGenerator, flags: &[&str]) -> Schema {
    let mut schema = generator.subschema_for::<T>();
    for flag in flags {
        schema.insert((*flag).to_owned(), true.into());
    }
    schema
}

macro_rules! schema_of {
    ($wrapper:ident, [$($flag:ident),*]) => {
        impl<T: JsonSchema> JsonSchema for $wrapper<T> {
            fn schema_name() -> std::borrow::Cow<'static, str> {
                format!("{}_{}", stringify!($wrapper), T::schema_name()).into()
            }
            fn inline_schema() -> bool {
                true
            }
            fn json_schema(generator: &mut SchemaGenerator) -> Schema {
                flagged::<T>(generator, &[$(flag::$flag),*])
            }
        }
    };
}

macro_rules! wrapper {
    ($(#[$doc:meta])* $name:ident, $inner:ty, [$($flag:ident),*]) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
        #[serde(transparent, bound(serialize = "T: Serialize", deserialize = "T: Deserialize<'de>"))]
        pub struct $name<T>(pub $inner);
        impl<T> ops::Deref for $name<T> {
            type Target = $inner;
            fn deref(&self) -> &$inner {
                &self.0
            }
        }
        impl<T> ops::DerefMut for $name<T> {
            fn deref_mut(&mut self) -> &mut $inner {
                &mut self.0
            }
        }
        schema_of!($name, [$($flag),*]);
    };
}

schema_of!(Opt, [OPTIONAL]);
schema_of!(Maybe, []);
wrapper!(
    /// Set by the provider. Unknown in a plan that changes the object, unless the plan hook sets it.
    Computed, Opt<T>, [COMPUTED]
);
wrapper!(
    /// Set by the provider when the object is made, and kept for its life.
    Stable, Opt<T>, [COMPUTED, STABLE]
);
wrapper!(
    /// Optional; where it is not configured the provider fills it in, and keeps it.
    OptionalComputed, Opt<T>, [OPTIONAL, COMPUTED, STABLE]
);
wrapper!(
    /// A changed value makes a new object.
    Replace, T, [REPLACE]
);
wrapper!(
    /// Never shown: not by Terraform, and not by `Debug`.
    Sensitive, T, [SENSITIVE]
);
wrapper!(
    /// Configured, but never stored: null everywhere but in the configuration that a hook is handed.
    WriteOnly, T, [WRITE_ONLY]
);

macro_rules! shown {
    ($($name:ident),*) => { $(impl<T: fmt::Debug> fmt::Debug for $name<T> {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            self.0.fmt(f)
        }
    })* };
}
shown!(Computed, Stable, OptionalComputed, Replace, SetOf);
macro_rules! hidden {
    ($($name:ident),*) => { $(impl<T> fmt::Debug for $name<T> {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("(sensitive value)")
        }
    })* };
}
hidden!(Sensitive, WriteOnly);

macro_rules! from_known {
    ($($name:ident),*) => { $(
        impl<T> From<T> for $name<T> {
            fn from(value: T) -> Self {
                $name(Opt::Known(value))
            }
        }
        impl<T> $name<T> {
            /// Not known yet.
            pub fn unknown() -> Self {
                $name(Opt::Unknown)
            }
            /// Known to be absent.
            pub fn null() -> Self {
                $name(Opt::Null)
            }
        }
    )* };
}
from_known!(Computed, Stable, OptionalComputed);

macro_rules! collected {
    ($($name:ident),*) => { $(impl<T, C: FromIterator<T>> FromIterator<T> for $name<C> {
        fn from_iter<I: IntoIterator<Item = T>>(items: I) -> Self {
            C::from_iter(items).into()
        }
    })* };
}
collected!(Computed, Stable, OptionalComputed);

impl<T> FromIterator<T> for SetOf<T> {
    fn from_iter<I: IntoIterator<Item = T>>(items: I) -> Self {
        SetOf(items.into_iter().collect())
    }
}

/// A set: order has no meaning, and equal elements are one.
#[derive(Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct SetOf<T>(pub Vec<T>);

impl<T> ops::Deref for SetOf<T> {
    type Target = Vec<T>;
    fn deref(&self) -> &Vec<T> {
        &self.0
    }
}

impl<T: JsonSchema> JsonSchema for SetOf<T> {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        format!("SetOf_{}", T::schema_name()).into()
    }
    fn inline_schema() -> bool {
        true
    }
    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        flagged::<Vec<T>>(generator, &[flag::SET])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn debug_never_shows_a_secret() {
        let text = format!(
            "{:?} {:?}",
            Sensitive("hunter2"),
            WriteOnly(Some("hunter2"))
        );
        assert!(!text.contains("hunter2"), "{text}");
    }
}
