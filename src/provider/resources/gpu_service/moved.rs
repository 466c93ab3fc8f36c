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
///
/// One that does not answer does not stand in the way of another that has the object; one that is not known yet may have it.
pub(super) async fn find(
    service: GpuService,
    cx: &Context<'_, Client>,
) -> Result<GpuService, Diagnostics> {
    let name = known(&service.name);
    let watched = watched(cx);
    let (mut places, mut silent) = (Vec::new(), Diagnostics::none());
    let not_known = match service.namespace.known() {
        Some(namespace) => {
            let (clusters, not_known) = cx.client.clusters();
            for target in clusters {
                let found = target
                    .cluster
                    .read_service(namespace, &name, &watched.cancel);
                match found.await {
                    Ok(Some(_)) => places.push(format!("{}/{namespace}/{name}", target.name)),
                    Ok(None) => {}
                    Err(error) => silent.push(report::cluster_error(&error)),
                }
            }
            not_known
        }
        None => {
            let (servers, not_known) = cx.client.servers();
            for target in servers {
                match target.server.read_service(&name, &watched.scope).await {
                    Ok(Some(_)) => places.push(format!("{}/{name}", target.name)),
                    Ok(None) => {}
                    Err(error) => silent.push(report::server_error(&target.name, &error)),
                }
            }
            not_known
        }
    };
    match places.as_slice() {
        [place] => cluster::import(ImportId::Id(place.clone()), cx).await,
        [] if silent.has_error() => Err(silent),
        // G9: an unknown connection keeps the state.
        [] if !not_known.is_empty() => {
            cx.warn(super::unchecked());
            Ok(service)
        }
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
