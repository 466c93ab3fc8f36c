//! From what lives on a cluster back to a [`ServiceSpec`], so that drift of what Loomplane set is a difference and nothing
//! else is: no default of the API server, no admission webhook, no autoscaler.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{Container, PersistentVolumeClaim, PodSpec, Service};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use super::build::SHM_VOLUME;
use super::identity::{Identity, main_container};
use super::narrow;
use super::spec::{
    AccessMode, EnvFrom, Gpu, NodeOperator, NodeRequirement, NodeTerm, Placement, Port, Protocol,
    Rollout, RunAs, ServiceSpec, Toleration, TolerationOperator, Volume,
};
use super::{GPU_RESOURCE, SECRET_VERSION, probes, quantity};

/// The objects of a service as they live on the cluster.
#[derive(Debug, Clone, Default)]
pub struct Live {
    /// Deployment.
    pub deployment: Deployment,
    /// Service of the same name.
    pub service: Option<Service>,
    /// Claims that the Deployment mounts, by claim name.
    pub claims: BTreeMap<String, PersistentVolumeClaim>,
    /// Keys of the service's own Secret; `None`: there is no such Secret.
    pub secret_keys: Option<BTreeSet<String>>,
    /// Whether the Secret's keys could not be read for lack of rights, so that nothing is said about them.
    pub secret_unreadable: bool,
}

/// Through what live objects are looked at.
#[derive(Debug, Clone, Copy)]
pub enum Lens<'a> {
    /// What the state says was set: only that is compared.
    Prior(&'a ServiceSpec),
    /// Everything that the surface can express and that is no default: for import and `moved`.
    Import,
}

/// Reads a live service.
#[must_use]
pub fn observe(live: &Live, lens: Lens<'_>) -> ServiceSpec {
    let prior = match lens {
        Lens::Prior(prior) => Some(prior),
        Lens::Import => None,
    };
    let everything = read(live, prior);
    match lens {
        Lens::Prior(prior) => narrow::to_prior(everything, prior, &Identity::of(&live.deployment)),
        Lens::Import => narrow::to_import(everything, &Identity::of(&live.deployment)),
    }
}

/// What a live Deployment has that the surface can't say, for a warning at import. It stays as it is.
#[must_use]
pub fn unexpressed(live: &Live) -> Vec<String> {
    let mut found = Vec::new();
    let Some(pod) = live
        .deployment
        .spec
        .as_ref()
        .and_then(|spec| spec.template.spec.as_ref())
    else {
        return found;
    };
    let name = live.deployment.metadata.name.as_deref().unwrap_or_default();
    if let Some(main) = main_container(pod, name) {
        found.extend(
            pod.containers
                .iter()
                .filter(|other| other.name != main.name)
                .map(|other| format!("container {}", other.name)),
        );
        if main
            .env_from
            .as_ref()
            .is_some_and(|sources| !sources.is_empty())
        {
            found.push("envFrom".to_owned());
        }
        if main.lifecycle.is_some() {
            found.push("lifecycle hooks".to_owned());
        }
        let not_http = |probe: &Option<k8s_openapi::api::core::v1::Probe>| {
            probe.as_ref().is_some_and(|probe| probe.http_get.is_none())
        };
        if not_http(&main.readiness_probe)
            || not_http(&main.liveness_probe)
            || not_http(&main.startup_probe)
        {
            found.push("a probe that is not HTTP".to_owned());
        }
    }
    found.extend(
        pod.init_containers
            .iter()
            .flatten()
            .map(|container| format!("init container {}", container.name)),
    );
    found.extend(
        pod.volumes
            .iter()
            .flatten()
            .filter(|volume| volume.persistent_volume_claim.is_none() && !is_shm(volume))
            .map(|volume| format!("volume {} (not a PersistentVolumeClaim)", volume.name)),
    );
    if pod.host_network == Some(true) {
        found.push("hostNetwork".to_owned());
    }
    found
}

fn is_shm(volume: &k8s_openapi::api::core::v1::Volume) -> bool {
    volume
        .empty_dir
        .as_ref()
        .is_some_and(|dir| dir.medium.as_deref() == Some("Memory"))
}

