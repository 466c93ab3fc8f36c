//! From workloads to claims, and to a snapshot that can be planned on. What can't be used is left out and said, never guessed silently.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;

use super::{Definition, Observed, Phase, Refused, Workload, marks, members};
use crate::capacity::arbiter::snapshot::{Claim, Node, Reason, Snapshot, State};
use crate::capacity::fabric::Cards;

/// What can be planned on, and what was not clear on the way.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Assembled {
    /// For the planner. It has yet to pass `arbiter::snapshot::validate`: a definition can break A3.
    pub snapshot: Snapshot,
    /// Nodes that do not fit.
    pub refused: Vec<Refused>,
    /// What was left out or assumed, one sentence each.
    pub notes: Vec<String>,
}

/// Puts a snapshot together.
#[must_use]
pub fn assemble(definition: &Definition, observed: &Observed, now: Timestamp) -> Assembled {
    let (nodes, refused) = members(definition, &observed.nodes, &observed.others);
    let mut table = Table {
        definition,
        taken: nodes
            .iter()
            .map(|node| (node.name.clone(), Cards::NONE))
            .collect(),
        nodes,
        notes: Vec::new(),
    };
    let mut workloads: Vec<&Workload> = observed.members.iter().collect();
    workloads.sort_by_key(|workload| workload.claim_name());
    let mut claims = Vec::new();
    let mut unplaced = Vec::new();
    for workload in workloads {
        let Some(claim) = table.claim(workload, now) else {
            continue;
        };
        if claim.state == State::Waiting || table.hold(&claim) {
            claims.push(claim);
        } else {
            unplaced.push(claim);
        }
    }
    // Cards that are known are taken first; whoever does not say which it has gets what is left.
    for mut claim in unplaced {
        if table.assume(&mut claim) {
            claims.push(claim);
        }
    }
    table.strangers(&observed.strangers);
    table.holds(&mut claims);
    claims.sort_by(|a, b| a.name.cmp(&b.name));
    Assembled {
        snapshot: Snapshot {
            now,
            set: definition.set.clone(),
            pools: definition.pools.clone(),
            nodes: table.nodes,
            claims,
        },
        refused,
        notes: table.notes,
    }
}

/// Nodes with the cards that are taken.
struct Table<'a> {
    definition: &'a Definition,
    nodes: Vec<Node>,
    taken: BTreeMap<String, Cards>,
    notes: Vec<String>,
}

