//! Why a claim waits: the one code, and the most it could have now.
//!
//! A code names the one thing that, disregarded alone, would give a complete plan. Within one pool everything only tightens, so a "no" for a claim stays a
//! "no" for the later claims of its pool and size, and a "yes" stands as long as the block that proved it still does.

use super::candidate::{floors_allow, owners_of};
use super::fleet::{NONE, place, size_place};
use super::holds::Own;
use super::state::{NodeCards, Pass, Role};
use crate::capacity::arbiter::plan::format::Code;
use crate::capacity::fabric::{BLOCK_SIZES, Cards};

/// The block of which a claim could have the most cards now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Nearest {
    pub(super) count: u32,
    pub(super) node: u32,
    pub(super) cards: Cards,
}

/// What may be disregarded, in the order in which it is tried. Fragmentation is no block's matter and comes between stale data and floors.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Without {
    Holds,
    StaleData,
    Floors,
    OnDemand,
    Rank,
}

const KINDS: usize = 5;

/// What was found out for the claims of one pool and size.
#[derive(Debug, Clone, Copy, Default)]
struct Known {
    /// By what is disregarded: a block that proves "yes", or that none does.
    proofs: [Option<Proof>; KINDS],
    nearest: Option<Option<Nearest>>,
}

#[derive(Debug, Clone, Copy)]
enum Proof {
    No,
    Yes(u32, Cards),
}

/// Finds reasons, and remembers them while a pool's claims are considered.
#[derive(Default)]
pub(super) struct Reasons {
    pool: u32,
    known: [Known; BLOCK_SIZES.len()],
}

impl Reasons {
    /// Goes on to this pool.
    pub(super) fn enter_pool(&mut self, pool: u32) {
        *self = Self {
            pool,
            ..Self::default()
        };
    }

    /// Why this claim, which can't be met even once minimum runtimes are over, waits.
    pub(super) fn code(&mut self, pass: &Pass<'_>, claim: u32) -> Code {
        let mut without = |what: Without| self.possible(pass, claim, what);
        if without(Without::Holds) {
            return Code::Held;
        }
        if without(Without::StaleData) {
            return Code::StaleData;
        }
        if enough_in_pieces(pass, claim) {
            return Code::Fragmented;
        }
        for (what, code) in [
            (Without::Floors, Code::Floor),
            (Without::OnDemand, Code::OnDemand),
            (Without::Rank, Code::Rank),
        ] {
            if without(what) {
                return code;
            }
        }
        Code::NoCompletePlan
    }

    /// The block of its size of which a claim could have the most cards now; `None` when it could have no card of any.
    pub(super) fn nearest(&mut self, pass: &Pass<'_>, claim: u32) -> Option<Nearest> {
        let size = size_place(pass.fleet.claim(claim).gpus);
        if pass.holds.own_nodes(claim).next().is_some() {
            return nearest(pass, claim, size);
        }
        let known = &mut self.known[size].nearest;
        if let Some(found) = *known {
            let holds = found.is_none_or(|found| {
                reach(pass, NONE, found.node, found.cards, found.count - 1) == Some(found.count)
            });
            if holds {
                return found;
            }
        }
        let found = nearest(pass, NONE, size);
        *known = Some(found);
        found
    }

    fn possible(&mut self, pass: &Pass<'_>, claim: u32, what: Without) -> bool {
        let size = size_place(pass.fleet.claim(claim).gpus);
        let pool = self.pool;
        if pass.holds.own_nodes(claim).next().is_some() {
            return proof(pass, pool, claim, size, what).is_some();
        }
        let known = &mut self.known[size].proofs[what as usize];
        match *known {
            Some(Proof::No) => return false,
            Some(Proof::Yes(node, block)) if proves(pass, pool, NONE, node, block, what) => {
                return true;
            }
            _ => {}
        }
        let found = proof(pass, pool, NONE, size, what);
        *known = Some(found.map_or(Proof::No, |(node, block)| Proof::Yes(node, block)));
        found.is_some()
    }
}

/// A block that this claim could have if `what` were disregarded.
fn proof(
    pass: &Pass<'_>,
    pool: u32,
    claim: u32,
    size: usize,
    what: Without,
) -> Option<(u32, Cards)> {
    (0..place(pass.fleet.nodes.len())).find_map(|node| {
        let obtainable = obtainable(pass, claim, node, what);
        let mut blocks = pass.fleet.blocks_of_size(node, size).iter();
        blocks
            .find(|block| {
                block.0 & !obtainable == 0 && within_floors(pass, pool, node, **block, what)
            })
            .map(|block| (node, *block))
    })
}

fn proves(pass: &Pass<'_>, pool: u32, claim: u32, node: u32, block: Cards, what: Without) -> bool {
    block.0 & !obtainable(pass, claim, node, what) == 0
        && within_floors(pass, pool, node, block, what)
}

/// The cards of this node that the claim could have, floors aside, if `what` were disregarded.
fn obtainable(pass: &Pass<'_>, claim: u32, node: u32, what: Without) -> u64 {
    let facts = pass.fleet.node(node);
    if !(facts.usable || (what == Without::StaleData && facts.stale)) {
        return 0;
    }
    let now = pass.nodes[node as usize];
    let own = Own::of(pass, claim, node);
    let mine = now.free | now.leaving | now.old | now.again | own.promised;
    match what {
        Without::Holds => mine | now.promised,
        Without::StaleData | Without::Floors => mine & !(now.held & !own.held),
        Without::OnDemand => (mine | now.on_demand) & !(now.held & !own.held),
        Without::Rank => (mine | higher(pass, node, now)) & !(now.held_lower & !own.held),
    }
}

