//! What holds for every fleet.

use std::ops::Range;

use super::apply::apply;
use super::exhaustive::{Decisions, decide};
use super::generate::{fleet, shrink};
use crate::capacity::arbiter::check::check;
use crate::capacity::arbiter::plan::{Action, Code, Plan, plan};
use crate::capacity::arbiter::run;
use crate::capacity::arbiter::snapshot::{Claim, Snapshot, State, parse};

/// How many fleets are tried.
const MANY: Range<u64> = 0..10_000;
/// How many more in the long run.
const LONG: Range<u64> = 10_000..400_000;

/// Looks at many fleets; the smallest part of the first that fails is shown.
fn for_fleets(seeds: Range<u64>, fault: impl Fn(&Snapshot) -> Option<String>) {
    for seed in seeds {
        let snapshot = fleet(seed);
        if fault(&snapshot).is_some() {
            let least = shrink(snapshot, |less| fault(less).is_some());
            panic!(
                "seed {seed}: {}\n{}\n{}",
                fault(&least).unwrap_or_default(),
                serde_json::to_string(&least).unwrap(),
                plan(&least).to_json()
            );
        }
    }
}

fn broken_rules(snapshot: &Snapshot) -> Option<String> {
    let violations = check(snapshot, &plan(snapshot));
    (!violations.is_empty()).then(|| {
        violations
            .iter()
            .map(ToString::to_string)
            .collect::<Vec<_>>()
            .join("\n")
    })
}

#[test]
fn every_plan_keeps_the_rules() {
    for_fleets(MANY, broken_rules);
}

fn other_than_searched(snapshot: &Snapshot) -> Option<String> {
    let (planned, searched) = (Decisions::of(&plan(snapshot)), decide(snapshot));
    (planned != searched).then(|| format!("planned  {planned:?}\nsearched {searched:?}"))
}

#[test]
fn a7_no_exhaustive_search_finds_less_harm_nor_another_reason() {
    for_fleets(MANY, other_than_searched);
}

/// Starts that wait for someone to be gone.
fn later(plan: &Plan) -> Vec<&Action> {
    plan.actions
        .iter()
        .filter(|action| matches!(action, Action::Start { after, .. } if !after.is_empty()))
        .collect()
}

/// Whether a block is written on one waiting claim over cards of a claim that leaves for another, or two blocks overlap. An arbiter writes no such thing, and when
/// both holds are given up, only one of them can be seen to be.
fn held_twice(snapshot: &Snapshot) -> bool {
    let cards = |claim: &Claim| -> Vec<(Option<String>, u32)> {
        claim
            .cards
            .iter()
            .map(|card| (claim.node.clone(), *card))
            .collect()
    };
    let written: Vec<&Claim> = snapshot
        .claims
        .iter()
        .filter(|claim| claim.state == State::Waiting)
        .collect();
    let overlap =
        |claim: &Claim, other: &Claim| cards(claim).iter().any(|card| cards(other).contains(card));
    written.iter().any(|claim| {
        snapshot.claims.iter().any(|other| {
            let elsewhere = match other.state {
                State::Waiting => other.name != claim.name,
                State::Noticed | State::Stopping => other
                    .purpose
                    .as_ref()
                    .is_some_and(|purpose| *purpose != claim.name && purpose != "gone"),
                State::Running => false,
            };
            elsewhere && overlap(claim, other)
        })
    })
}

/// Takes back what the plan's starts did to floors: a pool that they lifted above its floor may give what it could not give before.
fn without_lift(mut applied: Snapshot, first: &Plan) -> Snapshot {
    for action in &first.actions {
        if let Action::Start { claim, after, .. } = action
            && after.is_empty()
        {
            let started = applied
                .claims
                .iter()
                .find(|other| other.name == *claim)
                .unwrap()
                .clone();
            let pool = applied
                .pools
                .iter_mut()
                .find(|pool| pool.name == started.pool)
                .unwrap();
            pool.floor = pool.effective_floor() as u32 + started.gpus;
        }
    }
    applied
}

