//! Who holds the cards of a server, and which ones a service gets (S3, S3a, S3b).

use std::collections::{BTreeMap, BTreeSet};

use super::gpu::GpuRequest;
use super::server::{CardUuid, CheckedCard, ServerCheck};

#[cfg(test)]
mod tests;
pub mod text;

/// What a container is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum ContainerState {
    /// Made, never started.
    Created,
    /// Running.
    Running,
    /// Paused: its processes still hold the cards.
    Paused,
    /// Between two runs.
    Restarting,
    /// Being removed.
    Removing,
    /// Ended.
    Exited,
    /// Broken beyond starting.
    Dead,
}

impl ContainerState {
    /// Reads Docker's word; a word that this version does not know counts as running, which holds cards.
    #[must_use]
    pub fn parse(word: &str) -> Self {
        match word {
            "created" => Self::Created,
            "paused" => Self::Paused,
            "restarting" => Self::Restarting,
            "removing" => Self::Removing,
            "exited" => Self::Exited,
            "dead" => Self::Dead,
            _ => Self::Running,
        }
    }
}

/// One thing by which a container was given cards.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Grant {
    /// All of them: `--gpus all`, `NVIDIA_VISIBLE_DEVICES=all`, CDI `nvidia.com/gpu=all`, a privileged container with the NVIDIA runtime.
    All,
    /// The first so many, by index: `--gpus 2`.
    First(u32),
    /// One, by UUID (whole or its beginning) or by index.
    Id(String),
}

/// A container on the server, as far as cards are concerned.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Container {
    /// Docker's id.
    pub id: String,
    /// Its name, without the leading slash.
    pub name: String,
    /// What it is doing.
    pub state: ContainerState,
    /// The service whose mark it carries; none for a container that Loomplane did not start.
    pub service: Option<String>,
    /// Whether its restart policy may start it again.
    pub restarts: bool,
    /// The cards that it was given.
    pub grants: Vec<Grant>,
}

impl Container {
    /// Whether it holds the cards that it was given (S3a): running, paused and restarting ones do, and those that may be
    /// started again: with our mark, or with a restart policy.
    #[must_use]
    pub fn holds(&self) -> bool {
        match self.state {
            ContainerState::Running | ContainerState::Paused | ContainerState::Restarting => true,
            ContainerState::Created
            | ContainerState::Removing
            | ContainerState::Exited
            | ContainerState::Dead => self.service.is_some() || self.restarts,
        }
    }

    fn has(&self, card: &CheckedCard) -> bool {
        let (Some(uuid), Some(index)) = (&card.uuid, card.index) else {
            return false;
        };
        self.grants.iter().any(|grant| match grant {
            Grant::All => true,
            Grant::First(count) => index < *count,
            Grant::Id(id) => names_card(id, uuid, index),
        })
    }
}

/// Docker and the NVIDIA runtime take an index, a UUID, or the beginning of a UUID.
fn names_card(id: &str, uuid: &CardUuid, index: u32) -> bool {
    let id = id.trim();
    match id.parse::<u32>() {
        Ok(number) => number == index,
        Err(_) => {
            let (id, uuid) = (id.to_ascii_lowercase(), uuid.0.to_ascii_lowercase());
            // `GPU-` alone begins every UUID and names none.
            id.len() > "gpu-".len() && uuid.starts_with(&id)
        }
    }
}

/// A container that holds a card.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Holder {
    /// Container name.
    pub container: String,
    /// The service whose mark it carries.
    pub service: Option<String>,
    /// What it is doing.
    pub state: ContainerState,
}

/// Who holds which card.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Ledger {
    held: BTreeMap<CardUuid, Vec<Holder>>,
}

impl Ledger {
    /// Works out who holds what.
    #[must_use]
    pub fn new(cards: &[CheckedCard], containers: &[Container]) -> Self {
        let mut held: BTreeMap<CardUuid, Vec<Holder>> = BTreeMap::new();
        for card in cards {
            let Some(uuid) = &card.uuid else { continue };
            let holders: Vec<Holder> = containers
                .iter()
                .filter(|container| container.holds() && container.has(card))
                .map(|container| Holder {
                    container: container.name.clone(),
                    service: container.service.clone(),
                    state: container.state,
                })
                .collect();
            if !holders.is_empty() {
                held.insert(uuid.clone(), holders);
            }
        }
        Self { held }
    }

