//! From a finished pass to the plan that is shown and carried out.

use std::collections::BTreeMap;

use jiff::SignedDuration;

use super::fleet::{ClaimFacts, NONE, place};
use super::format::{Action, Drain, Plan, PoolFigures, Waiting};
use super::state::{Pass, Role};
use crate::capacity::arbiter::explain::Withdrawal;
use crate::capacity::arbiter::snapshot::{Reason, State};

/// The plan that this pass came to.
pub(super) fn plan_of(pass: &Pass<'_>, waiting: Vec<Waiting>) -> Plan {
    let mut actions = interruptions(pass);
    actions.extend(starts(pass));
    actions.extend(withdrawals(pass));
    Plan {
        mode: pass.fleet.snapshot.set.mode,
        actions,
        waiting,
        pools: figures(pass),
        drains: drains(pass),
        given_up: given_up(pass),
    }
}

/// Whether the plan stops this claim, now or later: on a node that can't be read nothing is noticed or stopped.
fn goes(pass: &Pass<'_>, claim: u32) -> bool {
    pass.role(claim) == Role::Leaving && pass.fleet.node(pass.fleet.claim(claim).node).node.ready
}

/// Notices, then stops; each by the order of the claims that they serve, then by name.
fn interruptions(pass: &Pass<'_>) -> Vec<Action> {
    let fleet = pass.fleet;
    let now = fleet.snapshot.now;
    let mut turns = vec![0; fleet.claims.len()];
    for (turn, claim) in (1..).zip(fleet.open.iter().flatten()) {
        turns[*claim as usize] = turn;
    }
    let mut leaving: Vec<(u32, u32, u32)> = (0..place(fleet.claims.len()))
        .filter(|claim| goes(pass, *claim))
        .map(|claim| {
            let served = pass.served_by(claim);
            let turn = if served == NONE {
                0
            } else {
                turns[served as usize]
            };
            (turn, fleet.claim(claim).name_place, claim)
        })
        .collect();
    leaving.sort_unstable();

    let mut notices = Vec::new();
    let mut stops = Vec::new();
    for (.., claim) in leaving {
        let facts = fleet.claim(claim);
        let served = pass.served_by(claim);
        let purpose = (served != NONE).then(|| fleet.claim(served).name.to_string());
        match facts.state {
            State::Running => {
                let seconds = fleet.pools[facts.pool as usize]
                    .notice_seconds
                    .unwrap_or(fleet.snapshot.set.notice_seconds);
                notices.push(Action::Notice {
                    claim: facts.name.to_string(),
                    reason: if fleet.node(facts.node).node.draining {
                        Reason::Drain
                    } else {
                        Reason::ArbiterStop
                    },
                    deadline: now
                        .saturating_add(SignedDuration::from_secs(i64::from(seconds)))
                        .unwrap_or(now),
                    purpose,
                });
            }
            State::Noticed if deadline_has_come(facts, now) => {
                stops.push(Action::Stop {
                    claim: facts.name.to_string(),
                    purpose,
                });
            }
            State::Noticed | State::Stopping | State::Waiting => {}
        }
    }
    notices.append(&mut stops);
    notices
}

fn deadline_has_come(facts: &ClaimFacts<'_>, now: jiff::Timestamp) -> bool {
    facts
        .claim
        .and_then(|claim| claim.deadline)
        .is_some_and(|deadline| deadline <= now)
}

/// Starts, by the order of claims.
fn starts<'p>(pass: &'p Pass<'_>) -> impl Iterator<Item = Action> + 'p {
    let fleet = pass.fleet;
    fleet.open.iter().flatten().filter_map(move |claim| {
        pass.starts[*claim as usize]
            .as_ref()
            .map(|start| Action::Start {
                claim: fleet.claim(*claim).name.to_string(),
                node: fleet.node(start.node).node.name.clone(),
                cards: start.cards.numbers().collect(),
                after: start
                    .after
                    .iter()
                    .map(|other| fleet.claim(*other).name.to_string())
                    .collect(),
            })
    })
}

