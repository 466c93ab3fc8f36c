//! What an own server has: cards, which of them can be used, and if the server can't take GPU work, why (S1, S2).
//!
//! An adapter fills [`ServerFacts`] from one look at the machine; [`check`] judges them. Texts are in [`text`].

use std::fmt;

use super::catalog;
use super::gpu::Kind;

pub mod failure;
#[cfg(test)]
pub(crate) mod tests;
pub mod text;

pub use failure::{SmiFailure, has_no_value};

/// The UUID of a card, such as `GPU-5f3c...`: the only name of a card that does not change (S3).
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CardUuid(pub String);

impl fmt::Display for CardUuid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// `mig.mode.current`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum MigMode {
    /// `Disabled`: the card is whole.
    Off,
    /// `Enabled`: the card is split into slices, or waits to be.
    On,
    /// `[N/A]` and its older spellings: the card has no MIG.
    NotSupported,
}

impl MigMode {
    /// Reads the field; anything that is neither `Enabled` nor `Disabled` is no MIG.
    #[must_use]
    pub fn parse(text: &str) -> Self {
        match text.trim() {
            "Enabled" => Self::On,
            "Disabled" => Self::Off,
            _ => Self::NotSupported,
        }
    }
}

/// `compute_mode`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum ComputeMode {
    /// `Default`: any number of processes.
    Default,
    /// `Exclusive_Process`: one process, which one container is enough for.
    ExclusiveProcess,
    /// `Prohibited`: no CUDA at all.
    Prohibited,
    /// The field has no value on this card or driver.
    Unknown,
}

impl ComputeMode {
    /// Reads the field.
    #[must_use]
    pub fn parse(text: &str) -> Self {
        match text.trim() {
            "Default" => Self::Default,
            "Exclusive_Process" | "Exclusive_Thread" => Self::ExclusiveProcess,
            "Prohibited" => Self::Prohibited,
            _ => Self::Unknown,
        }
    }
}

/// One card that `nvidia-smi` listed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Card {
    /// `uuid`.
    pub uuid: CardUuid,
    /// `index`: PCI order now; it shifts when a card dies, so it orders and never names.
    pub index: u32,
    /// `name`, as printed.
    pub name: String,
    /// `memory.total` in MiB; none when it has no value.
    pub memory_mib: Option<u64>,
    /// `mig.mode.current`.
    pub mig: MigMode,
    /// `compute_mode`.
    pub compute_mode: ComputeMode,
    /// `pci.bus_id`, as printed.
    pub bus_id: String,
    /// What `nvidia-smi` said is wrong with this card, such as `GPU is lost`.
    pub fault: Option<String>,
    /// Processes on the card that run outside containers.
    pub outside_processes: u32,
}

/// An NVIDIA card on the PCI bus (class 0300 or 0302), whatever the driver says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PciCard {
    /// Address, such as `0000:3b:00.0`.
    pub address: String,
    /// The bound kernel driver: `nvidia`, `nouveau`, `vfio-pci`; none when unbound.
    pub driver: Option<String>,
}

/// What came of running `nvidia-smi`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NvidiaSmi {
    /// It listed cards, perhaps none, perhaps with a complaint about one of them.
    Answered {
        /// `driver_version`.
        driver_version: String,
        /// The cards, in its order.
        cards: Vec<Card>,
    },
    /// It did not.
    Failed {
        /// All that it printed, on either stream.
        output: String,
        /// Its exit code; 127 when there is no such command.
        exit_code: i32,
    },
}

/// Whether Docker can hand GPUs to a container.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DockerGpus {
    /// It can.
    Reachable,
    /// Docker answers and can't reach the GPUs: the toolkit is missing, or Docker was not restarted.
    NotReachable {
        /// What Docker said, on one line.
        message: String,
    },
    /// There is no Docker Engine, or it does not run.
    NoEngine {
        /// What was tried and what came of it.
        message: String,
    },
    /// The user may not talk to the Docker Engine.
    Denied {
        /// What was tried and what came of it.
        message: String,
    },
}

/// One look at a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerFacts {
    /// What `uname -m` prints.
    pub arch: String,
    /// NVIDIA cards on the PCI bus.
    pub pci: Vec<PciCard>,
    /// What `nvidia-smi` said.
    pub nvidia_smi: NvidiaSmi,
    /// What Docker said.
    pub docker: DockerGpus,
}

