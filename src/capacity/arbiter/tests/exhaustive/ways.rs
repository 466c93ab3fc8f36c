//! All ways to meet a claim, and which of them harms least.

use std::cmp::Ordering;
use std::collections::BTreeSet;

use jiff::Timestamp;

use super::{Card, Stand, Way, Without, World, pool};
use crate::capacity::arbiter::snapshot::{Claim, Node, Pool, PoolType, Snapshot, State};

impl<'a> World<'a> {
    fn usable(&self, node: &Node, without: Without) -> bool {
        (node.ready || without.stale) && !node.cordoned && !node.draining
    }

    fn mine(&self, claim: &Claim, card: &Card, without: Without) -> bool {
        let rank = pool(self.snapshot, claim).rank;
        without.holds
            || self
                .held
                .get(card)
                .is_none_or(|(holder, of)| *holder == claim.name || (without.rank && *of <= rank))
    }

    /// Cards of a node that need no victim, and the claims there that may be victims.
    fn node_now(
        &self,
        claim: &Claim,
        node: &Node,
        without: Without,
    ) -> (BTreeSet<u32>, BTreeSet<u32>, Vec<&'a Claim>) {
        let rank = pool(self.snapshot, claim).rank;
        let mut free: BTreeSet<u32> = (0..node.gpus).collect();
        for (card, of) in self.started.iter().filter(|((on, _), _)| *on == node.name) {
            if !(without.rank && *of <= rank) {
                free.remove(&card.1);
            }
        }
        let (mut leaving, mut victims) = (BTreeSet::new(), Vec::new());
        for other in self.snapshot.claims.iter().filter(|other| {
            other.state != State::Waiting && other.node.as_ref() == Some(&node.name)
        }) {
            let of = pool(self.snapshot, other);
            let absent =
                (without.rank && of.rank <= rank && self.stands[&other.name] != Stand::Leaves)
                    || (without.on_demand
                        && of.rank > rank
                        && of.kind == PoolType::OnDemand
                        && self.stands[&other.name] == Stand::Stays);
            if absent {
                continue;
            }
            other.cards.iter().for_each(|card| _ = free.remove(card));
            match &self.stands[&other.name] {
                Stand::Leaves => leaving.extend(other.cards.iter().copied()),
                Stand::Stays => {}
                _ if of.rank <= rank => {}
                Stand::Runs if self.young(other) && !without.runtimes => {}
                Stand::Runs | Stand::Told(None) => victims.push(other),
                Stand::Told(Some(purpose)) if *purpose == claim.name || without.holds => {
                    victims.push(other)
                }
                Stand::Told(Some(_)) => {}
            }
        }
        (free, leaving, victims)
    }

    /// The least harmful of all ways.
    pub(super) fn best(&self, claim: &Claim, without: Without) -> Option<Way> {
        let mut best: Option<Way> = None;
        for node in self
            .snapshot
            .nodes
            .iter()
            .filter(|node| self.usable(node, without))
        {
            let (free, leaving, candidates) = self.node_now(claim, node, without);
            let blocks: Vec<Vec<u32>> = node
                .allowed_blocks(&self.snapshot.set)
                .iter()
                .map(|block| block.numbers().collect())
                .collect();
            for choice in 0..1_u32 << candidates.len() {
                let victims: Vec<&Claim> = candidates
                    .iter()
                    .enumerate()
                    .filter(|(place, _)| choice >> place & 1 == 1)
                    .map(|(_, claim)| *claim)
                    .collect();
                let opened: BTreeSet<u32> = victims
                    .iter()
                    .flat_map(|claim| claim.cards.iter().copied())
                    .collect();
                for block in blocks
                    .iter()
                    .filter(|block| block.len() == claim.gpus as usize)
                {
                    // The cheaper question first: there are many choices, and few of them serve.
                    let serves = block.iter().all(|card| {
                        (free.contains(card) || leaving.contains(card) || opened.contains(card))
                            && self.mine(claim, &(node.name.clone(), *card), without)
                    });
                    if serves && self.floors(&victims, without) {
                        let way = self.way(claim, node, block, &blocks, &free, &victims, without);
                        if best
                            .as_ref()
                            .is_none_or(|best| compare(self.snapshot, &way, best) == Ordering::Less)
                        {
                            best = Some(way);
                        }
                    }
                }
            }
        }
        best
    }

