//! What may be known of a value that is not known yet.

use crate::number::Number;

/// What Terraform promises of an unknown value. Ignoring it is always allowed; sending one binds the provider.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Refinement {
    /// The value won't be null.
    pub not_null: bool,
    /// A string begins like this.
    pub prefix: Option<String>,
    /// A number is not below this.
    pub min: Option<Bound>,
    /// A number is not above this.
    pub max: Option<Bound>,
    /// A collection has at least as many elements.
    pub min_length: Option<u64>,
    /// A collection has at most as many elements.
    pub max_length: Option<u64>,
}

/// An end of a range of numbers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bound {
    /// The end.
    pub number: Number,
    /// Whether the end itself belongs to the range.
    pub inclusive: bool,
}

impl Refinement {
    /// Whether nothing is promised.
    pub fn is_empty(&self) -> bool {
        *self == Refinement::default()
    }
}
