//! Calls about a resource.

use super::{
    Service, configuration_unknown,
    convert::{from_dynamic, to_diagnostics, to_dynamic, to_path},
    identity::{identity_of, identity_type},
    panicked, split,
};
use crate::{
    context::Shared,
    diagnostic::{Diagnostic, Diagnostics},
    erased::PlanInput,
    generated::tfplugin6 as pb,
    panic,
    path::{Path, Step},
    provider::Provider,
    resource::{ImportId, MoveSource},
    schema::{Attributes, Kind, Nesting},
    value::Value,
};

pub(super) async fn validate_resource_config<P: Provider>(
    service: &Service<P>,
    request: &pb::validate_resource_config::Request,
) -> pb::validate_resource_config::Response {
    let checked = || -> Result<Diagnostics, Diagnostic> {
        let resource = service.resource(&request.type_name)?;
        let prepared = resource.ready()?;
        let config = from_dynamic(request.config.as_ref(), &prepared.ty)?;
        let allowed = request
            .client_capabilities
            .as_ref()
            .is_some_and(|client| client.write_only_attributes_allowed);
        let stored = (!allowed)
            .then(|| write_only(&prepared.schema.attributes, &config, &Path::root()))
            .flatten();
        let mut report = resource.validate(config);
        if let Some(path) = stored {
            let detail = format!(
                "{path} is write-only: it needs Terraform 1.11 or OpenTofu 1.11, or later. With an older one its value would be stored."
            );
            report.error(
                path,
                "This version of Terraform has no write-only attributes",
                detail,
            );
        }
        Ok(report)
    };
    let report = checked().unwrap_or_else(Diagnostics::from);
    pb::validate_resource_config::Response {
        diagnostics: to_diagnostics(report),
    }
}

/// The first write-only attribute that is configured.
fn write_only(attributes: &Attributes, value: &Value, path: &Path) -> Option<Path> {
    attributes.iter().find_map(|(name, attribute)| {
        let value = value.attribute(name);
        let path = path.then(Step::Attribute(name.clone()));
        if value.is_null() || value.is_unknown() && !attribute.write_only {
            return None;
        }
        if attribute.write_only {
            return Some(path);
        }
        let Kind::Nested(nesting, nested) = &attribute.kind else {
            return None;
        };
        match value {
            Value::List(items) => items
                .iter()
                .enumerate()
                .find_map(|(i, item)| write_only(nested, item, &path.then(Step::Index(i)))),
            Value::Map(items) if *nesting == Nesting::Map => {
                items.iter().find_map(|(key, item)| {
                    write_only(nested, item, &path.then(Step::Key(key.clone())))
                })
            }
            object => write_only(nested, object, &path),
        }
    })
}

pub(super) async fn upgrade_resource_state<P: Provider>(
    service: &Service<P>,
    request: &pb::upgrade_resource_state::Request,
) -> pb::upgrade_resource_state::Response {
    let upgrade = || -> Result<pb::DynamicValue, Diagnostic> {
        let resource = service.resource(&request.type_name)?;
        let prepared = resource.ready()?;
        let raw = request.raw_state.as_ref();
        if raw.is_some_and(|raw| !raw.flatmap.is_empty()) {
            return Err(Diagnostic::error(
                "This state is too old",
                "It is in the form that Terraform 0.11 and older wrote. Run `terraform refresh` with Terraform 0.12 to 0.15 first.",
            ));
        }
        let json = raw
            .map(|raw| raw.json.as_slice())
            .filter(|json| !json.is_empty())
            .unwrap_or(b"null");
        to_dynamic(&resource.upgrade(request.version, json)?, &prepared.ty)
    };
    match upgrade() {
        Ok(state) => pb::upgrade_resource_state::Response {
            upgraded_state: Some(state),
            diagnostics: Vec::new(),
        },
        Err(why) => pb::upgrade_resource_state::Response {
            upgraded_state: None,
            diagnostics: to_diagnostics(why.into()),
        },
    }
}

