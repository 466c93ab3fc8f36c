//! Who is told to go: notices, stops, withdrawals; floors, ranks, minimum runtimes, drains.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};

use super::Verdict;
use super::facts::Facts;
use crate::capacity::arbiter::plan::Action;
use crate::capacity::arbiter::snapshot::{Claim, PoolType, Reason, State};

pub(super) fn judge(facts: &Facts<'_>, verdict: &mut Verdict) {
    for action in &facts.plan.actions {
        match action {
            Action::Notice {
                claim,
                reason,
                deadline,
                purpose,
            } => {
                notice(
                    facts,
                    verdict,
                    claim,
                    *reason,
                    *deadline,
                    purpose.as_deref(),
                );
            }
            Action::Stop { claim, purpose } => stop(facts, verdict, claim, purpose.as_deref()),
            Action::Withdraw { claim, why } => withdraw(facts, verdict, claim, why),
            Action::Start { .. } => {}
        }
    }
    for claim in facts.holders.values() {
        told(facts, verdict, claim);
    }
    replicas(facts, verdict);
    floors(facts, verdict);
    drains(facts, verdict);
}

/// A claim that a step names, in the state that the step is for.
fn known<'a>(
    facts: &Facts<'a>,
    verdict: &mut Verdict,
    name: &str,
    state: State,
    step: &str,
) -> Option<&'a Claim> {
    let claim = facts.holders.get(name).copied();
    verdict.require(
        claim.is_some_and(|claim| claim.state == state),
        "N1",
        || format!("{step} for {name}, which is not {state:?}"),
    );
    let claim = claim?;
    if step != "withdrawal" {
        verdict.require(facts.interruptible(claim), "A4", || {
            format!("{step} for on-demand VM {name}")
        });
        verdict.require(
            facts.node_of(claim).is_some_and(|node| node.ready),
            "A11c",
            || format!("{step} for {name}, whose node is not ready"),
        );
    }
    verdict.require(
        claim.reason != Some(Reason::RentalReclaim) || state == State::Running,
        "N1",
        || format!("{step} for {name}, whose machine is reclaimed by its owner"),
    );
    Some(claim)
}

fn notice(
    facts: &Facts<'_>,
    verdict: &mut Verdict,
    name: &str,
    reason: Reason,
    deadline: Timestamp,
    purpose: Option<&str>,
) {
    let Some(claim) = known(facts, verdict, name, State::Running, "notice") else {
        return;
    };
    let seconds = facts
        .pools
        .get(claim.pool.as_str())
        .and_then(|pool| pool.notice_seconds);
    let seconds = seconds.unwrap_or(facts.snapshot.set.notice_seconds);
    let due = facts
        .snapshot
        .now
        .saturating_add(SignedDuration::from_secs(i64::from(seconds)));
    verdict.require(due.is_ok_and(|due| due == deadline), "N1", || {
        format!("{name} is given until {deadline}, and has {seconds} s")
    });
    let drained = facts.drained(claim);
    verdict.require(
        reason
            == if drained {
                Reason::Drain
            } else {
                Reason::ArbiterStop
            },
        "N2",
        || format!("{name} is noticed for {reason:?}; drained: {drained}"),
    );
    if drained {
        verdict.require(purpose.is_none(), "N1", || {
            format!("{name} is drained, for {purpose:?}")
        });
        return;
    }
    verdict.require(facts.ran_long_enough(claim), "A11", || {
        format!("{name} has not run for the minimum")
    });
    let given_up = facts.plan.given_up.binary_search(&claim.name).is_ok();
    verdict.require(given_up == purpose.is_none(), "A10", || {
        format!(
            "{name} is noticed for {purpose:?}; the plan says that its pool gives it up: {given_up}"
        )
    });
    match purpose {
        Some(purpose) => victim(facts, verdict, claim, purpose),
        None => verdict.require(
            facts
                .surplus
                .get(claim.pool.as_str())
                .is_some_and(|surplus| *surplus > 0),
            "A10",
            || format!("{name} is noticed for nobody, and its pool has no replica too many"),
        ),
    }
}

