//! Taking over the state of another provider's resource: the workload itself is not touched.

use serde_json::Value as Json;
use tf_provider_sdk::{
    context::Context,
    diagnostic::Diagnostic,
    diagnostic::Diagnostics,
    field::{OptionalComputed, Replace},
    resource::ImportId,
    resource::MoveSource,
};

use super::{GpuService, cluster, cluster::empty, known};
use crate::provider::{cancel::watched, client::Client, report};

/// State of `kubernetes_deployment_v1` (and its older name) or of `docker_container`, of any release: only what names the object is
/// taken; the next refresh reads the rest. The target can't be told from there: refresh looks for the object on each connection.
pub(super) fn moved_from(source: &MoveSource) -> Option<Result<GpuService, Diagnostic>> {
    let named = match source.type_name.as_str() {
        "kubernetes_deployment_v1" | "kubernetes_deployment"
            if source.provider.ends_with("/kubernetes") =>
        {
            let metadata = source.state.pointer("/metadata/0").unwrap_or(&Json::Null);
            (
                text(metadata, "namespace").or(Some("default")),
                text(metadata, "name"),
            )
        }
        "docker_container" if source.provider.ends_with("/docker") => {
            (None, text(&source.state, "name"))
        }
        _ => return None,
    };
    let (namespace, name) = named;
    Some(match name {
        Some(name) => {
            let mut service = empty(
                "",
                namespace.unwrap_or_default(),
                name.trim_start_matches('/'),
            );
            if namespace.is_none() {
                service.namespace = Replace(OptionalComputed::null());
            }
            Ok(service)
        }
        None => Err(Diagnostic::error(
            format!("The state of this {} names no object", source.type_name),
            "It has no name: it was never applied. Remove it from the state instead of moving it.",
        )),
    })
}

/// Looks for a moved object on each connection that it could be on, and takes all of it in. Nothing is changed.
pub(super) async fn find(
    service: GpuService,
    cx: &Context<'_, Client>,
) -> Result<GpuService, Diagnostics> {
    let name = known(&service.name);
    let watched = watched(cx);
    let mut places = Vec::new();
    match service.namespace.known() {
        Some(namespace) => {
            for target in cx.client.clusters().0 {
                let found = target
                    .cluster
                    .read_service(namespace, &name, &watched.cancel)
                    .await?;
                if found.is_some() {
                    places.push(format!("{}/{namespace}/{name}", target.name));
                }
            }
        }
        None => {
            for target in cx.client.servers().0 {
                let found = target.server.read_service(&name, &watched.scope).await;
                if found
                    .map_err(|error| report::server_error(&target.name, &error))?
                    .is_some()
                {
                    places.push(format!("{}/{name}", target.name));
                }
            }
        }
    }
    match places.as_slice() {
        [place] => cluster::import(ImportId::Id(place.clone()), cx).await,
        [] => Err(Diagnostic::error(
            format!("The moved {name} is on no configured target"),
            "The state was taken over by a `moved` block, and no connection of the provider has the object. Add the connection that it is on, or take it out of the state with a `removed` block with `lifecycle { destroy = false }`.",
        )
        .into()),
        several => Err(Diagnostic::error(
            format!("The moved {name} is on several targets"),
            format!("It could be any of these: {}. Take it out of the state with a `removed` block with `lifecycle {{ destroy = false }}`, then import the one that is meant.", several.join(", ")),
        )
        .into()),
    }
}

fn text<'a>(object: &'a Json, key: &str) -> Option<&'a str> {
    object
        .get(key)
        .and_then(Json::as_str)
        .filter(|text| !text.is_empty())
}
