//! A plan as data, and as the JSON that programs and people read.

use std::fmt::Write as _;

use jiff::Timestamp;
use serde::Serialize;

use crate::capacity::arbiter::snapshot::{Mode, Reason};

/// What the arbiter would do, and why the rest waits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    /// The set's mode. The plan is the same in both.
    pub mode: Mode,
    /// Notices, stops, starts, withdrawals, in this order; each by the order of the claims that they serve (those that serve none first), then by name.
    pub actions: Vec<Action>,
    /// Claims that wait and are not started, in the order of claims.
    pub waiting: Vec<Waiting>,
    /// The pools, by rank.
    pub pools: Vec<PoolFigures>,
    /// Every draining node, by name.
    pub drains: Vec<Drain>,
    /// Replicas that their pool has too many, by name, noticed earlier or now: whoever carries the plan out leaves no `for` on their notices (A10). Not in the JSON.
    pub given_up: Vec<String>,
}

/// One step.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "action", rename_all = "snake_case")]
pub enum Action {
    /// Tell a claim that it will be stopped.
    Notice {
        /// The claim.
        claim: String,
        /// Why.
        reason: Reason,
        /// When it will be stopped, at the earliest.
        deadline: Timestamp,
        /// The claim that starts after it, when it is a victim.
        #[serde(rename = "for", skip_serializing_if = "Option::is_none")]
        purpose: Option<String>,
    },
    /// Stop a noticed claim whose deadline has come.
    Stop {
        /// The claim.
        claim: String,
        /// The claim that starts after it, when it is a victim.
        #[serde(rename = "for", skip_serializing_if = "Option::is_none")]
        purpose: Option<String>,
    },
    /// Start a waiting claim.
    Start {
        /// The claim.
        claim: String,
        /// Where.
        node: String,
        /// The block, ascending.
        cards: Vec<u32>,
        /// Claims that must be gone first, by name; empty when the cards are free now.
        after: Vec<String>,
    },
    /// Take a notice back.
    Withdraw {
        /// The claim.
        claim: String,
        /// Why the notice is not needed.
        why: String,
    },
}

impl Action {
    /// The claim that it is about.
    #[must_use]
    pub fn claim(&self) -> &str {
        match self {
            Self::Notice { claim, .. }
            | Self::Stop { claim, .. }
            | Self::Start { claim, .. }
            | Self::Withdraw { claim, .. } => claim,
        }
    }
}

/// Why a claim waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum Code {
    /// No node of the set has a block of that size.
    NeverFits,
    /// It would pass its pool's ceiling.
    Ceiling,
    /// Workloads that it will get started too recently.
    Cooldown,
    /// The cards are held for, or planned for later to, another claim.
    Held,
    /// They are on nodes that can't be read.
    StaleData,
    /// There are enough cards, but they form no block.
    Fragmented,
    /// Pools would fall below their floors.
    Floor,
    /// On-demand VMs of lower rank have them.
    OnDemand,
    /// Claims of equal or higher rank have them.
    Rank,
    /// More than one of these at once.
    NoCompletePlan,
}

/// A claim that waits.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Waiting {
    /// The claim.
    pub claim: String,
    /// Why.
    pub code: Code,
    /// GPUs it needs.
    pub needed: u32,
    /// The most cards of any one block of that size that it could have now.
    pub reachable: u32,
    /// The same in words.
    pub message: String,
}

/// What a plan does to a pool.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PoolFigures {
    /// Its name.
    pub name: String,
    /// GPUs that its claims hold, in any state.
    pub gpus_before: u64,
    /// The same when every step of the plan is done.
    pub gpus_after: u64,
    /// Its effective floor, in GPUs.
    pub floor: u64,
}

/// A node that is being drained.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Drain {
    /// The node.
    pub node: String,
    /// On-demand VMs that stay on it, by name.
    pub blocked_by: Vec<String>,
}

impl Plan {
    /// The plan as JSON: one line an entry, keys in a fixed order, a newline at the end. The same plan gives the same bytes.
    #[must_use]
    pub fn to_json(&self) -> String {
        let mut text = String::from("{");
        if self.mode == Mode::DryRun {
            text.push_str("\n  \"mode\": \"dry_run\",");
        }
        list(&mut text, "actions", &self.actions);
        text.push(',');
        list(&mut text, "waiting", &self.waiting);
        text.push(',');
        list(&mut text, "pools", &self.pools);
        text.push(',');
        list(&mut text, "drains", &self.drains);
        text.push_str("\n}\n");
        text
    }
}

fn list<T: Serialize>(text: &mut String, key: &str, entries: &[T]) {
    // Writing to a string can't fail, and neither can the types above: they have string keys only.
    let _ = write!(text, "\n  \"{key}\": [");
    for (place, entry) in entries.iter().enumerate() {
        text.push_str(if place == 0 { "\n    " } else { ",\n    " });
        text.push_str(&serde_json::to_string(entry).unwrap_or_default());
    }
    text.push_str(if entries.is_empty() { "]" } else { "\n  ]" });
}
