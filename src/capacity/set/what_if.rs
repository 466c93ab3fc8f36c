//! The same set with one thing changed: one more claim, another rank, floor or ceiling, a drained node.

use std::collections::{BTreeMap, BTreeSet};

use crate::capacity::arbiter::snapshot::{Claim, Item, PoolType, Problem, Snapshot, State};

/// The name of the claim that a what-if adds.
pub const CLAIM: &str = "what-if";

/// What is changed.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct WhatIf {
    /// One more claim: its pool and its GPUs.
    pub claim: Option<(String, u32)>,
    /// Other figures of pools, by name.
    pub pools: BTreeMap<String, Figures>,
    /// Nodes to empty.
    pub drain: BTreeSet<String>,
}

/// Figures of a pool that are changed; `None` leaves one as it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Figures {
    /// Rank.
    pub rank: Option<u32>,
    /// Floor, in GPUs.
    pub floor: Option<u32>,
    /// Ceiling, in GPUs.
    pub ceiling: Option<u32>,
}

impl WhatIf {
    /// The snapshot with the change.
    ///
    /// # Errors
    /// A pool or node that the set does not have. Whether the outcome is valid is for `arbiter::snapshot::validate`.
    pub fn apply(&self, snapshot: &Snapshot) -> Result<Snapshot, Problem> {
        let mut changed = snapshot.clone();
        let names = |snapshot: &Snapshot| {
            let names = snapshot.pools.iter().map(|pool| pool.name.as_str());
            names.collect::<Vec<_>>().join(", ")
        };
        let no_pool = |name: &str| Problem {
            item: Item::Pool(name.to_owned()),
            found: format!("is not in the set, whose pools are {}", names(snapshot)),
        };
        for (name, figures) in &self.pools {
            let pool = changed.pools.iter_mut().find(|pool| pool.name == *name);
            let pool = pool.ok_or_else(|| no_pool(name))?;
            pool.rank = figures.rank.unwrap_or(pool.rank);
            pool.floor = figures.floor.unwrap_or(pool.floor);
            pool.ceiling = figures.ceiling.or(pool.ceiling);
        }
        for name in &self.drain {
            let node = changed.nodes.iter_mut().find(|node| node.name == *name);
            node.ok_or_else(|| Problem {
                item: Item::Node(name.clone()),
                found: "is not in the set".to_owned(),
            })?
            .draining = true;
        }
        if let Some((name, gpus)) = &self.claim {
            let pool = changed.pools.iter_mut().find(|pool| pool.name == *name);
            let pool = pool.ok_or_else(|| no_pool(name))?;
            if pool.kind == PoolType::Inference {
                return Err(Problem {
                    item: Item::Pool(name.clone()),
                    found: "is an inference pool, whose replicas the arbiter sets; ask for a VM of another pool".to_owned(),
                });
            }
            changed.claims.push(Claim {
                name: CLAIM.to_owned(),
                pool: name.clone(),
                gpus: *gpus,
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
        Ok(changed)
    }
}
