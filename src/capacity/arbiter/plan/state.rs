//! One pass over the claims: what has been decided so far, and what that leaves.
//!
//! Within a pass everything only tightens: cards are taken, floors come nearer, ranks move down. The search and the reasons rely on it.

use super::candidate::Candidate;
use super::fleet::{Fleet, NONE, place, size_place};
use super::holds::{GivenUp, Holds};
use super::replicas;
use crate::capacity::arbiter::snapshot::{PoolType, State};
use crate::capacity::fabric::{BLOCK_SIZES, Cards};

/// What a claim is to the claims that are considered now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Role {
    /// Waits for cards.
    Waiting,
    /// Keeps its cards, whatever the plan does.
    Fixed,
    /// Runs, and may become a victim.
    Running,
    /// Noticed by the arbiter for nobody that still waits: a victim again, or the notice is withdrawn.
    NoticedFree,
    /// Noticed by the arbiter for this waiting claim, which alone may use it.
    NoticedFor(u32),
    /// Leaves: its cards cost nothing and serve any rank.
    Leaving,
}

/// The cards of a node, by what they are now.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct NodeCards {
    /// Nobody has them.
    pub(super) free: u64,
    /// Their claim leaves.
    pub(super) leaving: u64,
    /// Of running claims of lower rank that may be interrupted.
    pub(super) old: u64,
    /// The same, but for their minimum runtime.
    pub(super) young: u64,
    /// Of claims of lower rank noticed for nobody.
    pub(super) again: u64,
    /// Of claims of lower rank noticed for a claim that waits.
    pub(super) promised: u64,
    /// Of on-demand VMs of lower rank.
    pub(super) on_demand: u64,
    /// Of any claim of lower rank.
    pub(super) lower: u64,
    /// Held for a claim, planned for later, or kept for one that waits for a minimum runtime.
    pub(super) held: u64,
    /// The part of `held` that is held for claims of lower rank.
    pub(super) held_lower: u64,
    /// Counts changes, so that what was worked out before one is known to be old.
    pub(super) stamp: u32,
}

/// A start that the plan makes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Start {
    pub(super) node: u32,
    pub(super) cards: Cards,
    /// Claims that must be gone first, by place of name.
    pub(super) after: Vec<u32>,
}

/// The state of one pass.
pub(super) struct Pass<'f> {
    pub(super) fleet: &'f Fleet<'f>,
    pub(super) nodes: Vec<NodeCards>,
    pub(super) holds: Holds,
    roles: Vec<Role>,
    /// Who has each card; see [`Pass::owner`].
    owners: Vec<u32>,
    /// GPUs by which each pool is above its effective floor; negative below it.
    pub(super) slack: Vec<i64>,
    /// What nodes that can't be read would add to `slack`.
    pub(super) stale_slack: Vec<i64>,
    /// The part of the pools' GPUs that claims waiting for a minimum runtime will take: no longer in `slack`.
    pub(super) reserved: Vec<i64>,
    /// Victims of claims that wait for a minimum runtime.
    pub(super) earmarked: Vec<bool>,
    /// GPUs that count toward each pool's ceiling.
    pub(super) counted: Vec<u64>,
    /// Replicas that their pool gives up.
    pub(super) given_up: Vec<bool>,
    /// The claim that each victim is interrupted for.
    victim_for: Vec<u32>,
    /// The first claim that starts after each claim that leaves.
    pub(super) first_after: Vec<u32>,
    /// What each waiting claim got.
    pub(super) starts: Vec<Option<Start>>,
    /// For each pool and block size, how many whole claims could be reclaimed that no hold touches.
    pub(super) reclaimable: Vec<[u32; BLOCK_SIZES.len()]>,
    in_reclaimable: Vec<bool>,
}

/// Cards per node in the table of owners.
const STRIDE: usize = crate::capacity::fabric::MAX_CARDS as usize;