/// That `purpose` may interrupt this claim, and is the first that starts after it.
fn victim(facts: &Facts<'_>, verdict: &mut Verdict, claim: &Claim, purpose: &str) {
    let name = &claim.name;
    let pool = facts
        .open
        .get(purpose)
        .map_or("", |open| open.pool.as_str());
    verdict.require(facts.rank(pool) < facts.rank(&claim.pool), "A5", || {
        format!(
            "{name} of rank {} goes for {purpose} of rank {}",
            facts.rank(&claim.pool),
            facts.rank(pool)
        )
    });
    verdict.require(
        facts
            .first_after
            .get(name.as_str())
            .is_some_and(|first| *first == purpose),
        "A7",
        || {
            format!(
                "{name} goes for {purpose}, but the first that starts after it is {:?}",
                facts.first_after.get(name.as_str())
            )
        },
    );
}

fn stop(facts: &Facts<'_>, verdict: &mut Verdict, name: &str, purpose: Option<&str>) {
    let Some(claim) = known(facts, verdict, name, State::Noticed, "stop") else {
        return;
    };
    verdict.require(
        claim
            .deadline
            .is_some_and(|deadline| deadline <= facts.snapshot.now),
        "N3",
        || format!("{name} is stopped before {:?}", claim.deadline),
    );
    verdict.require(facts.leaving.contains(name), "A11b", || {
        format!("{name} is stopped, and nothing needs that")
    });
    if let Some(purpose) = purpose {
        victim(facts, verdict, claim, purpose);
    }
}

fn withdraw(facts: &Facts<'_>, verdict: &mut Verdict, name: &str, why: &str) {
    let Some(claim) = known(facts, verdict, name, State::Noticed, "withdrawal") else {
        return;
    };
    verdict.require(!why.is_empty(), "N3", || {
        format!("{name}'s notice is withdrawn without saying why")
    });
    verdict.require(!facts.first_after.contains_key(name), "A7", || {
        format!("{name}'s notice is withdrawn, and a start waits for it")
    });
    verdict.require(!facts.drained(claim), "N1", || {
        format!("{name}'s notice is withdrawn, and its node is drained")
    });
}

/// Whether every notice of the arbiter is used or withdrawn, and carried out when its time has come.
fn told(facts: &Facts<'_>, verdict: &mut Verdict, claim: &Claim) {
    let name = claim.name.as_str();
    let ready = facts.node_of(claim).is_some_and(|node| node.ready);
    if claim.state == State::Running {
        verdict.require(
            !(facts.drained(claim) && ready) || facts.noticed_now.contains(name),
            "N1",
            || format!("{name} is on a draining node, and gets no notice"),
        );
    }
    if claim.state != State::Noticed
        || claim.reason == Some(Reason::RentalReclaim)
        || facts.withdrawn.contains(name)
    {
        return;
    }
    verdict.require(facts.interruptible(claim), "A4", || {
        format!("on-demand VM {name} keeps a notice")
    });
    if facts.drained(claim) && !ready {
        return;
    }
    verdict.require(ready && facts.leaving.contains(name), "A7", || {
        format!("{name}'s notice is not used and not withdrawn")
    });
    let due = claim
        .deadline
        .is_some_and(|deadline| deadline <= facts.snapshot.now);
    verdict.require(!due || facts.stopped_now.contains(name), "N3", || {
        format!("{name}'s deadline has come, and it is not stopped")
    });
}

/// Whether the claim goes as a victim: not stopping already, not drained.
fn interrupted(facts: &Facts<'_>, claim: &Claim) -> bool {
    facts.leaving.contains(claim.name.as_str())
        && claim.state != State::Stopping
        && !facts.drained(claim)
}

