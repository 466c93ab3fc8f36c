//! From a [`ServiceSpec`] to the objects that are applied. Only what the spec says is written: what it leaves out is
//! neither set nor owned.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::identity::Identity;
use super::spec::{NodeTerm, ServiceSpec, Toleration, TolerationOperator};
use super::{GPU_RESOURCE, SECRET_VERSION, SERVICE_LABEL, probes};

/// The objects of a service, in the order in which they are applied. The Secret is not here: its values come with the apply.
#[derive(Debug, Clone, PartialEq)]
pub struct Objects {
    /// PersistentVolumeClaims, by volume name.
    pub claims: BTreeMap<String, Value>,
    /// Service, when there are ports.
    pub service: Option<Value>,
    /// Deployment.
    pub deployment: Value,
}

/// The recommended label that names the tool behind an object.
pub(super) const MANAGED_BY: &str = "app.kubernetes.io/managed-by";

/// Name of the volume behind /dev/shm.
pub const SHM_VOLUME: &str = "loomplane-shm";

/// Labels of every object of a service.
#[must_use]
pub fn labels(spec: &ServiceSpec) -> BTreeMap<String, String> {
    let mut labels = spec.labels.clone();
    labels
        .entry("app.kubernetes.io/name".to_owned())
        .or_insert_with(|| spec.name.clone());
    // Information for people: what is Loomplane's is told by its own label.
    labels
        .entry(MANAGED_BY.to_owned())
        .or_insert_with(|| "loomplane".to_owned());
    labels.insert(SERVICE_LABEL.to_owned(), spec.name.clone());
    labels
}

/// Writes the objects. `identity` is [`Identity::new`] for a service that does not exist yet.
#[must_use]
pub fn build(spec: &ServiceSpec, identity: &Identity) -> Objects {
    let labels = labels(spec);
    Objects {
        claims: spec
            .volumes
            .keys()
            .map(|volume| (volume.clone(), claim(spec, identity, volume, &labels)))
            .collect(),
        service: (!spec.ports.is_empty()).then(|| service(spec, identity, &labels)),
        deployment: deployment(spec, identity, &labels),
    }
}

fn metadata(
    spec: &ServiceSpec,
    name: &str,
    labels: &BTreeMap<String, String>,
    annotated: bool,
) -> Value {
    let mut metadata = json!({"name": name, "namespace": spec.namespace, "labels": labels});
    if annotated && !spec.annotations.is_empty() {
        metadata["annotations"] = json!(spec.annotations);
    }
    metadata
}

fn claim(
    spec: &ServiceSpec,
    identity: &Identity,
    volume: &str,
    labels: &BTreeMap<String, String>,
) -> Value {
    let wanted = &spec.volumes[volume];
    let mut claim = json!({
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": metadata(spec, &identity.claim(&spec.name, volume), labels, false),
        "spec": {
            "accessModes": [wanted.access_mode.as_str()],
            "resources": {"requests": {"storage": format!("{}Gi", wanted.size_gib)}},
        },
    });
    if let Some(class) = &wanted.storage_class {
        claim["spec"]["storageClassName"] = json!(class);
    }
    claim
}

/// The Secret of `secret_env`, with values in base64.
pub(in crate::kubernetes) fn secret(
    spec: &ServiceSpec,
    values: &BTreeMap<String, secrecy::SecretString>,
) -> Value {
    use base64::Engine as _;
    use secrecy::ExposeSecret as _;
    let data: BTreeMap<&String, String> = values
        .iter()
        .map(|(name, value)| {
            (
                name,
                base64::engine::general_purpose::STANDARD.encode(value.expose_secret()),
            )
        })
        .collect();
    json!({
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": metadata(spec, &spec.secret_name(), &labels(spec), false),
        "type": "Opaque",
        "data": data,
    })
}

