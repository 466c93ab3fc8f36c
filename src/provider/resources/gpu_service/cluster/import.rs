//! Import: everything about a live object that the model can say. A `moved` block ends here too.

use tf_provider_sdk::{
    context::Context,
    diagnostic::{Diagnostic, Diagnostics},
    field::{Computed, Maybe, Opt, OptionalComputed, Replace, Stable, WriteOnly},
    resource::ImportId,
};

use super::{
    super::{
        absorb::{UNKNOWN_KIND, absorb, tolerations},
        model::{Gpu, GpuService},
        placement,
        plan::{PLACEMENT, held_against},
        server,
        spec::{domain_toleration, to_spec},
        target_of,
    },
    IMPORTED, SECRET_NAMES, UID,
    read::refresh_fit,
    request_of, show, uid_of,
};
use crate::{
    kubernetes::{
        Found,
        workload::{Lens, observe, unexpressed},
    },
    provider::{
        cancel::watched,
        client::{Client, ClusterTarget, Target},
    },
};

pub(in super::super) async fn import(
    id: ImportId,
    cx: &Context<'_, Client>,
) -> Result<GpuService, Diagnostics> {
    let (target_name, namespace, name) = parse_id(&id, cx.client)?;
    let target = match cx.client.target(&target_name) {
        Target::Cluster(target) => target,
        Target::Server(target) => return server::import(target, &name, cx).await,
        Target::Missing => return Err(cx.client.missing("target", &target_name).into()),
        Target::Unknown(_) => {
            return Err(target_of(&empty(&target_name, "", ""), cx)
                .err()
                .map(Diagnostics::from)
                .unwrap_or_default());
        }
    };
    let watched = watched(cx);
    let namespace = match namespace {
        Some(namespace) => namespace,
        None => target.cluster.default_namespace(&watched.cancel).await?,
    };
    let found = target.cluster.read_service(&namespace, &name, &watched.cancel).await?.ok_or_else(|| {
        Diagnostic::error(
            "There is nothing to import",
            format!("Cluster {target_name} has no Deployment {namespace}/{name}. The import ID is TARGET/NAMESPACE/NAME."),
        )
    })?;
    let mut service = empty(&target_name, &namespace, &name);
    service.target_uid = uid_of(target, &watched.cancel).await?;
    service.id = format!("{namespace}/{name}").into();
    let rest = unexpressed(&found.live);
    if !rest.is_empty() {
        cx.warn(Diagnostic::warning(
            format!("Parts of Deployment {namespace}/{name} can't be expressed here"),
            format!("They stay as they are: {}.", rest.join(", ")),
        ));
    }
    take_in(target, &mut service, &found, cx).await?;
    let placement = cx.private(PLACEMENT);
    refresh_fit(target, &mut service, &found, placement.as_ref(), cx).await?;
    show(&mut service, &found);
    Ok(service)
}

/// Everything about a live object that the model can say.
async fn take_in(
    target: &ClusterTarget,
    service: &mut GpuService,
    found: &Found,
    cx: &Context<'_, Client>,
) -> Result<(), Diagnostics> {
    let set = to_spec(service, None, None)?;
    let live = observe(&found.live, Lens::Import);
    absorb(service, &set, &live);
    cx.set_private(UID, Some(&found.uid));
    cx.set_private(IMPORTED, Some(true));
    cx.set_private(
        SECRET_NAMES,
        Some(&live.secret_env).filter(|names| !names.is_empty()),
    );
    let mut applied = placement::from_live(&live.placement);
    if let Opt::Known(size) = &mut service.size
        && let Opt::Known(Gpu { kind, .. }) = &mut size.gpu
    {
        let named = placement::kind_of(&applied, &live.node_selector);
        if named.is_none() {
            cx.warn(Diagnostic::warning(
                "The GPU kind of this Deployment can't be told",
                "Neither its node affinity nor its node selector names a kind that Loomplane knows. Its kind reads \"unknown\"; the next apply confines it to the kind that you configure.",
            ));
        }
        *kind = Maybe::Known(
            named.map_or_else(|| UNKNOWN_KIND.to_owned(), |kind| kind.id().to_owned()),
        );
        // Whose a toleration is can't be told from the object: what K6 would derive is ours, the rest the configuration's.
        service.tolerations = tolerations(&live.placement.tolerations);
        if let Some(request) = named.and_then(|_| request_of(service).ok().flatten())
            && let Ok(fit) = held_against(service, None, None, target, request, cx).await?
        {
            let (ours, others): (Vec<_>, Vec<_>) =
                live.placement.tolerations.into_iter().partition(|it| {
                    it.seconds.is_none()
                        && fit.placement.tolerations.contains(&domain_toleration(it))
                });
            applied.tolerations = ours.iter().map(domain_toleration).collect();
            service.tolerations = tolerations(&others);
        } else {
            service.tolerations = Opt::Null;
        }
        service.placement = Computed(Opt::Known(placement::shown(&applied)));
        cx.set_private(PLACEMENT, Some(&applied));
    }
    Ok(())
}

