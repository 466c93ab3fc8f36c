//! `CapacitySet`, version `v1alpha1`. The schema of the object is made from these types; what the types can't say is said by CEL rules beside them.
//!
//! The rules refuse what A1 to A3 refuse and the object alone can tell, so that `kubectl edit` is held to the same as a Terraform plan.

use std::collections::BTreeMap;

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::capacity::arbiter::snapshot::{Mode as DomainMode, PoolType as DomainPoolType};

/// GPU nodes of one cluster, one kind and one fabric, shared by ranked pools.
#[derive(CustomResource, Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "capacity.loomplane.dev",
    version = "v1alpha1",
    kind = "CapacitySet",
    plural = "capacitysets",
    shortname = "capset",
    status = "CapacitySetStatus",
    derive = "PartialEq",
    doc = "GPU nodes of one cluster, one kind and one fabric, shared by ranked pools.",
    printcolumn = r#"{"name": "Kind", "type": "string", "jsonPath": ".spec.gpuKind"}"#,
    printcolumn = r#"{"name": "Fabric", "type": "string", "jsonPath": ".spec.fabric"}"#,
    printcolumn = r#"{"name": "Mode", "type": "string", "jsonPath": ".spec.mode"}"#,
    printcolumn = r#"{"name": "GPUs", "type": "integer", "jsonPath": ".status.gpus"}"#,
    printcolumn = r#"{"name": "Waiting", "type": "integer", "jsonPath": ".status.waitingClaims"}"#,
    printcolumn = r#"{"name": "Planned", "type": "date", "jsonPath": ".status.plannedAt"}"#,
    printcolumn = r#"{"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"}"#
)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [
    {"rule": "has(self.nodes) != has(self.nodeSelector)", "message": "give either nodes or nodeSelector"},
    {"rule": "self.pools.all(p, self.pools.exists_one(q, q.rank == p.rank))", "message": "no two pools share a rank"},
    {"rule": "self.fabric != 'pcie' || self.pools.all(p, !has(p.gpusPerReplica) || p.gpusPerReplica == 1)", "message": "a pcie set hands out single cards only: gpusPerReplica must be 1"}
]))]
pub struct CapacitySetSpec {
    /// Kind of GPU, one of Loomplane's IDs, such as `nvidia-a100-80gb`.
    #[schemars(length(min = 1, max = 63))]
    pub gpu_kind: String,
    /// How the cards of a node are wired.
    pub fabric: Fabric,
    /// Names of the nodes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 5000), inner(length(min = 1, max = 253)), extend("x-kubernetes-list-type" = "set"))]
    pub nodes: Option<Vec<String>>,
    /// Labels of the nodes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("minProperties" = 1, "maxProperties" = 32))]
    pub node_selector: Option<BTreeMap<String, String>>,
    /// Whether the arbiter acts on its plan.
    #[serde(default)]
    pub mode: Mode,
    /// Seconds between a notice and the stop, for pools that say nothing else.
    #[serde(default = "notice_seconds")]
    #[schemars(range(min = 0, max = 604_800))]
    pub notice_seconds: u32,
    /// Seconds that a workload runs at least before it can become a victim.
    #[serde(default = "minimum_runtime_seconds")]
    #[schemars(range(min = 0, max = 31_536_000))]
    pub minimum_runtime_seconds: u32,
    /// The pools.
    #[schemars(length(min = 1, max = 100), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub pools: Vec<Pool>,
}

fn notice_seconds() -> u32 {
    120
}
fn minimum_runtime_seconds() -> u32 {
    300
}

/// A ranked pool.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [
    {"rule": "!has(self.ceiling) || self.floor <= self.ceiling", "message": "floor is above ceiling"},
    {"rule": "(self.type == 'inference') == has(self.replicas)", "message": "an inference pool has replicas, and no other has"},
    {"rule": "(self.type == 'inference') == has(self.gpusPerReplica)", "message": "an inference pool has gpusPerReplica, and no other has"},
    {"rule": "!has(self.replicas) || self.replicas.min <= self.replicas.max", "message": "replicas.min is above replicas.max"},
    {"rule": "!has(self.replicas) || !has(self.gpusPerReplica) || !has(self.ceiling) || self.replicas.max * self.gpusPerReplica <= self.ceiling", "message": "replicas.max x gpusPerReplica is above ceiling"}
]))]
pub struct Pool {
    /// Name; workloads name it in the label `capacity.loomplane.dev/pool`.
    #[schemars(
        length(min = 1, max = 63),
        regex(pattern = "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$")
    )]
    pub name: String,
    /// What it runs.
    #[serde(rename = "type")]
    pub kind: PoolType,
    /// Rank, from 1, the highest.
    #[schemars(range(min = 1, max = 1_000_000))]
    pub rank: u32,
    /// GPUs that no reclaim takes it below.
    #[serde(default)]
    #[schemars(range(min = 0, max = 1_000_000))]
    pub floor: u32,
    /// The most GPUs it may hold.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 1_000_000))]
    pub ceiling: Option<u32>,
    /// Seconds between a notice and the stop; the set's where absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 604_800))]
    pub notice_seconds: Option<u32>,
    /// Inference: how many replicas it runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replicas: Option<Replicas>,
    /// Inference: GPUs of one replica: 1, 2, 4 or 8.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 8))]
    pub gpus_per_replica: Option<u32>,
}