pub(super) async fn read_resource<P: Provider>(
    service: &Service<P>,
    request: &pb::read_resource::Request,
) -> pb::read_resource::Response {
    let (client, shared) = (service.client(), Shared::from_private(&request.private));
    let at = service.at(&client, &shared);
    let read = async {
        let resource = service.resource(&request.type_name)?;
        let prepared = resource.ready()?;
        let state = from_dynamic(request.current_state.as_ref(), &prepared.ty)?;
        if at.client.is_none() {
            return Ok((
                request.current_state.clone(),
                identity_of(resource, &prepared.ty, &state),
                Some(configuration_unknown()),
            ));
        }
        let state = if state.is_null() {
            Value::Null
        } else {
            resource.read(&state, &at).await?
        };
        Ok((
            Some(to_dynamic(&state, &prepared.ty)?),
            identity_of(resource, &prepared.ty, &state),
            None,
        ))
    };
    let (done, mut report) = split(read.await, &shared);
    let (new_state, new_identity, warning) = match done {
        Some((state, identity, warning)) => (state, identity, warning),
        None => (
            request.current_state.clone(),
            request.current_identity.clone(),
            None,
        ),
    };
    if let Some(warning) = warning {
        report.push(warning);
    }
    pb::read_resource::Response {
        new_state,
        new_identity,
        private: shared.private_bytes(),
        diagnostics: to_diagnostics(report),
        deferred: None,
    }
}

pub(super) async fn plan_resource_change<P: Provider>(
    service: &Service<P>,
    request: &pb::plan_resource_change::Request,
) -> pb::plan_resource_change::Response {
    let (client, shared) = (
        service.client(),
        Shared::from_private(&request.prior_private),
    );
    let at = service.at(&client, &shared);
    let plan = async {
        let resource = service.resource(&request.type_name)?;
        let prepared = resource.ready()?;
        let config = from_dynamic(request.config.as_ref(), &prepared.ty)?;
        // For a new object Terraform proposes the configuration, word for word: it is read once.
        let proposed = if request.proposed_new_state == request.config {
            config.clone()
        } else {
            from_dynamic(request.proposed_new_state.as_ref(), &prepared.ty)?
        };
        let input = PlanInput {
            config,
            prior: from_dynamic(request.prior_state.as_ref(), &prepared.ty)?,
            proposed,
        };
        let (planned, replaced) = resource.plan(input, &at).await?;
        let identity = identity_of(resource, &prepared.ty, &planned);
        Ok((to_dynamic(&planned, &prepared.ty)?, replaced, identity))
    };
    let (done, mut report) = split(plan.await, &shared);
    if client.is_none() && request.proposed_new_state.is_some() {
        report.push(configuration_unknown());
    }
    let mut response = pb::plan_resource_change::Response {
        planned_private: shared.private_bytes(),
        diagnostics: to_diagnostics(report),
        ..Default::default()
    };
    if let Some((planned, replaced, identity)) = done {
        response.planned_state = Some(planned);
        response.requires_replace = replaced.iter().map(to_path).collect();
        response.planned_identity = identity.or_else(|| request.prior_identity.clone());
    }
    response
}

