//! The snapshot as the planner sees it: everything numbered, so that one pass is arithmetic on small integers.
//!
//! Pools are numbered by rank from the highest, nodes by name, claims as they come with added replicas at the end.

use std::borrow::Cow;
use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};

use super::replicas;
use crate::capacity::arbiter::snapshot::{Claim, Node, Pool, PoolType, Reason, Snapshot, State};
use crate::capacity::fabric::{BLOCK_SIZES, Cards};

/// No claim, no node.
pub(super) const NONE: u32 = u32::MAX;

/// A claim still stopping this long after its deadline is stuck (rule A11c).
const STUCK_AFTER: SignedDuration = SignedDuration::from_secs(300);

/// A set at one moment.
pub(super) struct Fleet<'a> {
    pub(super) snapshot: &'a Snapshot,
    /// By rank.
    pub(super) pools: Vec<&'a Pool>,
    /// By name.
    pub(super) nodes: Vec<NodeFacts<'a>>,
    pub(super) claims: Vec<ClaimFacts<'a>>,
    /// Claims that hold cards, by pool.
    pub(super) holders: Vec<Vec<u32>>,
    /// Claims that wait, by pool, in the order in which they are considered.
    pub(super) open: Vec<Vec<u32>>,
    /// Block lists; nodes share them.
    pub(super) tables: Vec<Table>,
    /// For each block size, whether some node, ready or not, has a block of it.
    pub(super) fits: [bool; BLOCK_SIZES.len()],
}

/// What stays the same about a node.
pub(super) struct NodeFacts<'a> {
    pub(super) node: &'a Node,
    /// Which block list.
    pub(super) table: u32,
    /// Whether a claim can start here.
    pub(super) usable: bool,
    /// Whether it would be usable if it could be read.
    pub(super) stale: bool,
    /// Whether what runs here counts toward floors.
    pub(super) counts: bool,
}

/// The blocks of a node.
pub(super) struct Table {
    /// By size, then by card numbers.
    pub(super) blocks: Vec<Cards>,
    /// Where the blocks of each size begin, and the end.
    starts: [usize; BLOCK_SIZES.len() + 1],
}

impl Table {
    fn new(blocks: Vec<Cards>) -> Self {
        let mut starts = [blocks.len(); BLOCK_SIZES.len() + 1];
        for (place, size) in BLOCK_SIZES.iter().enumerate() {
            starts[place] = blocks.partition_point(|block| block.len() < *size);
        }
        Self { blocks, starts }
    }

    /// The blocks of the size with this place in [`BLOCK_SIZES`].
    pub(super) fn of_size(&self, size: usize) -> &[Cards] {
        &self.blocks[self.starts[size]..self.starts[size + 1]]
    }
}

/// The place of a block size in [`BLOCK_SIZES`].
pub(super) const fn size_place(gpus: u32) -> usize {
    gpus.trailing_zeros() as usize
}

/// What stays the same about a claim.
pub(super) struct ClaimFacts<'a> {
    pub(super) name: Cow<'a, str>,
    /// The claim of the snapshot; `None` for an added replica.
    pub(super) claim: Option<&'a Claim>,
    pub(super) pool: u32,
    pub(super) gpus: u32,
    pub(super) state: State,
    /// Where it is, or a block is held for it; [`NONE`] for nowhere.
    pub(super) node: u32,
    /// Its cards, or those held for it.
    pub(super) cards: Cards,
    pub(super) requested_at: Timestamp,
    /// The place of its start time, earliest first.
    pub(super) started: u32,
    /// When it started, now where that is unknown.
    pub(super) started_at: Timestamp,
    /// The place of its name.
    pub(super) name_place: u32,
    /// Whether its minimum runtime is not over.
    pub(super) young: bool,
    /// Whether the arbiter may interrupt it.
    pub(super) interruptible: bool,
    /// Whether it is stopping and will not finish.
    pub(super) stuck: bool,
    /// The waiting claim that it was noticed or stopped for; [`NONE`] also where a notice could not be for that claim, which is not of higher rank.
    pub(super) purpose: u32,
}

impl ClaimFacts<'_> {
    pub(super) fn noticed_by_arbiter(&self) -> bool {
        self.claim.is_some_and(Claim::noticed_by_arbiter)
    }

    pub(super) fn reclaimed_by_owner(&self) -> bool {
        self.claim
            .is_some_and(|claim| claim.reason == Some(Reason::RentalReclaim))
    }
}

impl<'a> Fleet<'a> {
    pub(super) fn new(snapshot: &'a Snapshot) -> Self {
        let mut pools: Vec<&Pool> = snapshot.pools.iter().collect();
        pools.sort_by_key(|pool| pool.rank);
        let (nodes, tables) = nodes_of(snapshot);
        let fits = std::array::from_fn(|size| {
            nodes
                .iter()
                .any(|node| !tables[node.table as usize].of_size(size).is_empty())
        });
        let claims = claims_of(snapshot, &pools, &nodes);

        let mut holders = vec![Vec::new(); pools.len()];
        let mut open = vec![Vec::new(); pools.len()];
        for (place, claim) in (0..).zip(&claims) {
            let list = if claim.state == State::Waiting {
                &mut open
            } else {
                &mut holders
            };
            list[claim.pool as usize].push(place);
        }
        for list in &mut open {
            list.sort_unstable_by_key(|claim| order_in_pool(&claims[*claim as usize]));
        }
        Self {
            snapshot,
            pools,
            nodes,
            claims,
            holders,
            open,
            tables,
            fits,
        }
    }

