//! The snapshot and the plan, indexed for the judge.

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};

use crate::capacity::arbiter::plan::{Action, Plan};
use crate::capacity::arbiter::snapshot::{Claim, Node, Pool, PoolType, Reason, Snapshot, State};
use crate::capacity::fabric::Cards;

/// A claim that the plan must decide on.
pub(super) struct Open {
    pub(super) pool: String,
    pub(super) gpus: u32,
    /// Its place in the order of claims.
    pub(super) turn: usize,
}

/// A start of the plan.
pub(super) struct Start<'a> {
    pub(super) claim: &'a str,
    pub(super) node: &'a str,
    pub(super) cards: &'a [u32],
    pub(super) after: &'a [String],
}

pub(super) struct Facts<'a> {
    pub(super) snapshot: &'a Snapshot,
    pub(super) plan: &'a Plan,
    pub(super) pools: BTreeMap<&'a str, &'a Pool>,
    pub(super) pools_by_rank: Vec<&'a str>,
    pub(super) nodes: BTreeMap<&'a str, &'a Node>,
    /// The blocks of each node.
    pub(super) blocks: BTreeMap<&'a str, Vec<Cards>>,
    /// Claims that hold cards.
    pub(super) holders: BTreeMap<&'a str, &'a Claim>,
    /// Waiting claims for which a block is held.
    pub(super) held_for: BTreeMap<&'a str, &'a Claim>,
    /// Who holds a card.
    pub(super) holder_of: BTreeMap<(&'a str, u32), &'a str>,
    pub(super) open: BTreeMap<String, Open>,
    pub(super) starts: Vec<Start<'a>>,
    /// Replicas that each inference pool has too many, once waiting ones are dropped.
    pub(super) surplus: BTreeMap<&'a str, usize>,
    pub(super) noticed_now: BTreeSet<&'a str>,
    pub(super) stopped_now: BTreeSet<&'a str>,
    pub(super) withdrawn: BTreeSet<&'a str>,
    /// The first start, in the order of the plan, that comes after each claim.
    pub(super) first_after: BTreeMap<&'a str, &'a str>,
    /// Claims that will be gone when the plan is done.
    pub(super) leaving: BTreeSet<&'a str>,
    pub(super) held_gpus: BTreeMap<&'a str, u64>,
    pub(super) started_gpus: BTreeMap<String, u64>,
}

impl<'a> Facts<'a> {
    pub(super) fn new(snapshot: &'a Snapshot, plan: &'a Plan) -> Self {
        let mut by_rank: Vec<&Pool> = snapshot.pools.iter().collect();
        by_rank.sort_by_key(|pool| pool.rank);
        let (open, surplus) = open_claims(snapshot, &by_rank);
        let mut facts = Self {
            snapshot,
            plan,
            pools: snapshot
                .pools
                .iter()
                .map(|pool| (pool.name.as_str(), pool))
                .collect(),
            pools_by_rank: by_rank.iter().map(|pool| pool.name.as_str()).collect(),
            nodes: snapshot
                .nodes
                .iter()
                .map(|node| (node.name.as_str(), node))
                .collect(),
            blocks: snapshot
                .nodes
                .iter()
                .map(|node| (node.name.as_str(), node.allowed_blocks(&snapshot.set)))
                .collect(),
            holders: BTreeMap::new(),
            held_for: BTreeMap::new(),
            holder_of: BTreeMap::new(),
            open,
            starts: Vec::new(),
            surplus,
            noticed_now: BTreeSet::new(),
            stopped_now: BTreeSet::new(),
            withdrawn: BTreeSet::new(),
            first_after: BTreeMap::new(),
            leaving: BTreeSet::new(),
            held_gpus: BTreeMap::new(),
            started_gpus: BTreeMap::new(),
        };
        facts.read_claims();
        facts.read_actions();
        facts.read_leaving();
        facts
    }

    fn read_claims(&mut self) {
        for claim in &self.snapshot.claims {
            if claim.state == State::Waiting {
                if !claim.cards.is_empty() {
                    self.held_for.insert(&claim.name, claim);
                }
                continue;
            }
            self.holders.insert(&claim.name, claim);
            *self.held_gpus.entry(&claim.pool).or_insert(0) += u64::from(claim.gpus);
            for card in &claim.cards {
                self.holder_of.insert(
                    (claim.node.as_deref().unwrap_or_default(), *card),
                    &claim.name,
                );
            }
        }
    }

    fn read_actions(&mut self) {
        for action in &self.plan.actions {
            match action {
                Action::Notice { claim, .. } => _ = self.noticed_now.insert(claim),
                Action::Stop { claim, .. } => _ = self.stopped_now.insert(claim),
                Action::Withdraw { claim, .. } => _ = self.withdrawn.insert(claim),
                Action::Start {
                    claim,
                    node,
                    cards,
                    after,
                } => {
                    for other in after {
                        self.first_after.entry(other).or_insert(claim);
                    }
                    if let Some(open) = self.open.get(claim) {
                        *self.started_gpus.entry(open.pool.clone()).or_insert(0) +=
                            u64::from(open.gpus);
                    }
                    self.starts.push(Start {
                        claim,
                        node,
                        cards,
                        after,
                    });
                }
            }
        }
    }