/// Whether a claim of higher rank starts after this one.
fn has_legal_purpose(facts: &Facts<'_>, claim: &Claim) -> bool {
    let first = facts
        .first_after
        .get(claim.name.as_str())
        .and_then(|first| facts.open.get(*first));
    first.is_some_and(|open| facts.rank(&open.pool) < facts.rank(&claim.pool))
}

/// Who goes for no claim of higher rank is a replica that its pool has too many.
fn replicas(facts: &Facts<'_>, verdict: &mut Verdict) {
    let mut given_up: BTreeMap<&str, usize> = BTreeMap::new();
    for claim in facts.holders.values() {
        let name = claim.name.as_str();
        let named = facts.plan.given_up.binary_search(&claim.name).is_ok();
        let goes = interrupted(facts, claim);
        verdict.require(
            if goes && !has_legal_purpose(facts, claim) {
                named
            } else {
                goes || !named
            },
            "A10",
            || format!("{name} goes: {goes}; the plan says that its pool gives it up: {named}"),
        );
    }
    for claim in facts
        .holders
        .values()
        .filter(|claim| interrupted(facts, claim) && !has_legal_purpose(facts, claim))
    {
        *given_up.entry(claim.pool.as_str()).or_insert(0) += 1;
    }
    for (pool, count) in given_up {
        let surplus = facts.surplus.get(pool).copied().unwrap_or(0);
        let inference = facts
            .pools
            .get(pool)
            .is_some_and(|pool| pool.kind == PoolType::Inference);
        verdict.require(inference && count <= surplus, "A10", || {
            format!("pool {pool} gives up {count} for no claim of higher rank, and has {surplus} too many")
        });
    }
}

/// No pool that gives anything ends below its effective floor; what counts is what runs on ready nodes that are not drained.
fn floors(facts: &Facts<'_>, verdict: &mut Verdict) {
    let mut stays: BTreeMap<&str, u64> = BTreeMap::new();
    let mut gives: BTreeMap<&str, &str> = BTreeMap::new();
    for claim in facts.holders.values() {
        let name = claim.name.as_str();
        if interrupted(facts, claim) {
            gives.insert(claim.pool.as_str(), name);
        }
        let runs = match claim.state {
            State::Running => !facts.noticed_now.contains(name),
            State::Noticed => facts.withdrawn.contains(name),
            State::Waiting | State::Stopping => false,
        };
        if runs
            && facts
                .node_of(claim)
                .is_some_and(|node| node.ready && !node.draining)
        {
            *stays.entry(claim.pool.as_str()).or_insert(0) += u64::from(claim.gpus);
        }
    }
    for (pool, claim) in gives {
        let (stays, floor) = (
            stays.get(pool).copied().unwrap_or(0),
            facts
                .pools
                .get(pool)
                .map_or(0, |pool| pool.effective_floor()),
        );
        verdict.require(stays >= floor, "A5", || {
            format!("{claim} goes, and pool {pool} keeps {stays} of its floor of {floor}")
        });
    }
}

fn drains(facts: &Facts<'_>, verdict: &mut Verdict) {
    let mut expected: BTreeMap<&str, Vec<&str>> = facts
        .nodes
        .values()
        .filter(|node| node.draining)
        .map(|node| (node.name.as_str(), Vec::new()))
        .collect();
    for claim in facts
        .holders
        .values()
        .filter(|claim| claim.state != State::Stopping && !facts.interruptible(claim))
    {
        if let Some(list) = expected.get_mut(claim.node.as_deref().unwrap_or_default()) {
            list.push(&claim.name);
        }
    }
    let said: Vec<(&str, Vec<&str>)> = facts
        .plan
        .drains
        .iter()
        .map(|drain| {
            (
                drain.node.as_str(),
                drain.blocked_by.iter().map(String::as_str).collect(),
            )
        })
        .collect();
    verdict.require(
        said == expected.into_iter().collect::<Vec<_>>(),
        "N1",
        || format!("the drained nodes are {said:?}"),
    );
}
