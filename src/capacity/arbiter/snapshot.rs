//! What the arbiter decides on: one set, its pools, its nodes and every claim, at one moment.
//!
//! The types are the file format of `capacity plan --snapshot`: they serialize to it, [`parse`] reads it. [`validate`] holds the rules that make a
//! snapshot fit to plan on; the planner takes nothing that has not passed it. Fields that the format does not name are ignored, so that a snapshot written
//! by a newer version can still be replayed.

mod read;
mod validate;

use std::fmt;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::capacity::fabric::{self, Cards, Fabric};

pub use read::parse;
pub use validate::validate;

/// Everything the planner knows.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Snapshot {
    /// The moment of the snapshot: the only clock that the planner has.
    pub now: Timestamp,
    /// The capacity set.
    pub set: Set,
    /// Its ranked pools.
    pub pools: Vec<Pool>,
    /// Its nodes.
    pub nodes: Vec<Node>,
    /// Everything that holds cards or waits for them.
    pub claims: Vec<Claim>,
}

/// A capacity set.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Set {
    /// Name.
    pub name: String,
    /// Kind of GPU, one of the catalog's IDs, such as `nvidia-a100-80gb`.
    pub gpu_kind: String,
    /// How the cards of its nodes are wired.
    pub fabric: Fabric,
    /// Whether the arbiter acts.
    pub mode: Mode,
    /// Time between a notice and the stop, in seconds, for pools that say nothing else.
    pub notice_seconds: u32,
    /// How long a workload runs at least before it can become a victim, in seconds.
    pub minimum_runtime_seconds: u32,
}

/// Whether the arbiter acts on its plan (rule A9).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// It publishes the plan and moves nothing.
    DryRun,
    /// It carries the plan out.
    Enforce,
}

/// What a pool runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
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
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Pool {
    /// Name.
    pub name: String,
    /// What it runs.
    #[serde(rename = "type")]
    pub kind: PoolType,
    /// Rank, from 1, the highest. No two pools share one.
    pub rank: u32,
    /// GPUs that no reclaim takes it below.
    pub floor: u32,
    /// The most GPUs it may hold.
    pub ceiling: Option<u32>,
    /// Replica range and demand; inference only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replicas: Option<Replicas>,
    /// GPUs of one replica; inference only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gpus_per_replica: Option<u32>,
    /// Time between a notice and the stop, in seconds; the set's where absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub notice_seconds: Option<u32>,
}

impl Pool {
    /// The larger of the floor and what the least number of replicas needs, in GPUs.
    #[must_use]
    pub fn effective_floor(&self) -> u64 {
        let least = self.replicas.map_or(0, |range| u64::from(range.min));
        u64::from(self.floor).max(least * u64::from(self.gpus_per_replica.unwrap_or(0)))
    }
}

/// How many replicas an inference pool runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Replicas {
    /// Least.
    pub min: u32,
    /// Most.
    pub max: u32,
    /// What the queue asks for, already stabilized; `None` when it can't be read.
    pub wanted: Option<u32>,
}

/// A GPU node of the set.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Node {
    /// Name.
    pub name: String,
    /// Cards it has, numbered from 0.
    pub gpus: u32,
    /// Whether it is ready and could be read.
    pub ready: bool,
    /// Whether new work stays away.
    pub cordoned: bool,
    /// Whether it is being emptied.
    pub draining: bool,
    /// The whole list of its allowed blocks, singles too; those of its board's table where absent.
    pub blocks: Option<Vec<Vec<u32>>>,
}

impl Node {
    /// The blocks that this node can hand out, by size, then by card numbers. What [`validate`] refuses is left out.
    #[must_use]
    pub fn allowed_blocks(&self, set: &Set) -> Vec<Cards> {
        match &self.blocks {
            Some(list) => fabric::own_blocks(set.fabric, self.gpus, list).unwrap_or_default(),
            None => fabric::blocks(set.fabric, &set.gpu_kind, self.gpus),
        }
    }

    /// Whether a claim can start here: ready, and new work does not stay away.
    #[must_use]
    pub const fn takes_work(&self) -> bool {
        self.ready && !self.cordoned && !self.draining
    }
}

/// A claim's state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// Holds no cards. `node` and `cards`, when present, are the block that is held for it.
    Waiting,
    /// Was told to start, and not to stop.
    Running,
    /// Was told that it will be stopped.
    Noticed,
    /// Was told to stop; its cards are not free yet.
    Stopping,
}

/// Why a notice was given.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reason {
    /// The arbiter gives its cards to another claim, or the pool has too many replicas.
    ArbiterStop,
    /// Its node is being drained.
    Drain,
    /// The machine goes back to its owner. Comes from outside the planner.
    RentalReclaim,
}

/// A VM or a replica that holds cards or waits for them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Claim {
    /// Name.
    pub name: String,
    /// Its pool.
    pub pool: String,
    /// GPUs it needs, in one block.
    pub gpus: u32,
    /// State.
    pub state: State,
    /// Where it is, or where a block is held for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    /// Its cards, or those held for it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub cards: Vec<u32>,
    /// When it began to wait; always known of a waiting claim.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub requested_at: Option<Timestamp>,
    /// When it began to run; unknown counts as now.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub started_at: Option<Timestamp>,
    /// When it will be stopped; always known of a noticed claim.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deadline: Option<Timestamp>,
    /// Why it was noticed; always known of a noticed claim.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<Reason>,
    /// The claim that its cards are for.
    #[serde(rename = "for", skip_serializing_if = "Option::is_none")]
    pub purpose: Option<String>,
}

/// The part of a snapshot that a problem is about.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Item {
    /// The file as a whole.
    Snapshot,
    /// The set.
    Set,
    /// A pool, by name.
    Pool(String),
    /// A node, by name.
    Node(String),
    /// A claim, by name.
    Claim(String),
}

impl fmt::Display for Item {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Snapshot => f.write_str("snapshot"),
            Self::Set => f.write_str("set"),
            Self::Pool(name) => write!(f, "pool {name:?}"),
            Self::Node(name) => write!(f, "node {name:?}"),
            Self::Claim(name) => write!(f, "claim {name:?}"),
        }
    }
}

/// One thing that keeps a snapshot from being planned on.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{item}: {found}")]
pub struct Problem {
    /// What it is about.
    pub item: Item,
    /// What was found, and what would do.
    pub found: String,
}

/// A snapshot that can't be planned on: everything that is wrong with it, in the order of the file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Invalid {
    /// What is wrong; never empty.
    pub problems: Vec<Problem>,
}

impl fmt::Display for Invalid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the snapshot is not valid")?;
        self.problems
            .iter()
            .try_for_each(|problem| write!(f, "\n  {problem}"))
    }
}

impl std::error::Error for Invalid {}

/// Collects problems.
#[derive(Debug, Default)]
struct Problems(Vec<Problem>);

impl Problems {
    fn add(&mut self, item: Item, found: impl Into<String>) {
        self.0.push(Problem {
            item,
            found: found.into(),
        });
    }

    fn into_result<T>(self, value: T) -> Result<T, Invalid> {
        if self.0.is_empty() {
            Ok(value)
        } else {
            Err(Invalid { problems: self.0 })
        }
    }
}

#[cfg(test)]
mod tests;