fn moved_again(snapshot: &Snapshot) -> Option<String> {
    if held_twice(snapshot) {
        return None;
    }
    let first = plan(snapshot);
    // Stops aside: once a claim stops, its cards that are held for nobody serve any rank, so a stop may well make a new start legal.
    let mut marked = first.clone();
    marked
        .actions
        .retain(|action| !matches!(action, Action::Stop { .. }));
    let applied = without_lift(apply(snapshot, &marked), &marked);
    let second = plan(&applied);
    // A younger claim that starts may use up the ceiling of one that waits for minimum runtimes: it then keeps nothing back any more.
    let code = |plan: &Plan, claim: &str| {
        plan.waiting
            .iter()
            .find(|wait| wait.claim == claim)
            .map(|wait| wait.code)
    };
    if first.waiting.iter().any(|wait| {
        wait.code == Code::Cooldown && code(&second, &wait.claim) == Some(Code::Ceiling)
    }) {
        return None;
    }
    // Without a minimum runtime, what started on a block that was held for it may go at once for a claim that it was held from.
    let starts = |claim: &str| {
        first.actions.iter().any(
            |action| matches!(action, Action::Start { claim: started, .. } if started == claim),
        )
    };
    if second
        .actions
        .iter()
        .any(|action| matches!(action, Action::Notice { claim, .. } if starts(claim)))
    {
        return None;
    }
    let stopping = |claim: &String| {
        applied
            .claims
            .iter()
            .any(|other| other.name == *claim && other.state == State::Stopping)
    };
    let moved: Vec<_> = second
        .actions
        .iter()
        .filter(|action| match action {
            // Notices of 0 s are followed by stops at once.
            Action::Stop { .. } => false,
            // Once a claim stops, and the block that it stops for is written down, its other cards serve any rank.
            Action::Start { after, .. } if !after.is_empty() && after.iter().all(stopping) => false,
            action => !later(&first).contains(action),
        })
        .collect();
    // A claim that waits for nobody but those who leave anyway may be given another block of the same kind.
    let starts_again = |start: &Action| {
        second.actions.iter().any(|action| {
            let anyway =
                matches!(action, Action::Start { after, .. } if after.iter().all(stopping));
            action == start || (anyway && action.claim() == start.claim())
        })
    };
    let lost: Vec<_> = later(&first)
        .into_iter()
        .filter(|start| !starts_again(start))
        .collect();
    (!moved.is_empty() || !lost.is_empty()).then(|| {
        format!(
            "moved {moved:?}\nlost {lost:?}\n{}\n{}",
            serde_json::to_string(&applied).unwrap(),
            second.to_json()
        )
    })
}

#[test]
fn a11_a_plan_that_was_carried_out_moves_nothing_more() {
    for_fleets(MANY, moved_again);
}

/// Carries plans out one after another, the clock going on, until nothing moves.
#[test]
fn a11_no_fleet_flaps() {
    for_fleets(0..500, |snapshot| {
        let mut now = snapshot.clone();
        let mut quiet = 0;
        for round in 0..60 {
            let made = plan(&now);
            let violations = check(&now, &made);
            if !violations.is_empty() {
                return Some(format!("round {round}: {violations:?}"));
            }
            quiet = if made.actions.is_empty() {
                quiet + 1
            } else {
                0
            };
            // Twice the minimum runtime: nobody waits for one any more.
            if quiet > 6 {
                return None;
            }
            now = pass_time(apply(&now, &made));
        }
        Some(format!(
            "still moving:\n{}\n{}",
            serde_json::to_string(&now).unwrap(),
            plan(&now).to_json()
        ))
    });
}

/// Two minutes later: whoever was stopping is gone; spot VMs and on-demand VMs wait again, replicas are made anew when they are wanted.
fn pass_time(mut snapshot: Snapshot) -> Snapshot {
    snapshot.now += jiff::SignedDuration::from_secs(120);
    let inference: Vec<String> = snapshot
        .pools
        .iter()
        .filter(|pool| pool.replicas.is_some())
        .map(|pool| pool.name.clone())
        .collect();
    let gone = |claim: &Claim| claim.state == State::Stopping;
    snapshot
        .claims
        .retain(|claim| !(gone(claim) && inference.contains(&claim.pool)));
    for claim in snapshot.claims.iter_mut().filter(|claim| gone(claim)) {
        claim.state = State::Waiting;
        claim.requested_at = Some(snapshot.now);
        claim.started_at = None;
        claim.node = None;
        claim.cards.clear();
        claim.deadline = None;
        claim.reason = None;
        claim.purpose = None;
    }
    snapshot
}

/// That the fleets meet every code and every kind of step often enough to be worth trying.
#[test]
fn the_fleets_meet_every_rule() {
    let mut met = std::collections::BTreeMap::<String, u32>::new();
    for seed in MANY {
        let made = plan(&fleet(seed));
        for wait in &made.waiting {
            *met.entry(format!("{:?}", wait.code)).or_default() += 1;
        }
        for action in &made.actions {
            let step = match action {
                Action::Notice {
                    reason, purpose, ..
                } => format!("notice {reason:?} for a claim: {}", purpose.is_some()),
                Action::Stop { purpose, .. } => format!("stop for a claim: {}", purpose.is_some()),
                Action::Start { after, .. } => format!("start after {}", after.len().min(2)),
                Action::Withdraw { .. } => "withdraw".into(),
            };
            *met.entry(step).or_default() += 1;
        }
    }
    assert_eq!(met.len(), 10 + 3 + 2 + 3 + 1, "{met:?}");
    assert!(met.values().all(|times| *times >= 50), "{met:?}");
}

#[test]
fn a_snapshot_reads_as_it_is_written_and_gives_the_same_bytes() {
    for seed in 0..500 {
        let snapshot = fleet(seed);
        let json = serde_json::to_string(&snapshot).unwrap();
        assert_eq!(parse(&json).unwrap(), snapshot);
        let mut turned = snapshot.clone();
        turned.claims.reverse();
        turned.nodes.reverse();
        turned.pools.reverse();
        assert_eq!(
            run(&json),
            run(&serde_json::to_string(&turned).unwrap()),
            "seed {seed}"
        );
    }
}

/// `cargo test --release -- --ignored the_long_run`: minutes.
#[test]
#[ignore = "takes minutes"]
fn the_long_run() {
    for_fleets(LONG, |snapshot| {
        broken_rules(snapshot)
            .or_else(|| other_than_searched(snapshot))
            .or_else(|| moved_again(snapshot))
    });
}
