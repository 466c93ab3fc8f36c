//! GPU kinds, and what a request for GPUs may ask (rules G1, G2).

use std::fmt;
use std::str::FromStr;

use super::catalog;

mod near;
#[cfg(test)]
mod tests;

/// A GPU kind of the catalogue: exactly the fifteen that Loomplane knows (G1).
///
/// The order is that of the documentation, which is also the order in lists.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// NVIDIA T4.
    T4,
    /// NVIDIA L4.
    L4,
    /// NVIDIA A10.
    A10,
    /// NVIDIA A10G, which only AWS has.
    A10g,
    /// NVIDIA L40S.
    L40s,
    /// NVIDIA RTX 4000 Ada.
    Rtx4000Ada,
    /// NVIDIA RTX 6000 Ada.
    Rtx6000Ada,
    /// NVIDIA V100 with 16 GB.
    V100_16gb,
    /// NVIDIA V100 with 32 GB.
    V100_32gb,
    /// NVIDIA A100 with 40 GB.
    A100_40gb,
    /// NVIDIA A100 with 80 GB.
    A100_80gb,
    /// NVIDIA H100 with 80 GB, SXM5 and PCIe alike.
    H100_80gb,
    /// NVIDIA H100 NVL with 94 GB.
    H100Nvl94gb,
    /// NVIDIA H200 with 141 GB, SXM and NVL alike.
    H200_141gb,
    /// AMD Instinct MI300X: listed and priced, not schedulable yet.
    Mi300x,
}

/// Who makes a GPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Vendor {
    /// NVIDIA: the only vendor whose GPUs Loomplane schedules.
    Nvidia,
    /// AMD.
    Amd,
}

impl Vendor {
    /// Lower-case name, as in kind IDs.
    #[must_use]
    pub fn id(self) -> &'static str {
        match self {
            Self::Nvidia => "nvidia",
            Self::Amd => "amd",
        }
    }
}

impl Kind {
    /// Every kind, in the documentation's order.
    pub const ALL: [Self; 15] = [
        Self::T4,
        Self::L4,
        Self::A10,
        Self::A10g,
        Self::L40s,
        Self::Rtx4000Ada,
        Self::Rtx6000Ada,
        Self::V100_16gb,
        Self::V100_32gb,
        Self::A100_40gb,
        Self::A100_80gb,
        Self::H100_80gb,
        Self::H100Nvl94gb,
        Self::H200_141gb,
        Self::Mi300x,
    ];