fn service(spec: &ServiceSpec, identity: &Identity, labels: &BTreeMap<String, String>) -> Value {
    let ports: Vec<Value> = spec
        .ports
        .iter()
        .map(|port| json!({"name": port.name, "port": port.port, "targetPort": port.port, "protocol": port.protocol.as_str()}))
        .collect();
    let mut service = json!({
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": metadata(spec, &spec.name, labels, true),
        "spec": {"selector": identity.selector, "ports": ports},
    });
    if let Some(kind) = &spec.service_type {
        service["spec"]["type"] = json!(kind);
    }
    service
}

fn deployment(spec: &ServiceSpec, identity: &Identity, labels: &BTreeMap<String, String>) -> Value {
    let mut pod_labels = labels.clone();
    pod_labels.extend(identity.selector.clone());
    let mut pod_annotations = spec.annotations.clone();
    if let Some(version) = spec.secret_env_version
        && !spec.secret_env.is_empty()
    {
        pod_annotations.insert(SECRET_VERSION.to_owned(), version.to_string());
    }
    let mut pod_metadata = json!({"labels": pod_labels});
    if !pod_annotations.is_empty() {
        pod_metadata["annotations"] = json!(pod_annotations);
    }
    let mut body = json!({
        "selector": {"matchLabels": identity.selector},
        "template": {"metadata": pod_metadata, "spec": pod(spec, identity)},
    });
    if let Some(replicas) = spec.replicas
        && !identity.autoscaled
    {
        body["replicas"] = json!(replicas);
    }
    if let Some(rollout) = spec.effective_rollout() {
        body["strategy"] = json!({
            "type": "RollingUpdate",
            "rollingUpdate": {"maxSurge": int_or_text(&rollout.max_surge), "maxUnavailable": int_or_text(&rollout.max_unavailable)},
        });
    }
    json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata(spec, &spec.name, labels, true), "spec": body})
}

/// `1` is a number, `25%` is text.
fn int_or_text(value: &str) -> Value {
    value
        .parse::<u32>()
        .map_or_else(|_| json!(value), |number| json!(number))
}

fn pod(spec: &ServiceSpec, identity: &Identity) -> Value {
    let mut pod = Map::new();
    pod.insert("containers".to_owned(), json!([container(spec, identity)]));
    let mut volumes: Vec<Value> = spec
        .volumes
        .keys()
        .map(|volume| json!({"name": volume, "persistentVolumeClaim": {"claimName": identity.claim(&spec.name, volume)}}))
        .collect();
    if let Some(shm) = spec.shm_mib {
        volumes.push(json!({"name": SHM_VOLUME, "emptyDir": {"medium": "Memory", "sizeLimit": format!("{shm}Mi")}}));
    }
    if !volumes.is_empty() {
        pod.insert("volumes".to_owned(), json!(volumes));
    }
    let text_fields = [
        ("runtimeClassName", &spec.runtime_class),
        ("serviceAccountName", &spec.service_account),
        // The API server mirrors the name into this old field, and back from it: only who owns both can unset it.
        ("serviceAccount", &spec.service_account),
        ("priorityClassName", &spec.priority_class),
    ];
    for (field, value) in text_fields {
        if let Some(value) = value {
            pod.insert(field.to_owned(), json!(value));
        }
    }
    if let Some(seconds) = spec.stop_grace_seconds {
        pod.insert("terminationGracePeriodSeconds".to_owned(), json!(seconds));
    }
    if let Some(secret) = &spec.image_pull_secret {
        pod.insert("imagePullSecrets".to_owned(), json!([{"name": secret}]));
    }
    if !spec.node_selector.is_empty() {
        pod.insert("nodeSelector".to_owned(), json!(spec.node_selector));
    }
    if !spec.placement.terms.is_empty() {
        let terms: Vec<Value> = spec.placement.terms.iter().map(term).collect();
        pod.insert(
            "affinity".to_owned(),
            json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}}),
        );
    }
    let mut tolerations: Vec<&Toleration> = Vec::new();
    for toleration in spec.placement.tolerations.iter().chain(&spec.tolerations) {
        if !tolerations.contains(&toleration) {
            tolerations.push(toleration);
        }
    }
    if !tolerations.is_empty() {
        pod.insert(
            "tolerations".to_owned(),
            tolerations.into_iter().map(toleration).collect(),
        );
    }
    Value::Object(pod)
}

