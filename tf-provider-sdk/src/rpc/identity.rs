//! Resource identity: the attributes that together say which object a resource is (Terraform and OpenTofu 1.12).

use super::{
    Service,
    convert::{to_diagnostics, to_dynamic},
};
use crate::{
    diagnostic::Diagnostic, erased::AnyResource, generated::tfplugin6 as pb, provider::Provider,
    types::Type, value::Value,
};

pub(super) async fn upgrade_resource_identity<P: Provider>(
    service: &Service<P>,
    request: &pb::upgrade_resource_identity::Request,
) -> pb::upgrade_resource_identity::Response {
    let upgrade = || -> Result<Option<pb::ResourceIdentityData>, Diagnostic> {
        let resource = service.resource(&request.type_name)?;
        let prepared = resource.ready()?;
        let Some(ty) = identity_type(resource, &prepared.ty) else {
            return Ok(None);
        };
        let json = request
            .raw_identity
            .as_ref()
            .map(|raw| raw.json.as_slice())
            .unwrap_or(b"null");
        let value = crate::json::decode_lenient(json, &ty).map_err(|why| {
            Diagnostic::error("This resource identity can't be read", format!("{why}."))
        })?;
        Ok(Some(pb::ResourceIdentityData {
            identity_data: Some(to_dynamic(&value, &ty)?),
        }))
    };
    match upgrade() {
        Ok(upgraded_identity) => pb::upgrade_resource_identity::Response {
            upgraded_identity,
            diagnostics: Vec::new(),
        },
        Err(why) => pb::upgrade_resource_identity::Response {
            upgraded_identity: None,
            diagnostics: to_diagnostics(why.into()),
        },
    }
}

/// The type of a resource's identity: some of its own attributes.
pub(super) fn identity_type<C: Send + Sync>(
    resource: &dyn AnyResource<C>,
    ty: &Type,
) -> Option<Type> {
    let Type::Object { attributes, .. } = ty else {
        return None;
    };
    let names = resource.identity();
    let of = |name: &&str| Some(((*name).to_owned(), attributes.get(*name)?.clone()));
    (!names.is_empty()).then(|| Type::object(names.iter().filter_map(of)))
}

/// The identity of an object, once all of it is known.
pub(super) fn identity_of<C: Send + Sync>(
    resource: &dyn AnyResource<C>,
    ty: &Type,
    state: &Value,
) -> Option<pb::ResourceIdentityData> {
    let ty = identity_type(resource, ty)?;
    let value = Value::object(
        resource
            .identity()
            .iter()
            .map(|name| (*name, state.attribute(name).clone())),
    );
    let complete = value.is_wholly_known()
        && value
            .as_map()
            .is_some_and(|values| values.values().any(|value| !value.is_null()));
    if state.is_null() || !complete {
        return None;
    }
    Some(pb::ResourceIdentityData {
        identity_data: Some(to_dynamic(&value, &ty).ok()?),
    })
}

pub(super) fn identity_schema<C: Send + Sync>(
    resource: &dyn AnyResource<C>,
) -> Option<pb::ResourceIdentitySchema> {
    let attributes = &resource.prepared().ok()?.schema.attributes;
    let of = |name: &&str| {
        let attribute = attributes.get(*name)?;
        Some(pb::resource_identity_schema::IdentityAttribute {
            name: (*name).to_owned(),
            r#type: attribute.ty().to_json(),
            required_for_import: attribute.required,
            optional_for_import: !attribute.required,
            description: attribute.description.clone(),
        })
    };
    let identity_attributes: Vec<_> = resource.identity().iter().filter_map(of).collect();
    (!identity_attributes.is_empty()).then_some(pb::ResourceIdentitySchema {
        version: 0,
        identity_attributes,
    })
}