    pub(super) fn claim(&self, claim: u32) -> &ClaimFacts<'a> {
        &self.claims[claim as usize]
    }

    pub(super) fn node(&self, node: u32) -> &NodeFacts<'a> {
        &self.nodes[node as usize]
    }

    /// All blocks of a node.
    pub(super) fn blocks(&self, node: u32) -> &[Cards] {
        &self.tables[self.node(node).table as usize].blocks
    }

    /// The blocks of a node of one size, by card numbers.
    pub(super) fn blocks_of_size(&self, node: u32, size: usize) -> &[Cards] {
        self.tables[self.node(node).table as usize].of_size(size)
    }
}

/// The order in which the claims of a pool are considered: oldest first, then by name (rule A8). Pools come by rank.
fn order_in_pool(claim: &ClaimFacts<'_>) -> (Timestamp, u32) {
    (claim.requested_at, claim.name_place)
}

fn nodes_of(snapshot: &Snapshot) -> (Vec<NodeFacts<'_>>, Vec<Table>) {
    let mut sorted: Vec<&Node> = snapshot.nodes.iter().collect();
    sorted.sort_by(|a, b| a.name.cmp(&b.name));
    let mut tables = Vec::new();
    let mut known = BTreeMap::new();
    let nodes = sorted
        .into_iter()
        .map(|node| NodeFacts {
            table: *known.entry((node.gpus, &node.blocks)).or_insert_with(|| {
                tables.push(Table::new(node.allowed_blocks(&snapshot.set)));
                place(tables.len() - 1)
            }),
            usable: node.takes_work(),
            stale: !node.ready && !node.cordoned && !node.draining,
            counts: node.ready && !node.draining,
            node,
        })
        .collect();
    (nodes, tables)
}

fn claims_of<'a>(
    snapshot: &'a Snapshot,
    pools: &[&Pool],
    nodes: &[NodeFacts<'_>],
) -> Vec<ClaimFacts<'a>> {
    let pool_places: BTreeMap<&str, u32> = (0..)
        .zip(pools)
        .map(|(place, pool)| (pool.name.as_str(), place))
        .collect();
    let node_places: BTreeMap<&str, u32> = (0..)
        .zip(nodes)
        .map(|(place, node)| (node.node.name.as_str(), place))
        .collect();
    let demand = replicas::demand(snapshot);
    let added = demand.added.iter().map(|added| ClaimFacts {
        name: Cow::Owned(added.name.clone()),
        claim: None,
        pool: pool_places.get(added.pool.as_str()).copied().unwrap_or(0),
        gpus: added.gpus,
        state: State::Waiting,
        node: NONE,
        cards: Cards::NONE,
        requested_at: snapshot.now,
        started: 0,
        started_at: snapshot.now,
        name_place: 0,
        young: false,
        interruptible: false,
        stuck: false,
        purpose: NONE,
    });
    let minimum_runtime =
        SignedDuration::from_secs(i64::from(snapshot.set.minimum_runtime_seconds));
    let kept = snapshot
        .claims
        .iter()
        .enumerate()
        .filter(|(place, _)| !demand.dropped.contains(place));
    let mut claims: Vec<ClaimFacts<'_>> = kept
        .map(|(_, claim)| {
            let pool = pool_places.get(claim.pool.as_str()).copied().unwrap_or(0);
            let started_at = claim.started_at.unwrap_or(snapshot.now);
            ClaimFacts {
                name: Cow::Borrowed(claim.name.as_str()),
                claim: Some(claim),
                pool,
                gpus: claim.gpus,
                state: claim.state,
                node: claim
                    .node
                    .as_deref()
                    .and_then(|name| node_places.get(name).copied())
                    .unwrap_or(NONE),
                cards: Cards::of(&claim.cards),
                requested_at: claim.requested_at.unwrap_or(snapshot.now),
                started: 0,
                started_at,
                name_place: 0,
                young: snapshot.now.duration_since(started_at) < minimum_runtime,
                interruptible: pools[pool as usize].kind != PoolType::OnDemand,
                stuck: claim.state == State::Stopping
                    && claim.deadline.is_some_and(|deadline| {
                        snapshot.now.duration_since(deadline) >= STUCK_AFTER
                    }),
                purpose: NONE,
            }
        })
        .chain(added)
        .collect();
    number_names_and_starts(&mut claims);
    claims
}

/// Fills in the places of names and start times, and finds the claims that others were noticed for.
fn number_names_and_starts(claims: &mut [ClaimFacts<'_>]) {
    let mut by_name: Vec<u32> = (0..place(claims.len())).collect();
    by_name.sort_unstable_by(|a, b| claims[*a as usize].name.cmp(&claims[*b as usize].name));
    for (name_place, claim) in (0..).zip(&by_name) {
        claims[*claim as usize].name_place = name_place;
    }
    let mut starts: Vec<Timestamp> = claims.iter().map(|claim| claim.started_at).collect();
    starts.sort_unstable();
    starts.dedup();
    for index in 0..claims.len() {
        claims[index].started =
            place(starts.partition_point(|start| *start < claims[index].started_at));
        let purpose = claims[index]
            .claim
            .filter(|claim| claim.state != State::Waiting)
            .and_then(|claim| claim.purpose.as_deref());
        if let Some(purpose) = purpose
            && let Ok(found) =
                by_name.binary_search_by(|other| claims[*other as usize].name.as_ref().cmp(purpose))
            && claims[by_name[found] as usize].state == State::Waiting
            && (claims[index].state == State::Stopping
                || claims[by_name[found] as usize].pool < claims[index].pool)
        {
            claims[index].purpose = by_name[found];
        }
    }
}

/// A place in a list. No snapshot that fits in memory has four billion entries.
pub(super) fn place(index: usize) -> u32 {
    u32::try_from(index).unwrap_or(NONE)
}
