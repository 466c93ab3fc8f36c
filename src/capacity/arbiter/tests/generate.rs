//! Random fleets, small enough to search exhaustively, dense enough that every rule is met: the same seed gives the same fleet.

use std::sync::LazyLock;

use jiff::{SignedDuration, Timestamp};

use crate::capacity::arbiter::snapshot::{
    Claim, Mode, Node, Pool, PoolType, Reason, Replicas, Set, Snapshot, State, validate,
};
use crate::capacity::fabric::Fabric;

/// How many fleets are tried in every run.
pub(super) const MANY: u64 = 10_000;

/// A small generator of numbers (SplitMix64): good enough to vary, and the same everywhere.
pub(super) struct Dice(u64);

impl Dice {
    pub(super) fn new(seed: u64) -> Self {
        Self(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// 0 to `below` - 1.
    pub(super) fn below(&mut self, below: usize) -> usize {
        (self.next() % below as u64) as usize
    }

    /// True this many times in a hundred.
    pub(super) fn percent(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }

    pub(super) fn of<T: Clone>(&mut self, choices: &[T]) -> T {
        choices[self.below(choices.len())].clone()
    }
}

/// 2026-11-30T12:00:00Z.
const NOW: Timestamp = Timestamp::constant(1_796_040_000, 0);

fn ago(seconds: i64) -> Timestamp {
    NOW - SignedDuration::from_secs(seconds)
}

/// The first fleets, made once for all tests.
pub(super) fn first_fleets() -> &'static [Snapshot] {
    static FLEETS: LazyLock<Vec<Snapshot>> = LazyLock::new(|| (0..MANY).map(fleet).collect());
    &FLEETS
}

/// A valid fleet.
pub(super) fn fleet(seed: u64) -> Snapshot {
    let mut dice = Dice::new(seed);
    loop {
        let snapshot = attempt(&mut dice);
        if validate(&snapshot).is_ok() {
            return snapshot;
        }
    }
}

fn attempt(dice: &mut Dice) -> Snapshot {
    let (fabric, kind) = dice.of(&[
        (Fabric::Pcie, "nvidia-l40s"),
        (Fabric::Nvswitch, "nvidia-a100-80gb"),
        (Fabric::Nvswitch, "nvidia-a100-80gb"),
        (Fabric::Nvswitch, "nvidia-h100-80gb"),
        (Fabric::Nvswitch, "nvidia-v100-32gb"),
    ]);
    let set = Set {
        name: "random".into(),
        gpu_kind: kind.into(),
        fabric,
        mode: dice.of(&[Mode::Enforce, Mode::DryRun]),
        notice_seconds: dice.of(&[0, 120]),
        minimum_runtime_seconds: dice.of(&[0, 300, 300]),
    };
    // A fleet has troubles of its own or none at all, so that both calm and troubled ones are seen.
    let trouble = dice.of(&[0, 0, 12, 25]);
    let nodes: Vec<Node> = (0..1 + dice.below(4))
        .map(|number| node(dice, number, &set, trouble))
        .collect();
    let pools = pools(dice, &set);
    let mut snapshot = Snapshot {
        now: NOW,
        set,
        pools,
        nodes,
        claims: Vec::new(),
    };
    waiting(dice, &mut snapshot);
    holders(dice, &mut snapshot, trouble);
    let mut shuffled = Vec::new();
    while !snapshot.claims.is_empty() {
        let place = dice.below(snapshot.claims.len());
        shuffled.push(snapshot.claims.swap_remove(place));
    }
    snapshot.claims = shuffled;
    snapshot
}

fn node(dice: &mut Dice, number: usize, set: &Set, trouble: usize) -> Node {
    let gpus = dice.of(&[1, 2, 2, 3, 4, 4, 4, 8]);
    let own = dice.percent(8).then(|| {
        let singles = (0..gpus).map(|card| vec![card]);
        let pairs = (1..gpus / 2).map(|pair| vec![pair, gpus - 1 - pair]);
        if set.fabric == Fabric::Pcie {
            singles.skip(1).collect()
        } else {
            singles.chain(pairs).collect()
        }
    });
    Node {
        name: format!("n{number}"),
        gpus,
        ready: !dice.percent(trouble),
        cordoned: dice.percent(trouble / 2),
        draining: dice.percent(trouble / 2),
        blocks: own,
    }
}

fn pools(dice: &mut Dice, set: &Set) -> Vec<Pool> {
    let mut ranks: Vec<u32> = vec![1, 2, 3, 5, 8];
    let mut pools: Vec<Pool> = (0..2 + dice.below(4))
        .map(|number| {
            let kind = dice.of(&[
                PoolType::OnDemand,
                PoolType::Spot,
                PoolType::Spot,
                PoolType::Inference,
            ]);
            let inference = kind == PoolType::Inference;
            let min = dice.of(&[0, 0, 1]);
            Pool {
                name: format!("p{number}"),
                kind,
                rank: ranks.remove(dice.below(ranks.len())),
                floor: dice.of(&[0, 0, 0, 1, 2, 3]),
                ceiling: dice.of(&[None, None, None, Some(2), Some(4), Some(6)]),
                replicas: inference.then(|| Replicas {
                    min,
                    max: min + dice.below(4) as u32,
                    wanted: dice.of(&[None, Some(0), Some(1), Some(2), Some(3)]),
                }),
                gpus_per_replica: inference.then(|| size(dice, set)),
                notice_seconds: dice.of(&[None, None, Some(0), Some(60)]),
            }
        })
        .collect();
    if dice.percent(50) {
        pools.reverse();
    }
    pools
}

fn size(dice: &mut Dice, set: &Set) -> u32 {
    if set.fabric == Fabric::Pcie {
        1
    } else {
        dice.of(&[1, 1, 1, 2, 2, 4])
    }
}

/// Names that sort otherwise than they are made, so that a tie by name is a tie by name.
fn name(dice: &mut Dice, number: usize) -> String {
    format!("{}{number}", dice.of(&["a", "b", "c", "d"]))
}

fn waiting(dice: &mut Dice, snapshot: &mut Snapshot) {
    for number in 0..dice.below(6) {
        let pool = dice.below(snapshot.pools.len());
        let pool = snapshot.pools[pool].clone();
        let gpus = pool
            .gpus_per_replica
            .unwrap_or_else(|| size(dice, &snapshot.set));
        let mut claim = Claim {
            name: format!("w{}", name(dice, number)),
            pool: pool.name,
            gpus,
            state: State::Waiting,
            node: None,
            cards: Vec::new(),
            requested_at: Some(ago(dice.of(&[10, 20, 20, 600]))),
            started_at: None,
            deadline: None,
            reason: None,
            purpose: None,
        };
        if dice.percent(25) {
            let node = dice.of(&snapshot.nodes);
            let blocks: Vec<_> = node
                .allowed_blocks(&snapshot.set)
                .into_iter()
                .filter(|block| block.len() == gpus)
                .collect();
            if !blocks.is_empty() {
                claim.node = Some(node.name);
                claim.cards = dice.of(&blocks).numbers().collect();
            }
        }
        snapshot.claims.push(claim);
    }
}

fn holders(dice: &mut Dice, snapshot: &mut Snapshot, trouble: usize) {
    let waiting: Vec<String> = snapshot
        .claims
        .iter()
        .map(|claim| claim.name.clone())
        .collect();
    let density = dice.of(&[50, 75, 100]);
    let mut number = 0;
    for node in snapshot.nodes.clone() {
        let mut blocks = node.allowed_blocks(&snapshot.set);
        let mut taken = 0_u64;
        while !blocks.is_empty() {
            let block = blocks.swap_remove(dice.below(blocks.len()));
            if block.len() > 4 || block.0 & taken != 0 || !dice.percent(density) {
                continue;
            }
            taken |= block.0;
            number += 1;
            let state = dice.of(&[
                State::Running,
                State::Running,
                State::Running,
                State::Running,
                State::Noticed,
                State::Stopping,
            ]);
            let noticed = state != State::Running;
            // A workload that is told to stop long after its deadline is stuck at once.
            let deadline = dice.of(&[ago(400), ago(300), ago(30), ago(0), ago(-30)]
                [if state == State::Noticed { 2 } else { 0 }..]);
            let reason = match dice.below(10) {
                0 => Reason::RentalReclaim,
                1 | 2 => Reason::Drain,
                _ => Reason::ArbiterStop,
            };
            let purpose = match dice.below(4) {
                0 => None,
                1 => Some("gone".to_owned()),
                _ if waiting.is_empty() => Some("p1-0".to_owned()),
                _ => Some(dice.of(&waiting)),
            };
            let pool = dice.below(snapshot.pools.len());
            snapshot.claims.push(Claim {
                name: name(dice, number),
                pool: snapshot.pools[pool].name.clone(),
                gpus: block.len(),
                state,
                node: Some(node.name.clone()),
                cards: block.numbers().collect(),
                requested_at: Some(ago(8000)),
                started_at: dice.of(&[
                    Some(ago(7000)),
                    Some(ago(7000)),
                    Some(ago(5000)),
                    Some(ago(300)),
                    Some(ago(200)),
                    Some(ago(30)),
                    None,
                ]),
                deadline: (noticed && (state == State::Noticed || dice.percent(90)))
                    .then_some(deadline),
                reason: noticed.then_some(if trouble == 0 {
                    Reason::ArbiterStop
                } else {
                    reason
                }),
                purpose: purpose.filter(|_| noticed),
            });
        }
    }
}

/// The smallest part of a fleet that still fails, by leaving out one thing after another.
pub(super) fn shrink(mut snapshot: Snapshot, fails: impl Fn(&Snapshot) -> bool) -> Snapshot {
    let fails = |snapshot: &Snapshot| validate(snapshot).is_ok() && fails(snapshot);
    loop {
        let mut smaller: Vec<Snapshot> = Vec::new();
        for place in 0..snapshot.claims.len() {
            let mut less = snapshot.clone();
            less.claims.remove(place);
            smaller.push(less);
        }
        for place in 0..snapshot.nodes.len() {
            let mut less = snapshot.clone();
            let node = less.nodes.remove(place);
            less.claims
                .retain(|claim| claim.node.as_ref() != Some(&node.name));
            smaller.push(less);
        }
        for place in 0..snapshot.pools.len() {
            let mut less = snapshot.clone();
            let pool = less.pools.remove(place);
            less.claims.retain(|claim| claim.pool != pool.name);
            smaller.push(less);
        }
        for place in 0..snapshot.claims.len() {
            let mut less = snapshot.clone();
            if less.claims[place].state == State::Waiting {
                less.claims[place].node = None;
                less.claims[place].cards.clear();
            } else {
                less.claims[place].started_at = Some(ago(7000));
            }
            smaller.push(less);
        }
        smaller.retain(|less| *less != snapshot);
        match smaller.into_iter().find(fails) {
            Some(less) => snapshot = less,
            None => return snapshot,
        }
    }
}
