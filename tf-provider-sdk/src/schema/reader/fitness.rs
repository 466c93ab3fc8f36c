//! What fits where: Terraform refuses some attributes in some places, and others would be lost silently.

use super::Shape;
use crate::{
    schema::{Attribute, Attributes, Kind, object_type},
    types::Type,
};

pub(super) fn holds_write_only(attributes: &Attributes) -> bool {
    attributes.values().any(|attribute| {
        let nested = matches!(&attribute.kind, Kind::Nested(_, nested) if holds_write_only(nested));
        attribute.write_only || nested
    })
}

/// The first attribute that has more than a type.
pub(super) fn behaves(attributes: &Attributes) -> Option<&str> {
    attributes.iter().find_map(|(name, attribute)| {
        let inner = match &attribute.kind {
            Kind::Nested(_, nested) => behaves(nested).is_some(),
            Kind::Plain(_) => false,
        };
        let more = attribute.computed
            || attribute.sensitive
            || attribute.write_only
            || attribute.replace
            || inner;
        more.then_some(name.as_str())
    })
}

/// Whether a value of any type is in it: Terraform refuses that in a set.
pub(super) fn holds_dynamic(shape: &Shape) -> bool {
    fn within(ty: &Type) -> bool {
        match ty {
            Type::Dynamic => true,
            Type::List(element) | Type::Set(element) | Type::Map(element) => within(element),
            Type::Tuple(elements) => elements.iter().any(within),
            Type::Object { attributes, .. } => attributes.values().any(within),
            Type::String | Type::Number | Type::Bool => false,
        }
    }
    match shape {
        Shape::Plain(ty) => within(ty),
        Shape::Object(attributes) | Shape::Nested(_, attributes) => {
            within(&object_type(attributes))
        }
    }
}

pub(super) fn unfit_for_a_set(attributes: &Attributes) -> bool {
    attributes.values().any(|attribute| {
        let nested = matches!(&attribute.kind, Kind::Nested(_, nested) if unfit_for_a_set(nested));
        attribute.computed || attribute.write_only || nested
    })
}

/// Inside a computed attribute everything is computed.
pub(super) fn make_computed(attribute: &mut Attribute) {
    attribute.required = false;
    attribute.optional = false;
    attribute.computed = true;
    attribute.default = None;
    attribute.checks.clear();
    if let Kind::Nested(_, attributes) = &mut attribute.kind {
        attributes.values_mut().for_each(make_computed);
    }
}
