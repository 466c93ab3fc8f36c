//! Who starts: blocks, cards, ceilings, holds; and that nobody waits, or has another interrupted, where a free block would do.

use std::collections::{BTreeMap, BTreeSet};

use super::Verdict;
use super::facts::{Facts, Start};
use crate::capacity::arbiter::plan::Code;
use crate::capacity::arbiter::snapshot::State;
use crate::capacity::fabric::Cards;

pub(super) fn judge(facts: &Facts<'_>, verdict: &mut Verdict) {
    let mut taken: BTreeSet<(&str, u32)> = BTreeSet::new();
    for start in &facts.starts {
        block(facts, verdict, start);
        for card in start.cards {
            verdict.require(taken.insert((start.node, *card)), "A6", || {
                format!(
                    "{} starts on card {card} of {}, and so does another",
                    start.claim, start.node
                )
            });
        }
        gone_first(facts, verdict, start);
    }
    in_order(facts, verdict);
    nobody_is_starved(facts, verdict);
}

/// One allowed block of the right size, on a node that takes work.
fn block(facts: &Facts<'_>, verdict: &mut Verdict, start: &Start<'_>) {
    let gpus = facts.open.get(start.claim).map_or(0, |open| open.gpus);
    let cards = Cards::of(start.cards);
    let allowed = facts
        .blocks
        .get(start.node)
        .is_some_and(|blocks| blocks.contains(&cards));
    verdict.require(
        allowed && cards.len() == gpus && start.cards.is_sorted(),
        "A2",
        || {
            format!(
                "{} needs {gpus} and starts on cards {:?} of {}, which are no such block",
                start.claim, start.cards, start.node
            )
        },
    );
    let usable = facts
        .nodes
        .get(start.node)
        .is_some_and(|node| node.ready && !node.cordoned && !node.draining);
    verdict.require(usable, "A11c", || {
        format!(
            "{} starts on {}, which takes no work",
            start.claim, start.node
        )
    });
}

/// Whoever has the cards leaves, and the start waits for exactly those.
fn gone_first(facts: &Facts<'_>, verdict: &mut Verdict, start: &Start<'_>) {
    let holders: BTreeSet<&str> = start
        .cards
        .iter()
        .filter_map(|card| facts.holder_of.get(&(start.node, *card)).copied())
        .collect();
    verdict.require(
        start
            .after
            .iter()
            .map(String::as_str)
            .eq(holders.iter().copied()),
        "A6",
        || {
            format!(
                "{} starts after {:?}, but its cards are held by {holders:?}",
                start.claim, start.after
            )
        },
    );
    for holder in holders {
        verdict.require(facts.leaving.contains(holder), "A6", || {
            format!("{} starts on cards of {holder}, which stays", start.claim)
        });
    }
}

/// Nodes that have a free block, by block size, while the plan's starts are made one after another.
struct FreeBlocks<'f, 'a> {
    facts: &'f Facts<'a>,
    free: BTreeMap<&'a str, u64>,
    nodes: BTreeMap<u32, BTreeSet<&'a str>>,
}

impl<'f, 'a> FreeBlocks<'f, 'a> {
    /// Cards that nobody has, and that are held for nobody.
    fn new(facts: &'f Facts<'a>) -> Self {
        let mut free: BTreeMap<&str, u64> = facts
            .nodes
            .values()
            .filter(|node| node.ready && !node.cordoned && !node.draining)
            .map(|node| (node.name.as_str(), Cards::first(node.gpus).0))
            .collect();
        for claim in &facts.snapshot.claims {
            if let Some(cards) = claim.node.as_deref().and_then(|node| free.get_mut(node)) {
                *cards &= !Cards::of(&claim.cards).0;
            }
        }
        let mut blocks = Self {
            facts,
            free,
            nodes: BTreeMap::new(),
        };
        let names: Vec<&str> = blocks.free.keys().copied().collect();
        names.into_iter().for_each(|node| blocks.look(node));
        blocks
    }

    fn look(&mut self, node: &'a str) {
        let free = Cards(self.free.get(node).copied().unwrap_or(0));
        for nodes in self.nodes.values_mut() {
            nodes.remove(node);
        }
        for block in self
            .facts
            .blocks
            .get(node)
            .into_iter()
            .flatten()
            .filter(|block| block.within(free))
        {
            self.nodes.entry(block.len()).or_default().insert(node);
        }
    }

    fn take(&mut self, node: &'a str, cards: &[u32]) {
        if let Some(free) = self.free.get_mut(node) {
            *free &= !Cards::of(cards).0;
        }
        self.look(node);
    }

    fn any(&self, gpus: u32) -> Option<&'a str> {
        self.nodes
            .get(&gpus)
            .and_then(|nodes| nodes.first().copied())
    }
}