    /// Who will be gone: told now, told earlier and not taken back, or stopping; never who is stuck, nor whose machine is reclaimed.
    fn read_leaving(&mut self) {
        for claim in &self.snapshot.claims {
            let name = claim.name.as_str();
            let drained = self.node_of(claim).is_some_and(|node| node.draining);
            let goes = match claim.state {
                State::Waiting => false,
                State::Running => self.noticed_now.contains(name),
                State::Noticed => {
                    claim.reason != Some(Reason::RentalReclaim)
                        && !self.withdrawn.contains(name)
                        && (drained
                            || self.first_after.contains_key(name)
                            || self.surplus_pool(claim))
                }
                State::Stopping => {
                    !self.stuck(claim) && claim.reason != Some(Reason::RentalReclaim)
                }
            };
            if goes {
                self.leaving.insert(name);
            }
        }
    }

    fn surplus_pool(&self, claim: &Claim) -> bool {
        self.surplus
            .get(claim.pool.as_str())
            .is_some_and(|surplus| *surplus > 0)
    }

    pub(super) fn node_of(&self, claim: &Claim) -> Option<&'a Node> {
        self.nodes.get(claim.node.as_deref()?).copied()
    }

    pub(super) fn interruptible(&self, claim: &Claim) -> bool {
        self.pools
            .get(claim.pool.as_str())
            .is_some_and(|pool| pool.kind != PoolType::OnDemand)
    }

    pub(super) fn rank(&self, pool: &str) -> u32 {
        self.pools.get(pool).map_or(0, |pool| pool.rank)
    }

    /// Whether it has run for the minimum, or has a notice already.
    pub(super) fn ran_long_enough(&self, claim: &Claim) -> bool {
        let least = SignedDuration::from_secs(i64::from(self.snapshot.set.minimum_runtime_seconds));
        let ran = self
            .snapshot
            .now
            .duration_since(claim.started_at.unwrap_or(self.snapshot.now));
        claim.state == State::Noticed || ran >= least
    }

    /// Still stopping 300 s after its deadline (rule A11c).
    fn stuck(&self, claim: &Claim) -> bool {
        let late = |deadline: Timestamp| {
            self.snapshot.now.duration_since(deadline) >= SignedDuration::from_secs(300)
        };
        claim.state == State::Stopping && claim.deadline.is_some_and(late)
    }

    /// Whether some node has a block of this size.
    pub(super) fn fits(&self, gpus: u32) -> bool {
        self.blocks
            .values()
            .flatten()
            .any(|block| block.len() == gpus)
    }

    /// Whether this claim is drained: its node is to be emptied, and it may be stopped.
    pub(super) fn drained(&self, claim: &Claim) -> bool {
        self.interruptible(claim) && self.node_of(claim).is_some_and(|node| node.draining)
    }
}

/// The claims to decide on, in their order: those that wait, less and more as the replica ranges want; and what each pool has too many.
fn open_claims<'a>(
    snapshot: &'a Snapshot,
    by_rank: &[&'a Pool],
) -> (BTreeMap<String, Open>, BTreeMap<&'a str, usize>) {
    let mut in_use: BTreeSet<&str> = BTreeSet::new();
    let mut of_pool: BTreeMap<&str, Vec<&Claim>> = BTreeMap::new();
    for claim in &snapshot.claims {
        in_use.insert(&claim.name);
        of_pool.entry(&claim.pool).or_default().push(claim);
    }
    let (mut open, mut surplus) = (BTreeMap::new(), BTreeMap::new());
    for pool in by_rank {
        let claims = of_pool
            .get(pool.name.as_str())
            .map_or(&[][..], Vec::as_slice);
        let mut waiting: Vec<(Timestamp, String, u32)> = claims
            .iter()
            .filter(|claim| claim.state == State::Waiting)
            .map(|claim| {
                (
                    claim.requested_at.unwrap_or(snapshot.now),
                    claim.name.clone(),
                    claim.gpus,
                )
            })
            .collect();
        waiting.sort();
        if let Some(range) = pool.replicas {
            let wanted = range.wanted.map_or(claims.len(), |wanted| wanted as usize);
            let wanted = wanted.min(range.max as usize).max(range.min as usize);
            let mut too_many = claims.len().saturating_sub(wanted);
            while too_many > 0 && waiting.pop().is_some() {
                too_many -= 1;
            }
            surplus.insert(pool.name.as_str(), too_many);
            let mut number = 0;
            for _ in claims.len()..wanted {
                let mut name = format!("{}-{number}", pool.name);
                while in_use.contains(name.as_str()) {
                    number += 1;
                    name = format!("{}-{number}", pool.name);
                }
                number += 1;
                waiting.push((snapshot.now, name, pool.gpus_per_replica.unwrap_or(0)));
            }
            waiting.sort();
        }
        for (_, name, gpus) in waiting {
            let turn = open.len();
            open.insert(
                name,
                Open {
                    pool: pool.name.clone(),
                    gpus,
                    turn,
                },
            );
        }
    }
    (open, surplus)
}
