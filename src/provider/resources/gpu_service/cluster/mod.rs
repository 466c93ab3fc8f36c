//! What is done to a service on a cluster: checked against what is there now, applied, waited for, read back.
//!
//! - `change.rs` create and update; `wait.rs` the rollout after them; `read.rs` refresh; `delete.rs`
//! - `import.rs` what `terraform import` and a `moved` block take in

mod change;
mod delete;
mod import;
mod read;
mod wait;

use std::collections::BTreeMap;

use tf_provider_sdk::{
    context::Context,
    diagnostic::{Diagnostic, Diagnostics},
    field::{Computed, Stable},
};

use super::{known, model::GpuService};
use crate::{
    capacity::gpu::GpuRequest,
    kubernetes::{
        Applied, Cancel, Found, Kind, ObjectName, TargetUid,
        workload::{Identity, ServiceSpec},
    },
    provider::client::{Client, ClusterTarget},
};
pub(super) use change::{create, update};
pub(super) use delete::delete;
pub(super) use import::{empty, import};
pub(super) use read::read;

/// Where the Deployment's UID is kept: another one under the name is not ours.
const UID: &str = "uid";
/// Names of the variables of `secret_env`: the state holds none of it, and a Secret that lost one must show.
const SECRET_NAMES: &str = "secret_env";
/// Says that an apply ended before its rollout did: the next plan goes on with it.
pub(super) const UNFINISHED: &str = "unfinished";
/// Names of claims that are not called after the service, by volume.
const CLAIMS: &str = "claims";
/// Says that the Deployment was imported, and not applied since.
pub(super) const IMPORTED: &str = "imported";
/// Token of a creation that failed before it knew its Deployment.
const TOKEN: &str = "token";
/// Says that the last refresh found the Deployment gone and parts of the service left: the next plan makes it anew, or deletes them.
pub(super) const GONE: &str = "gone";
/// Says that the last refresh found another placement than was applied: the next plan puts it back.
pub(super) const DRIFTED: &str = "drifted";

fn request_of(service: &GpuService) -> Result<Option<GpuRequest>, Diagnostic> {
    let Some(gpu) = service.size.known().and_then(|size| size.gpu.known()) else {
        return Ok(None);
    };
    let count = gpu.count.known().copied().unwrap_or_default();
    GpuRequest::parse(&known(&gpu.kind), count)
        .map(Some)
        .map_err(|why| {
            Diagnostic::error("This GPU request can't be met anywhere", why.to_string())
                .at("size.gpu")
        })
}

fn has_gpus(service: &GpuService) -> bool {
    service.size.known().is_some_and(|size| !size.gpu.is_null())
}

fn remember(cx: &Context<'_, Client>, applied: &[Applied], spec: &ServiceSpec) {
    cx.set_private(
        SECRET_NAMES,
        Some(&spec.secret_env).filter(|names| !names.is_empty()),
    );
    if let Some(deployment) = applied
        .iter()
        .find(|object| object.kind == Kind::Deployment)
    {
        cx.set_private(UID, Some(&deployment.uid));
        cx.set_private::<String>(TOKEN, None);
        cx.set_private::<bool>(GONE, None);
        cx.set_private::<bool>(IMPORTED, None);
    }
}

/// The claims that go with a service.
fn claims_to_delete(service: &GpuService, cx: &Context<'_, Client>) -> Vec<String> {
    let name = known(&service.name);
    let identity = Identity {
        claims: cx.private(CLAIMS).unwrap_or_default(),
        ..Identity::new(&name)
    };
    let volumes = service.volumes.known().into_iter().flatten();
    volumes
        .filter(|(_, volume)| volume.delete_on_destroy)
        .map(|(volume, _)| identity.claim(&name, volume))
        .collect()
}

