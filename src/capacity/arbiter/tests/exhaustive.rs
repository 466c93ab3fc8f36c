//! The rules again, by trying everything: every set of victims with every block. Slow, and written from the rules alone, so that it errs in other ways
//! than the planner, if it errs.

mod ways;

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};

use crate::capacity::arbiter::plan::{Action, Code, Plan};
use crate::capacity::arbiter::snapshot::{Claim, Node, Pool, PoolType, Reason, Snapshot, State};

/// What a plan decides, without words and order.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Decisions {
    /// Claim, node, cards, after.
    pub(super) starts: BTreeMap<String, (String, Vec<u32>, Vec<String>)>,
    /// Claim, code, reachable.
    pub(super) waits: BTreeMap<String, (Code, u32)>,
    /// Claim, drained, for.
    pub(super) notices: BTreeMap<String, (bool, Option<String>)>,
    pub(super) stops: BTreeMap<String, Option<String>>,
    pub(super) withdrawals: BTreeSet<String>,
    pub(super) given_up: BTreeSet<String>,
}

impl Decisions {
    pub(super) fn of(plan: &Plan) -> Self {
        let mut decisions = Self {
            given_up: plan.given_up.iter().cloned().collect(),
            ..Self::default()
        };
        for action in plan.actions.clone() {
            match action {
                Action::Notice {
                    claim,
                    reason,
                    purpose,
                    ..
                } => {
                    _ = decisions
                        .notices
                        .insert(claim, (reason == Reason::Drain, purpose));
                }
                Action::Stop { claim, purpose } => _ = decisions.stops.insert(claim, purpose),
                Action::Start {
                    claim,
                    node,
                    cards,
                    after,
                } => {
                    _ = decisions.starts.insert(claim, (node, cards, after));
                }
                Action::Withdraw { claim, .. } => _ = decisions.withdrawals.insert(claim),
            }
        }
        for wait in &plan.waiting {
            decisions
                .waits
                .insert(wait.claim.clone(), (wait.code, wait.reachable));
        }
        decisions
    }
}

/// How a claim that holds cards stands.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Stand {
    Stays,
    Leaves,
    Runs,
    /// Noticed by the arbiter, for a claim that waits or for nobody.
    Told(Option<String>),
}

type Card = (String, u32);

/// What is disregarded.
#[derive(Clone, Copy, Default)]
struct Without {
    runtimes: bool,
    holds: bool,
    stale: bool,
    floors: bool,
    on_demand: bool,
    rank: bool,
}

struct World<'a> {
    snapshot: &'a Snapshot,
    /// Claims to decide on, in order.
    open: Vec<Claim>,
    stands: BTreeMap<String, Stand>,
    /// Cards held for, planned for later to, or kept for a claim: its name and rank.
    held: BTreeMap<Card, (String, u32)>,
    /// Cards on which a claim starts now.
    started: BTreeMap<Card, u32>,
    /// GPUs of pools that claims waiting for minimum runtimes will take, by claim that will go.
    earmarked: BTreeSet<String>,
    decisions: Decisions,
    victims: BTreeMap<String, String>,
}

/// One way to meet a claim.
#[derive(Clone)]
struct Way {
    node: String,
    cards: Vec<u32>,
    fresh: Vec<Claim>,
    all: Vec<Claim>,
    after: Vec<String>,
    ready: Timestamp,
    /// Somebody must go first, and it is not the block that is held for the claim.
    elsewhere: bool,
    around: usize,
    kept: usize,
}