    /// Who holds a card; empty when nobody does.
    #[must_use]
    pub fn holders(&self, uuid: &CardUuid) -> &[Holder] {
        self.held.get(uuid).map_or(&[], Vec::as_slice)
    }
}

/// A service that wants cards of a server.
#[derive(Debug, Clone, Copy)]
pub struct CardAsk<'a> {
    /// What it asks for.
    pub request: GpuRequest,
    /// The service's own name: what its own container holds is not taken.
    pub service: &'a str,
    /// The cards that it has now: kept where they still serve (S5).
    pub keep: &'a [CardUuid],
    /// The most cards that a pool's budget lets go out on this server, and how many of those its other services hold.
    pub budget: Option<Budget>,
}

/// A pool's budget on one server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Budget {
    /// Cards that the pool may hand out.
    pub gpus: u32,
    /// Cards that the pool's other services hold.
    pub handed_out: u32,
}

impl Budget {
    /// What is left of it.
    #[must_use]
    pub fn left(self) -> u32 {
        self.gpus.saturating_sub(self.handed_out)
    }
}

/// The cards that a service gets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Allocation {
    /// Their UUIDs, in the order of the machine.
    pub cards: Vec<CardUuid>,
    /// Those of them that processes outside containers use (S3a): a warning.
    pub used_outside: Vec<CardUuid>,
}

/// Why there are not enough cards.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shortage {
    /// What was asked for.
    pub request: GpuRequest,
    /// Usable cards of the kind, held or not.
    pub usable: u32,
    /// Cards of the kind that can't be used, and other cards, each with its reason or name.
    pub others: Vec<OtherCards>,
    /// How many of the usable ones nobody holds.
    pub free: u32,
    /// Who holds the rest: each holder once, with how many cards.
    pub holders: Vec<(Holder, u32)>,
    /// The pool budget, where that is what is short.
    pub budget: Option<Budget>,
    /// The whole server's reason, when it takes no GPU work at all.
    pub server: Option<super::server::ServerWhy>,
}

/// Cards that do not count for a request.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct OtherCards {
    /// Name as printed.
    pub name: String,
    /// How many.
    pub count: u32,
    /// Why a card of the right kind can't be used; none for a usable card of another kind.
    pub why: Option<super::server::CardWhy>,
}

/// Picks cards for a service at the moment of its deployment (S3).
///
/// First those that it has and keeps, then free ones without processes of their own, last free ones that processes
/// outside containers use; within each, in the machine's order. Two calls with the same facts give the same cards.
///
/// # Errors
/// [`Shortage`], which names the holders.
pub fn allocate(
    check: &ServerCheck,
    ledger: &Ledger,
    ask: CardAsk<'_>,
) -> Result<Allocation, Shortage> {
    let wanted = usize::from(ask.request.count.get());
    let others_hold = |card: &CheckedCard| others(card, ledger, ask.service).next().is_some();
    let mut free: Vec<&CheckedCard> = check
        .usable(ask.request.kind)
        .filter(|card| !others_hold(card))
        .collect();
    let over_budget = ask
        .budget
        .is_some_and(|budget| (budget.left() as usize) < wanted);
    if free.len() < wanted || over_budget {
        return Err(shortage(check, ledger, ask));
    }
    let kept = |card: &CheckedCard| {
        card.uuid
            .as_ref()
            .is_some_and(|uuid| ask.keep.contains(uuid))
    };
    free.sort_by_key(|card| (!kept(card), card.outside_processes > 0, card.index));
    free.truncate(wanted);
    free.sort_by_key(|card| card.index);
    let uuids =
        |cards: &[&CheckedCard]| cards.iter().filter_map(|card| card.uuid.clone()).collect();
    let outside: Vec<&CheckedCard> = free
        .iter()
        .copied()
        .filter(|card| card.outside_processes > 0)
        .collect();
    Ok(Allocation {
        cards: uuids(&free),
        used_outside: uuids(&outside),
    })
}