/// Every decision at its turn: ceilings hold, and nobody waits or interrupts another while a free block would do. Cards that are kept for a claim that
/// waits for minimum runtimes are not in the plan, so after the first such claim a free block proves nothing.
fn in_order(facts: &Facts<'_>, verdict: &mut Verdict) {
    let mut free = FreeBlocks::new(facts);
    let mut counted = facts.held_gpus.clone();
    let mut kept = false;
    let starts: BTreeMap<&str, &Start<'_>> = facts
        .starts
        .iter()
        .map(|start| (start.claim, start))
        .collect();
    let codes: BTreeMap<&str, Code> = facts
        .plan
        .waiting
        .iter()
        .map(|wait| (wait.claim.as_str(), wait.code))
        .collect();
    let mut in_turn: Vec<_> = facts.open.iter().collect();
    in_turn.sort_by_key(|(_, open)| open.turn);
    for (name, open) in in_turn {
        let Some(pool) = facts.pools.get(open.pool.as_str()).copied() else {
            continue;
        };
        let counted = counted.entry(&pool.name).or_insert(0);
        let over = pool
            .ceiling
            .is_some_and(|ceiling| *counted + u64::from(open.gpus) > u64::from(ceiling));
        if let Some(start) = starts.get(name.as_str()) {
            *counted += u64::from(open.gpus);
            verdict.require(!over, "A3", || {
                format!("{name} starts, and pool {} passes its ceiling", pool.name)
            });
            let free_block = free
                .any(open.gpus)
                .filter(|_| !kept && !start.after.is_empty());
            verdict.require(free_block.is_none(), "A7", || {
                format!(
                    "{name} starts after {:?}, and {free_block:?} has a free block that would do",
                    start.after
                )
            });
            if let Some(node) = facts.nodes.get(start.node) {
                free.take(&node.name, start.cards);
            }
        } else if let Some(code) = codes.get(name.as_str()) {
            if *code != Code::NeverFits {
                verdict.require((*code == Code::Ceiling) == over, "A3", || {
                    format!("{name} waits with {code:?}; over the ceiling: {over}")
                });
            }
            if !matches!(code, Code::NeverFits | Code::Ceiling) && !kept {
                let free_block = free.any(open.gpus);
                verdict.require(free_block.is_none(), "A6", || {
                    format!("{name} waits, and {free_block:?} has a free block that would do")
                });
                held_block_is_used(facts, verdict, name);
            }
            kept |= *code == Code::Cooldown;
        }
    }
}

/// A claim does not wait while the very block that is held for it is free.
fn held_block_is_used(facts: &Facts<'_>, verdict: &mut Verdict, name: &str) {
    let held = facts.held_for.get(name).copied();
    let Some((claim, node)) = held.and_then(|claim| Some((claim, claim.node.as_deref()?))) else {
        return;
    };
    let usable = facts
        .nodes
        .get(node)
        .is_some_and(|node| node.ready && !node.cordoned && !node.draining);
    let legal = facts
        .blocks
        .get(node)
        .is_some_and(|blocks| blocks.contains(&Cards::of(&claim.cards)));
    let nobodys = claim
        .cards
        .iter()
        .all(|card| !facts.holder_of.contains_key(&(node, *card)));
    let started_on = facts.starts.iter().any(|start| {
        start.node == node && start.cards.iter().any(|card| claim.cards.contains(card))
    });
    verdict.require(!(usable && legal && nobodys) || started_on, "A11a", || {
        format!("{name} waits, and the block that is held for it is free")
    });
}

/// Nobody waits while a claim that is considered later gets a block that would have done: what was legal later was legal earlier, when less was taken and
/// floors were no nearer. Cards that are held for someone, or of claims that leave for someone, prove nothing.
fn nobody_is_starved(facts: &Facts<'_>, verdict: &mut Verdict) {
    let mut meant: BTreeMap<&str, u64> = BTreeMap::new();
    for claim in &facts.snapshot.claims {
        let for_someone = match claim.state {
            State::Waiting => true,
            _ => claim
                .purpose
                .as_ref()
                .is_some_and(|purpose| facts.open.contains_key(purpose)),
        };
        if let Some(node) = claim.node.as_deref().filter(|_| for_someone) {
            *meant.entry(node).or_insert(0) |= Cards::of(&claim.cards).0;
        }
    }
    let starts: BTreeMap<&str, &Start<'_>> = facts
        .starts
        .iter()
        .map(|start| (start.claim, start))
        .collect();
    let mut decided: Vec<_> = facts.open.iter().collect();
    decided.sort_by_key(|(_, open)| std::cmp::Reverse(open.turn));
    let reasons: BTreeMap<&str, Code> = facts
        .plan
        .waiting
        .iter()
        .map(|wait| (wait.claim.as_str(), wait.code))
        .collect();
    // By size: who gets a block of it later.
    let mut later: BTreeMap<u32, &str> = BTreeMap::new();
    for (name, open) in decided {
        if let Some(start) = starts.get(name.as_str()) {
            let held = meant.get(start.node).copied().unwrap_or(0);
            let open_cards = Cards(Cards::of(start.cards).0 & !held);
            for block in facts.blocks.get(start.node).into_iter().flatten() {
                if block.within(open_cards) {
                    later.insert(block.len(), start.claim);
                }
            }
        } else if !matches!(
            reasons.get(name.as_str()),
            Some(Code::NeverFits | Code::Ceiling)
        ) {
            let helped = later.get(&open.gpus);
            verdict.require(helped.is_none(), "A8", || {
                format!("{name} waits, and {helped:?}, considered later, gets a block that would have done")
            });
        }
    }
}
