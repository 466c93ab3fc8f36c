//! The plan as Terraform shows it, and how it is made: observe, assemble, plan, have it judged.

use std::collections::BTreeMap;

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    capacity::{
        arbiter::{
            NoPlan,
            plan::{Action, Plan},
            plan_checked,
            snapshot::{Mode, Snapshot},
        },
        set::{
            Assembled, Definition, assemble,
            outcome::{self, Loss},
        },
    },
    kubernetes::{Cancel, Cluster, Error, crd::fix_for_sets},
};

/// What the arbiter does, or would do in `dry_run`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Preview {
    /// The set's mode. The plan is the same in both.
    pub mode: String,
    /// The plan in words, one line for each thing that happens.
    pub lines: Vec<String>,
    /// Workloads that lose their cards.
    pub loses: Vec<LossRow>,
    /// Notices, stops, starts, withdrawals, in the order in which they come.
    pub actions: Vec<ActionRow>,
    /// Claims that wait, and why.
    pub waiting: Vec<WaitingRow>,
    /// What the plan does to each pool, by rank.
    pub pools: Vec<PoolRow>,
    /// Nodes that are being emptied.
    pub drains: Vec<DrainRow>,
    /// What was left out or assumed: workloads that do not say which cards they have, that name no pool of the set, or that are on its nodes without being in it.
    pub notes: Vec<String>,
}

/// A workload that loses its cards.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LossRow {
    /// The claim: `vm/NAMESPACE/NAME` or `pod/NAMESPACE/NAME`.
    pub claim: String,
    /// Its pool.
    pub pool: String,
    /// GPUs that it has.
    pub gpus: i64,
    /// Where it has them.
    pub node: String,
    /// Which, by module number.
    pub cards: Vec<i64>,
    /// The claim that gets them; null when its pool has too many replicas, or its node is emptied.
    #[serde(rename = "for")]
    pub purpose: Option<String>,
}

/// One step.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ActionRow {
    /// `notice`, `stop`, `start` or `withdraw`.
    pub action: String,
    /// The claim: `vm/NAMESPACE/NAME`, `pod/NAMESPACE/NAME`, or `POOL-N` for a replica that does not exist yet.
    pub claim: String,
    /// Start: where.
    pub node: Option<String>,
    /// Start: the block, by module number.
    pub cards: Option<Vec<i64>>,
    /// Start: claims that must be gone first; empty when the cards are free.
    pub after: Option<Vec<String>>,
    /// Notice: why: `arbiter_stop` or `drain`.
    pub reason: Option<String>,
    /// Notice: seconds from the notice to the stop. The time of the stop is not known before the notice is given.
    pub notice_seconds: Option<i64>,
    /// Notice and stop: the claim that gets the cards.
    #[serde(rename = "for")]
    pub purpose: Option<String>,
    /// Withdraw: why the notice is not needed.
    pub why: Option<String>,
}

/// A claim that waits.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct WaitingRow {
    /// The claim.
    pub claim: String,
    /// Why: `RANK`, `ON_DEMAND`, `FLOOR`, `CEILING`, `FRAGMENTED`, `COOLDOWN`, `HELD`, `STALE_DATA`, `NEVER_FITS` or `NO_COMPLETE_PLAN`.
    pub code: String,
    /// GPUs that it needs.
    pub needed: i64,
    /// The most cards of any one block of that size that it could have now.
    pub reachable: i64,
    /// The same in words.
    pub message: String,
}

/// What a plan does to a pool.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PoolRow {
    /// Its name.
    pub name: String,
    /// GPUs that its claims hold.
    pub gpus_before: i64,
    /// The same when every step is done.
    pub gpus_after: i64,
    /// Its effective floor: the larger of `floor` and what the least number of replicas needs.
    pub floor: i64,
}

/// A node that is being emptied.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DrainRow {
    /// The node.
    pub node: String,
    /// On-demand VMs that stay on it.
    pub blocked_by: Vec<String>,
}

/// A set as it is, and its plan, which the checker has passed.
#[derive(Debug, Clone)]
pub(in crate::provider) struct Looked {
    /// What was planned on.
    pub(in crate::provider) assembled: Assembled,
    /// The plan.
    pub(in crate::provider) plan: Result<Plan, NoPlan>,
}

impl Looked {
    /// Plans a set on what was seen of its cluster.
    pub(super) fn at(definition: &Definition, observed: &crate::capacity::set::Observed) -> Self {
        let assembled = assemble(definition, observed, Timestamp::now());
        let plan = plan_checked(&assembled.snapshot);
        Self { assembled, plan }
    }