impl Table<'_> {
    /// A workload as a claim; its cards are as it says them, and may be missing.
    fn claim(&mut self, workload: &Workload, now: Timestamp) -> Option<Claim> {
        let name = workload.claim_name();
        if !self
            .definition
            .pools
            .iter()
            .any(|pool| pool.name == workload.pool)
        {
            self.notes.push(format!(
                "{name} is left out: it names pool {:?}, which the set does not have (label {})",
                workload.pool,
                marks::POOL
            ));
            return None;
        }
        if !self.definition.set.fabric.sizes().contains(&workload.gpus) {
            self.notes.push(format!(
                "{name} is left out: it asks for {} GPUs, but {}",
                workload.gpus,
                self.definition.set.fabric.sizes_in_words()
            ));
            if workload.phase == Phase::Waiting {
                return None;
            }
        }
        let mark = |key: &str| workload.annotations.get(key).map(String::as_str);
        let cards = match mark(marks::CARDS).map(parse_cards) {
            None => Vec::new(),
            Some(Some(cards)) => cards,
            Some(None) => {
                self.notes.push(format!(
                    "{name}: annotation {} is {:?}, which is no list of card numbers such as 0,1",
                    marks::CARDS,
                    mark(marks::CARDS).unwrap_or_default()
                ));
                Vec::new()
            }
        };
        let notes = &mut self.notes;
        let mut time = |key: &str| {
            let text = workload.annotations.get(key)?;
            let parsed = text.parse::<Timestamp>().ok();
            if parsed.is_none() {
                notes.push(format!(
                    "{name}: annotation {key} is {text:?}, which is no RFC 3339 time"
                ));
            }
            parsed
        };
        let requested_at = time(marks::REQUESTED_AT)
            .or(workload.created_at)
            .unwrap_or(now);
        let started_at = time(marks::STARTED_AT).or(workload.started_at);
        let deadline = time(marks::DEADLINE);
        let reason = match mark(marks::REASON) {
            Some("drain") => Reason::Drain,
            Some("rental_reclaim") => Reason::RentalReclaim,
            _ => Reason::ArbiterStop,
        };
        let state = match (workload.phase, deadline) {
            (Phase::Waiting, _) => State::Waiting,
            (Phase::Stopping, _) => State::Stopping,
            (Phase::Running, Some(_)) => State::Noticed,
            (Phase::Running, None) => State::Running,
        };
        let noticed = matches!(state, State::Noticed | State::Stopping);
        Some(Claim {
            pool: workload.pool.clone(),
            gpus: workload.gpus,
            state,
            // Where Kubernetes has it counts before where it was meant to be.
            node: workload
                .node
                .clone()
                .or_else(|| mark(marks::NODE).map(str::to_owned)),
            cards,
            requested_at: Some(requested_at),
            started_at: started_at.filter(|_| state != State::Waiting),
            deadline: deadline.filter(|_| noticed),
            reason: (noticed && deadline.is_some()).then_some(reason),
            purpose: mark(marks::FOR).filter(|_| noticed).map(str::to_owned),
            name,
        })
    }

    fn node(&self, name: Option<&str>) -> Option<&Node> {
        self.nodes
            .iter()
            .find(|node| Some(node.name.as_str()) == name)
    }

    /// Takes the cards that a claim says it has; false when it says none, or others have them.
    fn hold(&mut self, claim: &Claim) -> bool {
        let Some(node) = self.node(claim.node.as_deref()) else {
            return false;
        };
        let there = claim.cards.iter().all(|card| *card < node.gpus);
        let name = node.name.clone();
        if claim.cards.is_empty() || !there {
            return false;
        }
        let cards = Cards::of(&claim.cards);
        let Some(taken) = self.taken.get_mut(&name) else {
            return false;
        };
        if cards.len() != claim.gpus || cards.0 & taken.0 != 0 {
            return false;
        }
        taken.0 |= cards.0;
        true
    }

    /// Gives a claim that runs, and does not say on which cards, the smallest free block that it could have.
    fn assume(&mut self, claim: &mut Claim) -> bool {
        let Some(node) = self.node(claim.node.as_deref()) else {
            self.notes.push(format!(
                "{} is left out: it runs on {}, which is not in the set",
                claim.name,
                claim
                    .node
                    .as_deref()
                    .unwrap_or("a node that it does not name")
            ));
            return false;
        };
        let name = node.name.clone();
        let blocks = node.allowed_blocks(&self.definition.set);
        let Some(cards) = choose(
            &blocks,
            node.gpus,
            self.taken.get(&name).copied(),
            claim.gpus,
        ) else {
            self.notes.push(format!(
                "nothing is planned on {name}: more GPUs are in use there than it has, {} among the users",
                claim.name
            ));
            self.not_ready(&name);
            return false;
        };
        let said = if claim.cards.is_empty() {
            "does not say which cards it has".to_owned()
        } else {
            format!(
                "says cards {}, which others have or the node has not",
                super::outcome::numbers(&claim.cards)
            )
        };
        self.notes.push(format!(
            "{} {said} (annotation {}): cards {} of {name} are assumed",
            claim.name,
            marks::CARDS,
            super::outcome::numbers(&cards.numbers().collect::<Vec<_>>())
        ));
        claim.cards = cards.numbers().collect();
        if let Some(taken) = self.taken.get_mut(&name) {
            taken.0 |= cards.0;
        }
        // A size that the fabric does not have is no claim, but its cards are taken.
        if self.definition.set.fabric.sizes().contains(&claim.gpus) {
            return true;
        }
        self.close(&name, cards);
        false
    }

    /// GPUs on the set's nodes that workloads outside the set have: no block with them can be handed out.
    fn strangers(&mut self, strangers: &[Workload]) {
        for stranger in strangers.iter().filter(|stranger| stranger.gpus > 0) {
            let Some(node) = self.node(stranger.node.as_deref()) else {
                continue;
            };
            let (name, gpus) = (node.name.clone(), node.gpus);
            let blocks = node.allowed_blocks(&self.definition.set);
            let taken = self.taken.get(&name).copied();
            let Some(cards) = choose(&blocks, gpus, taken, stranger.gpus) else {
                self.notes.push(format!(
                    "nothing is planned on {name}: {} has GPUs there, and is not in the set",
                    stranger.claim_name()
                ));
                self.not_ready(&name);
                continue;
            };
            self.notes.push(format!(
                "{} has {} of {name} and is not in the set: cards {} are assumed to be taken",
                stranger.claim_name(),
                super::outcome::gpus(stranger.gpus),
                super::outcome::numbers(&cards.numbers().collect::<Vec<_>>())
            ));
            if let Some(taken) = self.taken.get_mut(&name) {
                taken.0 |= cards.0;
            }
            self.close(&name, cards);
        }
    }

    /// Takes blocks with these cards out of what the node can hand out.
    fn close(&mut self, name: &str, cards: Cards) {
        let set = &self.definition.set;
        for node in self.nodes.iter_mut().filter(|node| node.name == name) {
            let open = node.allowed_blocks(set).into_iter();
            let open = open.filter(|block| block.0 & cards.0 == 0);
            node.blocks = Some(open.map(|block| block.numbers().collect()).collect());
        }
    }

    fn not_ready(&mut self, name: &str) {
        for node in self.nodes.iter_mut().filter(|node| node.name == name) {
            node.ready = false;
        }
    }

    /// A hold on what is not there is no hold (A11a): the claim waits without it.
    fn holds(&mut self, claims: &mut [Claim]) {
        for claim in claims
            .iter_mut()
            .filter(|claim| claim.state == State::Waiting)
        {
            let legal = self.node(claim.node.as_deref()).is_some_and(|node| {
                let unique: BTreeSet<_> = claim.cards.iter().collect();
                claim.cards.iter().all(|card| *card < node.gpus)
                    && unique.len() == claim.cards.len()
                    && claim.cards.len() == claim.gpus as usize
            });
            if !legal {
                claim.node = None;
                claim.cards.clear();
            }
        }
    }
}