    /// The kind ID, such as `nvidia-l4`.
    #[must_use]
    pub fn id(self) -> &'static str {
        match self {
            Self::T4 => "nvidia-t4",
            Self::L4 => "nvidia-l4",
            Self::A10 => "nvidia-a10",
            Self::A10g => "nvidia-a10g",
            Self::L40s => "nvidia-l40s",
            Self::Rtx4000Ada => "nvidia-rtx-4000-ada",
            Self::Rtx6000Ada => "nvidia-rtx-6000-ada",
            Self::V100_16gb => "nvidia-v100-16gb",
            Self::V100_32gb => "nvidia-v100-32gb",
            Self::A100_40gb => "nvidia-a100-40gb",
            Self::A100_80gb => "nvidia-a100-80gb",
            Self::H100_80gb => "nvidia-h100-80gb",
            Self::H100Nvl94gb => "nvidia-h100-nvl-94gb",
            Self::H200_141gb => "nvidia-h200-141gb",
            Self::Mi300x => "amd-mi300x",
        }
    }

    /// The name for people, such as `NVIDIA A100 40GB`.
    #[must_use]
    pub fn display_name(self) -> &'static str {
        match self {
            Self::T4 => "NVIDIA T4",
            Self::L4 => "NVIDIA L4",
            Self::A10 => "NVIDIA A10",
            Self::A10g => "NVIDIA A10G",
            Self::L40s => "NVIDIA L40S",
            Self::Rtx4000Ada => "NVIDIA RTX 4000 Ada",
            Self::Rtx6000Ada => "NVIDIA RTX 6000 Ada",
            Self::V100_16gb => "NVIDIA V100 16GB",
            Self::V100_32gb => "NVIDIA V100 32GB",
            Self::A100_40gb => "NVIDIA A100 40GB",
            Self::A100_80gb => "NVIDIA A100 80GB",
            Self::H100_80gb => "NVIDIA H100 80GB",
            Self::H100Nvl94gb => "NVIDIA H100 NVL 94GB",
            Self::H200_141gb => "NVIDIA H200 141GB",
            Self::Mi300x => "AMD Instinct MI300X",
        }
    }

    /// Nominal memory of one card, in MiB (vendor data sheets; what `nvidia-smi` prints is a little less).
    #[must_use]
    pub fn memory_mib(self) -> u64 {
        match self {
            Self::T4 | Self::V100_16gb => 16_384,
            Self::L4 | Self::A10 | Self::A10g => 24_576,
            Self::Rtx4000Ada => 20_480,
            Self::L40s | Self::Rtx6000Ada => 49_152,
            Self::V100_32gb => 32_768,
            Self::A100_40gb => 40_960,
            Self::A100_80gb | Self::H100_80gb => 81_920,
            Self::H100Nvl94gb => 96_256,
            Self::H200_141gb => 144_384,
            Self::Mi300x => 196_608,
        }
    }

    /// Smallest and largest total memory, in MiB, that `nvidia-smi` prints for a whole card of this kind, over drivers and
    /// ECC settings. They tell a look-alike card, not a driver version. None for AMD, which `nvidia-smi` never prints.
    #[must_use]
    pub fn reported_memory_mib(self) -> Option<(u64, u64)> {
        let least = match self {
            Self::T4 => 14_900,
            Self::L4 | Self::A10 => 22_400,
            Self::A10g => 22_300,
            Self::L40s => 45_000,
            Self::Rtx4000Ada => 19_000,
            Self::Rtx6000Ada => 45_500,
            Self::V100_16gb => 15_900,
            Self::V100_32gb => 32_000,
            Self::A100_40gb => 40_300,
            Self::A100_80gb | Self::H100_80gb => 80_900,
            Self::H100Nvl94gb => 95_000,
            Self::H200_141gb => 143_000,
            Self::Mi300x => return None,
        };
        Some((least, self.memory_mib()))
    }

    /// Who makes it.
    #[must_use]
    pub fn vendor(self) -> Vendor {
        match self {
            Self::Mi300x => Vendor::Amd,
            _ => Vendor::Nvidia,
        }
    }

    /// Whether Loomplane can place work on it (G2: NVIDIA only).
    #[must_use]
    pub fn schedulable(self) -> bool {
        self.vendor() == Vendor::Nvidia
    }

    /// Whether the card can be split into MIG slices.
    #[must_use]
    pub fn can_mig(self) -> bool {
        matches!(
            self,
            Self::A100_40gb
                | Self::A100_80gb
                | Self::H100_80gb
                | Self::H100Nvl94gb
                | Self::H200_141gb
        )
    }

    /// The kinds whose IDs or known names come nearest to `text`, best first, at most three.
    #[must_use]
    pub fn nearest(text: &str) -> Vec<Self> {
        near::nearest(text)
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.id())
    }
}

/// A kind ID that is not one of the fifteen.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is not a GPU kind that Loomplane knows. Nearest known: {}. data.loomplane_gpu_kinds lists all of them.", ids(.nearest, ", "))]
pub struct UnknownKind {
    /// What was asked for.
    pub text: String,
    /// The nearest known kinds, best first.
    pub nearest: Vec<Kind>,
}

impl FromStr for Kind {
    type Err = UnknownKind;

    /// Reads a kind ID, exactly as it is spelled: an ID is a name in a configuration, not a description.
    fn from_str(text: &str) -> Result<Self, UnknownKind> {
        Self::ALL
            .into_iter()
            .find(|kind| kind.id() == text)
            .ok_or_else(|| UnknownKind {
                text: text.to_owned(),
                nearest: Self::nearest(text),
            })
    }
}

fn ids(kinds: &[Kind], between: &str) -> String {
    kinds
        .iter()
        .map(|kind| kind.id())
        .collect::<Vec<_>>()
        .join(between)
}

