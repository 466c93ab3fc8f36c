//! The planner: what the arbiter would do with a snapshot. Pure; the same snapshot gives the same plan.
//!
//! One pass considers the claims in their order, each on what the ones before it left ([`state`]). A block fixes its victims, so the least harmful way to meet
//! a claim is the least of one [`candidate`] a block, compared by [`harm`] and [`fit`] and found by [`search`]. What can't be met waits, with its
//! [`reasons`]. A pass that leaves a hold or a notice unused is made again without it ([`holds`]); [`steps`] turns the last one into actions.
//!
//! # Readings
//! Where the rules leave something open, this is how they are read here:
//! - Order of actions: notices and stops come by the order of the claims that they serve (those that serve none first), then by name; starts by the order of
//!   claims; withdrawals by name. `after` is sorted by name. `for` is left out where there is none.
//! - A2: a node of 16 A100s has the table's blocks of two baseboards; another kind's table is not repeated beyond its 8 cards.
//! - A5: a notice for nobody that still waits is withdrawn unless it is used, so until then its claim counts toward the floor; one for a claim that waits does not.
//!   Using a notice again needs the pool at its floor or above without that claim.
//! - A7: "fewest to wait for" counts all that must be gone first, victims or not, in both comparisons (not yet noticed, then all). In best fit the cards of all these
//!   count as free. A card held for another claim is never free. Of ways that harm the same, and that someone must leave first, the block that is held for the claim comes before
//!   best fit, so that a plan stays what it is while it is carried out.
//! - A8: the block that a claim "will get" is the one on which minimum runtimes are over first, then the least harmful, with no notice counted as given. What its future victims take from their pools'
//!   floors is kept with it, or a claim considered later could spend it.
//! - A10: notices for nobody are kept as far as there are replicas too many; then others that leave count (those noticed for a claim leave anyway as far as they are too many);
//!   then the most recently started of those past their minimum runtime go. Of waiting replicas those considered last are dropped first.
//! - A11a: a hold is used when its claim starts on that very block; a notice or stop for a claim is used when that claim starts after it, and of the cards held that
//!   way those that it does not need are given up like a hold that is not used. A notice for a claim that is not of higher rank is for nobody. Should two waiting claims
//!   have the same card, it is held for the one on which it is written, then for the one considered first.
//! - A10, A11a, for whoever carries a plan out, so that the next plan is the same: every start that waits for someone has its block written on its claim; a hold
//!   that is given up goes with the `for` of whatever leaves for that claim; and notices of replicas that their pool gives up ([`Plan::given_up`]) keep no `for`.
//! - A11c: on a draining node that is not ready, notices stay as they are. A claim `stopping` on a node that is not ready still counts in `gpus_after`.
//! - N1: a `rental_reclaim` claim's cards are not counted on while it is stopping either.
//! - A cordoned node starts nothing; what runs there counts toward floors. No code but `NO_COMPLETE_PLAN` stands for it.
//! - Codes: what on-demand VMs or claims of equal or higher rank have counts as free when they are disregarded, holds of the latter included; minimum runtimes and floors of
//!   the others still hold. Reasons are found when the claim is considered.
//! - `drains` lists every draining node, with an empty list where no on-demand VM stays; `mode` is there in dry-run only; `pools` come by rank.

mod candidate;
mod fit;
mod fleet;
pub mod format;
mod harm;
mod holds;
mod reasons;
mod replicas;
mod search;
mod state;
mod steps;
mod tournament;

use self::fleet::{Fleet, place, size_place};
use self::holds::GivenUp;
use self::reasons::{Nearest, Reasons};
use self::search::Search;
use self::state::Pass;
use crate::capacity::arbiter::explain::{NearestBlock, Wait};
use crate::capacity::arbiter::snapshot::Snapshot;
use jiff::SignedDuration;

pub use self::format::{Action, Code, Drain, Plan, PoolFigures, Waiting};

/// What the arbiter would do. The snapshot must have passed [`validate`](crate::capacity::arbiter::snapshot::validate).
#[must_use]
pub fn plan(snapshot: &Snapshot) -> Plan {
    let fleet = Fleet::new(snapshot);
    let mut given_up = GivenUp::none(&fleet);
    loop {
        let mut pass = Pass::new(&fleet, &given_up);
        let waiting = consider_all(&mut pass);
        // Each round gives up at least one hold more, so this ends.
        if !given_up.add_unused(&pass) {
            return steps::plan_of(&pass, waiting);
        }
    }
}

/// Considers every waiting claim in its order (rule A8). Returns why those that are not started wait.
fn consider_all(pass: &mut Pass<'_>) -> Vec<Waiting> {
    let fleet = pass.fleet;
    let mut search = Search::default();
    let mut reasons = Reasons::default();
    let mut waiting = Vec::new();
    for pool in 0..place(fleet.pools.len()) {
        pass.enter_pool(pool);
        reasons.enter_pool(pool);
        for claim in &fleet.open[pool as usize] {
            if let Some(wait) = consider(pass, &mut search, &mut reasons, *claim) {
                waiting.push(wait);
            }
        }
    }
    waiting
}

/// Starts a claim, or says why it waits.
fn consider(
    pass: &mut Pass<'_>,
    search: &mut Search,
    reasons: &mut Reasons,
    claim: u32,
) -> Option<Waiting> {
    let fleet = pass.fleet;
    let facts = fleet.claim(claim);
    let pool = fleet.pools[facts.pool as usize];
    let counted = pass.counted[facts.pool as usize];
    let mut wait = Wait {
        code: Code::NeverFits,
        needed: facts.gpus,
        pool: &pool.name,
        rank: pool.rank,
        nearest: None,
        ceiling: pool.ceiling.map(|ceiling| (ceiling, counted)),
        ready: None,
    };
    if fleet.fits[size_place(facts.gpus)] {
        if pool
            .ceiling
            .is_some_and(|ceiling| counted + u64::from(facts.gpus) > u64::from(ceiling))
        {
            wait.code = Code::Ceiling;
        } else {
            let best = search.best(pass, claim);
            if let Some(best) = best.as_ref().filter(|best| best.cost.cooldown == 0) {
                pass.start(claim, best);
                search.changed(pass, best.node);
                return None;
            }
            wait.nearest = reasons
                .nearest(pass, claim)
                .map(|nearest| in_words(fleet, nearest));
            match best {
                Some(best) => {
                    wait.code = Code::Cooldown;
                    let latest = best
                        .after()
                        .iter()
                        .map(|victim| fleet.claim(*victim))
                        .filter(|victim| victim.young);
                    let runtime = SignedDuration::from_secs(i64::from(
                        fleet.snapshot.set.minimum_runtime_seconds,
                    ));
                    wait.ready = latest.map(|victim| victim.started_at).max().map(|started| {
                        let ready = started.saturating_add(runtime).unwrap_or(started);
                        (ready, fleet.node(best.node).node.name.as_str(), best.cards)
                    });
                    pass.keep(&best);
                    search.changed(pass, best.node);
                }
                None => wait.code = reasons.code(pass, claim),
            }
        }
    }
    Some(Waiting {
        claim: facts.name.to_string(),
        code: wait.code,
        needed: wait.needed,
        reachable: wait.reachable(),
        message: wait.to_string(),
    })
}

fn in_words<'f>(fleet: &'f Fleet<'_>, nearest: Nearest) -> NearestBlock<'f> {
    NearestBlock {
        node: &fleet.node(nearest.node).node.name,
        cards: nearest.cards,
        count: nearest.count,
    }
}

#[cfg(test)]
mod tests;
