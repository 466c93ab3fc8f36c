//! Which sets of cards of one node a fabric can hand out together (rule A2 of capacity sets).
//!
//! The sets are data per board generation, and anything but "aligned neighbors" on some boards: an HGX H100 pairs cards 0 and 2.
//! `fabric/partitions.csv` holds the vendor's tables (NVIDIA Fabric Manager user guide v2.3 of 2025-03-04) with 1-based
//! module numbers; the tables here are the same with 0-based card numbers, and a test holds the two together.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The most cards that one node may have: a set of cards is one machine word. The largest boxes sold have 16.
pub const MAX_CARDS: u32 = 64;

/// The block sizes of an NVSwitch fabric, in GPUs.
pub const BLOCK_SIZES: [u32; 4] = [1, 2, 4, 8];

/// How the cards of a node are wired together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Fabric {
    /// No partitionable link between cards: single cards only.
    Pcie,
    /// NVSwitch: blocks of 1, 2, 4 or 8 cards.
    Nvswitch,
}

impl Fabric {
    /// The sizes of block, in GPUs, that a claim may ask for.
    #[must_use]
    pub const fn sizes(self) -> &'static [u32] {
        match self {
            Self::Pcie => &[1],
            Self::Nvswitch => &BLOCK_SIZES,
        }
    }

    /// What a request must look like on this fabric, for messages.
    #[must_use]
    pub const fn sizes_in_words(self) -> &'static str {
        match self {
            Self::Pcie => "a pcie set hands out single cards only",
            Self::Nvswitch => "an nvswitch set hands out blocks of 1, 2, 4 or 8 GPUs",
        }
    }
}

impl fmt::Display for Fabric {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Pcie => "pcie",
            Self::Nvswitch => "nvswitch",
        })
    }
}

/// A set of card (module) numbers of one node, 0-based, each below [`MAX_CARDS`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Cards(pub u64);

impl Cards {
    /// No card.
    pub const NONE: Self = Self(0);

    /// The cards `0..count`; `count` above [`MAX_CARDS`] counts as that.
    #[must_use]
    pub const fn first(count: u32) -> Self {
        if count >= MAX_CARDS {
            Self(u64::MAX)
        } else {
            Self((1 << count) - 1)
        }
    }

    /// The set of these numbers. A number that is no card number is left out.
    #[must_use]
    pub fn of(numbers: &[u32]) -> Self {
        Self(
            numbers
                .iter()
                .filter(|n| **n < MAX_CARDS)
                .fold(0, |set, n| set | 1 << n),
        )
    }

    /// How many cards.
    #[must_use]
    pub const fn len(self) -> u32 {
        self.0.count_ones()
    }

    /// Whether there is none.
    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Whether all of these are cards of `other` too.
    #[must_use]
    pub const fn within(self, other: Self) -> bool {
        self.0 & !other.0 == 0
    }

    /// The card numbers, ascending.
    pub fn numbers(self) -> impl Iterator<Item = u32> {
        let mut rest = self.0;
        std::iter::from_fn(move || {
            (rest != 0).then(|| {
                let lowest = rest.trailing_zeros();
                rest &= rest - 1;
                lowest
            })
        })
    }
}

/// Why a list of blocks for a node can't be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadBlock {
    /// A block of a size that the fabric can't hand out.
    #[error("block {block:?} has {size} cards, but {rule}", size = block.len(), rule = fabric.sizes_in_words())]
    Size {
        /// The block as given.
        block: Vec<u32>,
        /// The fabric of the set.
        fabric: Fabric,
    },
    /// A card number that the node does not have.
    #[error("block {block:?} names card {card}, but the node's cards are 0 to {last}")]
    NoSuchCard {
        /// The block as given.
        block: Vec<u32>,
        /// The number at fault.
        card: u32,
        /// The node's highest card number.
        last: u32,
    },
    /// The same card number twice in one block.
    #[error("block {block:?} names a card twice")]
    Twice {
        /// The block as given.
        block: Vec<u32>,
    },
}

