//! Why a request is refused, as data. The words are in `text`.

use super::declared::Disagreement;
use crate::capacity::gpu::{GpuRequest, Kind};
use crate::capacity::label::{NodeKind, Sharing};
use crate::capacity::node::Taint;

/// Why the nodes of one group do not fit.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum GroupWhy {
    /// They have another kind.
    OtherKind,
    /// Their kind is listed and priced only (G2).
    NotSchedulable,
    /// Nothing that they carry names a known kind.
    UnknownKind,
    /// They are not amd64 (G4).
    Arch,
    /// They hand out slices (K7).
    NotWhole,
    /// They have GPUs and advertise none (K3).
    NotAdvertised,
    /// They advertise GPUs, and not one is healthy.
    NoneHealthy,
    /// One node has fewer GPUs than were asked for.
    TooFew,
    /// Their label is known, and spelled otherwise than the scheduler would find it.
    Spelling,
    /// They lack the label `kubernetes.io/arch = amd64`, which every kubelet sets and the scheduler goes by.
    ArchLabel,
    /// They lack a label of the node selector.
    Selector,
    /// Not one of them gives a pod that much CPU or memory.
    TooSmall {
        /// The most CPU that one gives, in thousandths of a core.
        cpu_millis: Option<u64>,
        /// The most memory that one gives, in MiB.
        memory_mib: Option<u64>,
    },
    /// They carry taints that the pod would not tolerate (K6).
    Taints(Vec<Taint>),
}

/// A line of a refusal: nodes that are the same in kind, count and reason.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct GroupLine {
    /// Why they do not fit.
    pub why: GroupWhy,
    /// The kind of their GPUs.
    pub kind: NodeKind,
    /// Whether they hand out whole devices.
    pub sharing: Sharing,
    /// GPUs per node.
    pub gpus: u64,
    /// Their architecture.
    pub arch: String,
    /// The label that names their kind, where its spelling is the reason.
    pub label: Option<(String, String)>,
    /// The name of the declared group, for nodes that may not exist yet (K11).
    pub declared: Option<String>,
    /// How many nodes; 0 for a declared group.
    pub nodes: u64,
}

/// A service account, as a cluster knows it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct ServiceAccount {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
}

/// Why a cluster can't meet a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ClusterWhy {
    /// Its nodes can't be listed (K1), and no declared node group fits (K11).
    NotListed {
        /// The service account in use, where that can be told.
        service_account: Option<ServiceAccount>,
    },
    /// No node has a GPU (K3).
    NoGpuNodes {
        /// Nodes in all.
        nodes: u64,
    },
    /// Nodes have GPUs, and nothing advertises `nvidia.com/gpu` (K3).
    NoPlugin {
        /// GPU nodes.
        gpu_nodes: u64,
    },
    /// Nodes advertise GPUs, and no label names their kind (K3).
    NoKindLabel {
        /// GPU nodes.
        gpu_nodes: u64,
    },
    /// No node group fits.
    NoMatch,
    /// Node groups fit, and taints keep the pod from every one (K6).
    Taints,
}

/// A refusal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClusterRefusal {
    /// The cluster's name.
    pub target: String,
    /// What was asked.
    pub request: GpuRequest,
    /// Why not.
    pub why: ClusterWhy,
    /// Group by group, why not.
    pub lines: Vec<GroupLine>,
    /// Kinds that the cluster does have.
    pub kinds: Vec<Kind>,
    /// Declared groups that nodes disagree with, of the kind that was asked for: perhaps the mistake is there (K11).
    pub disagreements: Vec<Disagreement>,
}