/// Everything that the surface can say, defaults included.
fn read(live: &Live, prior: Option<&ServiceSpec>) -> ServiceSpec {
    let metadata = &live.deployment.metadata;
    let name = metadata.name.clone().unwrap_or_default();
    let mut spec = ServiceSpec {
        namespace: metadata.namespace.clone().unwrap_or_default(),
        labels: metadata.labels.clone().unwrap_or_default(),
        annotations: metadata.annotations.clone().unwrap_or_default(),
        ..ServiceSpec::default()
    };
    if let Some(body) = &live.deployment.spec {
        spec.replicas = body
            .replicas
            .and_then(|replicas| u32::try_from(replicas).ok());
        spec.secret_env_version = body
            .template
            .metadata
            .as_ref()
            .and_then(|metadata| metadata.annotations.as_ref())
            .and_then(|annotations| annotations.get(SECRET_VERSION))
            .and_then(|version| version.parse().ok());
        spec.rollout = body
            .strategy
            .as_ref()
            .and_then(|strategy| strategy.rolling_update.as_ref())
            .map(|rolling| Rollout {
                max_surge: text(rolling.max_surge.as_ref(), "25%"),
                max_unavailable: text(rolling.max_unavailable.as_ref(), "25%"),
            });
        if let Some(pod) = &body.template.spec {
            read_pod(&mut spec, pod);
            if let Some(container) = main_container(pod, &name) {
                spec.name.clone_from(&name);
                read_container(&mut spec, container, live, prior);
                read_volumes(&mut spec, pod, container, live, prior);
            }
        }
    }
    if let Some(service) = live
        .service
        .as_ref()
        .and_then(|service| service.spec.as_ref())
    {
        spec.service_type.clone_from(&service.type_);
        // A port is served when the container and the Service both have it; the Service's name is the one that counts.
        let served: Vec<Port> = service
            .ports
            .iter()
            .flatten()
            .filter_map(|port| {
                Some(Port {
                    name: port.name.clone().unwrap_or_default(),
                    port: u16::try_from(port.port).ok()?,
                    protocol: Protocol::parse(port.protocol.as_deref())?,
                })
            })
            .collect();
        spec.ports = served;
    } else {
        spec.ports.clear();
    }
    spec.name = name;
    spec
}

fn text(value: Option<&IntOrString>, default: &str) -> String {
    match value {
        Some(IntOrString::Int(number)) => number.to_string(),
        Some(IntOrString::String(text)) => text.clone(),
        None => default.to_owned(),
    }
}

fn read_pod(spec: &mut ServiceSpec, pod: &PodSpec) {
    spec.runtime_class.clone_from(&pod.runtime_class_name);
    spec.service_account.clone_from(&pod.service_account_name);
    spec.priority_class.clone_from(&pod.priority_class_name);
    spec.stop_grace_seconds = pod
        .termination_grace_period_seconds
        .and_then(|seconds| u32::try_from(seconds).ok());
    spec.image_pull_secret = pod
        .image_pull_secrets
        .iter()
        .flatten()
        .map(|secret| secret.name.clone())
        .find(|name| !name.is_empty());
    spec.node_selector = pod.node_selector.clone().unwrap_or_default();
    let terms = pod
        .affinity
        .as_ref()
        .and_then(|affinity| affinity.node_affinity.as_ref())
        .and_then(|affinity| {
            affinity
                .required_during_scheduling_ignored_during_execution
                .as_ref()
        })
        .map(|required| {
            required
                .node_selector_terms
                .iter()
                .map(|term| NodeTerm {
                    requirements: term
                        .match_expressions
                        .iter()
                        .flatten()
                        .filter_map(|expression| {
                            Some(NodeRequirement {
                                key: expression.key.clone(),
                                operator: NodeOperator::parse(&expression.operator)?,
                                values: expression.values.clone().unwrap_or_default(),
                            })
                        })
                        .collect(),
                })
                .collect()
        })
        .unwrap_or_default();
    spec.placement = Placement {
        terms,
        tolerations: Vec::new(),
    };
    spec.tolerations = pod
        .tolerations
        .iter()
        .flatten()
        .map(|toleration| Toleration {
            key: toleration.key.clone().unwrap_or_default(),
            operator: if toleration.operator.as_deref() == Some("Exists") {
                TolerationOperator::Exists
            } else {
                TolerationOperator::Equal
            },
            value: toleration.value.clone().unwrap_or_default(),
            effect: toleration
                .effect
                .clone()
                .filter(|effect| !effect.is_empty()),
            seconds: toleration.toleration_seconds,
        })
        .collect();
}