pub(super) fn decide(snapshot: &Snapshot) -> Decisions {
    let (mut blocks, mut tellings) = (BTreeSet::new(), BTreeSet::new());
    let mut unneeded: BTreeSet<Card> = BTreeSet::new();
    loop {
        let mut world = World::new(snapshot, &blocks, &tellings, &unneeded);
        for claim in world.open.clone() {
            world.consider(&claim);
        }
        let before = (blocks.len(), tellings.len(), unneeded.len());
        for claim in &world.open {
            let start = world.decisions.starts.get(&claim.name);
            let used = start.is_some_and(|(node, cards, _)| {
                Some(node) == claim.node.as_ref() && sorted(cards) == sorted(&claim.cards)
            });
            if !claim.cards.is_empty() && !used {
                blocks.insert(claim.name.clone());
            }
        }
        for claim in snapshot
            .claims
            .iter()
            .filter(|claim| matches!(claim.state, State::Noticed | State::Stopping))
        {
            let meant = |open: &Claim| {
                Some(&open.name) == claim.purpose.as_ref() && may_be_for(snapshot, claim, open)
            };
            let Some(purpose) = world
                .open
                .iter()
                .find(|open| meant(open))
                .map(|open| open.name.clone())
            else {
                continue;
            };
            let start = world.decisions.starts.get(&purpose);
            match start {
                Some((node, cards, after)) if after.contains(&claim.name) => {
                    let left = claim.cards.iter().filter(|card| !cards.contains(card));
                    unneeded.extend(left.map(|card| (node.clone(), *card)));
                }
                _ => _ = tellings.insert(claim.name.clone()),
            }
        }
        // What could never be of use can be given up without another round, but another round does no harm.
        if before == (blocks.len(), tellings.len(), unneeded.len()) {
            return world.finish();
        }
    }
}

fn sorted(cards: &[u32]) -> Vec<u32> {
    let mut cards = cards.to_vec();
    cards.sort_unstable();
    cards
}

impl<'a> World<'a> {
    fn new(
        snapshot: &'a Snapshot,
        given_up: &BTreeSet<String>,
        tellings: &BTreeSet<String>,
        unneeded: &BTreeSet<Card>,
    ) -> Self {
        let open = open(snapshot);
        let waits = |told: &Claim| {
            let meant = |claim: &&Claim| {
                Some(&claim.name) == told.purpose.as_ref() && may_be_for(snapshot, told, claim)
            };
            open.iter().find(meant).map(|claim| claim.name.clone())
        };
        let mut stands = BTreeMap::new();
        for claim in snapshot
            .claims
            .iter()
            .filter(|claim| claim.state != State::Waiting)
        {
            let pool = pool(snapshot, claim);
            let node = snapshot
                .nodes
                .iter()
                .find(|node| Some(&node.name) == claim.node.as_ref())
                .unwrap();
            let rental = claim.reason == Some(Reason::RentalReclaim);
            let stuck = claim
                .deadline
                .is_some_and(|deadline| deadline + SignedDuration::from_secs(300) <= snapshot.now);
            let stand = if claim.state == State::Stopping {
                if rental || stuck {
                    Stand::Stays
                } else {
                    Stand::Leaves
                }
            } else if pool.kind == PoolType::OnDemand || (rental && claim.state == State::Noticed) {
                Stand::Stays
            } else if node.draining {
                if node.ready {
                    Stand::Leaves
                } else {
                    Stand::Stays
                }
            } else if claim.state == State::Running {
                Stand::Runs
            } else {
                Stand::Told(waits(claim).filter(|_| !tellings.contains(&claim.name)))
            };
            stands.insert(claim.name.clone(), stand);
        }
        let mut held: BTreeMap<Card, (String, u32)> = BTreeMap::new();
        let (written, unwritten): (Vec<&Claim>, Vec<&Claim>) =
            open.iter().partition(|claim| !claim.cards.is_empty());
        for claim in written.into_iter().chain(unwritten) {
            let rank = pool(snapshot, claim).rank;
            let mut hold = |holder: &Claim| {
                let needed = |card: &&u32| {
                    holder.name == claim.name
                        || !unneeded.contains(&(holder.node.clone().unwrap(), **card))
                };
                for card in holder.cards.iter().filter(needed) {
                    held.entry((holder.node.clone().unwrap(), *card))
                        .or_insert_with(|| (claim.name.clone(), rank));
                }
            };
            if !claim.cards.is_empty() {
                if !given_up.contains(&claim.name) {
                    hold(claim);
                }
                continue;
            }
            for other in &snapshot.claims {
                let meant = other.purpose.as_ref() == Some(&claim.name)
                    && may_be_for(snapshot, other, claim)
                    && !tellings.contains(&other.name);
                let told =
                    other.state == State::Noticed && other.reason != Some(Reason::RentalReclaim);
                if meant && (told || other.state == State::Stopping) {
                    hold(other);
                }
            }
        }
        let mut world = Self {
            snapshot,
            open: open.clone(),
            stands,
            held,
            started: BTreeMap::new(),
            earmarked: BTreeSet::new(),
            decisions: Decisions::default(),
            victims: BTreeMap::new(),
        };
        world.give_up_replicas();
        world
    }