/// Why a card can't be used for a whole-GPU request.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum CardWhy {
    /// MIG is on: slices are not whole GPUs (K7 holds on servers too).
    Mig,
    /// The card is a vGPU profile.
    Vgpu,
    /// The card is none of the known kinds.
    UnknownKind,
    /// The name is that of a known kind, the memory is not.
    OtherMemory {
        /// The kind that the name suggests.
        kind: Kind,
        /// What the card has, in MiB.
        found_mib: u64,
    },
    /// The kind is listed and priced only (G2).
    NotSchedulable,
    /// The compute mode prohibits CUDA.
    Prohibited,
    /// `nvidia-smi` reports a fault.
    Fault(String),
    /// On the PCI bus, and not in the list of `nvidia-smi`.
    NotListed {
        /// The kernel driver that has it.
        driver: Option<String>,
    },
}

/// A card, judged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CheckedCard {
    /// UUID; none for a card that `nvidia-smi` does not list.
    pub uuid: Option<CardUuid>,
    /// Index in the list of `nvidia-smi`; none like `uuid`.
    pub index: Option<u32>,
    /// Name as printed, or the PCI address.
    pub name: String,
    /// The kind, where the card is known.
    pub kind: Option<Kind>,
    /// Memory in MiB, as printed.
    pub memory_mib: Option<u64>,
    /// Whether a container may get it; if not, why.
    pub usable: Result<(), CardWhy>,
    /// Processes on the card that run outside containers.
    pub outside_processes: u32,
}

/// Why a server can't take GPU work.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ServerWhy {
    /// Not amd64 (G4).
    Arch(String),
    /// No NVIDIA card at all.
    NoCard,
    /// There is a card and `nvidia-smi` does not answer.
    Driver(SmiFailure),
    /// No Docker Engine.
    NoEngine(String),
    /// The user may not use Docker.
    Denied(String),
    /// Docker can't reach the GPUs.
    Toolkit(String),
    /// Every card has a reason of its own.
    NoUsableCard(Vec<(String, CardWhy)>),
}

/// A server, judged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerCheck {
    /// Whether one whole card is usable; if not, why.
    pub can_take_gpu_work: Result<(), ServerWhy>,
    /// Every physical card: listed ones first, in the order of `nvidia-smi`, then those that are lost.
    pub cards: Vec<CheckedCard>,
    /// Driver version, where `nvidia-smi` answered.
    pub driver_version: Option<String>,
}

impl ServerCheck {
    /// Physical cards: usable, lost and MIG ones alike. A price is shared among all of them (P5).
    #[must_use]
    pub fn physical_cards(&self) -> u32 {
        u32::try_from(self.cards.len()).unwrap_or(u32::MAX)
    }

    /// The cards that a request for `kind` may get, held or not.
    pub fn usable(&self, kind: Kind) -> impl Iterator<Item = &CheckedCard> {
        let takes_work = self.can_take_gpu_work.is_ok();
        self.cards
            .iter()
            .filter(move |card| takes_work && card.usable.is_ok() && card.kind == Some(kind))
    }
}

/// Whether a `uname -m` or Kubernetes architecture can run GPU work (G4).
#[must_use]
pub fn arch_runs_gpus(arch: &str) -> bool {
    matches!(arch.trim(), "x86_64" | "amd64")
}

/// The kind of a card, from its name and its memory in MiB.
///
/// # Errors
/// A vGPU profile, a card that is none of ours, or a name whose memory does not fit.
pub fn kind_of_card(name: &str, memory_mib: Option<u64>) -> Result<Kind, CardWhy> {
    let Some(card) = catalog::get().card_name(name) else {
        return Err(unlisted(name));
    };
    if !card.whole {
        return Err(CardWhy::Vgpu);
    }
    let kind = card.kind.ok_or(CardWhy::UnknownKind)?;
    if let (Some((least, most)), Some(found_mib)) = (kind.reported_memory_mib(), memory_mib)
        && !(least..=most).contains(&found_mib)
    {
        return Err(CardWhy::OtherMemory { kind, found_mib });
    }
    Ok(kind)
}

/// A name that is not in the tables: a vGPU profile of some card (`...-12Q`), or an unknown card.
fn unlisted(name: &str) -> CardWhy {
    if super::label::is_vgpu_name(name) {
        CardWhy::Vgpu
    } else {
        CardWhy::UnknownKind
    }
}