fn read_container(
    spec: &mut ServiceSpec,
    container: &Container,
    live: &Live,
    prior: Option<&ServiceSpec>,
) {
    spec.image = container.image.clone().unwrap_or_default();
    spec.command = container.command.clone().filter(|words| !words.is_empty());
    spec.args = container.args.clone().filter(|words| !words.is_empty());
    spec.working_dir.clone_from(&container.working_dir);
    spec.user = container.security_context.as_ref().and_then(|context| {
        context.run_as_user.map(|user| RunAs {
            user,
            group: context.run_as_group,
        })
    });
    let own_secret = spec.secret_name();
    for variable in container.env.iter().flatten() {
        let reference = variable
            .value_from
            .as_ref()
            .and_then(|from| from.secret_key_ref.as_ref());
        match reference {
            Some(reference) if reference.name == own_secret && reference.key == variable.name => {
                let there = live.secret_unreadable
                    || live
                        .secret_keys
                        .as_ref()
                        .is_some_and(|keys| keys.contains(&reference.key));
                if there {
                    spec.secret_env.insert(variable.name.clone());
                }
            }
            Some(reference) => {
                spec.env_from.push(EnvFrom {
                    name: variable.name.clone(),
                    secret: reference.name.clone(),
                    key: reference.key.clone(),
                });
            }
            None if variable.value_from.is_none() => {
                spec.env.insert(
                    variable.name.clone(),
                    variable.value.clone().unwrap_or_default(),
                );
            }
            None => {}
        }
    }
    let resources = container.resources.clone().unwrap_or_default();
    let (requests, limits) = (
        resources.requests.unwrap_or_default(),
        resources.limits.unwrap_or_default(),
    );
    spec.cpu_millis = amount(
        &requests,
        &limits,
        "cpu",
        quantity::milli,
        prior.and_then(|prior| prior.cpu_millis),
    );
    spec.memory_mib = amount(
        &requests,
        &limits,
        "memory",
        quantity::mebi,
        prior.and_then(|prior| prior.memory_mib),
    );
    spec.gpu = limits
        .get(GPU_RESOURCE)
        .and_then(|quantity| quantity::milli(&quantity.0))
        .and_then(|thousandths| u32::try_from(thousandths / 1000).ok())
        .filter(|count| *count > 0)
        .map(|count| Gpu { count });
    spec.health_check = probes::read(
        container,
        prior.and_then(|prior| prior.health_check.as_ref()),
    );
}

/// Request and limit are one number here. Where they differ, the one that is not what was set is the drift to show.
fn amount(
    requests: &BTreeMap<String, Quantity>,
    limits: &BTreeMap<String, Quantity>,
    name: &str,
    read: fn(&str) -> Option<u64>,
    prior: Option<u64>,
) -> Option<u64> {
    let limit = limits.get(name).and_then(|quantity| read(&quantity.0));
    let request = requests.get(name).and_then(|quantity| read(&quantity.0));
    match (limit, request) {
        (Some(limit), Some(request)) if limit != request && Some(limit) == prior => Some(request),
        (Some(limit), _) => Some(limit),
        // With a prior, half of the pair is drift: say that it is not set.
        (None, request) => request.filter(|_| prior.is_none()),
    }
}

fn read_volumes(
    spec: &mut ServiceSpec,
    pod: &PodSpec,
    container: &Container,
    live: &Live,
    prior: Option<&ServiceSpec>,
) {
    for volume in pod.volumes.iter().flatten() {
        let Some(mount) = container
            .volume_mounts
            .iter()
            .flatten()
            .find(|mount| mount.name == volume.name)
        else {
            continue;
        };
        if volume.name == SHM_VOLUME || (is_shm(volume) && mount.mount_path == "/dev/shm") {
            spec.shm_mib = volume
                .empty_dir
                .as_ref()
                .and_then(|dir| dir.size_limit.as_ref())
                .and_then(|limit| quantity::mebi(&limit.0));
            continue;
        }
        let Some(source) = &volume.persistent_volume_claim else {
            continue;
        };
        // A claim that is gone is a volume that is gone, whatever the pod template says.
        let Some(claim) = live
            .claims
            .get(&source.claim_name)
            .and_then(|claim| claim.spec.as_ref())
        else {
            continue;
        };
        let size = claim
            .resources
            .as_ref()
            .and_then(|resources| resources.requests.as_ref())
            .and_then(|requests| requests.get("storage"))
            .and_then(|storage| quantity::gibi(&storage.0))
            .unwrap_or_default();
        spec.volumes.insert(
            volume.name.clone(),
            Volume {
                mount_path: mount.mount_path.clone(),
                size_gib: size,
                access_mode: claim
                    .access_modes
                    .iter()
                    .flatten()
                    .find_map(|mode| AccessMode::parse(mode))
                    .unwrap_or_default(),
                storage_class: claim.storage_class_name.clone(),
                delete_on_destroy: prior
                    .and_then(|prior| prior.volumes.get(&volume.name))
                    .is_some_and(|volume| volume.delete_on_destroy),
            },
        );
    }
}
