//! The rules that a snapshot keeps before anyone plans on it: A1 to A3, and that names, nodes and cards fit together.

use std::collections::{BTreeMap, BTreeSet};

use super::{Claim, Invalid, Item, Node, Pool, PoolType, Problems, Reason, Snapshot, State};
use crate::capacity::fabric::{self, MAX_CARDS};

/// Checks a snapshot.
///
/// # Errors
/// Everything that is wrong with it: what rules A1 to A3 refuse (floors are effective floors), a name twice, an unknown pool or node, a card held twice or
/// not on its node, a claim that holds cards without naming as many as its `gpus`, a noticed claim without deadline or reason, a waiting one without `requested_at`.
pub fn validate(snapshot: &Snapshot) -> Result<(), Invalid> {
    let mut problems = Problems::default();
    names(snapshot, &mut problems);
    ranks(snapshot, &mut problems);
    for pool in &snapshot.pools {
        pool_fits(pool, snapshot, &mut problems);
    }
    floors_fit(snapshot, &mut problems);
    for node in &snapshot.nodes {
        node_fits(node, snapshot, &mut problems);
    }
    claims_fit(snapshot, &mut problems);
    problems.into_result(())
}

fn names(snapshot: &Snapshot, problems: &mut Problems) {
    let mut each = |names: &mut dyn Iterator<Item = &String>, item: fn(String) -> Item| {
        let mut seen = BTreeSet::new();
        for name in names {
            if name.is_empty() {
                problems.add(item(name.clone()), "has no name");
            } else if !seen.insert(name) {
                problems.add(
                    item(name.clone()),
                    "is there twice; a name says which one is meant",
                );
            }
        }
    };
    each(
        &mut snapshot.pools.iter().map(|pool| &pool.name),
        Item::Pool,
    );
    each(
        &mut snapshot.nodes.iter().map(|node| &node.name),
        Item::Node,
    );
    each(
        &mut snapshot.claims.iter().map(|claim| &claim.name),
        Item::Claim,
    );
}

fn ranks(snapshot: &Snapshot, problems: &mut Problems) {
    let mut ranks: BTreeMap<u32, &str> = BTreeMap::new();
    for pool in &snapshot.pools {
        if pool.rank == 0 {
            problems.add(
                Item::Pool(pool.name.clone()),
                "rank is 0; ranks start at 1, the highest",
            );
        }
        if let Some(other) = ranks.insert(pool.rank, &pool.name) {
            problems.add(
                Item::Pool(pool.name.clone()),
                format!(
                    "has rank {}, and so has pool {other:?}; give every pool a rank of its own",
                    pool.rank
                ),
            );
        }
    }
}

fn pool_fits(pool: &Pool, snapshot: &Snapshot, problems: &mut Problems) {
    let mut add = |found: String| problems.add(Item::Pool(pool.name.clone()), found);
    let inference = pool.kind == PoolType::Inference;
    match (inference, pool.replicas, pool.gpus_per_replica) {
        (true, None, _) => add("is an inference pool without replicas; give min and max".into()),
        (true, _, None) => add("is an inference pool without gpus_per_replica".into()),
        (false, Some(_), _) => add("has replicas, which only an inference pool has".into()),
        (false, _, Some(_)) => add("has gpus_per_replica, which only an inference pool has".into()),
        (true, Some(range), Some(gpus)) => {
            if range.min > range.max {
                add(format!(
                    "asks for at least {} and at most {} replicas",
                    range.min, range.max
                ));
            }
            if !snapshot.set.fabric.sizes().contains(&gpus) {
                add(format!(
                    "gpus_per_replica is {gpus}, but {}",
                    snapshot.set.fabric.sizes_in_words()
                ));
            }
            let most = u64::from(range.max) * u64::from(gpus);
            if let Some(ceiling) = pool.ceiling.filter(|ceiling| most > u64::from(*ceiling)) {
                add(format!(
                    "up to {} replicas of {gpus} GPUs need {most} GPUs, more than its ceiling of {ceiling}; lower replicas.max or raise the ceiling",
                    range.max
                ));
            }
        }
        (false, None, None) => {}
    }
    if let Some(ceiling) = pool
        .ceiling
        .filter(|ceiling| pool.effective_floor() > u64::from(*ceiling))
    {
        add(format!(
            "floor of {} is above its ceiling of {ceiling} GPUs",
            floor_in_words(pool)
        ));
    }
}

