//! Capacity sets as they are in a cluster: from what was seen there to a [`Snapshot`] for the arbiter, and from its plan to what a person reads.
//!
//! Pure, like all of `capacity`. The preview in a Terraform plan and the running arbiter both go this way, so that they plan on the same facts.
//!
//! | file | question that it answers |
//! |---|---|
//! | [`marks`] | by which labels and annotations a pool's claims and a node's state are recognized |
//! | [`membership`] | which nodes are in a set, and why others are refused (A1) |
//! | [`assemble`] | which claims there are, on which cards |
//! | [`outcome`] | who would lose what, which blocks are free |
//! | [`what_if`] | the same set with one thing changed |

pub mod assemble;
pub mod marks;
pub mod membership;
pub mod outcome;
#[cfg(test)]
mod tests;
pub mod what_if;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::Timestamp;

pub use assemble::{Assembled, assemble};
pub use membership::{Refused, members};

use super::arbiter::snapshot::{Pool, Set};
use super::node::Node;

/// What a capacity set is, as its object says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Definition {
    /// The set.
    pub set: Set,
    /// Its pools, by name.
    pub pools: Vec<Pool>,
    /// Its nodes.
    pub nodes: Nodes,
}

/// Which nodes a set is made of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Nodes {
    /// These.
    Named(BTreeSet<String>),
    /// Those with all of these labels.
    Selected(BTreeMap<String, String>),
}

impl Nodes {
    /// Whether a node of this name with these labels is meant.
    #[must_use]
    pub fn admits(&self, node: &Node) -> bool {
        match self {
            Self::Named(names) => names.contains(&node.name),
            Self::Selected(labels) => labels
                .iter()
                .all(|(key, value)| node.labels.get(key) == Some(value)),
        }
    }
}

/// A node, with what it says of capacity sets.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SeenNode {
    /// The node, with all of its labels.
    pub node: Node,
    /// Those of its annotations that begin with [`marks::PREFIX`].
    pub annotations: BTreeMap<String, String>,
}

/// What a workload is in Kubernetes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum WorkloadKind {
    /// A KubeVirt VirtualMachine.
    Vm,
    /// A pod.
    Pod,
}

/// How far a workload is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// It has no node.
    Waiting,
    /// It has a node, or was told to start on one.
    Running,
    /// It was told to stop, and still has its node.
    Stopping,
}

/// A workload that has GPUs or wants them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Workload {
    /// VM or pod.
    pub kind: WorkloadKind,
    /// Namespace.
    pub namespace: String,
    /// Name.
    pub name: String,
    /// The pool that it names; empty when it names none.
    pub pool: String,
    /// Those of its annotations that begin with [`marks::PREFIX`].
    pub annotations: BTreeMap<String, String>,
    /// Whole GPUs that it asks for.
    pub gpus: u32,
    /// How far it is.
    pub phase: Phase,
    /// The node that Kubernetes has it on.
    pub node: Option<String>,
    /// When it was made.
    pub created_at: Option<Timestamp>,
    /// When it began to run.
    pub started_at: Option<Timestamp>,
}

impl Workload {
    /// Its name as a claim: `vm/NAMESPACE/NAME` or `pod/NAMESPACE/NAME`.
    #[must_use]
    pub fn claim_name(&self) -> String {
        let kind = match self.kind {
            WorkloadKind::Vm => "vm",
            WorkloadKind::Pod => "pod",
        };
        format!("{kind}/{}/{}", self.namespace, self.name)
    }
}

/// What was seen of a cluster.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Observed {
    /// Its nodes.
    pub nodes: Arc<Vec<SeenNode>>,
    /// Workloads that name this set.
    pub members: Vec<Workload>,
    /// Workloads that hold GPUs on the set's nodes and do not name this set.
    pub strangers: Vec<Workload>,
    /// Other sets of the cluster.
    pub others: Arc<Vec<Definition>>,
}
