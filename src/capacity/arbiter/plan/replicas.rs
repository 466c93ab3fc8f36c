//! How many replicas an inference pool should have (rule A10): which waiting ones are dropped, which are added, which running ones are given up.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use super::state::{Pass, Role};
use crate::capacity::arbiter::snapshot::{Pool, Snapshot, State};

/// What the range and the queue make of the claims that there are.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Demand {
    /// Waiting replicas to leave out, as places in the snapshot's claims.
    pub(super) dropped: BTreeSet<usize>,
    /// Replicas to consider besides.
    pub(super) added: Vec<Added>,
}

/// A replica that no claim stands for yet.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Added {
    pub(super) name: String,
    pub(super) pool: String,
    pub(super) gpus: u32,
}

/// Replicas that a pool should have, of `present` in whatever state; `None` when it is no inference pool.
fn target(pool: &Pool, present: usize) -> Option<usize> {
    let range = pool.replicas?;
    let (min, max) = (range.min as usize, range.max as usize);
    Some(
        range
            .wanted
            .map_or(present, |wanted| wanted as usize)
            .min(max)
            .max(min),
    )
}

/// Compares every inference pool's claims with what it should have.
pub(super) fn demand(snapshot: &Snapshot) -> Demand {
    let mut demand = Demand::default();
    if snapshot.pools.iter().all(|pool| pool.replicas.is_none()) {
        return demand;
    }
    let names: BTreeSet<&str> = snapshot
        .claims
        .iter()
        .map(|claim| claim.name.as_str())
        .collect();
    let mut by_pool: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    for (place, claim) in snapshot.claims.iter().enumerate() {
        by_pool.entry(claim.pool.as_str()).or_default().push(place);
    }
    for pool in &snapshot.pools {
        let present = by_pool
            .get(pool.name.as_str())
            .map_or(&[][..], Vec::as_slice);
        let count = present.len();
        let mut waiting: Vec<_> = present
            .iter()
            .map(|place| (&snapshot.claims[*place], *place))
            .filter(|(claim, _)| claim.state == State::Waiting)
            .map(|(claim, place)| (claim.requested_at, claim.name.as_str(), place))
            .collect();
        let (Some(target), Some(gpus)) = (target(pool, count), pool.gpus_per_replica) else {
            continue;
        };
        waiting.sort_unstable_by(|a, b| b.cmp(a));
        demand.dropped.extend(
            waiting
                .iter()
                .take(count.saturating_sub(target))
                .map(|(.., place)| *place),
        );
        let missing = target.saturating_sub(count);
        // Names are taken from the claims that there are, so count + missing numbers always hold enough free ones.
        let free = (0u64..)
            .map(|number| format!("{}-{number}", pool.name))
            .filter(|name| !names.contains(name.as_str()));
        demand.added.extend(free.take(missing).map(|name| Added {
            name,
            pool: pool.name.clone(),
            gpus,
        }));
    }
    demand
}

/// Marks the replicas that pools with too many give up. Done before claims are considered: the cards serve any rank.
pub(super) fn give_up(pass: &mut Pass<'_>) {
    let fleet = pass.fleet;
    for (pool, facts) in fleet.pools.iter().enumerate() {
        let holders = &fleet.holders[pool];
        let Some(target) = target(facts, holders.len() + fleet.open[pool].len()) else {
            continue;
        };
        // Waiting ones were dropped first, so whoever is too many holds cards.
        let mut surplus = holders.len().saturating_sub(target);
        if surplus == 0 {
            continue;
        }
        let counts = |claim: u32| fleet.node(fleet.claim(claim).node).counts;
        let mut newest_first = holders.clone();
        newest_first.sort_unstable_by_key(|claim| {
            let claim = fleet.claim(*claim);
            (Reverse(claim.started), claim.name_place)
        });

        for claim in &newest_first {
            if surplus > 0
                && pass.role(*claim) == Role::NoticedFree
                && counts(*claim)
                && pass.floor_allows(*claim)
            {
                pass.give_up(*claim);
                surplus -= 1;
            }
        }
        let others = holders
            .iter()
            .filter(|claim| leaves_otherwise(pass, **claim))
            .count();
        surplus = surplus.saturating_sub(others);
        for claim in &newest_first {
            let promised = matches!(pass.role(*claim), Role::NoticedFor(_));
            if surplus > 0 && promised && counts(*claim) && pass.floor_allows(*claim) {
                pass.give_up(*claim);
                surplus -= 1;
            }
        }
        for claim in &newest_first {
            if surplus > 0
                && pass.role(*claim) == Role::Running
                && counts(*claim)
                && !fleet.claim(*claim).young
                && pass.floor_allows(*claim)
            {
                pass.give_up(*claim);
                surplus -= 1;
            }
        }
    }
}

/// Whether a replica leaves already, whatever this pool needs: stopping, drained, or reclaimed by the machine's owner.
fn leaves_otherwise(pass: &Pass<'_>, claim: u32) -> bool {
    let facts = pass.fleet.claim(claim);
    match pass.role(claim) {
        Role::Leaving => !pass.given_up[claim as usize],
        Role::Fixed => {
            facts.state == State::Stopping
                || (facts.state == State::Noticed && facts.reclaimed_by_owner())
        }
        Role::Running | Role::NoticedFree | Role::NoticedFor(_) | Role::Waiting => false,
    }
}