/// A floor, and where it comes from when it is not the one that was given.
fn floor_in_words(pool: &Pool) -> String {
    let floor = pool.effective_floor();
    match (pool.replicas, pool.gpus_per_replica) {
        (Some(range), Some(gpus)) if floor > u64::from(pool.floor) => {
            format!("{floor} GPUs (at least {} replicas of {gpus})", range.min)
        }
        _ => format!("{floor} GPUs"),
    }
}

fn floors_fit(snapshot: &Snapshot, problems: &mut Problems) {
    let floors: u64 = snapshot.pools.iter().map(Pool::effective_floor).sum();
    let gpus: u64 = snapshot.nodes.iter().map(|node| u64::from(node.gpus)).sum();
    if floors > gpus {
        let list: Vec<String> = snapshot
            .pools
            .iter()
            .filter(|pool| pool.effective_floor() > 0)
            .map(|pool| format!("{} {}", pool.name, pool.effective_floor()))
            .collect();
        problems.add(
            Item::Set,
            format!(
                "its pools' floors are {floors} GPUs together ({}), more than the set's {gpus}",
                list.join(", ")
            ),
        );
    }
}

fn node_fits(node: &Node, snapshot: &Snapshot, problems: &mut Problems) {
    let mut add = |found: String| problems.add(Item::Node(node.name.clone()), found);
    if node.gpus > MAX_CARDS {
        add(format!(
            "has {} GPUs; at most {MAX_CARDS} on one node are supported",
            node.gpus
        ));
    }
    if let Some(list) = &node.blocks
        && let Err(bad) = fabric::own_blocks(snapshot.set.fabric, node.gpus, list)
    {
        add(bad.to_string());
    }
}

fn claims_fit(snapshot: &Snapshot, problems: &mut Problems) {
    let pools: BTreeSet<&str> = snapshot
        .pools
        .iter()
        .map(|pool| pool.name.as_str())
        .collect();
    let nodes: BTreeMap<&str, &Node> = snapshot
        .nodes
        .iter()
        .map(|node| (node.name.as_str(), node))
        .collect();
    let mut holders: BTreeMap<(&str, u32), &str> = BTreeMap::new();
    for claim in &snapshot.claims {
        let mut add = |found: String| problems.add(Item::Claim(claim.name.clone()), found);
        if !pools.contains(claim.pool.as_str()) {
            add(format!(
                "is of pool {:?}, which the set does not have",
                claim.pool
            ));
        }
        if !snapshot.set.fabric.sizes().contains(&claim.gpus) {
            add(format!(
                "asks for {} GPUs, but {}",
                claim.gpus,
                snapshot.set.fabric.sizes_in_words()
            ));
        }
        state_fits(claim, &mut add);
        let node = claim.node.as_deref().and_then(|name| {
            let node = nodes.get(name).copied();
            if node.is_none() {
                add(format!("is on node {name:?}, which the set does not have"));
            }
            node
        });
        let Some(node) = node else { continue };
        let mut own = BTreeSet::new();
        for card in &claim.cards {
            if *card >= node.gpus {
                add(format!(
                    "names card {card} of node {:?}, which has {} GPUs, numbered from 0",
                    node.name, node.gpus
                ));
            }
            if !own.insert(card) {
                add(format!("names card {card} twice"));
            } else if claim.state != State::Waiting
                && let Some(other) = holders.insert((&node.name, *card), &claim.name)
            {
                add(format!(
                    "holds card {card} of node {:?}, and so does claim {other:?}",
                    node.name
                ));
            }
        }
    }
}

/// That a claim says what its state needs.
fn state_fits(claim: &Claim, add: &mut impl FnMut(String)) {
    let holds = claim.state != State::Waiting;
    if claim.node.is_none() && (holds || !claim.cards.is_empty()) {
        add("holds cards, but says no node".into());
    }
    if (holds || !claim.cards.is_empty()) && claim.cards.len() != claim.gpus as usize {
        add(format!(
            "is of {} GPUs and names {} cards; it must name as many",
            claim.gpus,
            claim.cards.len()
        ));
    }
    match claim.state {
        State::Waiting if claim.requested_at.is_none() => add("waits without requested_at".into()),
        State::Noticed if claim.deadline.is_none() => add("is noticed without a deadline".into()),
        State::Noticed if claim.reason.is_none() => {
            add("is noticed without a reason; give arbiter_stop, drain or rental_reclaim".into());
        }
        _ => {}
    }
}

impl Claim {
    /// Whether it is noticed, and the arbiter gave the notice: those it may use, and withdraws when it does not need them.
    #[must_use]
    pub fn noticed_by_arbiter(&self) -> bool {
        self.state == State::Noticed && self.reason != Some(Reason::RentalReclaim)
    }
}