/// The smallest set of free cards of this number: a block where there is one, within the smallest free block around it.
fn choose(blocks: &[Cards], gpus: u32, taken: Option<Cards>, wanted: u32) -> Option<Cards> {
    let taken = taken.unwrap_or(Cards::NONE);
    let free: Vec<Cards> = blocks
        .iter()
        .copied()
        .filter(|block| block.0 & taken.0 == 0)
        .collect();
    let around = |cards: Cards| {
        let sizes = free
            .iter()
            .filter(|block| cards.within(**block))
            .map(|block| block.len());
        sizes.max().unwrap_or_default()
    };
    let fitting = free.iter().copied().filter(|block| block.len() == wanted);
    fitting
        .min_by_key(|block| (around(*block), *block))
        .or_else(|| {
            let loose: Vec<u32> = Cards::first(gpus)
                .numbers()
                .filter(|card| taken.0 & (1 << card) == 0)
                .take(wanted as usize)
                .collect();
            (loose.len() == wanted as usize).then(|| Cards::of(&loose))
        })
}

fn parse_cards(text: &str) -> Option<Vec<u32>> {
    let cards: Option<Vec<u32>> = text
        .split(',')
        .map(|card| card.trim().parse().ok())
        .collect();
    let mut cards = cards.filter(|cards| !cards.is_empty())?;
    cards.sort_unstable();
    Some(cards)
}