    fn node(&self, claim: &Claim) -> &'a Node {
        self.snapshot
            .nodes
            .iter()
            .find(|node| Some(&node.name) == claim.node.as_ref())
            .unwrap()
    }

    fn young(&self, claim: &Claim) -> bool {
        claim.state == State::Running && self.ready(claim) > self.snapshot.now
    }

    fn ready(&self, claim: &Claim) -> Timestamp {
        let started = claim.started_at.unwrap_or(self.snapshot.now);
        started + SignedDuration::from_secs(i64::from(self.snapshot.set.minimum_runtime_seconds))
    }

    /// GPUs of a pool that run and do not leave, less its floor.
    fn spare(&self, pool: &Pool, without: Without) -> i64 {
        let stays = |claim: &&Claim| {
            let node = self.node(claim);
            let here = !node.draining && (node.ready || without.stale);
            let runs = match &self.stands[&claim.name] {
                Stand::Runs | Stand::Told(None) => true,
                Stand::Stays => claim.state == State::Running,
                _ => false,
            };
            claim.pool == pool.name
                && here
                && runs
                && (without.holds || !self.earmarked.contains(&claim.name))
        };
        let holders = self
            .snapshot
            .claims
            .iter()
            .filter(|claim| claim.state != State::Waiting);
        holders
            .filter(stays)
            .map(|claim| i64::from(claim.gpus))
            .sum::<i64>()
            - pool.effective_floor() as i64
    }

    /// Whether these may go together as far as floors are concerned.
    fn floors(&self, victims: &[&Claim], without: Without) -> bool {
        without.floors
            || self.snapshot.pools.iter().all(|pool| {
                let of_pool: Vec<_> = victims
                    .iter()
                    .filter(|claim| claim.pool == pool.name)
                    .collect();
                let taken: i64 = of_pool.iter().map(|claim| self.takes(claim, without)).sum();
                of_pool.is_empty() || taken <= self.spare(pool, without)
            })
    }

    fn takes(&self, claim: &Claim, without: Without) -> i64 {
        let counted = matches!(self.stands[&claim.name], Stand::Runs | Stand::Told(None));
        if counted && (without.holds || !self.earmarked.contains(&claim.name)) {
            i64::from(claim.gpus)
        } else {
            0
        }
    }

    fn give_up_replicas(&mut self) {
        for pool in &self.snapshot.pools {
            let Some(range) = pool.replicas else { continue };
            let mut present: Vec<&Claim> = self
                .snapshot
                .claims
                .iter()
                .filter(|claim| claim.pool == pool.name && claim.state != State::Waiting)
                .collect();
            let waiting = self
                .open
                .iter()
                .filter(|claim| claim.pool == pool.name)
                .count();
            let wanted = range
                .wanted
                .map_or(present.len() + waiting, |wanted| wanted as usize);
            let mut surplus = present
                .len()
                .saturating_sub(wanted.min(range.max as usize).max(range.min as usize));
            present.sort_by_key(|claim| {
                (
                    std::cmp::Reverse(claim.started_at.unwrap_or(self.snapshot.now)),
                    claim.name.clone(),
                )
            });
            let leaving = present
                .iter()
                .filter(|claim| {
                    claim.state == State::Stopping
                        || self.stands[&claim.name] == Stand::Leaves
                        || (claim.state == State::Noticed
                            && claim.reason == Some(Reason::RentalReclaim))
                })
                .count();
            for round in 0..3 {
                for claim in &present {
                    let stand = &self.stands[&claim.name];
                    let fits = match round {
                        0 => *stand == Stand::Told(None),
                        1 => matches!(stand, Stand::Told(Some(_))),
                        _ => *stand == Stand::Runs && !self.young(claim),
                    };
                    let here = self.node(claim).ready && !self.node(claim).draining;
                    if surplus > 0 && fits && here && self.floors(&[claim], Without::default()) {
                        self.stands.insert(claim.name.clone(), Stand::Leaves);
                        self.decisions.given_up.insert(claim.name.clone());
                        surplus -= 1;
                    }
                }
                if round == 0 {
                    surplus = surplus.saturating_sub(leaving);
                }
            }
        }
    }

    fn fits_somewhere(&self, gpus: u32) -> bool {
        self.snapshot.nodes.iter().any(|node| {
            node.allowed_blocks(&self.snapshot.set)
                .iter()
                .any(|block| block.len() == gpus)
        })
    }

    fn consider(&mut self, claim: &Claim) {
        let pool = pool(self.snapshot, claim);
        let wait = |world: &mut Self, code, reachable| {
            _ = world
                .decisions
                .waits
                .insert(claim.name.clone(), (code, reachable))
        };
        if !self.fits_somewhere(claim.gpus) {
            return wait(self, Code::NeverFits, 0);
        }
        let started = self.open.iter().filter(|open| {
            open.pool == pool.name && self.decisions.starts.contains_key(&open.name)
        });
        let holding = self
            .snapshot
            .claims
            .iter()
            .filter(|claim| claim.pool == pool.name && claim.state != State::Waiting);
        let counted: u32 = started.chain(holding).map(|claim| claim.gpus).sum();
        if let Some(ceiling) = pool
            .ceiling
            .filter(|ceiling| counted + claim.gpus > *ceiling)
        {
            return wait(self, Code::Ceiling, ceiling.saturating_sub(counted));
        }
        if let Some(way) = self.best(claim, Without::default()) {
            let rank = pool.rank;
            for victim in &way.all {
                self.stands.insert(victim.name.clone(), Stand::Leaves);
                self.victims.insert(victim.name.clone(), claim.name.clone());
                self.earmarked.remove(&victim.name);
            }
            for card in &way.cards {
                if way.after.is_empty() {
                    self.started.insert((way.node.clone(), *card), rank);
                } else {
                    self.held
                        .insert((way.node.clone(), *card), (claim.name.clone(), rank));
                }
            }
            self.decisions
                .starts
                .insert(claim.name.clone(), (way.node, way.cards, way.after));
            return;
        }
        let reachable = self.reachable(claim);
        if let Some(way) = self.best(
            claim,
            Without {
                runtimes: true,
                ..Without::default()
            },
        ) {
            for card in &way.cards {
                self.held
                    .insert((way.node.clone(), *card), (claim.name.clone(), pool.rank));
            }
            for victim in &way.all {
                if self.takes(victim, Without::default()) > 0 {
                    self.earmarked.insert(victim.name.clone());
                }
            }
            return wait(self, Code::Cooldown, reachable);
        }
        let none = Without::default();
        let possible = |without| self.best(claim, without).is_some();
        let code = if possible(Without {
            holds: true,
            ..none
        }) {
            Code::Held
        } else if possible(Without {
            stale: true,
            ..none
        }) {
            Code::StaleData
        } else if self.in_pieces(claim) >= i64::from(claim.gpus) {
            Code::Fragmented
        } else if possible(Without {
            floors: true,
            ..none
        }) {
            Code::Floor
        } else if possible(Without {
            on_demand: true,
            ..none
        }) {
            Code::OnDemand
        } else if possible(Without { rank: true, ..none }) {
            Code::Rank
        } else {
            Code::NoCompletePlan
        };
        wait(self, code, reachable);
    }

    fn finish(mut self) -> Decisions {
        for claim in self
            .snapshot
            .claims
            .iter()
            .filter(|claim| claim.state != State::Waiting)
        {
            let node = self.node(claim);
            let first = self.open.iter().find(|open| {
                self.decisions
                    .starts
                    .get(&open.name)
                    .is_some_and(|(.., after)| after.contains(&claim.name))
            });
            let meant = first.filter(|first| {
                Some(&first.name) == claim.purpose.as_ref()
                    && may_be_for(self.snapshot, claim, first)
            });
            let purpose = self
                .victims
                .get(&claim.name)
                .cloned()
                .or(meant.map(|first| first.name.clone()));
            let leaves = self.stands[&claim.name] == Stand::Leaves && node.ready;
            let arbiter =
                claim.state == State::Noticed && claim.reason != Some(Reason::RentalReclaim);
            if leaves && claim.state == State::Running {
                self.decisions
                    .notices
                    .insert(claim.name.clone(), (node.draining, purpose));
            } else if leaves && arbiter && claim.deadline.unwrap() <= self.snapshot.now {
                self.decisions.stops.insert(claim.name.clone(), purpose);
            } else if arbiter
                && (!leaves && !node.draining
                    || pool(self.snapshot, claim).kind == PoolType::OnDemand)
            {
                self.decisions.withdrawals.insert(claim.name.clone());
            }
        }
        self.decisions
    }
}