/// `TARGET/NAMESPACE/NAME`, or `SERVER/NAME` where the first part is a server; parsed from the right, since a target may hold slashes.
/// Whether an object of the cluster can have this name: no blanks, no upper case.
fn is_name(text: &str) -> bool {
    let takes = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '-' | '.');
    !text.is_empty() && text.len() <= 253 && text.chars().all(takes)
}

fn parse_id(
    id: &ImportId,
    client: &Client,
) -> Result<(String, Option<String>, String), Diagnostic> {
    match id {
        ImportId::Id(text) => {
            let on_server = text.rsplit_once('/').filter(|(target, name)| {
                !name.is_empty() && matches!(client.target(target), Target::Server(_))
            });
            if let Some((target, name)) = on_server {
                return Ok((target.to_owned(), None, name.to_owned()));
            }
            let mut parts = text.rsplitn(3, '/');
            match (parts.next(), parts.next(), parts.next()) {
                (Some(name), Some(namespace), Some(target))
                    if !target.is_empty() && is_name(namespace) && is_name(name) =>
                {
                    Ok((
                        target.to_owned(),
                        Some(namespace.to_owned()),
                        name.to_owned(),
                    ))
                }
                _ => Err(Diagnostic::error(
                    "Invalid import ID",
                    format!(
                        "{text:?} is neither TARGET/NAMESPACE/NAME of a cluster, such as \"prod/inference/llm\", nor SERVER/NAME of a configured server, such as \"rack1/llm\"."
                    ),
                )),
            }
        }
        ImportId::Identity(identity) => {
            let text = |name: &str| {
                identity
                    .attribute(name)
                    .as_str()
                    .map(str::to_owned)
                    .filter(|text| !text.is_empty())
            };
            match (text("target"), text("name")) {
                (Some(target), Some(name)) => Ok((target, text("namespace"), name)),
                _ => Err(Diagnostic::error(
                    "Invalid identity",
                    "The identity of a service is its target and its name, on a cluster also its namespace.",
                )),
            }
        }
    }
}

/// A service of which only the name is known.
pub(in super::super) fn empty(target: &str, namespace: &str, name: &str) -> GpuService {
    GpuService {
        id: Stable::null(),
        name: Replace(Maybe::Known(name.to_owned())),
        target: Maybe::Known(target.to_owned()),
        target_uid: Stable::null(),
        namespace: Replace(OptionalComputed(Opt::Known(namespace.to_owned()))),
        image: Maybe::Known(String::new()),
        command: Opt::Null,
        args: Opt::Null,
        working_dir: Opt::Null,
        user: Opt::Null,
        env: Opt::Null,
        env_from: Opt::Null,
        secret_env: WriteOnly(Opt::Null),
        secret_env_version: Opt::Null,
        ports: Opt::Null,
        replicas: Opt::Null,
        size: Opt::Null,
        volumes: Opt::Null,
        health_check: Opt::Null,
        image_pull_secret: Opt::Null,
        labels: Opt::Null,
        annotations: Opt::Null,
        max_hourly_usd: Opt::Null,
        stop_grace_seconds: Opt::Null,
        runtime_class: Opt::Null,
        service_account: Opt::Null,
        node_selector: Opt::Null,
        tolerations: Opt::Null,
        service_type: Opt::Null,
        priority_class: Opt::Null,
        rollout: Opt::Null,
        host_mounts: Opt::Null,
        ulimits: Opt::Null,
        restart: Opt::Null,
        network: Opt::Null,
        device_wait_seconds: Opt::Null,
        force_conflicts: false,
        wait: true,
        placement: Computed::null(),
        nodes: Computed::null(),
        devices: Computed::null(),
        hourly_usd: Computed::null(),
        monthly_usd: Computed::null(),
        price: Computed::null(),
        status: Computed::null(),
        endpoint: Computed::null(),
        timeouts: None,
    }
}