impl<'f> Pass<'f> {
    /// The state before the first claim is considered, without the holds that were given up.
    pub(super) fn new(fleet: &'f Fleet<'f>, given_up: &GivenUp) -> Self {
        let (pools, claims) = (fleet.pools.len(), fleet.claims.len());
        let mut pass = Self {
            fleet,
            nodes: fleet
                .nodes
                .iter()
                .map(|node| NodeCards {
                    free: Cards::first(node.node.gpus).0,
                    ..NodeCards::default()
                })
                .collect(),
            holds: Holds::new(fleet, given_up),
            roles: Vec::with_capacity(claims),
            owners: vec![NONE; fleet.nodes.len() * STRIDE],
            slack: fleet
                .pools
                .iter()
                .map(|pool| -i64::try_from(pool.effective_floor()).unwrap_or(i64::MAX))
                .collect(),
            stale_slack: vec![0; pools],
            reserved: vec![0; pools],
            earmarked: vec![false; claims],
            counted: vec![0; pools],
            given_up: vec![false; claims],
            victim_for: vec![NONE; claims],
            first_after: vec![NONE; claims],
            starts: vec![None; claims],
            reclaimable: vec![[0; BLOCK_SIZES.len()]; pools],
            in_reclaimable: vec![false; claims],
        };
        for claim in 0..place(claims) {
            pass.enter_claim(claim, given_up);
        }
        for &(node, cards, _) in &pass.holds.cards {
            pass.nodes[node as usize].held |= cards.0;
            pass.nodes[node as usize].held_lower |= cards.0;
        }
        replicas::give_up(&mut pass);
        pass.count_reclaimable();
        pass
    }

    fn enter_claim(&mut self, claim: u32, given_up: &GivenUp) {
        let facts = self.fleet.claim(claim);
        let role = role_of(self.fleet, claim, given_up);
        self.roles.push(role);
        if facts.state == State::Waiting || facts.node == NONE {
            return;
        }
        let pool = facts.pool as usize;
        self.counted[pool] += u64::from(facts.gpus);
        for card in facts.cards.numbers() {
            self.owners[facts.node as usize * STRIDE + card as usize] = claim;
        }
        let node = &mut self.nodes[facts.node as usize];
        let cards = facts.cards.0;
        node.free &= !cards;
        node.lower |= cards;
        match role {
            Role::Leaving => node.leaving |= cards,
            Role::Running if facts.young => node.young |= cards,
            Role::Running => node.old |= cards,
            Role::NoticedFree => node.again |= cards,
            Role::NoticedFor(_) => node.promised |= cards,
            Role::Fixed if self.fleet.pools[pool].kind == PoolType::OnDemand => {
                node.on_demand |= cards
            }
            Role::Fixed | Role::Waiting => {}
        }
        if stays(self.fleet, claim, role) {
            let (facts_of_node, gpus) = (self.fleet.node(facts.node), i64::from(facts.gpus));
            if facts_of_node.counts {
                self.slack[pool] += gpus;
            } else if !facts_of_node.node.ready && !facts_of_node.node.draining {
                self.stale_slack[pool] += gpus;
            }
        }
    }

    fn count_reclaimable(&mut self) {
        for claim in 0..place(self.roles.len()) {
            let facts = self.fleet.claim(claim);
            let counts = match self.role(claim) {
                Role::Running => !facts.young,
                Role::NoticedFree => true,
                _ => false,
            };
            if counts
                && self.fleet.node(facts.node).usable
                && facts.cards.0 & self.nodes[facts.node as usize].held == 0
            {
                self.in_reclaimable[claim as usize] = true;
                self.reclaimable[facts.pool as usize][size_place(facts.gpus)] += 1;
            }
        }
    }

    pub(super) fn role(&self, claim: u32) -> Role {
        self.roles[claim as usize]
    }

    /// The claim that had this card in the snapshot.
    pub(super) fn owner(&self, node: u32, card: u32) -> u32 {
        self.owners[node as usize * STRIDE + card as usize]
    }

    /// GPUs that interrupting this claim takes from its pool's slack: none when they are out of it already.
    pub(super) fn weight(&self, claim: u32) -> i64 {
        match self.role(claim) {
            Role::Running | Role::NoticedFree if !self.earmarked[claim as usize] => {
                i64::from(self.fleet.claim(claim).gpus)
            }
            _ => 0,
        }
    }

    /// Whether its pool stays at or above its effective floor without this claim.
    pub(super) fn floor_allows(&self, claim: u32) -> bool {
        self.slack[self.fleet.claim(claim).pool as usize] >= self.weight(claim)
    }

    /// Lets a pool's replica go for nobody.
    pub(super) fn give_up(&mut self, claim: u32) {
        self.given_up[claim as usize] = true;
        self.leave(claim);
    }

    /// The claim that this one, which leaves, is interrupted for: as a victim of this plan, or because it was noticed for it earlier.
    pub(super) fn served_by(&self, claim: u32) -> u32 {
        let (victim_for, purpose) = (
            self.victim_for[claim as usize],
            self.fleet.claim(claim).purpose,
        );
        let still = victim_for == NONE && self.first_after[claim as usize] == purpose;
        if still { purpose } else { victim_for }
    }