pub(super) async fn apply_resource_change<P: Provider>(
    service: &Service<P>,
    request: &pb::apply_resource_change::Request,
) -> pb::apply_resource_change::Response {
    let (client, shared) = (
        service.client(),
        Shared::from_private(&request.planned_private),
    );
    let at = service.at(&client, &shared);
    let apply = async {
        let resource = service.resource(&request.type_name)?;
        let prepared = resource.ready()?;
        let input = PlanInput {
            config: from_dynamic(request.config.as_ref(), &prepared.ty)?,
            prior: from_dynamic(request.prior_state.as_ref(), &prepared.ty)?,
            proposed: from_dynamic(request.planned_state.as_ref(), &prepared.ty)?,
        };
        // Guarded here, where the object that the operation said to keep is at hand.
        let prior = input.prior.clone();
        let (state, why) = match panic::guard(resource.apply(input, &at)).await {
            Ok(outcome) => outcome,
            Err(message) => (
                resource.kept(&at).unwrap_or(prior),
                panicked("ApplyResourceChange", resource.name(), &message).into(),
            ),
        };
        let identity = identity_of(resource, &prepared.ty, &state);
        Ok((to_dynamic(&state, &prepared.ty)?, identity, why))
    };
    let (done, mut report) = split(apply.await, &shared);
    let (new_state, new_identity) = match done {
        Some((state, identity, why)) => {
            report.extend(why);
            (Some(state), identity)
        }
        None => (
            request.prior_state.clone(),
            request.planned_identity.clone(),
        ),
    };
    pb::apply_resource_change::Response {
        new_state,
        new_identity,
        private: shared.private_bytes(),
        diagnostics: to_diagnostics(report),
        legacy_type_system: false,
    }
}

pub(super) async fn import_resource_state<P: Provider>(
    service: &Service<P>,
    request: &pb::import_resource_state::Request,
) -> pb::import_resource_state::Response {
    let (client, shared) = (service.client(), Shared::default());
    let at = service.at(&client, &shared);
    let import = async {
        let resource = service.resource(&request.type_name)?;
        let prepared = resource.ready()?;
        let identity = request
            .identity
            .as_ref()
            .and_then(|identity| identity.identity_data.as_ref());
        let id = match (identity, identity_type(resource, &prepared.ty)) {
            (Some(data), Some(ty)) if request.id.is_empty() => {
                ImportId::Identity(from_dynamic(Some(data), &ty)?)
            }
            _ => ImportId::Id(request.id.clone()),
        };
        let state = resource.import(id, &at).await?;
        Ok(pb::import_resource_state::ImportedResource {
            type_name: request.type_name.clone(),
            state: Some(to_dynamic(&state, &prepared.ty)?),
            private: shared.private_bytes(),
            identity: identity_of(resource, &prepared.ty, &state),
        })
    };
    let (done, report) = split(import.await, &shared);
    pb::import_resource_state::Response {
        imported_resources: done.into_iter().collect(),
        diagnostics: to_diagnostics(report),
        deferred: None,
    }
}

pub(super) async fn move_resource_state<P: Provider>(
    service: &Service<P>,
    request: &pb::move_resource_state::Request,
) -> pb::move_resource_state::Response {
    let moved = || -> Result<(pb::DynamicValue, Option<pb::ResourceIdentityData>), Diagnostic> {
        let resource = service.resource(&request.target_type_name)?;
        let prepared = resource.ready()?;
        let (from, to) = (&request.source_type_name, &request.target_type_name);
        let json = request
            .source_state
            .as_ref()
            .map(|raw| raw.json.as_slice())
            .unwrap_or_default();
        let state = serde_json::from_slice(json).map_err(|why| {
            Diagnostic::error(
                format!("The state of {from} can't be read"),
                format!("It is not what its provider writes: {why}."),
            )
        })?;
        let source = MoveSource {
            provider: request.source_provider_address.clone(),
            type_name: from.clone(),
            version: request.source_schema_version,
            state,
        };
        let provider = source.provider.clone();
        let state = resource.moved_from(source).unwrap_or_else(|| {
            Err(Diagnostic::error(
                format!("{from} can't be moved to {to}"),
                format!("{to} can't take over the state of {from} of {provider}. Remove the `moved` block; `terraform import` may take over the object."),
            ))
        })?;
        Ok((
            to_dynamic(&state, &prepared.ty)?,
            identity_of(resource, &prepared.ty, &state),
        ))
    };
    match moved() {
        Ok((state, target_identity)) => pb::move_resource_state::Response {
            target_state: Some(state),
            target_identity,
            ..Default::default()
        },
        Err(why) => pb::move_resource_state::Response {
            diagnostics: to_diagnostics(why.into()),
            ..Default::default()
        },
    }
}