/// Why a text names no kind.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum KindTextError {
    /// Nothing, or only blanks.
    #[error(
        "an empty text names no GPU kind: give a node label value, a name that nvidia-smi prints, or a kind ID"
    )]
    Empty,
    /// The text is known, and stands for several kinds.
    #[error("{text:?} can mean {}: it does not say how much memory the card has. Write the kind ID that you mean.", ids(.kinds, " or "))]
    Ambiguous {
        /// The text.
        text: String,
        /// What it can mean.
        kinds: Vec<Kind>,
    },
    /// A GPU that is known to be none of the kinds, for example NVIDIA B200.
    #[error("{text:?} is a GPU, but none of the kinds that Loomplane knows. Nearest known: {}; they are other cards.", ids(.nearest, ", "))]
    OtherGpu {
        /// The text.
        text: String,
        /// The nearest known kinds.
        nearest: Vec<Kind>,
    },
    /// Not known at all.
    #[error("{text:?} is no label value, nvidia-smi name or kind ID that Loomplane knows. Nearest known: {}. Names are compared whole, never by their beginning.", ids(.nearest, ", "))]
    Unknown {
        /// The text.
        text: String,
        /// The nearest known kinds.
        nearest: Vec<Kind>,
    },
}

/// The kind that a label value, a name printed by `nvidia-smi` or a kind ID stands for: the function `gpu_kind(text)`.
///
/// The whole text is compared, without regard to case, never a beginning of it: `NVIDIA-H100` is a card with 94 GB, not
/// the start of `NVIDIA-H100-PCIe`. A shared or sliced card's label still names the kind of the card.
///
/// # Errors
/// [`KindTextError`], with the nearest kinds.
pub fn kind_of_text(text: &str) -> Result<Kind, KindTextError> {
    let trimmed = text.trim();
    if trimmed.is_empty() {
        return Err(KindTextError::Empty);
    }
    let lower = trimmed.to_ascii_lowercase();
    if let Some(kind) = Kind::ALL.into_iter().find(|kind| kind.id() == lower) {
        return Ok(kind);
    }
    let kinds = catalog::get().kinds_of_name(&lower);
    match kinds.as_deref() {
        Some([kind]) => Ok(*kind),
        Some([]) => Err(KindTextError::OtherGpu {
            text: trimmed.to_owned(),
            nearest: Kind::nearest(trimmed),
        }),
        Some(several) => Err(KindTextError::Ambiguous {
            text: trimmed.to_owned(),
            kinds: several.to_vec(),
        }),
        None => Err(KindTextError::Unknown {
            text: trimmed.to_owned(),
            nearest: Kind::nearest(trimmed),
        }),
    }
}

/// How many GPUs one replica asks for: 1 to 8 (G2), all on one machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GpuCount(u8);

impl GpuCount {
    /// Fewest.
    pub const MIN: u8 = 1;
    /// Most.
    pub const MAX: u8 = 8;

    /// The number.
    #[must_use]
    pub fn get(self) -> u8 {
        self.0
    }
}

impl fmt::Display for GpuCount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

impl TryFrom<i64> for GpuCount {
    type Error = RequestError;

    fn try_from(count: i64) -> Result<Self, RequestError> {
        match u8::try_from(count) {
            Ok(small) if (Self::MIN..=Self::MAX).contains(&small) => Ok(Self(small)),
            _ => Err(RequestError::Count { count }),
        }
    }
}

/// A request for GPUs: so many whole cards of one kind, on one machine, for each replica.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GpuRequest {
    /// Which kind.
    pub kind: Kind,
    /// How many.
    pub count: GpuCount,
}

impl GpuRequest {
    /// Checks a request as it is written in a configuration.
    ///
    /// # Errors
    /// An unknown kind (G1), a count outside 1 to 8, a kind that can't be scheduled (G2).
    pub fn parse(kind: &str, count: i64) -> Result<Self, RequestError> {
        let kind = Kind::from_str(kind)?;
        let count = GpuCount::try_from(count)?;
        if !kind.schedulable() {
            return Err(RequestError::NotSchedulable { kind });
        }
        Ok(Self { kind, count })
    }
}

impl fmt::Display for GpuRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} x {}", self.count, self.kind)
    }
}

/// Why a GPU request can't be made at all, whatever the target.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RequestError {
    /// `size.gpu.kind` is no known kind.
    #[error(transparent)]
    Kind(#[from] UnknownKind),
    /// `size.gpu.count` is out of range.
    #[error(
        "asked for {count} GPUs: size.gpu.count runs from 1 to 8, all on one machine. For more, raise replicas."
    )]
    Count {
        /// What was asked for.
        count: i64,
    },
    /// The kind is listed and priced only.
    #[error("{kind} ({}) is listed and priced, but Loomplane can't schedule it yet: only NVIDIA kinds can be asked for. data.loomplane_gpu_kinds says which.", .kind.display_name())]
    NotSchedulable {
        /// The kind.
        kind: Kind,
    },
}
