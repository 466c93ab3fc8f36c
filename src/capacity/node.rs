//! A Kubernetes node, as far as placement cares: plain data that an adapter fills in.

use std::collections::BTreeMap;

/// One node of a cluster.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Node {
    /// `metadata.name`.
    pub name: String,
    /// `metadata.labels`, only those that placement can use: see [`crate::capacity::label`].
    pub labels: BTreeMap<String, String>,
    /// `spec.taints`.
    pub taints: Vec<Taint>,
    /// What stands for each other label: see [`crate::capacity::label::fingerprint`].
    pub others: Vec<u32>,
    /// `status.allocatable` of `cpu`, in thousandths of a core; none when it is not said.
    pub cpu_millis: Option<u64>,
    /// `status.allocatable` of `memory`, in MiB, rounded up; none when it is not said.
    pub memory_mib: Option<u64>,
    /// `status.allocatable`, whole units, only of extended resources such as `nvidia.com/gpu`.
    pub allocatable: BTreeMap<String, u64>,
    /// `status.capacity`, like `allocatable`.
    pub capacity: BTreeMap<String, u64>,
    /// `status.nodeInfo.architecture`, else the label `kubernetes.io/arch`; empty when neither is there.
    pub arch: String,
    /// `spec.unschedulable`.
    pub cordoned: bool,
    /// Whether the condition `Ready` is `True`.
    pub ready: bool,
}

/// A taint of a node.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Taint {
    /// Key, such as `nvidia.com/gpu`.
    pub key: String,
    /// Value; empty when there is none.
    pub value: String,
    /// Effect.
    pub effect: Effect,
}

/// What a taint does to a pod that does not tolerate it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Effect {
    /// New pods stay away.
    NoSchedule,
    /// New pods stay away where possible.
    PreferNoSchedule,
    /// Running pods are evicted too.
    NoExecute,
    /// An effect that this version of Loomplane does not know; treated like `NoSchedule`.
    Other(String),
}
