//! Cards that are held for a waiting claim (rule A11a), and what becomes of a hold that its claim does not use.

use std::collections::BTreeMap;

use super::fleet::{Fleet, NONE, place};
use super::state::{Pass, Role};
use crate::capacity::arbiter::snapshot::State;
use crate::capacity::fabric::Cards;

/// Holds and notices that a plan turned out not to use: it is made again without them.
pub(super) struct GivenUp {
    /// By waiting claim: the block that was held for it.
    blocks: Vec<bool>,
    /// By claim that leaves: that it leaves for another.
    notices: Vec<bool>,
    /// By claim that leaves for another: those of its cards that the other uses, and that are still held for it alone.
    parts: Vec<Cards>,
}

impl GivenUp {
    pub(super) fn none(fleet: &Fleet<'_>) -> Self {
        Self {
            blocks: vec![false; fleet.claims.len()],
            notices: vec![false; fleet.claims.len()],
            parts: fleet.claims.iter().map(|claim| claim.cards).collect(),
        }
    }

    /// Whether what this claim was noticed or stopped for no longer counts.
    pub(super) fn notice(&self, claim: u32) -> bool {
        self.notices[claim as usize]
    }

    /// Adds what this pass did not use. Whether there was any.
    pub(super) fn add_unused(&mut self, pass: &Pass<'_>) -> bool {
        let fleet = pass.fleet;
        let mut any = false;
        for claim in 0..place(fleet.claims.len()) {
            let facts = fleet.claim(claim);
            if facts.state == State::Waiting {
                let start = pass.starts[claim as usize].as_ref();
                let used = start
                    .is_some_and(|start| start.node == facts.node && start.cards == facts.cards);
                if has_block(fleet, claim)
                    && !used
                    && !std::mem::replace(&mut self.blocks[claim as usize], true)
                {
                    any = true;
                }
            } else if leaves_for(fleet, claim) && !self.notices[claim as usize] {
                match &pass.starts[facts.purpose as usize] {
                    Some(start) if start.after.contains(&claim) => {
                        // Only ever less, so that making plans again comes to an end.
                        let part = &mut self.parts[claim as usize];
                        let used = Cards(part.0 & start.cards.0);
                        any |= used != *part && !has_block(fleet, facts.purpose);
                        *part = used;
                    }
                    _ => {
                        self.notices[claim as usize] = true;
                        any = true;
                    }
                }
            }
        }
        any
    }
}

/// Whether a block is written on this waiting claim.
fn has_block(fleet: &Fleet<'_>, claim: u32) -> bool {
    let facts = fleet.claim(claim);
    facts.state == State::Waiting && facts.node != NONE && !facts.cards.is_empty()
}

/// Whether this claim's cards, or its notice, are meant for a claim that waits. A claim that is stopping serves whoever the block is written for;
/// only without such a block are its cards held.
fn leaves_for(fleet: &Fleet<'_>, claim: u32) -> bool {
    let facts = fleet.claim(claim);
    facts.purpose != NONE
        && match facts.state {
            State::Noticed => facts.noticed_by_arbiter(),
            State::Stopping => !has_block(fleet, facts.purpose),
            State::Waiting | State::Running => false,
        }
}

/// The holds of one pass.
pub(super) struct Holds {
    /// Node, cards and the claim they are held for; no card twice.
    pub(super) cards: Vec<(u32, Cards, u32)>,
    /// By waiting claim and node where it can have what others can't: the cards held for it there.
    own: BTreeMap<(u32, u32), u64>,
}

impl Holds {
    pub(super) fn new(fleet: &Fleet<'_>, given_up: &GivenUp) -> Self {
        let mut wanted: Vec<(u32, u32, Cards)> = Vec::new();
        let mut own = BTreeMap::new();
        for claim in 0..place(fleet.claims.len()) {
            let facts = fleet.claim(claim);
            if has_block(fleet, claim) && !given_up.blocks[claim as usize] {
                wanted.push((claim, facts.node, facts.cards));
            } else if leaves_for(fleet, claim) && !given_up.notice(claim) {
                own.insert((facts.purpose, facts.node), 0);
                if !has_block(fleet, facts.purpose) {
                    wanted.push((facts.purpose, facts.node, given_up.parts[claim as usize]));
                }
            }
        }
        // Should two claims have the same card, what is written down comes first, then the claim that is considered first.
        wanted.sort_by_key(|(claim, ..)| {
            let facts = fleet.claim(*claim);
            (
                !has_block(fleet, *claim),
                facts.pool,
                facts.requested_at,
                facts.name_place,
            )
        });
        let mut taken = vec![0u64; fleet.nodes.len()];
        let mut cards = Vec::with_capacity(wanted.len());
        for (claim, node, wanted) in wanted {
            let left = Cards(wanted.0 & !taken[node as usize]);
            taken[node as usize] |= left.0;
            if !left.is_empty() {
                cards.push((node, left, claim));
                *own.entry((claim, node)).or_insert(0) |= left.0;
            }
        }
        Self { cards, own }
    }

    /// The nodes on which this claim can have what others can't.
    pub(super) fn own_nodes(&self, claim: u32) -> impl Iterator<Item = u32> {
        self.own
            .range((claim, 0)..=(claim, NONE))
            .map(|((_, node), _)| *node)
    }
}

/// What one claim can have on one node that others can't.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Own {
    /// Cards held for it.
    pub(super) held: u64,
    /// The block that is written on it, if that is here.
    pub(super) block: Cards,
    /// Cards of claims of lower rank noticed for it.
    pub(super) promised: u64,
}

impl Own {
    pub(super) fn of(pass: &Pass<'_>, claim: u32, node: u32) -> Self {
        // Asked for every node on the way through the set: most claims have nothing of their own anywhere.
        if claim == NONE {
            return Self::default();
        }
        let Some(held) = pass.holds.own.get(&(claim, node)) else {
            return Self::default();
        };
        let facts = pass.fleet.claim(claim);
        let block = if facts.node == node {
            facts.cards
        } else {
            Cards::NONE
        };
        let mut own = Self {
            held: *held,
            block: Cards(block.0 & held),
            promised: 0,
        };
        for card in Cards(pass.nodes[node as usize].promised).numbers() {
            if pass.role(pass.owner(node, card)) == Role::NoticedFor(claim) {
                own.promised |= 1 << card;
            }
        }
        own
    }
}
