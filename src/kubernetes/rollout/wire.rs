//! What a rollout is judged by, as slim types: whole pods of a large Deployment would be heavy to watch.

use std::collections::BTreeMap;

use serde::Deserialize;

/// Metadata of what is watched.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Metadata {
    pub(super) name: String,
    pub(super) uid: String,
    pub(super) resource_version: String,
    pub(super) generation: i64,
    pub(super) labels: BTreeMap<String, String>,
    pub(super) annotations: BTreeMap<String, String>,
    pub(super) deletion_timestamp: Option<String>,
    pub(super) owner_references: Vec<Owner>,
}

/// Who owns an object.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(super) struct Owner {
    pub(super) uid: String,
}

/// A condition of any object.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(super) struct Condition {
    #[serde(rename = "type")]
    pub(super) kind: String,
    pub(super) status: String,
    pub(super) reason: String,
    pub(super) message: String,
}

/// A Deployment.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(super) struct Deployment {
    pub(super) metadata: Metadata,
    pub(super) spec: DeploymentSpec,
    pub(super) status: DeploymentStatus,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(super) struct DeploymentSpec {
    pub(super) replicas: Option<i64>,
    pub(super) paused: bool,
    pub(super) selector: Selector,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Selector {
    pub(super) match_labels: BTreeMap<String, String>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct DeploymentStatus {
    pub(super) observed_generation: i64,
    pub(super) replicas: i64,
    pub(super) updated_replicas: i64,
    pub(super) available_replicas: i64,
    pub(super) conditions: Vec<Condition>,
}

/// A ReplicaSet.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(super) struct ReplicaSet {
    pub(super) metadata: Metadata,
}

/// A pod.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(super) struct Pod {
    pub(super) metadata: Metadata,
    pub(super) status: PodStatus,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct PodStatus {
    pub(super) phase: String,
    pub(super) reason: String,
    pub(super) message: String,
    pub(super) conditions: Vec<Condition>,
    pub(super) init_container_statuses: Vec<ContainerStatus>,
    pub(super) container_statuses: Vec<ContainerStatus>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct ContainerStatus {
    pub(super) name: String,
    pub(super) restart_count: u32,
    pub(super) state: State,
    pub(super) last_state: State,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(super) struct State {
    pub(super) waiting: Option<Waiting>,
    pub(super) terminated: Option<Terminated>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(super) struct Waiting {
    pub(super) reason: String,
    pub(super) message: String,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Terminated {
    pub(super) exit_code: i32,
    pub(super) reason: String,
}

/// An event.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Event {
    #[serde(rename = "type")]
    pub(super) kind: String,
    pub(super) reason: String,
    pub(super) message: String,
    pub(super) last_timestamp: Option<String>,
    pub(super) event_time: Option<String>,
}

/// A list.
#[derive(Debug, Deserialize)]
pub(super) struct List<T> {
    #[serde(default)]
    pub(super) metadata: Metadata,
    #[serde(default = "Vec::new")]
    pub(super) items: Vec<T>,
}
