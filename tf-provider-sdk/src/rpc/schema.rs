//! Schemas for core.

use crate::{
    erased::Prepared,
    generated::tfplugin6 as pb,
    schema::{Attribute, Attributes, Kind, Nesting},
};

const MARKDOWN: i32 = pb::StringKind::Markdown as i32;

pub(super) fn to_schema(prepared: &Prepared) -> pb::Schema {
    let schema = &prepared.schema;
    pb::Schema {
        version: schema.version,
        block: Some(pb::schema::Block {
            version: schema.version,
            attributes: to_attributes(&schema.attributes),
            description: schema.description.clone(),
            description_kind: MARKDOWN,
            ..Default::default()
        }),
    }
}

fn to_attributes(attributes: &Attributes) -> Vec<pb::schema::Attribute> {
    attributes
        .iter()
        .map(|(name, attribute)| to_attribute(name, attribute))
        .collect()
}

fn to_attribute(name: &str, attribute: &Attribute) -> pb::schema::Attribute {
    let (r#type, nested_type) = match &attribute.kind {
        Kind::Plain(ty) => (ty.to_json(), None),
        Kind::Nested(nesting, attributes) => (Vec::new(), Some(to_object(*nesting, attributes))),
    };
    pb::schema::Attribute {
        name: name.to_owned(),
        r#type,
        nested_type,
        description: attribute.description.clone(),
        description_kind: MARKDOWN,
        required: attribute.required,
        optional: attribute.optional,
        computed: attribute.computed,
        sensitive: attribute.sensitive,
        deprecated: attribute.deprecated.is_some(),
        deprecation_message: attribute.deprecated.clone().unwrap_or_default(),
        write_only: attribute.write_only,
    }
}

fn to_object(nesting: Nesting, attributes: &Attributes) -> pb::schema::Object {
    use pb::schema::object::NestingMode;
    let nesting = match nesting {
        Nesting::Single => NestingMode::Single,
        Nesting::List => NestingMode::List,
        Nesting::Set => NestingMode::Set,
        Nesting::Map => NestingMode::Map,
    };
    pb::schema::Object {
        attributes: to_attributes(attributes),
        nesting: nesting.into(),
        ..Default::default()
    }
}