    #[allow(
        clippy::too_many_arguments,
        reason = "one call, all of them already worked out"
    )]
    fn way(
        &self,
        claim: &Claim,
        node: &Node,
        block: &[u32],
        blocks: &[Vec<u32>],
        free: &BTreeSet<u32>,
        victims: &[&'a Claim],
        without: Without,
    ) -> Way {
        let leaves: Vec<&Claim> = self
            .snapshot
            .claims
            .iter()
            .filter(|other| {
                other.state != State::Waiting && other.node.as_ref() == Some(&node.name)
            })
            .filter(|other| {
                self.stands[&other.name] == Stand::Leaves
                    && other.cards.iter().any(|card| block.contains(card))
            })
            .collect();
        let mut after: Vec<String> = leaves
            .iter()
            .chain(victims)
            .map(|claim| claim.name.clone())
            .collect();
        after.sort();
        let freed: BTreeSet<u32> = free
            .iter()
            .copied()
            .chain(
                leaves
                    .iter()
                    .chain(victims)
                    .flat_map(|claim| claim.cards.iter().copied()),
            )
            .filter(|card| self.mine(claim, &(node.name.clone(), *card), without))
            .collect();
        let whole = |other: &&Vec<u32>| other.iter().all(|card| freed.contains(card));
        let free_blocks = || blocks.iter().filter(whole);
        Way {
            node: node.name.clone(),
            cards: block.to_vec(),
            fresh: victims
                .iter()
                .filter(|claim| {
                    claim.state == State::Running || victims.iter().any(|claim| self.young(claim))
                })
                .map(|claim| (*claim).clone())
                .collect(),
            all: victims.iter().map(|claim| (*claim).clone()).collect(),
            ready: victims
                .iter()
                .filter(|claim| self.young(claim))
                .map(|claim| self.ready(claim))
                .max()
                .unwrap_or(self.snapshot.now),
            elsewhere: !after.is_empty()
                && !block.iter().all(|card| {
                    let held = self.held.get(&(node.name.clone(), *card));
                    !claim.cards.is_empty() && held.is_some_and(|(holder, _)| *holder == claim.name)
                }),
            around: free_blocks()
                .filter(|other| block.iter().all(|card| other.contains(card)))
                .map(Vec::len)
                .max()
                .unwrap_or(0),
            kept: free_blocks()
                .filter(|other| !block.iter().any(|card| other.contains(card)))
                .map(Vec::len)
                .max()
                .unwrap_or(0),
            after,
        }
    }

    /// The most cards of any one block of its size that the claim could have now.
    pub(super) fn reachable(&self, claim: &Claim) -> u32 {
        let none = Without::default();
        let mut most = 0;
        for node in self
            .snapshot
            .nodes
            .iter()
            .filter(|node| self.usable(node, none))
        {
            let (free, leaving, candidates) = self.node_now(claim, node, none);
            for block in node
                .allowed_blocks(&self.snapshot.set)
                .iter()
                .filter(|block| block.len() == claim.gpus)
            {
                for choice in 0..1_u32 << candidates.len() {
                    let victims: Vec<&Claim> = candidates
                        .iter()
                        .enumerate()
                        .filter(|(place, _)| choice >> place & 1 == 1)
                        .map(|(_, claim)| *claim)
                        .collect();
                    let has = |card: &u32| {
                        (free.contains(card)
                            || leaving.contains(card)
                            || victims.iter().any(|claim| claim.cards.contains(card)))
                            && self.mine(claim, &(node.name.clone(), *card), none)
                    };
                    let count = block.numbers().filter(has).count() as u32;
                    if count > most && self.floors(&victims, none) {
                        most = count;
                    }
                }
            }
        }
        most
    }

    /// Free and reclaimable cards of the whole set, floors kept.
    pub(super) fn in_pieces(&self, claim: &Claim) -> i64 {
        let none = Without::default();
        let (mut count, mut victims) = (0, Vec::new());
        for node in self
            .snapshot
            .nodes
            .iter()
            .filter(|node| self.usable(node, none))
        {
            let (free, leaving, candidates) = self.node_now(claim, node, none);
            let mine = |card: &u32| self.mine(claim, &(node.name.clone(), *card), none);
            count += free.union(&leaving).filter(|card| mine(card)).count() as i64;
            victims.extend(
                candidates
                    .into_iter()
                    .filter(|claim| claim.cards.iter().all(mine)),
            );
        }
        for pool in &self.snapshot.pools {
            let of_pool: Vec<&&Claim> = victims
                .iter()
                .filter(|claim| claim.pool == pool.name)
                .collect();
            let spare = self.spare(pool, none);
            let mut sums = BTreeSet::from([(0_i64, 0_i64)]);
            for victim in of_pool {
                let with: Vec<_> = sums
                    .iter()
                    .map(|(taken, given)| {
                        (
                            taken + self.takes(victim, none),
                            given + i64::from(victim.gpus),
                        )
                    })
                    .collect();
                sums.extend(with);
            }
            count += sums
                .iter()
                .filter(|(taken, _)| *taken <= spare)
                .map(|(_, given)| *given)
                .max()
                .unwrap_or(0);
        }
        count
    }
}

/// Rule A7, as it is written.
fn compare(snapshot: &Snapshot, a: &Way, b: &Way) -> Ordering {
    let ways = a
        .ready
        .cmp(&b.ready)
        .then(a.after.is_empty().cmp(&b.after.is_empty()).reverse());
    let harm = |victims: fn(&Way) -> &Vec<Claim>| {
        let per_rank = |way: &Way| -> Vec<u32> {
            let mut pools: Vec<&Pool> = snapshot.pools.iter().collect();
            pools.sort_by_key(|pool| pool.rank);
            let of = |pool: &&Pool| {
                victims(way)
                    .iter()
                    .filter(|claim| claim.pool == pool.name)
                    .map(|claim| claim.gpus)
                    .sum()
            };
            pools.iter().map(of).collect()
        };
        let starts = |way: &Way| -> Vec<Timestamp> {
            let mut starts: Vec<_> = victims(way)
                .iter()
                .map(|claim| claim.started_at.unwrap_or(snapshot.now))
                .collect();
            starts.sort();
            starts
        };
        let names = |way: &Way| -> Vec<String> {
            let mut names: Vec<_> = victims(way)
                .iter()
                .map(|claim| claim.name.clone())
                .collect();
            names.sort();
            names
        };
        per_rank(a)
            .cmp(&per_rank(b))
            .then(victims(a).len().cmp(&victims(b).len()))
            .then(a.after.len().cmp(&b.after.len()))
            .then(starts(b).cmp(&starts(a)))
            .then(names(a).cmp(&names(b)))
    };
    ways.then_with(|| harm(|way| &way.fresh))
        .then_with(|| harm(|way| &way.all))
        .then_with(|| a.elsewhere.cmp(&b.elsewhere))
        .then_with(|| a.around.cmp(&b.around))
        .then_with(|| b.kept.cmp(&a.kept))
        .then_with(|| a.node.cmp(&b.node))
        .then_with(|| a.cards.cmp(&b.cards))
}