/// Judges what one look at a server found.
#[must_use]
pub fn check(facts: &ServerFacts) -> ServerCheck {
    let (listed, driver_version, failure): (&[Card], _, _) = match &facts.nvidia_smi {
        NvidiaSmi::Answered {
            driver_version,
            cards,
        } => (cards, Some(driver_version.clone()), None),
        NvidiaSmi::Failed { output, exit_code } => {
            (&[], None, Some(failure::classify(output, *exit_code)))
        }
    };
    let mut cards: Vec<CheckedCard> = listed.iter().map(check_card).collect();
    cards.extend(not_listed(&facts.pci, listed));

    let can_take_gpu_work = verdict(facts, failure, &cards);
    ServerCheck {
        can_take_gpu_work,
        cards,
        driver_version,
    }
}

fn check_card(card: &Card) -> CheckedCard {
    let kind = kind_of_card(&card.name, card.memory_mib);
    let named = catalog::get()
        .card_name(&card.name)
        .and_then(|known| known.kind);
    let usable = match (&card.fault, &kind) {
        (Some(fault), _) => Err(CardWhy::Fault(fault.clone())),
        (None, _) if card.mig == MigMode::On => Err(CardWhy::Mig),
        (None, Err(why)) => Err(why.clone()),
        (None, Ok(kind)) if !kind.schedulable() => Err(CardWhy::NotSchedulable),
        (None, Ok(_)) if card.compute_mode == ComputeMode::Prohibited => Err(CardWhy::Prohibited),
        (None, Ok(_)) => Ok(()),
    };
    CheckedCard {
        uuid: Some(card.uuid.clone()),
        index: Some(card.index),
        name: card.name.clone(),
        // A card with another memory than its name's kind is not that kind; a vGPU profile names its card's.
        kind: if matches!(kind, Err(CardWhy::OtherMemory { .. })) {
            None
        } else {
            kind.ok().or(named)
        },
        memory_mib: card.memory_mib,
        usable,
        outside_processes: card.outside_processes,
    }
}

/// Cards of the PCI bus that `nvidia-smi` does not list: it lists them by bus id, with a longer domain.
fn not_listed<'a>(
    pci: &'a [PciCard],
    listed: &'a [Card],
) -> impl Iterator<Item = CheckedCard> + 'a {
    let is_listed = move |found: &&PciCard| {
        listed
            .iter()
            .any(|card| same_address(&card.bus_id, &found.address))
    };
    pci.iter()
        .filter(move |found| !is_listed(found))
        .map(|found| CheckedCard {
            uuid: None,
            index: None,
            name: format!("NVIDIA card at {}", found.address),
            kind: None,
            memory_mib: None,
            usable: Err(CardWhy::NotListed {
                driver: found.driver.clone(),
            }),
            outside_processes: 0,
        })
}

/// `00000000:3B:00.0` (nvidia-smi) and `0000:3b:00.0` (sysfs) are one address.
fn same_address(left: &str, right: &str) -> bool {
    fn short(address: &str) -> String {
        let lower = address.trim().to_ascii_lowercase();
        match lower.split_once(':') {
            Some((domain, rest)) if rest.contains(':') => {
                format!("{}:{rest}", domain.trim_start_matches('0'))
            }
            // Without a domain, it is domain 0.
            _ => format!(":{lower}"),
        }
    }
    short(left) == short(right)
}

fn verdict(
    facts: &ServerFacts,
    failure: Option<SmiFailure>,
    cards: &[CheckedCard],
) -> Result<(), ServerWhy> {
    if let Some(failure) = failure {
        // A missing command on a machine without a card is a machine without a card.
        return Err(if facts.pci.is_empty() && failure.may_mean_no_card() {
            ServerWhy::NoCard
        } else if !arch_runs_gpus(&facts.arch) {
            ServerWhy::Arch(facts.arch.clone())
        } else {
            ServerWhy::Driver(failure)
        });
    }
    if cards.is_empty() {
        return Err(ServerWhy::NoCard);
    }
    if !arch_runs_gpus(&facts.arch) {
        return Err(ServerWhy::Arch(facts.arch.clone()));
    }
    if cards.iter().all(|card| card.uuid.is_none()) {
        return Err(ServerWhy::Driver(SmiFailure::NoDevices));
    }
    match &facts.docker {
        DockerGpus::Reachable => {}
        DockerGpus::NotReachable { message } => return Err(ServerWhy::Toolkit(message.clone())),
        DockerGpus::NoEngine { message } => return Err(ServerWhy::NoEngine(message.clone())),
        DockerGpus::Denied { message } => return Err(ServerWhy::Denied(message.clone())),
    }
    if cards.iter().any(|card| card.usable.is_ok()) {
        return Ok(());
    }
    Err(ServerWhy::NoUsableCard(
        cards
            .iter()
            .filter_map(|card| Some((card.name.clone(), card.usable.clone().err()?)))
            .collect(),
    ))
}