/// What a plan says of a request for cards (S3b).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CardFit {
    /// There are enough free cards now. Apply decides which.
    Fits {
        /// How many of the free ones would have to be cards that processes outside containers use: a warning when not 0.
        used_outside: u32,
    },
    /// There are enough once Loomplane containers that may be on their way out are gone: a warning that names them.
    FitsOnce {
        /// Who holds what is missing.
        holders: Vec<(Holder, u32)>,
    },
    /// There are not enough.
    TooFew(Shortage),
}

/// Whether a server has the cards for a request, at plan time (S3b).
///
/// `staying` names the services that are known to stay as they are; cards of other Loomplane services may come free in the
/// same run, since Terraform plans in no order. New services of one run are not added up.
#[must_use]
pub fn fit(
    check: &ServerCheck,
    ledger: &Ledger,
    ask: CardAsk<'_>,
    staying: &BTreeSet<String>,
) -> CardFit {
    let wanted = u32::from(ask.request.count.get());
    let (mut quiet, mut used_outside, mut leaving) = (0, 0, 0);
    for card in check.usable(ask.request.kind) {
        let mut holders = others(card, ledger, ask.service).peekable();
        if holders.peek().is_none() {
            if card.outside_processes > 0 {
                used_outside += 1
            } else {
                quiet += 1
            }
        } else if holders.all(|holder| may_leave(holder, staying)) {
            leaving += 1;
        }
    }
    let budget_left = ask.budget.map_or(u32::MAX, Budget::left);
    let free: u32 = quiet + used_outside;
    if wanted <= free && wanted <= budget_left {
        return CardFit::Fits {
            used_outside: wanted.saturating_sub(quiet),
        };
    }
    let within_budget = ask.budget.is_none_or(|budget| wanted <= budget.gpus);
    if wanted <= free + leaving && within_budget {
        let holders = counted_holders(check, ledger, ask, |holder| may_leave(holder, staying));
        return CardFit::FitsOnce { holders };
    }
    CardFit::TooFew(shortage(check, ledger, ask))
}

fn may_leave(holder: &Holder, staying: &BTreeSet<String>) -> bool {
    holder
        .service
        .as_ref()
        .is_some_and(|service| !staying.contains(service))
}

/// Who but the service itself holds a card. A container without our mark that has its name is one that was imported.
fn others<'a>(
    card: &CheckedCard,
    ledger: &'a Ledger,
    service: &'a str,
) -> impl Iterator<Item = &'a Holder> {
    card.uuid
        .as_ref()
        .map_or(&[][..], |uuid| ledger.holders(uuid))
        .iter()
        .filter(move |holder| holder.service.as_deref().unwrap_or(&holder.container) != service)
}

fn counted_holders(
    check: &ServerCheck,
    ledger: &Ledger,
    ask: CardAsk<'_>,
    which: impl Fn(&Holder) -> bool,
) -> Vec<(Holder, u32)> {
    let mut counted: BTreeMap<Holder, u32> = BTreeMap::new();
    for card in check.usable(ask.request.kind) {
        for holder in others(card, ledger, ask.service).filter(|holder| which(holder)) {
            *counted.entry(holder.clone()).or_default() += 1;
        }
    }
    counted.into_iter().collect()
}

fn shortage(check: &ServerCheck, ledger: &Ledger, ask: CardAsk<'_>) -> Shortage {
    let kind = ask.request.kind;
    let usable: Vec<&CheckedCard> = check.usable(kind).collect();
    let free = usable
        .iter()
        .filter(|card| others(card, ledger, ask.service).next().is_none())
        .count();
    let mut groups: BTreeMap<(String, Option<super::server::CardWhy>), u32> = BTreeMap::new();
    for card in &check.cards {
        if card.usable.is_ok() && card.kind == Some(kind) {
            continue;
        }
        *groups
            .entry((card.name.clone(), card.usable.clone().err()))
            .or_default() += 1;
    }
    let count = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
    let wanted = u32::from(ask.request.count.get());
    Shortage {
        request: ask.request,
        usable: count(usable.len()),
        others: groups
            .into_iter()
            .map(|((name, why), count)| OtherCards { name, count, why })
            .collect(),
        free: count(free),
        holders: counted_holders(check, ledger, ask, |_| true),
        budget: ask.budget.filter(|budget| budget.left() < wanted),
        server: check.can_take_gpu_work.clone().err(),
    }
}