/// Claims of an imported or moved Deployment have names of their own.
fn remember_claims(service: &GpuService, found: &Found, cx: &Context<'_, Client>) {
    let name = known(&service.name);
    let fresh = Identity::new(&name);
    let own = found.identity.claims.iter();
    let own: BTreeMap<_, _> = own
        .filter(|(volume, claim)| **claim != fresh.claim(&name, volume))
        .collect();
    cx.set_private(CLAIMS, Some(&own).filter(|own| !own.is_empty()));
}

/// Whether what was found under the name is what the state knows: it may have been deleted and made again by someone else.
fn is_ours(found: &Found, cx: &Context<'_, Client>) -> bool {
    match (cx.private::<String>(UID), cx.private::<String>(TOKEN)) {
        (Some(stored), _) => stored == found.uid,
        // A creation failed before it knew its Deployment: this is it, or another apply's.
        (None, Some(token)) => found.unfinished == Some(token),
        (None, None) => true,
    }
}

/// Objects for a sentence.
pub(super) fn listed(objects: &[ObjectName]) -> String {
    let names: Vec<String> = objects.iter().map(ToString::to_string).collect();
    names.join(", ")
}

/// What only the live object tells.
fn show(service: &mut GpuService, found: &Found) {
    let name = known(&service.name);
    let namespace = service.namespace.known().cloned().unwrap_or_default();
    service.status = found.live.readiness().to_string().into();
    let ports = service.ports.known().into_iter().flatten();
    let first = ports.filter_map(|port| port.port.known()).next().copied();
    service.endpoint = Computed(found.live.endpoint(&namespace, &name, first).into());
}

/// The same of a service that was made this moment, with pods to come.
fn show_new(service: &mut GpuService, spec: &ServiceSpec) {
    service.status = format!("unavailable (0 of {} ready)", spec.replicas.unwrap_or(1)).into();
    let endpoint = spec.ports.first();
    let endpoint =
        endpoint.map(|port| format!("{}.{}.svc:{}", spec.name, spec.namespace, port.port));
    service.endpoint = Computed(endpoint.into());
}

fn gone(service: &GpuService, target: &ClusterTarget) -> Diagnostic {
    Diagnostic::error(
        "The service is gone",
        format!(
            "Deployment {}/{} is no longer on cluster {}, or another one has its name: something else deleted it meanwhile. Nothing was changed. Run a plan again: it proposes to make it anew.",
            service.namespace.known().map_or("", String::as_str),
            known(&service.name),
            target.name
        ),
    )
}

/// The UID of the cluster behind the connection.
///
/// # Errors
/// Where it is another than the service is on: another uid behind a known target is never "gone" (G9).
async fn same_cluster(
    target: &ClusterTarget,
    service: &GpuService,
    cancel: &Cancel,
) -> Result<Stable<String>, Diagnostics> {
    let uid = uid_of(target, cancel).await?;
    let stored = service.target_uid.known().filter(|uid| !uid.is_empty());
    let found = uid.known().filter(|uid| !uid.is_empty());
    match (stored, found) {
        (Some(stored), Some(found)) if stored != found => {
            Err(other_cluster(target, stored, found).into())
        }
        _ => Ok(uid),
    }
}

async fn uid_of(target: &ClusterTarget, cancel: &Cancel) -> Result<Stable<String>, Diagnostics> {
    match target.cluster.target_uid(cancel).await? {
        TargetUid::Known(uid) => Ok(uid.into()),
        TargetUid::Forbidden => Ok(String::new().into()),
    }
}

fn other_cluster(target: &ClusterTarget, stored: &str, found: &str) -> Diagnostic {
    Diagnostic::error(
        format!("{} is another cluster now", target.name),
        format!(
            "The state was written for the cluster whose namespace kube-system has the UID {stored}; behind the connection {} there is one with {found}. Nothing was read or changed. Point the connection back, or, if the old cluster is gone for good, remove the service with a `removed` block with `lifecycle {{ destroy = false }}`.",
            target.name
        ),
    )
    .at("target")
}
