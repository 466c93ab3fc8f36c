//! A judge of plans: whether a plan keeps the rules of capacity sets, whoever made it and however.
//!
//! It shares nothing with the planner but the data: it reads the snapshot again, in its own way, and says what is wrong. What it does not judge is whether
//! another legal plan would have harmed less: that takes a search, and tests make it. It costs about one look at every claim and block.

mod facts;
mod interruptions;
mod starts;

use std::fmt;

use self::facts::Facts;
use crate::capacity::arbiter::plan::{Action, Code, Plan};
use crate::capacity::arbiter::snapshot::Snapshot;

/// A rule that a plan breaks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    /// The rule, such as `A4`.
    pub rule: &'static str,
    /// Who, and what is wrong.
    pub found: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.rule, self.found)
    }
}

/// Collects violations.
#[derive(Default)]
struct Verdict(Vec<Violation>);

impl Verdict {
    fn require(&mut self, kept: bool, rule: &'static str, found: impl FnOnce() -> String) {
        if !kept {
            self.0.push(Violation {
                rule,
                found: found(),
            });
        }
    }
}

/// Everything in which this plan for this snapshot breaks the rules; empty when it is sound. The snapshot is valid.
#[must_use]
pub fn check(snapshot: &Snapshot, plan: &Plan) -> Vec<Violation> {
    let facts = Facts::new(snapshot, plan);
    let mut verdict = Verdict::default();
    order_of_actions(&facts, &mut verdict);
    everyone_once(&facts, &mut verdict);
    interruptions::judge(&facts, &mut verdict);
    starts::judge(&facts, &mut verdict);
    figures(&facts, &mut verdict);
    verdict.0
}

const fn group(action: &Action) -> u8 {
    match action {
        Action::Notice { .. } => 0,
        Action::Stop { .. } => 1,
        Action::Start { .. } => 2,
        Action::Withdraw { .. } => 3,
    }
}

/// Notices, stops, starts, withdrawals; starts by the order of claims, and waiting claims too.
fn order_of_actions(facts: &Facts<'_>, verdict: &mut Verdict) {
    for pair in facts.plan.actions.windows(2) {
        verdict.require(group(&pair[0]) <= group(&pair[1]), "order", || {
            format!(
                "the step for {} comes before the one for {}",
                pair[0].claim(),
                pair[1].claim()
            )
        });
    }
    let starts = facts
        .plan
        .actions
        .iter()
        .filter(|action| matches!(action, Action::Start { .. }))
        .map(Action::claim);
    let waits = facts.plan.waiting.iter().map(|wait| wait.claim.as_str());
    for list in [starts.collect::<Vec<_>>(), waits.collect()] {
        for pair in list.windows(2) {
            let turn = |name: &str| facts.open.get(name).map(|open| open.turn);
            verdict.require(turn(pair[0]) < turn(pair[1]), "A8", || {
                format!("{} comes before {}", pair[0], pair[1])
            });
        }
    }
}

/// Every waiting claim starts or waits, once; every other claim has at most one step.
fn everyone_once(facts: &Facts<'_>, verdict: &mut Verdict) {
    let mut times = std::collections::BTreeMap::<&str, u32>::new();
    for name in facts
        .plan
        .actions
        .iter()
        .map(Action::claim)
        .chain(facts.plan.waiting.iter().map(|wait| wait.claim.as_str()))
    {
        *times.entry(name).or_insert(0) += 1;
        let known = facts.open.contains_key(name) || facts.holders.contains_key(name);
        verdict.require(known, "A10", || format!("{name} is no claim of the set"));
    }
    for name in facts.open.keys() {
        let count = times.get(name.as_str()).copied().unwrap_or(0);
        verdict.require(count == 1, "A6", || {
            format!("{name} waits, and is decided on {count} times")
        });
    }
    for name in facts.holders.keys() {
        let count = times.get(name).copied().unwrap_or(0);
        verdict.require(count <= 1, "A6", || format!("{name} has {count} steps"));
    }
}

/// The pools' figures, drained nodes, and what is said of waiting claims.
fn figures(facts: &Facts<'_>, verdict: &mut Verdict) {
    verdict.require(facts.plan.mode == facts.snapshot.set.mode, "A9", || {
        "the plan's mode is not the set's".into()
    });
    let names: Vec<&str> = facts
        .plan
        .pools
        .iter()
        .map(|pool| pool.name.as_str())
        .collect();
    verdict.require(names == facts.pools_by_rank, "figures", || {
        "the pools are not those of the set by rank".into()
    });
    let mut gone_by_pool = std::collections::BTreeMap::<&str, u64>::new();
    for claim in facts
        .leaving
        .iter()
        .filter_map(|name| facts.holders.get(name))
    {
        if facts.node_of(claim).is_some_and(|node| node.ready) {
            *gone_by_pool.entry(&claim.pool).or_insert(0) += u64::from(claim.gpus);
        }
    }
    for pool in &facts.plan.pools {
        let before: u64 = facts
            .held_gpus
            .get(pool.name.as_str())
            .copied()
            .unwrap_or(0);
        let gone = gone_by_pool.get(pool.name.as_str()).copied().unwrap_or(0);
        let started = facts
            .started_gpus
            .get(pool.name.as_str())
            .copied()
            .unwrap_or(0);
        let floor = facts
            .pools
            .get(pool.name.as_str())
            .map_or(0, |pool| pool.effective_floor());
        verdict.require(
            (pool.gpus_before, pool.gpus_after, pool.floor)
                == (before, (before + started).saturating_sub(gone), floor),
            "figures",
            || {
                format!(
                    "pool {}: {pool:?}, but {before} before, {gone} gone, {started} started",
                    pool.name
                )
            },
        );
    }
    for wait in &facts.plan.waiting {
        let Some(open) = facts.open.get(&wait.claim) else {
            continue;
        };
        verdict.require(
            wait.needed == open.gpus && wait.reachable < wait.needed.max(1),
            "A6",
            || {
                format!(
                    "{} needs {}, and waits with {} of {}",
                    wait.claim, open.gpus, wait.reachable, wait.needed
                )
            },
        );
        verdict.require(
            (wait.code == Code::NeverFits) != facts.fits(open.gpus),
            "A2",
            || {
                format!(
                    "{} waits with {:?}, and blocks of {} are there: {}",
                    wait.claim,
                    wait.code,
                    open.gpus,
                    facts.fits(open.gpus)
                )
            },
        );
    }
}

#[cfg(test)]
mod tests;
