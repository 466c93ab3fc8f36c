//! What holds for every fleet.

use std::ops::Range;

use super::apply::apply;
use super::exhaustive::{Decisions, decide};
use super::generate::{MANY, first_fleets, fleet, shrink};
use super::planned_again::moved_again;
use crate::capacity::arbiter::check::check;
use crate::capacity::arbiter::plan::{Action, plan};
use crate::capacity::arbiter::run;
use crate::capacity::arbiter::snapshot::{Claim, Snapshot, State, parse};

/// How many more in the long run.
const LONG: Range<u64> = MANY..400_000;

/// Looks at the first fleets; the smallest part of the first that fails is shown.
pub(super) fn for_first_fleets(count: usize, fault: impl Fn(&Snapshot) -> Option<String>) {
    for (seed, snapshot) in (0..).zip(&first_fleets()[..count]) {
        show_fault(seed, snapshot, &fault);
    }
}

/// The same for all that are tried in every run.
pub(super) fn for_fleets(fault: impl Fn(&Snapshot) -> Option<String>) {
    for_first_fleets(first_fleets().len(), fault);
}

fn show_fault(seed: u64, snapshot: &Snapshot, fault: impl Fn(&Snapshot) -> Option<String>) {
    if fault(snapshot).is_some() {
        let least = shrink(snapshot.clone(), |less| fault(less).is_some());
        panic!(
            "seed {seed}: {}\n{}\n{}",
            fault(&least).unwrap_or_default(),
            serde_json::to_string(&least).unwrap(),
            plan(&least).to_json()
        );
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
    for_fleets(broken_rules);
}

fn other_than_searched(snapshot: &Snapshot) -> Option<String> {
    let (planned, searched) = (Decisions::of(&plan(snapshot)), decide(snapshot));
    (planned != searched).then(|| format!("planned  {planned:?}\nsearched {searched:?}"))
}

#[test]
fn a7_no_exhaustive_search_finds_less_harm_nor_another_reason() {
    for_fleets(other_than_searched);
}

/// Carries plans out one after another, the clock going on, until nothing moves.
#[test]
fn a11_no_fleet_flaps() {
    for_first_fleets(500, |snapshot| {
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
    for fleet in first_fleets() {
        let made = plan(fleet);
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
    for (seed, snapshot) in first_fleets()[..500].iter().enumerate() {
        let json = serde_json::to_string(snapshot).unwrap();
        assert_eq!(parse(&json).unwrap(), *snapshot);
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

/// `CARGO_PROFILE_TEST_OPT_LEVEL=3 cargo test --lib -- --ignored the_long_run`: a minute once it is compiled.
#[test]
#[ignore = "takes a minute, and many when it is not optimized"]
fn the_long_run() {
    for seed in LONG {
        show_fault(seed, &fleet(seed), |snapshot| {
            broken_rules(snapshot)
                .or_else(|| other_than_searched(snapshot))
                .or_else(|| moved_again(snapshot))
        });
    }
}
