//! What `loomplane_capacity_set` is made of: the model, the schema and the documentation at once.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tf_provider_sdk::{
    field::{Computed, Maybe, Opt, Replace, SetOf, Stable},
    timeouts::Timeouts,
};

use super::preview::Preview;

/// A capacity set: GPU nodes of one cluster, of one kind and one fabric, shared by ranked pools of on-demand VMs, spot VMs and inference replicas. Ranks say
/// who gets capacity when there is not enough. It is an object `CapacitySet` of the cluster, which the arbiter acts on.
///
/// A workload is a claim of a pool by two labels, on a pod or a KubeVirt `VirtualMachine`: `capacity.loomplane.dev/set` with the name of the set and
/// `capacity.loomplane.dev/pool` with the name of the pool. Its annotations `capacity.loomplane.dev/node` and `capacity.loomplane.dev/cards` (such as `0,1`) say which cards
/// it has; for one that runs and does not say it, `preview` assumes them, and `preview.notes` tells. A node whose label `capacity.loomplane.dev/drain` is `true` is emptied.
///
/// A plan that changes a set warns with what the change would do: who would lose capacity, and to whom. In `mode = "dry_run"`, where a set starts, nothing is ever moved.
/// Destroying a set moves nothing either, and leaves the definition of the kind in the cluster.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct CapacitySet {
    /// Identifier, the same as `name`.
    pub id: Stable<String>,
    /// Name of the set. A new name makes a new set.
    #[schemars(
        length(min = 1, max = 50),
        regex(pattern = "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$")
    )]
    pub name: Replace<Maybe<String>>,
    /// Name of the connection to the cluster. A connection that is renamed keeps the set; another cluster makes a new one.
    pub cluster: Maybe<String>,
    /// UID of the cluster's namespace `kube-system`. Empty where it can't be read.
    pub target_uid: Stable<String>,
    /// Kind of the GPUs, such as `nvidia-a100-80gb`: `data.loomplane_gpu_kinds` lists them. A node of another kind is refused.
    pub gpu_kind: Maybe<String>,
    /// How the cards of a node are wired: `pcie` hands out single cards, `nvswitch` blocks of 1, 2, 4 or 8. A node that is wired otherwise is refused.
    pub fabric: Maybe<Fabric>,
    /// Names of the nodes. Give either these or `node_selector`.
    pub nodes: Opt<SetOf<Maybe<String>>>,
    /// Labels of the nodes: every node with all of them that fits is in the set, also those that join later.
    pub node_selector: Opt<BTreeMap<String, Maybe<String>>>,
    /// `dry_run` (the default): the arbiter publishes its plan and moves nothing. `enforce`: it carries it out. That needs a running arbiter, which holds the set's lease
    /// (`capacity-set-NAME` in the namespace `loomplane-system`).
    #[serde(default = "dry_run")]
    pub mode: Maybe<Mode>,
    /// Seconds between a notice and the stop, for pools that say nothing else. Default: 120.
    #[schemars(range(min = 0, max = 604_800))]
    #[serde(default = "notice_seconds")]
    pub notice_seconds: Maybe<i64>,
    /// Seconds that a workload runs at least before it can lose its cards. Default: 300.
    #[schemars(range(min = 0, max = 31_536_000))]
    #[serde(default = "minimum_runtime_seconds")]
    pub minimum_runtime_seconds: Maybe<i64>,
    /// The pools, by name.
    pub pools: Maybe<BTreeMap<String, Maybe<Pool>>>,
    /// Install the definition of the kind `CapacitySet` when the cluster lacks it, and bring an older one up to date. It is an object of the whole cluster, and destroying
    /// a set leaves it there. Setting it on a set that is there is a change only where there is something to install.
    #[serde(default)]
    pub install_crd: bool,
    /// Take over fields of the object that others manage, instead of refusing. Setting it is no change by itself.
    #[serde(default)]
    pub force_conflicts: bool,
    /// The plan: what the arbiter does, or would do in `dry_run`, as of the last refresh.
    pub preview: Computed<Preview>,
    /// Nodes that are named or selected and do not fit, with the reason.
    pub nodes_refused: Computed<BTreeMap<String, String>>,
    /// GPUs of the set.
    pub gpus: Computed<i64>,
    /// How many blocks of each size are free, as of the last refresh. Blocks overlap: an empty board of 8 counts in every size.
    pub free_blocks: Computed<BTreeMap<String, i64>>,
    /// The mode, and whether an arbiter acts for the set.
    pub status: Computed<String>,
    /// Time limits. Each defaults to 20 minutes.
    pub timeouts: Option<Timeouts>,
}

fn dry_run() -> Maybe<Mode> {
    Maybe::Known(Mode::DryRun)
}
fn notice_seconds() -> Maybe<i64> {
    Maybe::Known(120)
}
fn minimum_runtime_seconds() -> Maybe<i64> {
    Maybe::Known(300)
}

/// How the cards of a node are wired.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Fabric {
    /// Single cards only.
    Pcie,
    /// Blocks of 1, 2, 4 or 8 cards.
    Nvswitch,
}

/// Whether the arbiter acts on its plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// It publishes the plan and moves nothing.
    DryRun,
    /// It carries the plan out.
    Enforce,
}

/// What a pool runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum PoolType {
    /// VMs that the arbiter never interrupts.
    OnDemand,
    /// VMs that it may interrupt, with notice.
    Spot,
    /// Replicas that serve one model.
    Inference,
}

/// A ranked pool.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Pool {
    /// `on_demand`: VMs that the arbiter never interrupts, whatever their rank. `spot`: VMs that it may interrupt, with notice. `inference`: replicas of one model.
    #[serde(rename = "type")]
    pub kind: Maybe<PoolType>,
    /// Rank, from 1, the highest. No two pools share one. A pool gets cards from lower ranks only.
    #[schemars(range(min = 1, max = 1_000_000))]
    pub rank: Maybe<i64>,
    /// GPUs that no reclaim takes the pool below. It keeps no free card back. Default: 0.
    #[schemars(range(min = 0, max = 1_000_000))]
    pub floor: Opt<i64>,
    /// The most GPUs that the pool may hold. Default: no limit.
    #[schemars(range(min = 0, max = 1_000_000))]
    pub ceiling: Opt<i64>,
    /// Seconds between a notice and the stop. Default: those of the set.
    #[schemars(range(min = 0, max = 604_800))]
    pub notice_seconds: Opt<i64>,
    /// Inference: how many replicas it runs. The least number counts as a floor.
    pub replicas: Opt<Replicas>,
    /// Inference: GPUs of one replica: 1, 2, 4 or 8.
    #[schemars(range(min = 1, max = 8))]
    pub gpus_per_replica: Opt<i64>,
}

/// How many replicas an inference pool runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Replicas {
    /// Least.
    #[schemars(range(min = 0, max = 100_000))]
    pub min: Maybe<i64>,
    /// Most.
    #[schemars(range(min = 0, max = 100_000))]
    pub max: Maybe<i64>,
}
