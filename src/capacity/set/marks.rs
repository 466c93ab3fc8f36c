//! The labels and annotations of capacity sets.
//!
//! On a KubeVirt VirtualMachine or a pod, labels [`SET`] and [`POOL`] make it a claim of that pool. Everything else is an annotation, which the arbiter writes
//! (and which may be written by hand where there is none): [`NODE`] and [`CARDS`] say which cards it has, or which are held for it while it waits; [`DEADLINE`],
//! [`REASON`] and [`FOR`] are its notice. On a node, label [`FABRIC`] says how its cards are wired where that can't be told, label [`DRAIN`] asks to empty it, and annotation
//! [`BLOCKS`] gives its blocks where they are not those of the board's table.

/// What all of them begin with.
pub const PREFIX: &str = "capacity.loomplane.dev/";
/// Label of a workload: the set's name.
pub const SET: &str = "capacity.loomplane.dev/set";
/// Label of a workload: the pool's name.
pub const POOL: &str = "capacity.loomplane.dev/pool";
/// Annotation of a workload: the node of its cards.
pub const NODE: &str = "capacity.loomplane.dev/node";
/// Annotation of a workload: its cards by module number, such as `0,1`.
pub const CARDS: &str = "capacity.loomplane.dev/cards";
/// Annotation of a workload: when it began to wait, RFC 3339. Otherwise when it was made.
pub const REQUESTED_AT: &str = "capacity.loomplane.dev/requested-at";
/// Annotation of a workload: when it began to run, RFC 3339. Otherwise what Kubernetes says.
pub const STARTED_AT: &str = "capacity.loomplane.dev/started-at";
/// Annotation of a workload: when it will be stopped, RFC 3339. Its presence is the notice.
pub const DEADLINE: &str = "capacity.loomplane.dev/deadline";
/// Annotation of a workload: why it will be stopped: `arbiter_stop`, `drain` or `rental_reclaim`.
pub const REASON: &str = "capacity.loomplane.dev/reason";
/// Annotation of a workload: the claim that gets its cards.
pub const FOR: &str = "capacity.loomplane.dev/for";
/// Annotation of a VirtualMachine: `false` takes one that does not run out of its pool, without deleting it.
pub const WANTED: &str = "capacity.loomplane.dev/wanted";
/// Label of a node: `pcie` or `nvswitch`.
pub const FABRIC: &str = "capacity.loomplane.dev/fabric";
/// Label of a node: `true` asks to empty it.
pub const DRAIN: &str = "capacity.loomplane.dev/drain";
/// Annotation of a node: its blocks, a JSON list of lists of card numbers, singles too.
pub const BLOCKS: &str = "capacity.loomplane.dev/blocks";

/// The namespace of the sets' leases.
pub const LEASE_NAMESPACE: &str = "loomplane-system";

/// The name of a set's Lease (`coordination.k8s.io`), which the arbiter that acts for it holds.
#[must_use]
pub fn lease_name(set: &str) -> String {
    format!("capacity-set-{set}")
}