fn pool<'a>(snapshot: &'a Snapshot, claim: &Claim) -> &'a Pool {
    snapshot
        .pools
        .iter()
        .find(|pool| pool.name == claim.pool)
        .unwrap()
}

/// A notice is only ever for a claim of higher rank.
fn may_be_for(snapshot: &Snapshot, told: &Claim, claim: &Claim) -> bool {
    told.state == State::Stopping || pool(snapshot, claim).rank < pool(snapshot, told).rank
}

/// Claims to decide on, in order.
fn open(snapshot: &Snapshot) -> Vec<Claim> {
    let mut open: Vec<Claim> = snapshot
        .claims
        .iter()
        .filter(|claim| claim.state == State::Waiting)
        .cloned()
        .collect();
    let order = |claim: &Claim| {
        (
            pool(snapshot, claim).rank,
            claim.requested_at,
            claim.name.clone(),
        )
    };
    open.sort_by_key(order);
    for pool in &snapshot.pools {
        let Some(range) = pool.replicas else { continue };
        let count = snapshot
            .claims
            .iter()
            .filter(|claim| claim.pool == pool.name)
            .count();
        let wanted = range
            .wanted
            .map_or(count, |wanted| wanted as usize)
            .min(range.max as usize)
            .max(range.min as usize);
        for _ in wanted..count {
            if let Some(last) = open.iter().rposition(|claim| claim.pool == pool.name) {
                open.remove(last);
            }
        }
        for _ in count..wanted {
            let used = |name: &String| {
                snapshot
                    .claims
                    .iter()
                    .chain(&open)
                    .any(|claim| claim.name == *name)
            };
            let name = (0..)
                .map(|number| format!("{}-{number}", pool.name))
                .find(|name| !used(name))
                .unwrap();
            open.push(Claim {
                name,
                pool: pool.name.clone(),
                gpus: pool.gpus_per_replica.unwrap(),
                state: State::Waiting,
                node: None,
                cards: Vec::new(),
                requested_at: Some(snapshot.now),
                started_at: None,
                deadline: None,
                reason: None,
                purpose: None,
            });
        }
    }
    open.sort_by_key(order);
    open
}
