//! What a plan means to people: who would lose capacity and to whom, what starts, what waits, which blocks are free.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use crate::capacity::arbiter::plan::{Action, Plan};
use crate::capacity::arbiter::snapshot::{Claim, Reason, Snapshot, State};
use crate::capacity::fabric::Cards;

/// A workload that loses its cards.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Loss {
    /// The claim.
    pub claim: String,
    /// Its pool.
    pub pool: String,
    /// GPUs it has.
    pub gpus: u32,
    /// Where it has them.
    pub node: String,
    /// Which.
    pub cards: Vec<u32>,
    /// The claim that gets them; none when its pool has too many replicas, or its node is drained.
    pub purpose: Option<String>,
    /// Whether its node is drained.
    pub drained: bool,
}

impl fmt::Display for Loss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} of pool {} loses {} on {}",
            self.claim,
            self.pool,
            gpus(self.gpus),
            self.node
        )?;
        match (&self.purpose, self.drained) {
            (Some(claim), _) => write!(f, " to {claim}"),
            (None, true) => f.write_str(", which is being drained"),
            (None, false) => f.write_str(", since its pool has more replicas than it wants"),
        }
    }
}

/// `1 GPU`, `2 GPUs`.
#[must_use]
pub fn gpus(count: u32) -> String {
    if count == 1 {
        "1 GPU".to_owned()
    } else {
        format!("{count} GPUs")
    }
}

/// The workloads that lose their cards by this plan, by name.
#[must_use]
pub fn losses(snapshot: &Snapshot, plan: &Plan) -> Vec<Loss> {
    let claims: BTreeMap<&str, &Claim> = snapshot
        .claims
        .iter()
        .map(|claim| (claim.name.as_str(), claim))
        .collect();
    let loss = |name: &str, purpose: &Option<String>, drained: bool| {
        let claim = claims.get(name)?;
        Some(Loss {
            claim: claim.name.clone(),
            pool: claim.pool.clone(),
            gpus: claim.gpus,
            node: claim.node.clone().unwrap_or_default(),
            cards: claim.cards.clone(),
            purpose: purpose.clone(),
            drained,
        })
    };
    let mut losses: Vec<Loss> = plan
        .actions
        .iter()
        .filter_map(|action| match action {
            Action::Notice {
                claim,
                reason,
                purpose,
                ..
            } => loss(claim, purpose, *reason == Reason::Drain),
            Action::Stop { claim, purpose } => {
                let drained = claims
                    .get(claim.as_str())
                    .is_some_and(|claim| claim.reason == Some(Reason::Drain));
                loss(claim, purpose, drained)
            }
            Action::Start { .. } | Action::Withdraw { .. } => None,
        })
        .collect();
    losses.extend(standing(snapshot, plan, &claims));
    losses.sort();
    losses
}

/// Notices that were given before, that the plan keeps, and whose time has not come.
fn standing(snapshot: &Snapshot, plan: &Plan, claims: &BTreeMap<&str, &Claim>) -> Vec<Loss> {
    let named: BTreeSet<&str> = plan.actions.iter().map(Action::claim).collect();
    let after = |victim: &str| {
        plan.actions.iter().find_map(|action| match action {
            Action::Start { claim, after, .. } if after.iter().any(|name| name == victim) => {
                Some(claim.clone())
            }
            _ => None,
        })
    };
    snapshot
        .claims
        .iter()
        .filter(|claim| claim.state == State::Noticed && !named.contains(claim.name.as_str()))
        .filter_map(|claim| claims.get(claim.name.as_str()))
        .map(|claim| Loss {
            claim: claim.name.clone(),
            pool: claim.pool.clone(),
            gpus: claim.gpus,
            node: claim.node.clone().unwrap_or_default(),
            cards: claim.cards.clone(),
            purpose: after(&claim.name).or_else(|| claim.purpose.clone()),
            drained: claim.reason == Some(Reason::Drain),
        })
        .collect()
}

/// One line for each thing that happens, in the plan's order.
#[must_use]
pub fn lines(snapshot: &Snapshot, plan: &Plan) -> Vec<String> {
    let claims: BTreeMap<&str, &Claim> = snapshot
        .claims
        .iter()
        .map(|claim| (claim.name.as_str(), claim))
        .collect();
    let losing: BTreeMap<String, Loss> = losses(snapshot, plan)
        .into_iter()
        .map(|loss| (loss.claim.clone(), loss))
        .collect();
    let mut lines = Vec::new();
    for action in &plan.actions {
        let loses = losing.get(action.claim()).map(ToString::to_string);
        lines.push(match action {
            Action::Notice {
                claim, deadline, ..
            } => {
                let seconds = deadline.duration_since(snapshot.now).as_secs();
                format!(
                    "notice: {}, {seconds} s after its notice",
                    loses.unwrap_or_else(|| claim.clone())
                )
            }
            Action::Stop { claim, .. } => {
                format!("stop: {}", loses.unwrap_or_else(|| claim.clone()))
            }
            Action::Start {
                claim,
                node,
                cards,
                after,
            } => {
                let pool = claims
                    .get(claim.as_str())
                    .map_or("", |claim| claim.pool.as_str());
                let pool = if pool.is_empty() {
                    String::new()
                } else {
                    format!(" of pool {pool}")
                };
                let after = if after.is_empty() {
                    String::new()
                } else {
                    format!(" after {}", after.join(", "))
                };
                format!(
                    "start: {claim}{pool} on {node}, cards {}{after}",
                    numbers(cards)
                )
            }
            Action::Withdraw { claim, why } => format!("withdraw the notice of {claim}: {why}"),
        });
    }
    lines.extend(
        plan.waiting
            .iter()
            .map(|wait| format!("wait: {}: {}", wait.claim, wait.message)),
    );
    lines.extend(
        plan.drains
            .iter()
            .filter(|drain| !drain.blocked_by.is_empty())
            .map(|drain| {
                format!(
                    "drain of {}: on-demand VMs stay: {}",
                    drain.node,
                    drain.blocked_by.join(", ")
                )
            }),
    );
    lines
}

/// Card numbers as text.
#[must_use]
pub fn numbers(cards: &[u32]) -> String {
    cards
        .iter()
        .map(ToString::to_string)
        .collect::<Vec<_>>()
        .join(", ")
}

/// GPUs of the set.
#[must_use]
pub fn total(snapshot: &Snapshot) -> u64 {
    snapshot.nodes.iter().map(|node| u64::from(node.gpus)).sum()
}

/// How many blocks of each size are free now, on nodes that take work. Blocks overlap: an empty board of 8 counts in every size.
#[must_use]
pub fn free_blocks(snapshot: &Snapshot) -> BTreeMap<u32, u64> {
    let mut taken: BTreeMap<&str, u64> = BTreeMap::new();
    for claim in &snapshot.claims {
        if let Some(node) = &claim.node {
            *taken.entry(node).or_default() |= Cards::of(&claim.cards).0;
        }
    }
    let sizes = snapshot.set.fabric.sizes().iter();
    let mut free: BTreeMap<u32, u64> = sizes.map(|size| (*size, 0)).collect();
    for node in snapshot.nodes.iter().filter(|node| node.takes_work()) {
        let taken = taken.get(node.name.as_str()).copied().unwrap_or_default();
        for block in node.allowed_blocks(&snapshot.set) {
            if block.0 & taken == 0 {
                *free.entry(block.len()).or_default() += 1;
            }
        }
    }
    free
}
