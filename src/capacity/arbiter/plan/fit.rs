//! Best fit (rule A7): which of several free blocks serves, so that large blocks stay whole.

use std::cmp::Reverse;

use crate::capacity::fabric::Cards;

/// How well a block fits. Fields are compared in this order; the smaller is taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub(super) struct Fit {
    /// Size of the largest free block around the cards.
    pub(super) around: u8,
    /// Size of the largest free block that the node keeps.
    pub(super) kept: Reverse<u8>,
    /// The place of the node's name.
    pub(super) node: u32,
    /// The place of the block among those of its size, by card numbers.
    pub(super) place: u32,
}

/// How well `block` fits on a node with these `blocks`, of whose cards `free` are free or will be once the block's present holders are gone.
pub(super) fn fit(block: Cards, free: Cards, blocks: &[Cards], node: u32, place: u32) -> Fit {
    let rest = Cards(free.0 & !block.0);
    let (mut around, mut kept) = (0, 0);
    // Sizes are at most 8, so the narrowing keeps them. Blocks come by size: the last that answers is the largest.
    for other in blocks {
        if other.within(rest) {
            kept = other.len() as u8;
        } else if block.within(*other) && other.within(free) {
            around = other.len() as u8;
        }
    }
    Fit {
        around,
        kept: Reverse(kept),
        node,
        place,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::capacity::fabric::{Fabric, blocks};

    fn fits(card: u32, free: &[u32]) -> (u8, u8) {
        let table = blocks(Fabric::Nvswitch, "nvidia-a100-80gb", 8);
        let fit = fit(Cards::of(&[card]), Cards::of(free), &table, 0, 0);
        (fit.around, fit.kept.0)
    }

    #[test]
    fn a7_the_largest_free_block_around_and_the_largest_kept() {
        assert_eq!(fits(0, &[0, 1, 2, 3, 4, 5, 6, 7]), (8, 4));
        assert_eq!(fits(1, &[1, 2, 3, 4, 5, 6, 7]), (1, 4));
        assert_eq!(fits(2, &[1, 2, 3, 4, 5, 6, 7]), (2, 4));
        assert_eq!(fits(4, &[1, 2, 3, 4, 5, 6, 7]), (4, 2));
        assert_eq!(fits(4, &[4]), (1, 0));
    }
}