/// Turns a node's own list of allowed blocks into sets of cards, ordered like [`blocks`].
///
/// # Errors
/// The first block that can't be one on this fabric.
pub fn own_blocks(fabric: Fabric, gpus: u32, list: &[Vec<u32>]) -> Result<Vec<Cards>, BadBlock> {
    let mut blocks = Vec::with_capacity(list.len());
    for block in list {
        if !fabric
            .sizes()
            .iter()
            .any(|size| *size as usize == block.len())
        {
            return Err(BadBlock::Size {
                block: block.clone(),
                fabric,
            });
        }
        if let Some(card) = block.iter().find(|card| **card >= gpus.min(MAX_CARDS)) {
            return Err(BadBlock::NoSuchCard {
                block: block.clone(),
                card: *card,
                last: gpus.saturating_sub(1),
            });
        }
        let cards = Cards::of(block);
        if cards.len() as usize != block.len() {
            return Err(BadBlock::Twice {
                block: block.clone(),
            });
        }
        blocks.push(cards);
    }
    Ok(ordered(blocks))
}

/// The blocks of a node with `gpus` cards of this kind: those of its board's table that lie within the node, by size, then by card numbers.
/// A kind whose board has no table pairs neighbors.
#[must_use]
pub fn blocks(fabric: Fabric, gpu_kind: &str, gpus: u32) -> Vec<Cards> {
    let gpus = gpus.min(MAX_CARDS);
    let here = Cards::first(gpus);
    let all: Vec<Cards> = match (fabric, board(gpu_kind)) {
        (Fabric::Pcie, _) => Cards::first(gpus)
            .numbers()
            .map(|card| Cards(1 << card))
            .collect(),
        (Fabric::Nvswitch, Some(Board::Hopper)) => {
            let singles = (0..8).map(|card| Cards(1 << card));
            singles
                .chain(HOPPER.iter().map(|block| Cards::of(block)))
                .collect()
        }
        (Fabric::Nvswitch, Some(Board::Ampere)) if gpus > 8 => neighbors(16, 4)
            .chain(AMPERE_16_EIGHTS.iter().map(|block| Cards::of(block)))
            .collect(),
        (Fabric::Nvswitch, Some(Board::Ampere)) => neighbors(8, 8).collect(),
        (Fabric::Nvswitch, None) => neighbors(gpus, 8).collect(),
    };
    ordered(all.into_iter().filter(|block| block.within(here)).collect())
}

/// Boards with a table of their own.
#[derive(Clone, Copy)]
enum Board {
    /// HGX A100, 8 GPUs, or 16 on two baseboards.
    Ampere,
    /// HGX H100, H200.
    Hopper,
}

/// H100 NVL is a PCIe card: no board of this table carries it.
fn board(gpu_kind: &str) -> Option<Board> {
    match gpu_kind {
        "nvidia-a100-40gb" | "nvidia-a100-80gb" => Some(Board::Ampere),
        "nvidia-h100-80gb" | "nvidia-h200-141gb" => Some(Board::Hopper),
        _ => None,
    }
}

/// HGX H100/H200: pairs, quads and the whole board.
const HOPPER: [&[u32]; 7] = [
    &[0, 2],
    &[1, 3],
    &[4, 6],
    &[5, 7],
    &[0, 1, 2, 3],
    &[4, 5, 6, 7],
    &[0, 1, 2, 3, 4, 5, 6, 7],
];

/// HGX A100 on two baseboards: any quad of one board goes with any of the other.
const AMPERE_16_EIGHTS: [&[u32]; 6] = [
    &[0, 1, 2, 3, 4, 5, 6, 7],
    &[8, 9, 10, 11, 12, 13, 14, 15],
    &[0, 1, 2, 3, 8, 9, 10, 11],
    &[4, 5, 6, 7, 12, 13, 14, 15],
    &[0, 1, 2, 3, 12, 13, 14, 15],
    &[4, 5, 6, 7, 8, 9, 10, 11],
];

/// Aligned runs of 1, 2, 4 .. `largest` cards that lie within the first `gpus` cards.
fn neighbors(gpus: u32, largest: u32) -> impl Iterator<Item = Cards> {
    BLOCK_SIZES
        .into_iter()
        .filter(move |size| *size <= largest)
        .flat_map(move |size| {
            (0..gpus / size).map(move |place| Cards(Cards::first(size).0 << (place * size)))
        })
}