    /// From now on this claim leaves.
    fn leave(&mut self, claim: u32) {
        let facts = self.fleet.claim(claim);
        self.slack[facts.pool as usize] -= self.weight(claim);
        if std::mem::take(&mut self.earmarked[claim as usize]) {
            self.reserved[facts.pool as usize] -= i64::from(facts.gpus);
        }
        self.forget_reclaimable(claim);
        self.roles[claim as usize] = Role::Leaving;
        let node = &mut self.nodes[facts.node as usize];
        let others = !facts.cards.0;
        node.old &= others;
        node.young &= others;
        node.again &= others;
        node.promised &= others;
        node.leaving |= facts.cards.0;
        node.stamp += 1;
    }

    fn forget_reclaimable(&mut self, claim: u32) {
        if std::mem::take(&mut self.in_reclaimable[claim as usize]) {
            let facts = self.fleet.claim(claim);
            self.reclaimable[facts.pool as usize][size_place(facts.gpus)] -= 1;
        }
    }

    /// Goes on to this pool: its own claims and holds are no longer of lower rank.
    pub(super) fn enter_pool(&mut self, pool: u32) {
        for claim in &self.fleet.holders[pool as usize] {
            let facts = self.fleet.claim(*claim);
            let node = &mut self.nodes[facts.node as usize];
            let others = !facts.cards.0;
            node.old &= others;
            node.young &= others;
            node.again &= others;
            node.promised &= others;
            node.on_demand &= others;
            node.lower &= others;
            node.stamp += 1;
        }
        for &(node, cards, claim) in &self.holds.cards {
            if self.fleet.claim(claim).pool == pool {
                self.nodes[node as usize].held_lower &= !cards.0;
            }
        }
    }

    /// Gives a claim this block: now, or when its victims are gone.
    pub(super) fn start(&mut self, claim: u32, candidate: &Candidate) {
        let facts = self.fleet.claim(claim);
        self.counted[facts.pool as usize] += u64::from(facts.gpus);
        for victim in candidate.after() {
            let first = &mut self.first_after[*victim as usize];
            if *first == NONE {
                *first = claim;
            }
            if self.role(*victim) != Role::Leaving {
                self.leave(*victim);
                self.victim_for[*victim as usize] = claim;
            }
        }
        let node = &mut self.nodes[candidate.node as usize];
        node.stamp += 1;
        if candidate.after().is_empty() {
            node.free &= !candidate.cards.0;
        } else {
            node.held |= candidate.cards.0;
        }
        let mut after = candidate.after().to_vec();
        after.sort_unstable_by_key(|claim| self.fleet.claim(*claim).name_place);
        self.starts[claim as usize] = Some(Start {
            node: candidate.node,
            cards: candidate.cards,
            after,
        });
    }

    /// Keeps this block for a claim that will get it once minimum runtimes are over. What its victims take from their pools' floors is kept too:
    /// else a claim considered later could use that up, and the block would not be got after all.
    pub(super) fn keep(&mut self, candidate: &Candidate) {
        for victim in candidate.after() {
            let (pool, weight) = (
                self.fleet.claim(*victim).pool as usize,
                self.weight(*victim),
            );
            self.slack[pool] -= weight;
            self.reserved[pool] += weight;
            if weight > 0 {
                self.earmarked[*victim as usize] = true;
            }
            self.forget_reclaimable(*victim);
        }
        let node = &mut self.nodes[candidate.node as usize];
        node.held |= candidate.cards.0;
        node.stamp += 1;
    }
}

/// Whether a claim counts toward its pool's floor while it has this role: it runs and does not leave. A notice for nobody will be withdrawn unless it is used.
fn stays(fleet: &Fleet<'_>, claim: u32, role: Role) -> bool {
    match role {
        Role::Running | Role::NoticedFree => true,
        Role::Fixed => matches!(fleet.claim(claim).state, State::Running),
        Role::Waiting | Role::NoticedFor(_) | Role::Leaving => false,
    }
}

fn role_of(fleet: &Fleet<'_>, claim: u32, given_up: &GivenUp) -> Role {
    let facts = fleet.claim(claim);
    let arbiter = facts.noticed_by_arbiter();
    match facts.state {
        State::Waiting => Role::Waiting,
        State::Stopping if facts.stuck || facts.reclaimed_by_owner() => Role::Fixed,
        State::Stopping => Role::Leaving,
        State::Running | State::Noticed if !facts.interruptible => Role::Fixed,
        State::Noticed if !arbiter => Role::Fixed,
        // Where its node is drained a workload leaves, as soon as the node can be read.
        _ if fleet.node(facts.node).node.draining => {
            if fleet.node(facts.node).node.ready {
                Role::Leaving
            } else {
                Role::Fixed
            }
        }
        State::Running => Role::Running,
        State::Noticed if facts.purpose == NONE || given_up.notice(claim) => Role::NoticedFree,
        State::Noticed => Role::NoticedFor(facts.purpose),
    }
}