    /// The workloads that lose their cards.
    pub(super) fn losses(&self) -> Vec<Loss> {
        match &self.plan {
            Ok(plan) => outcome::losses(&self.assembled.snapshot, plan),
            Err(_) => Vec::new(),
        }
    }
}

/// Looks at a cluster, and plans a set on what is there.
pub(in crate::provider) async fn look(
    cluster: &Cluster,
    definition: &Definition,
    cancel: &Cancel,
) -> Result<Looked, Error> {
    let observed = cluster.observe_set(definition, cancel).await?;
    Ok(Looked::at(definition, &observed))
}

/// A refusal to show what a set is planned on, with the rights that help.
pub(in crate::provider) fn rights(error: &Error) -> String {
    let identity = match error {
        Error::Forbidden { identity, .. } => identity.as_deref(),
        _ => None,
    };
    format!(
        "{}\nThe rights that a capacity set needs:\n{}",
        error.render(),
        fix_for_sets(identity)
    )
}

/// A plan as Terraform shows it.
pub(in crate::provider) fn shown(snapshot: &Snapshot, plan: &Plan, notes: &[String]) -> Preview {
    let number = |count: u64| i64::try_from(count).unwrap_or(i64::MAX);
    Preview {
        mode: match plan.mode {
            Mode::DryRun => "dry_run".to_owned(),
            Mode::Enforce => "enforce".to_owned(),
        },
        lines: outcome::lines(snapshot, plan),
        loses: outcome::losses(snapshot, plan)
            .into_iter()
            .map(loss)
            .collect(),
        actions: plan
            .actions
            .iter()
            .map(|it| action(it, snapshot.now))
            .collect(),
        waiting: plan
            .waiting
            .iter()
            .map(|wait| WaitingRow {
                claim: wait.claim.clone(),
                code: text(&wait.code),
                needed: i64::from(wait.needed),
                reachable: i64::from(wait.reachable),
                message: wait.message.clone(),
            })
            .collect(),
        pools: plan
            .pools
            .iter()
            .map(|pool| PoolRow {
                name: pool.name.clone(),
                gpus_before: number(pool.gpus_before),
                gpus_after: number(pool.gpus_after),
                floor: number(pool.floor),
            })
            .collect(),
        drains: plan
            .drains
            .iter()
            .map(|drain| DrainRow {
                node: drain.node.clone(),
                blocked_by: drain.blocked_by.clone(),
            })
            .collect(),
        notes: notes.to_vec(),
    }
}

/// Free blocks, with their sizes as keys.
pub(super) fn free_blocks(snapshot: &Snapshot) -> BTreeMap<String, i64> {
    let free = outcome::free_blocks(snapshot).into_iter();
    free.map(|(size, count)| (size.to_string(), i64::try_from(count).unwrap_or(i64::MAX)))
        .collect()
}

/// A loss as Terraform shows it.
pub(in crate::provider) fn loss(loss: Loss) -> LossRow {
    LossRow {
        claim: loss.claim,
        pool: loss.pool,
        gpus: i64::from(loss.gpus),
        node: loss.node,
        cards: loss.cards.into_iter().map(i64::from).collect(),
        purpose: loss.purpose,
    }
}

/// The name of a variant, as the plan's JSON has it.
fn text(value: &impl Serialize) -> String {
    match serde_json::to_value(value) {
        Ok(serde_json::Value::String(text)) => text,
        _ => String::new(),
    }
}

fn action(action: &Action, now: Timestamp) -> ActionRow {
    let empty = |name: &str, claim: &String| ActionRow {
        action: name.to_owned(),
        claim: claim.clone(),
        node: None,
        cards: None,
        after: None,
        reason: None,
        notice_seconds: None,
        purpose: None,
        why: None,
    };
    match action {
        Action::Notice {
            claim,
            reason,
            deadline,
            purpose,
        } => ActionRow {
            reason: Some(text(reason)),
            notice_seconds: Some(deadline.duration_since(now).as_secs()),
            purpose: purpose.clone(),
            ..empty("notice", claim)
        },
        Action::Stop { claim, purpose } => ActionRow {
            purpose: purpose.clone(),
            ..empty("stop", claim)
        },
        Action::Start {
            claim,
            node,
            cards,
            after,
        } => ActionRow {
            node: Some(node.clone()),
            cards: Some(cards.iter().map(|card| i64::from(*card)).collect()),
            after: Some(after.clone()),
            ..empty("start", claim)
        },
        Action::Withdraw { claim, why } => ActionRow {
            why: Some(why.clone()),
            ..empty("withdraw", claim)
        },
    }
}