/// Notices that the plan does not use, by name.
fn withdrawals(pass: &Pass<'_>) -> Vec<Action> {
    let fleet = pass.fleet;
    let mut unused: Vec<u32> = (0..place(fleet.claims.len()))
        .filter(|claim| {
            let facts = fleet.claim(*claim);
            facts.noticed_by_arbiter()
                && match pass.role(*claim) {
                    Role::NoticedFree | Role::NoticedFor(_) => true,
                    Role::Fixed => !facts.interruptible,
                    _ => false,
                }
        })
        .collect();
    unused.sort_unstable_by_key(|claim| fleet.claim(*claim).name_place);
    unused
        .into_iter()
        .map(|claim| Action::Withdraw {
            claim: fleet.claim(claim).name.to_string(),
            why: why(pass, claim).to_string(),
        })
        .collect()
}

fn why<'p>(pass: &'p Pass<'_>, claim: u32) -> Withdrawal<'p> {
    let facts = pass.fleet.claim(claim);
    let node = pass.fleet.node(facts.node).node;
    let noticed = facts.claim;
    if !facts.interruptible {
        Withdrawal::OnDemand
    } else if !node.ready {
        Withdrawal::NodeNotReady(&node.name)
    } else if facts.purpose != NONE {
        let purpose = pass.fleet.claim(facts.purpose);
        if pass.starts[facts.purpose as usize].is_some() {
            Withdrawal::StartsElsewhere(&purpose.name)
        } else {
            Withdrawal::StillWaits(&purpose.name)
        }
    } else if let Some(purpose) = noticed.and_then(|claim| claim.purpose.as_deref()) {
        let waits = pass
            .fleet
            .open
            .iter()
            .flatten()
            .any(|open| pass.fleet.claim(*open).name == purpose);
        if waits {
            Withdrawal::NotHigher(purpose)
        } else {
            Withdrawal::NotWaiting(purpose)
        }
    } else if noticed.is_some_and(|claim| claim.reason == Some(Reason::Drain)) {
        Withdrawal::DrainOver(&node.name)
    } else {
        Withdrawal::NotNeeded
    }
}

fn figures(pass: &Pass<'_>) -> Vec<PoolFigures> {
    let fleet = pass.fleet;
    let gpus = |claims: &mut dyn Iterator<Item = u32>| {
        claims
            .map(|claim| u64::from(fleet.claim(claim).gpus))
            .sum::<u64>()
    };
    let pools = fleet.pools.iter().zip(&fleet.holders).zip(&fleet.open);
    pools
        .map(|((pool, holders), open)| {
            let before = gpus(&mut holders.iter().copied());
            let gone = gpus(&mut holders.iter().copied().filter(|claim| goes(pass, *claim)));
            let started = gpus(
                &mut open
                    .iter()
                    .copied()
                    .filter(|claim| pass.starts[*claim as usize].is_some()),
            );
            PoolFigures {
                name: pool.name.clone(),
                gpus_before: before,
                gpus_after: before - gone + started,
                floor: pool.effective_floor(),
            }
        })
        .collect()
}

fn drains(pass: &Pass<'_>) -> Vec<Drain> {
    let fleet = pass.fleet;
    let mut staying: BTreeMap<u32, Vec<String>> = (0..place(fleet.nodes.len()))
        .filter(|node| fleet.node(*node).node.draining)
        .map(|node| (node, Vec::new()))
        .collect();
    for claim in fleet.claims.iter().filter(|claim| !claim.interruptible) {
        if matches!(claim.state, State::Running | State::Noticed)
            && let Some(list) = staying.get_mut(&claim.node)
        {
            list.push(claim.name.to_string());
        }
    }
    staying
        .into_iter()
        .map(|(node, mut blocked_by)| {
            blocked_by.sort_unstable();
            Drain {
                node: fleet.node(node).node.name.clone(),
                blocked_by,
            }
        })
        .collect()
}

fn given_up(pass: &Pass<'_>) -> Vec<String> {
    let claims = (0..place(pass.fleet.claims.len())).filter(|claim| pass.given_up[*claim as usize]);
    let mut names: Vec<String> = claims
        .map(|claim| pass.fleet.claim(claim).name.to_string())
        .collect();
    names.sort_unstable();
    names
}