/// Cards that claims of equal or higher rank have, those that this plan starts now among them.
fn higher(pass: &Pass<'_>, node: u32, now: NodeCards) -> u64 {
    Cards::first(pass.fleet.node(node).node.gpus).0 & !now.free & !now.lower
}

fn within_floors(pass: &Pass<'_>, pool: u32, node: u32, block: Cards, what: Without) -> bool {
    if what == Without::Floors {
        return true;
    }
    let now = pass.nodes[node as usize];
    let taken = match what {
        Without::OnDemand => block.0 & !now.free & !now.on_demand,
        _ => block.0 & !now.free & now.lower,
    };
    let (owners, count) = owners_of(pass, node, taken);
    let lower = owners[..count]
        .iter()
        .all(|owner| pass.role(*owner) == Role::Leaving || pass.fleet.claim(*owner).pool > pool);
    debug_assert!(lower, "only lower ranks are interrupted");
    match what {
        Without::Holds => floors_allow(
            pass,
            &owners[..count],
            |pool| pass.slack[pool] + pass.reserved[pool],
            |claim| match pass.role(claim) {
                Role::Running | Role::NoticedFree => i64::from(pass.fleet.claim(claim).gpus),
                _ => 0,
            },
        ),
        Without::StaleData => floors_allow(
            pass,
            &owners[..count],
            |pool| pass.slack[pool] + pass.stale_slack[pool],
            |claim| pass.weight(claim),
        ),
        _ => floors_allow(
            pass,
            &owners[..count],
            |pool| pass.slack[pool],
            |claim| pass.weight(claim),
        ),
    }
}

/// Whether the free and reclaimable cards of the whole set, floors kept, are as many as the claim needs.
fn enough_in_pieces(pass: &Pass<'_>, claim: u32) -> bool {
    let facts = pass.fleet.claim(claim);
    let needed = i64::from(facts.gpus);
    let mut found = 0;
    for (node, now) in pass.fleet.nodes.iter().zip(&pass.nodes) {
        if node.usable {
            found += i64::from(((now.free | now.leaving) & !now.held).count_ones());
        }
        if found >= needed {
            return true;
        }
    }
    for node in pass.holds.own_nodes(claim) {
        if pass.fleet.node(node).usable {
            let (now, own) = (pass.nodes[node as usize], Own::of(pass, claim, node));
            found += i64::from(((now.free | now.leaving) & own.held | own.promised).count_ones());
        }
    }
    for pool in facts.pool as usize + 1..pass.fleet.pools.len() {
        // Sizes divide one another, so taking the largest first leaves the least of the slack unused.
        let mut slack = pass.slack[pool].max(0);
        for (count, size) in pass.reclaimable[pool].iter().zip(BLOCK_SIZES).rev() {
            let size = i64::from(size);
            let taken = i64::from(*count).min(slack / size) * size;
            slack -= taken;
            found += taken;
        }
    }
    found >= needed
}

fn nearest(pass: &Pass<'_>, claim: u32, size: usize) -> Option<Nearest> {
    let mut best: Option<Nearest> = None;
    let most = BLOCK_SIZES[size] - 1;
    for node in 0..place(pass.fleet.nodes.len()) {
        for block in pass.fleet.blocks_of_size(node, size) {
            let so_far = best.map_or(0, |best| best.count);
            if so_far >= most {
                return best;
            }
            if let Some(count) = reach(pass, claim, node, *block, so_far) {
                best = Some(Nearest {
                    count,
                    node,
                    cards: *block,
                });
            }
        }
    }
    best
}

/// How many cards of this block the claim could have now, if more than `least`: what is free or leaves, and what whole victims, floors kept, give at most.
fn reach(pass: &Pass<'_>, claim: u32, node: u32, block: Cards, least: u32) -> Option<u32> {
    if !pass.fleet.node(node).usable {
        return None;
    }
    let now = pass.nodes[node as usize];
    let own = Own::of(pass, claim, node);
    let open = block.0 & !(now.held & !own.held);
    let nobodys = open & (now.free | now.leaving);
    let taken = open & (now.old | now.again | own.promised);
    let most = (nobodys | taken).count_ones();
    if most <= least {
        return None;
    }
    let (owners, count) = owners_of(pass, node, taken);
    let owners = &owners[..count];
    let mut found = nobodys.count_ones();
    for (place, first) in owners.iter().enumerate() {
        let pool = pass.fleet.claim(*first).pool;
        let same = |claim: &&u32| pass.fleet.claim(**claim).pool == pool;
        if owners[..place]
            .iter()
            .any(|other| pass.fleet.claim(*other).pool == pool)
        {
            continue;
        }
        found += most_of_pool(
            pass,
            owners.iter().filter(same).copied(),
            taken,
            pass.slack[pool as usize],
        );
    }
    (found > least).then_some(found)
}

/// The most cards of a set that these victims of one pool give, when it can spare `slack` GPUs. At most 8 victims: every choice is looked at.
fn most_of_pool(
    pass: &Pass<'_>,
    victims: impl Iterator<Item = u32>,
    cards: u64,
    slack: i64,
) -> u32 {
    let mut choices = vec![(0_i64, 0_u32)];
    for victim in victims {
        let (weight, gives) = (
            pass.weight(victim),
            (pass.fleet.claim(victim).cards.0 & cards).count_ones(),
        );
        let with: Vec<_> = choices
            .iter()
            .map(|(sum, given)| (sum + weight, given + gives))
            .collect();
        choices.extend(with);
    }
    // Below its floor a pool gives nothing, not even what is noticed already.
    choices
        .into_iter()
        .filter(|(sum, _)| *sum <= slack)
        .map(|(_, given)| given)
        .max()
        .unwrap_or(0)
}