/// How many replicas an inference pool runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Replicas {
    /// Least.
    #[schemars(range(min = 0, max = 100_000))]
    pub min: u32,
    /// Most.
    #[schemars(range(min = 0, max = 100_000))]
    pub max: u32,
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
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// It publishes the plan and moves nothing.
    #[default]
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

impl From<Mode> for DomainMode {
    fn from(mode: Mode) -> Self {
        match mode {
            Mode::DryRun => Self::DryRun,
            Mode::Enforce => Self::Enforce,
        }
    }
}

impl From<DomainMode> for Mode {
    fn from(mode: DomainMode) -> Self {
        match mode {
            DomainMode::DryRun => Self::DryRun,
            DomainMode::Enforce => Self::Enforce,
        }
    }
}

impl From<PoolType> for DomainPoolType {
    fn from(kind: PoolType) -> Self {
        match kind {
            PoolType::OnDemand => Self::OnDemand,
            PoolType::Spot => Self::Spot,
            PoolType::Inference => Self::Inference,
        }
    }
}

impl From<DomainPoolType> for PoolType {
    fn from(kind: DomainPoolType) -> Self {
        match kind {
            DomainPoolType::OnDemand => Self::OnDemand,
            DomainPoolType::Spot => Self::Spot,
            DomainPoolType::Inference => Self::Inference,
        }
    }
}

/// What the arbiter publishes.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct CapacitySetStatus {
    /// The generation of the object that was planned on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// When it was planned.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("format" = "date-time"))]
    pub planned_at: Option<String>,
    /// GPUs of the set.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gpus: Option<u32>,
    /// Claims that wait.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub waiting_claims: Option<u32>,
    /// Free blocks by size.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub free_blocks: BTreeMap<String, u32>,
    /// Nodes that do not fit, with the reason.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub nodes_refused: BTreeMap<String, String>,
    /// The plan.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub plan: Option<PlanStatus>,
}

/// The plan, as `capacity plan --snapshot` prints it, with keys as Kubernetes writes them.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct PlanStatus {
    /// The set's mode when it was planned.
    pub mode: Mode,
    /// Notices, stops, starts, withdrawals.
    pub actions: Vec<ActionStatus>,
    /// Claims that wait, and why.
    pub waiting: Vec<WaitingStatus>,
    /// What the plan does to each pool.
    pub pools: Vec<PoolStatus>,
    /// Nodes that are being emptied.
    pub drains: Vec<DrainStatus>,
}

/// One step.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ActionStatus {
    /// `notice`, `stop`, `start` or `withdraw`.
    pub action: String,
    /// The claim.
    pub claim: String,
    /// Start: where.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    /// Start: the block.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cards: Option<Vec<u32>>,
    /// Start: claims that must be gone first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<Vec<String>>,
    /// Notice: why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Notice: when it will be stopped.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("format" = "date-time"))]
    pub deadline: Option<String>,
    /// Notice, stop: the claim that gets the cards.
    #[serde(default, rename = "for", skip_serializing_if = "Option::is_none")]
    pub purpose: Option<String>,
    /// Withdraw: why the notice is not needed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
}

/// A claim that waits.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct WaitingStatus {
    /// The claim.
    pub claim: String,
    /// Why, such as `FLOOR`.
    pub code: String,
    /// GPUs it needs.
    pub needed: u32,
    /// The most cards of any one block of that size that it could have now.
    pub reachable: u32,
    /// The same in words.
    pub message: String,
}

/// What a plan does to a pool.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PoolStatus {
    /// Its name.
    pub name: String,
    /// GPUs that its claims hold.
    pub gpus_before: u32,
    /// The same when every step is done.
    pub gpus_after: u32,
    /// Its effective floor.
    pub floor: u32,
}

/// A node that is being emptied.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DrainStatus {
    /// The node.
    pub node: String,
    /// On-demand VMs that stay on it.
    pub blocked_by: Vec<String>,
}