fn container(spec: &ServiceSpec, identity: &Identity) -> Value {
    let mut container = json!({"name": identity.container, "image": spec.image});
    if let Some(command) = &spec.command {
        container["command"] = json!(command);
    }
    if let Some(args) = &spec.args {
        container["args"] = json!(args);
    }
    if let Some(folder) = &spec.working_dir {
        container["workingDir"] = json!(folder);
    }
    if let Some(user) = spec.user {
        container["securityContext"] = json!({"runAsUser": user.user});
        if let Some(group) = user.group {
            container["securityContext"]["runAsGroup"] = json!(group);
        }
    }
    let mut env: Vec<Value> = spec
        .env
        .iter()
        .map(|(name, value)| json!({"name": name, "value": value}))
        .collect();
    env.extend(spec.env_from.iter().map(|from| json!({"name": from.name, "valueFrom": {"secretKeyRef": {"name": from.secret, "key": from.key}}})));
    env.extend(spec.secret_env.iter().map(|name| json!({"name": name, "valueFrom": {"secretKeyRef": {"name": spec.secret_name(), "key": name}}})));
    if !env.is_empty() {
        container["env"] = json!(env);
    }
    if !spec.ports.is_empty() {
        let ports: Vec<Value> =
            spec.ports.iter().map(|port| json!({"name": port.name, "containerPort": port.port, "protocol": port.protocol.as_str()})).collect();
        container["ports"] = json!(ports);
    }
    let mut amounts = Map::new();
    if let Some(cpu) = spec.cpu_millis {
        amounts.insert("cpu".to_owned(), json!(format!("{cpu}m")));
    }
    if let Some(memory) = spec.memory_mib {
        amounts.insert("memory".to_owned(), json!(format!("{memory}Mi")));
    }
    if let Some(gpu) = spec.gpu {
        amounts.insert(GPU_RESOURCE.to_owned(), json!(gpu.count.to_string()));
    }
    if !amounts.is_empty() {
        container["resources"] = json!({"requests": amounts, "limits": amounts});
    }
    let mut mounts: Vec<Value> = spec
        .volumes
        .iter()
        .map(|(name, volume)| json!({"name": name, "mountPath": volume.mount_path}))
        .collect();
    if spec.shm_mib.is_some() {
        mounts.push(json!({"name": SHM_VOLUME, "mountPath": "/dev/shm"}));
    }
    if !mounts.is_empty() {
        container["volumeMounts"] = json!(mounts);
    }
    if let Some(check) = &spec.health_check {
        probes::write(check, &mut container);
    }
    container
}

fn term(term: &NodeTerm) -> Value {
    let expressions: Vec<Value> = term
        .requirements
        .iter()
        .map(|requirement| {
            let mut expression =
                json!({"key": requirement.key, "operator": requirement.operator.as_str()});
            if !requirement.values.is_empty() {
                expression["values"] = json!(requirement.values);
            }
            expression
        })
        .collect();
    json!({"matchExpressions": expressions})
}

fn toleration(toleration: &Toleration) -> Value {
    let mut written = Map::new();
    if !toleration.key.is_empty() {
        written.insert("key".to_owned(), json!(toleration.key));
    }
    written.insert(
        "operator".to_owned(),
        json!(if toleration.operator == TolerationOperator::Exists {
            "Exists"
        } else {
            "Equal"
        }),
    );
    if toleration.operator == TolerationOperator::Equal && !toleration.value.is_empty() {
        written.insert("value".to_owned(), json!(toleration.value));
    }
    if let Some(effect) = &toleration.effect {
        written.insert("effect".to_owned(), json!(effect));
    }
    if let Some(seconds) = toleration.seconds {
        written.insert("tolerationSeconds".to_owned(), json!(seconds));
    }
    Value::Object(written)
}