/// By size, then by card numbers, each once.
fn ordered(mut blocks: Vec<Cards>) -> Vec<Cards> {
    blocks.sort_by_cached_key(|block| (block.len(), block.numbers().collect::<Vec<_>>()));
    blocks.dedup();
    blocks
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn numbers(blocks: &[Cards]) -> Vec<Vec<u32>> {
        blocks
            .iter()
            .map(|block| block.numbers().collect())
            .collect()
    }

    /// The partitions that the vendor's table gives for a board, 0-based, without the one of 16.
    fn table(board: &str) -> BTreeSet<Vec<u32>> {
        include_str!("fabric/partitions.csv")
            .lines()
            .filter_map(|line| line.trim_start_matches('"').strip_prefix(board))
            .map(|rest| {
                let rest = rest.trim_start_matches('"').trim_start_matches(',');
                let fields: Vec<&str> = rest.split(',').collect();
                fields[2]
                    .split(' ')
                    .map(|id| id.parse::<u32>().unwrap() - 1)
                    .collect::<Vec<_>>()
            })
            .filter(|ids| ids.len() <= 8)
            .collect()
    }

    #[test]
    fn a2_the_tables_are_those_of_the_vendor() {
        for (board, kind, gpus, count) in [
            ("HGX H100/H200/H800/H20 8-GPU", "nvidia-h100-80gb", 8, 15),
            ("HGX H100/H200/H800/H20 8-GPU", "nvidia-h200-141gb", 8, 15),
            (
                "HGX A100 8-GPU (single baseboard, physical ids 1-8)",
                "nvidia-a100-40gb",
                8,
                15,
            ),
            (
                "HGX A100 16-GPU (two baseboards)",
                "nvidia-a100-80gb",
                16,
                34,
            ),
        ] {
            let ours: BTreeSet<Vec<u32>> = numbers(&blocks(Fabric::Nvswitch, kind, gpus))
                .into_iter()
                .collect();
            assert_eq!(ours.len(), count, "{board}");
            assert_eq!(ours, table(board), "{board}");
        }
    }

    #[test]
    fn a2_blocks_lie_within_the_node() {
        assert_eq!(
            numbers(&blocks(Fabric::Nvswitch, "nvidia-h100-80gb", 4)),
            [
                vec![0],
                vec![1],
                vec![2],
                vec![3],
                vec![0, 2],
                vec![1, 3],
                vec![0, 1, 2, 3]
            ]
        );
        assert_eq!(
            numbers(&blocks(Fabric::Nvswitch, "nvidia-a100-80gb", 3)),
            [vec![0], vec![1], vec![2], vec![0, 1]]
        );
        assert_eq!(
            blocks(Fabric::Nvswitch, "nvidia-v100-32gb", 16).len(),
            16 + 8 + 4 + 2
        );
        assert_eq!(blocks(Fabric::Pcie, "nvidia-a100-80gb", 16).len(), 16);
        assert_eq!(blocks(Fabric::Pcie, "nvidia-l40s", 0).len(), 0);
    }

    #[test]
    fn a2_a_node_may_have_blocks_of_its_own() {
        let list = [vec![2, 1], vec![0], vec![1, 2]];
        assert_eq!(
            numbers(&own_blocks(Fabric::Nvswitch, 4, &list).unwrap()),
            [vec![0], vec![1, 2]]
        );
        for (fabric, block, words) in [
            (Fabric::Nvswitch, vec![0, 1, 2], "1, 2, 4 or 8"),
            (Fabric::Nvswitch, vec![], "0 cards"),
            (Fabric::Pcie, vec![0, 1], "single cards only"),
            (Fabric::Nvswitch, vec![3, 4], "card 4"),
            (Fabric::Nvswitch, vec![3, 3], "twice"),
        ] {
            let message = own_blocks(fabric, 4, &[block]).unwrap_err().to_string();
            assert!(message.contains(words), "{message}");
        }
    }

    #[test]
    fn cards_count_and_list() {
        let cards = Cards::of(&[5, 0, 63, 64]);
        assert_eq!(cards.numbers().collect::<Vec<_>>(), [0, 5, 63]);
        assert_eq!(
            (cards.len(), Cards::first(64).len(), Cards::first(0)),
            (3, 64, Cards::NONE)
        );
        assert!(Cards::of(&[5]).within(cards) && !cards.within(Cards::of(&[5])));
    }
}
