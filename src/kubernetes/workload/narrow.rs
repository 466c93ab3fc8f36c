//! Which of the things that live on a cluster count as the service's own.

use std::collections::BTreeMap;

use super::SERVICE_LABEL;
use super::build::MANAGED_BY;
use super::identity::Identity;
use super::spec::{Placement, Port, Rollout, ServiceSpec};

/// Keeps what `prior` set. What it left open stays open, whoever filled it; what it set and is gone or different shows.
pub(super) fn to_prior(live: ServiceSpec, prior: &ServiceSpec, identity: &Identity) -> ServiceSpec {
    let effective = prior.effective_rollout();
    let rollout = match (&effective, live.rollout) {
        (None, _) => None,
        (Some(wanted), Some(found)) if *wanted == found => prior.rollout.clone(),
        // K10's values were set although `rollout` was not: their loss shows as a rollout that nobody asked for.
        (Some(_), found) => Some(found.unwrap_or(Rollout {
            max_surge: "25%".to_owned(),
            max_unavailable: "25%".to_owned(),
        })),
    };
    let kept = |toleration: &&super::spec::Toleration| live.tolerations.contains(toleration);
    ServiceSpec {
        command: live.command.filter(|_| prior.command.is_some()),
        args: live.args.filter(|_| prior.args.is_some()),
        working_dir: live.working_dir.filter(|_| prior.working_dir.is_some()),
        user: user(live.user, prior),
        env: shared(live.env, &prior.env),
        env_from: in_order(&prior.env_from, live.env_from, |from| from.name.clone()),
        secret_env: live
            .secret_env
            .intersection(&prior.secret_env)
            .cloned()
            .collect(),
        secret_env_version: if prior.secret_env.is_empty() || prior.secret_env_version.is_none() {
            prior.secret_env_version
        } else {
            live.secret_env_version
        },
        ports: ports(&prior.ports, live.ports),
        replicas: if identity.autoscaled {
            prior.replicas
        } else {
            live.replicas.filter(|_| prior.replicas.is_some())
        },
        cpu_millis: live.cpu_millis.filter(|_| prior.cpu_millis.is_some()),
        memory_mib: live.memory_mib.filter(|_| prior.memory_mib.is_some()),
        shm_mib: live.shm_mib.filter(|_| prior.shm_mib.is_some()),
        gpu: live.gpu.filter(|_| prior.gpu.is_some()),
        placement: Placement {
            terms: if prior.placement.terms.is_empty() {
                Vec::new()
            } else {
                live.placement.terms
            },
            tolerations: prior
                .placement
                .tolerations
                .iter()
                .filter(kept)
                .cloned()
                .collect(),
        },
        volumes: live
            .volumes
            .into_iter()
            .filter_map(|(name, mut volume)| {
                let wanted = prior.volumes.get(&name)?;
                if wanted.storage_class.is_none() {
                    volume.storage_class = None;
                }
                Some((name, volume))
            })
            .collect(),
        health_check: live.health_check.filter(|_| prior.health_check.is_some()),
        image_pull_secret: live
            .image_pull_secret
            .filter(|_| prior.image_pull_secret.is_some()),
        labels: shared(live.labels, &prior.labels),
        annotations: shared(live.annotations, &prior.annotations),
        stop_grace_seconds: live
            .stop_grace_seconds
            .filter(|_| prior.stop_grace_seconds.is_some()),
        runtime_class: live.runtime_class.filter(|_| prior.runtime_class.is_some()),
        service_account: live
            .service_account
            .filter(|_| prior.service_account.is_some()),
        node_selector: shared(live.node_selector, &prior.node_selector),
        tolerations: prior.tolerations.iter().filter(kept).cloned().collect(),
        service_type: live.service_type.filter(|_| prior.service_type.is_some()),
        priority_class: live
            .priority_class
            .filter(|_| prior.priority_class.is_some()),
        rollout,
        name: live.name,
        namespace: live.namespace,
        image: live.image,
    }
}

/// The group counts only when it was set.
fn user(live: Option<super::spec::RunAs>, prior: &ServiceSpec) -> Option<super::spec::RunAs> {
    let (mut found, wanted) = (live?, prior.user?);
    if wanted.group.is_none() {
        found.group = None;
    }
    Some(found)
}

fn shared(
    live: BTreeMap<String, String>,
    prior: &BTreeMap<String, String>,
) -> BTreeMap<String, String> {
    live.into_iter()
        .filter(|(key, _)| prior.contains_key(key))
        .collect()
}

/// The live ports that were set, by number and protocol; one whose number was changed, by its name.
fn ports(prior: &[Port], live: Vec<Port>) -> Vec<Port> {
    let same = |a: &Port, b: &Port| (a.port, a.protocol.as_str()) == (b.port, b.protocol.as_str());
    let find = |wanted: &Port| {
        let named = |found: &&Port| {
            found.name == wanted.name && !prior.iter().any(|other| same(found, other))
        };
        let there = live.iter().find(|found| same(found, wanted));
        there.or_else(|| live.iter().find(named)).cloned()
    };
    prior.iter().filter_map(find).collect()
}

/// The live items whose key was set, in the order in which they were set.
fn in_order<T, K: PartialEq>(prior: &[T], live: Vec<T>, key: impl Fn(&T) -> K) -> Vec<T> {
    let mut live: Vec<Option<T>> = live.into_iter().map(Some).collect();
    prior
        .iter()
        .filter_map(|wanted| {
            live.iter_mut()
                .find(|found| {
                    found
                        .as_ref()
                        .is_some_and(|found| key(found) == key(wanted))
                })
                .and_then(Option::take)
        })
        .collect()
}

/// Label and annotation keys that controllers and tools write.
fn is_foreign(key: &str) -> bool {
    [
        "deployment.kubernetes.io/",
        "kubectl.kubernetes.io/",
        "loomplane.dev/",
        "meta.helm.sh/",
        "autoscaling.alpha.kubernetes.io/",
    ]
    .iter()
    .any(|prefix| key.starts_with(prefix))
}

/// Keeps what the surface can say and what is no default.
pub(super) fn to_import(mut live: ServiceSpec, identity: &Identity) -> ServiceSpec {
    let name = live.name.clone();
    live.labels.retain(|key, value| {
        !(is_foreign(key)
            || key == SERVICE_LABEL
            || (key == MANAGED_BY && value == "loomplane")
            || (key == "app.kubernetes.io/name" && *value == name))
    });
    live.annotations.retain(|key, _| !is_foreign(key));
    // The API server's default is 1, and whether somebody asked for it can't be told.
    live.replicas = live
        .replicas
        .filter(|replicas| *replicas != 1 && !identity.autoscaled);
    live.stop_grace_seconds = live.stop_grace_seconds.filter(|seconds| *seconds != 30);
    live.service_type = live.service_type.filter(|kind| kind != "ClusterIP");
    live.service_account = live.service_account.filter(|account| account != "default");
    let default = Rollout {
        max_surge: "25%".to_owned(),
        max_unavailable: "25%".to_owned(),
    };
    live.rollout = live.rollout.filter(|rollout| {
        if live.gpu.is_some() {
            *rollout != Rollout::for_full_nodes()
        } else {
            *rollout != default
        }
    });
    if live.gpu.is_some() {
        live.placement.tolerations = std::mem::take(&mut live.tolerations);
    }
    live
}
