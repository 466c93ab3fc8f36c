//! Calls about the provider as a whole.

use std::sync::PoisonError;

use super::{
    Service,
    convert::{from_dynamic, to_diagnostics},
    function::to_function,
    identity::identity_schema,
    schema::to_schema,
};
use crate::{
    diagnostic::{Diagnostic, Diagnostics},
    erased::Prepared,
    generated::tfplugin6 as pb,
    provider::Provider,
    value::Value,
};

fn capabilities() -> pb::ServerCapabilities {
    pb::ServerCapabilities {
        plan_destroy: true,
        get_provider_schema_optional: true,
        move_resource_state: true,
        ..Default::default()
    }
}

pub(super) async fn get_metadata<P: Provider>(
    service: &Service<P>,
    _: &pb::get_metadata::Request,
) -> pb::get_metadata::Response {
    use pb::get_metadata::{
        DataSourceMetadata, EphemeralResourceMetadata, FunctionMetadata, ResourceMetadata,
    };
    let names = |keys: Vec<&&'static str>| {
        keys.into_iter()
            .map(|name| (*name).to_owned())
            .collect::<Vec<_>>()
    };
    pb::get_metadata::Response {
        server_capabilities: Some(capabilities()),
        resources: names(service.resources.keys().collect())
            .into_iter()
            .map(|type_name| ResourceMetadata { type_name })
            .collect(),
        data_sources: names(service.data_sources.keys().collect())
            .into_iter()
            .map(|type_name| DataSourceMetadata { type_name })
            .collect(),
        ephemeral_resources: names(service.ephemerals.keys().collect())
            .into_iter()
            .map(|type_name| EphemeralResourceMetadata { type_name })
            .collect(),
        functions: names(service.functions.keys().collect())
            .into_iter()
            .map(|name| FunctionMetadata { name })
            .collect(),
        ..Default::default()
    }
}

pub(super) async fn get_provider_schema<P: Provider>(
    service: &Service<P>,
    _: &pb::get_provider_schema::Request,
) -> pb::get_provider_schema::Response {
    let mut response = pb::get_provider_schema::Response {
        server_capabilities: Some(capabilities()),
        ..Default::default()
    };
    let mut report = service.faults.clone();
    match service.config() {
        Ok(prepared) => response.provider = Some(to_schema(prepared)),
        Err(why) => report.push(why),
    }
    for (name, resource) in &service.resources {
        match resource.prepared() {
            Ok(prepared) => drop(
                response
                    .resource_schemas
                    .insert((*name).to_owned(), to_schema(prepared)),
            ),
            Err(why) => report.push(crate::erased::schema_fault(name, &why)),
        }
    }
    for (name, data_source) in &service.data_sources {
        match data_source.prepared() {
            Ok(prepared) => drop(
                response
                    .data_source_schemas
                    .insert((*name).to_owned(), to_schema(prepared)),
            ),
            Err(why) => report.push(crate::erased::schema_fault(name, &why)),
        }
    }
    for (name, ephemeral) in &service.ephemerals {
        match ephemeral.prepared() {
            Ok(prepared) => drop(
                response
                    .ephemeral_resource_schemas
                    .insert((*name).to_owned(), to_schema(prepared)),
            ),
            Err(why) => report.push(crate::erased::schema_fault(name, &why)),
        }
    }
    for (name, function) in &service.functions {
        match to_function(function.as_ref()) {
            Ok(function) => drop(response.functions.insert((*name).to_owned(), function)),
            Err(why) => report.push(crate::erased::schema_fault(name, &why)),
        }
    }
    response.diagnostics = to_diagnostics(report);
    response
}

pub(super) async fn get_resource_identity_schemas<P: Provider>(
    service: &Service<P>,
    _: &pb::get_resource_identity_schemas::Request,
) -> pb::get_resource_identity_schemas::Response {
    let mut response = pb::get_resource_identity_schemas::Response::default();
    for (name, resource) in &service.resources {
        if let Some(schema) = identity_schema(resource.as_ref()) {
            response.identity_schemas.insert((*name).to_owned(), schema);
        }
    }
    response
}

pub(super) async fn validate_provider_config<P: Provider>(
    service: &Service<P>,
    request: &pb::validate_provider_config::Request,
) -> pb::validate_provider_config::Response {
    let mut report = Diagnostics::none();
    let checked = service.config().and_then(|prepared| {
        let config = configuration(prepared, request.config.as_ref())?;
        report.extend(prepared.schema.check(&config));
        match crate::de::from_value::<P::Config>(&crate::plan::with_defaults(
            &prepared.schema,
            config,
        )) {
            Ok(config) => service.provider.validate(&config, &mut report),
            Err(why) if why.unknown => {}
            Err(why) => report.push(
                Diagnostic::error("Invalid provider configuration", why.to_string()).at(why.path),
            ),
        }
        Ok(())
    });
    if let Err(why) = checked {
        report.push(why);
    }
    pb::validate_provider_config::Response {
        diagnostics: to_diagnostics(report),
    }
}

pub(super) async fn configure_provider<P: Provider>(
    service: &Service<P>,
    request: &pb::configure_provider::Request,
) -> pb::configure_provider::Response {
    let mut report = Diagnostics::none();
    let client = configure(service, request, &mut report).await;
    match client {
        // In debug mode one process is configured many times: the last configuration counts.
        Ok(client) => {
            *service
                .client
                .write()
                .unwrap_or_else(PoisonError::into_inner) = client
        }
        Err(why) => report.extend(why),
    }
    pb::configure_provider::Response {
        diagnostics: to_diagnostics(report),
    }
}

/// The configuration; a provider without a block has one of nulls.
fn configuration(
    prepared: &Prepared,
    config: Option<&pb::DynamicValue>,
) -> Result<Value, Diagnostic> {
    let config = from_dynamic(config, &prepared.ty)?;
    Ok(match config {
        Value::Null => prepared.schema.empty(),
        config => config,
    })
}

async fn configure<P: Provider>(
    service: &Service<P>,
    request: &pb::configure_provider::Request,
    report: &mut Diagnostics,
) -> Result<Option<std::sync::Arc<P::Client>>, Diagnostics> {
    let prepared = service.config()?;
    let config = configuration(prepared, request.config.as_ref())?;
    let config = crate::plan::with_defaults(&prepared.schema, config);
    match crate::de::from_value::<P::Config>(&config) {
        Ok(config) => {
            let configured = service.provider.configure(config).await?;
            report.extend(configured.report);
            Ok(Some(std::sync::Arc::new(configured.client)))
        }
        Err(why) if why.unknown => Ok(None),
        Err(why) => Err(
            Diagnostic::error("Invalid provider configuration", why.to_string())
                .at(why.path)
                .into(),
        ),
    }
}
