//! One way to meet a claim: a block, and who must be gone before the claim can start there.
//!
//! A block fixes its victims: whoever has one of its cards. So the best of all sets of victims is found by looking at every block once, and per node
//! there are few.

use super::fit::fit;
use super::harm::{Cost, Harm, MOST, Victim};
use super::holds::Own;
use super::state::{Pass, Role};
use crate::capacity::fabric::Cards;

/// A block that a claim can have, and what that costs.
#[derive(Debug, Clone)]
pub(super) struct Candidate {
    pub(super) cost: Cost,
    pub(super) node: u32,
    pub(super) cards: Cards,
    after: [u32; MOST],
    count: usize,
}

impl Candidate {
    /// The claims that must be gone first.
    pub(super) fn after(&self) -> &[u32] {
        &self.after[..self.count]
    }
}

/// The claims that hold cards of a set, each once.
pub(super) fn owners_of(pass: &Pass<'_>, node: u32, cards: u64) -> ([u32; MOST], usize) {
    let (mut owners, mut count) = ([0; MOST], 0);
    let mut rest = Cards(cards);
    while let Some(card) = rest.numbers().next() {
        let owner = pass.owner(node, card);
        rest = Cards(rest.0 & !pass.fleet.claim(owner).cards.0 & !(1 << card));
        // A block has at most 8 cards, so there is room.
        if count < MOST {
            owners[count] = owner;
            count += 1;
        }
    }
    (owners, count)
}

/// Whether these claims, interrupted together, leave every pool at or above its effective floor, when each pool has `slack` GPUs above it.
pub(super) fn floors_allow(
    pass: &Pass<'_>,
    claims: &[u32],
    slack: impl Fn(usize) -> i64,
    weight: impl Fn(u32) -> i64,
) -> bool {
    claims.iter().all(|claim| {
        if pass.role(*claim) == Role::Leaving {
            return true;
        }
        let pool = pass.fleet.claim(*claim).pool;
        let taken: i64 = claims
            .iter()
            .filter(|other| pass.fleet.claim(**other).pool == pool)
            .map(|other| weight(*other))
            .sum();
        taken <= slack(pool as usize)
    })
}

/// Whether a way found earlier is still legal as far as floors go; they are all that can change without the node changing.
pub(super) fn still_legal(pass: &Pass<'_>, candidate: &Candidate) -> bool {
    floors_allow(
        pass,
        candidate.after(),
        |pool| pass.slack[pool],
        |claim| pass.weight(claim),
    )
}

/// The least harmful block of this size on this node, minimum runtimes disregarded but costed.
pub(super) fn best_on_node(pass: &Pass<'_>, node: u32, size: usize, own: Own) -> Option<Candidate> {
    if !pass.fleet.node(node).usable {
        return None;
    }
    let now = pass.nodes[node as usize];
    let held = now.held & !own.held;
    let obtainable =
        (now.free | now.leaving | now.old | now.young | now.again | own.promised) & !held;
    let mut best: Option<Candidate> = None;
    for (place, block) in (0..).zip(pass.fleet.blocks_of_size(node, size)) {
        if block.0 & !obtainable != 0 {
            continue;
        }
        let taken = block.0 & !now.free;
        if taken != 0 && best.as_ref().is_some_and(|best| !best.cost.occupied) {
            continue;
        }
        if let Some(candidate) = weigh(pass, node, *block, place, held, own.block)
            && best.as_ref().is_none_or(|best| candidate.cost < best.cost)
        {
            best = Some(candidate);
        }
    }
    best
}

/// What this block costs a claim that can't have the cards in `held` and for which the block `own` is; `None` when a floor forbids it.
/// All its cards are obtainable.
fn weigh(
    pass: &Pass<'_>,
    node: u32,
    block: Cards,
    place: u32,
    held: u64,
    own: Cards,
) -> Option<Candidate> {
    let fleet = pass.fleet;
    let (after, count) = owners_of(pass, node, block.0 & !pass.nodes[node as usize].free);
    let blank = Victim {
        pool: 0,
        gpus: 0,
        started: 0,
        name: 0,
    };
    let (mut all, mut victims) = ([blank; MOST], 0);
    let (mut fresh, mut unnoticed) = ([blank; MOST], 0);
    let (mut cooldown, mut freed) = (0, pass.nodes[node as usize].free);
    for claim in &after[..count] {
        let facts = fleet.claim(*claim);
        freed |= facts.cards.0;
        let role = pass.role(*claim);
        if role == Role::Leaving {
            continue;
        }
        all[victims] = Victim {
            pool: facts.pool,
            gpus: facts.gpus,
            started: facts.started,
            name: facts.name_place,
        };
        victims += 1;
        if role == Role::Running {
            fresh[unnoticed] = all[victims - 1];
            unnoticed += 1;
            if facts.young {
                cooldown = cooldown.max(facts.started + 1);
            }
        }
    }
    if victims > 0
        && !floors_allow(
            pass,
            &after[..count],
            |pool| pass.slack[pool],
            |claim| pass.weight(claim),
        )
    {
        return None;
    }
    // At most 8 claims: the narrowing keeps the count.
    let waited = count as u8;
    let all = Harm::of(&all[..victims], waited);
    // A claim that must wait for minimum runtimes uses no notice now, and those that nobody uses are withdrawn: it will find none.
    let fresh = if cooldown > 0 {
        all
    } else {
        Harm::of(&fresh[..unnoticed], waited)
    };
    Some(Candidate {
        cost: Cost {
            cooldown,
            occupied: count > 0,
            fresh,
            all,
            elsewhere: count > 0 && block != own,
            fit: fit(block, Cards(freed & !held), fleet.blocks(node), node, place),
        },
        node,
        cards: block,
        after,
        count,
    })
}
