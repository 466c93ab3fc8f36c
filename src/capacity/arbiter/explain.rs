//! Everything the plan says in words, from the data that a decision was made on. No decision is made here.

use std::fmt;

use jiff::Timestamp;

use crate::capacity::arbiter::plan::format::Code;
use crate::capacity::fabric::Cards;

/// Why a claim waits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wait<'a> {
    /// The one reason.
    pub code: Code,
    /// GPUs it needs.
    pub needed: u32,
    /// Its pool.
    pub pool: &'a str,
    /// Its pool's rank.
    pub rank: u32,
    /// The block of which it could have the most cards now.
    pub nearest: Option<NearestBlock<'a>>,
    /// Its pool's ceiling, and the GPUs that count toward it.
    pub ceiling: Option<(u32, u64)>,
    /// When minimum runtimes will be over on the block that it will get, and that block.
    pub ready: Option<(Timestamp, &'a str, Cards)>,
}

/// A block of which a claim could have some cards.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NearestBlock<'a> {
    /// Its node.
    pub node: &'a str,
    /// Its cards.
    pub cards: Cards,
    /// How many of them it could have.
    pub count: u32,
}

impl Wait<'_> {
    /// The most cards of any one block of the size that it could have now; for a ceiling, what that leaves.
    #[must_use]
    pub fn reachable(&self) -> u32 {
        match (self.code, self.ceiling) {
            (Code::NeverFits, _) => 0,
            (Code::Ceiling, Some((ceiling, counted))) => {
                u32::try_from(u64::from(ceiling).saturating_sub(counted)).unwrap_or(ceiling)
            }
            _ => self.nearest.map_or(0, |nearest| nearest.count),
        }
    }
}

impl fmt::Display for Wait<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (needed, rank) = (self.needed, self.rank);
        if needed == 1 {
            f.write_str("needs 1 GPU; ")?;
        } else {
            write!(f, "needs one block of {needed}; ")?;
        }
        match (self.code, self.ceiling) {
            (Code::NeverFits, _) => {
                return write!(f, "no node of the set has a block of that size");
            }
            (Code::Ceiling, Some((ceiling, counted))) => {
                return write!(
                    f,
                    "pool {} has {counted} of its ceiling of {ceiling} GPUs, {} left",
                    self.pool,
                    self.reachable()
                );
            }
            _ => {}
        }
        match self.nearest {
            Some(NearestBlock { node, cards, count }) if needed > 1 => {
                write!(
                    f,
                    "reachable: {count} of {needed} GPUs on {node} (cards {})",
                    list(cards)
                )?;
            }
            _ => f.write_str("reachable: none")?,
        }
        f.write_str("; ")?;
        match self.code {
            Code::Cooldown => match self.ready {
                Some((ready, node, cards)) => write!(
                    f,
                    "waits until minimum runtimes are over at {ready}, and keeps cards {} of {node} until then",
                    list(cards)
                ),
                None => f.write_str("waits until minimum runtimes are over"),
            },
            Code::Held => f.write_str(
                "cards that would do are held for, or planned for later to, another claim",
            ),
            Code::StaleData => f.write_str("cards that would do are on nodes that can't be read"),
            Code::Fragmented => {
                f.write_str("enough cards are free or reclaimable, but they form no block")
            }
            Code::Floor => f.write_str("to take more would bring a pool below its floor"),
            Code::OnDemand => f.write_str(
                "on-demand VMs of lower rank have the rest, and they are never interrupted",
            ),
            Code::Rank => write!(
                f,
                "claims of rank {rank} or higher have the rest, and nothing is reclaimed from them"
            ),
            Code::NoCompletePlan => {
                f.write_str("more than one thing stands in the way of a complete plan")
            }
            Code::NeverFits | Code::Ceiling => Ok(()),
        }
    }
}

fn list(cards: Cards) -> String {
    cards
        .numbers()
        .map(|card| card.to_string())
        .collect::<Vec<_>>()
        .join(", ")
}

/// Why a notice is taken back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Withdrawal<'a> {
    /// On-demand VMs are not interrupted.
    OnDemand,
    /// Its node can't be read.
    NodeNotReady(&'a str),
    /// Its node is not drained any more.
    DrainOver(&'a str),
    /// The claim it was for does not wait any more.
    NotWaiting(&'a str),
    /// The claim it was for is not of higher rank any more.
    NotHigher(&'a str),
    /// The claim it was for starts elsewhere.
    StartsElsewhere(&'a str),
    /// The claim it was for can't have it any more.
    StillWaits(&'a str),
    /// It was for no claim, and its pool does not have too many replicas.
    NotNeeded,
}

impl fmt::Display for Withdrawal<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OnDemand => f.write_str("on-demand VMs are never interrupted"),
            Self::NodeNotReady(node) => write!(
                f,
                "node {node} is not ready, and no plan relies on its cards"
            ),
            Self::DrainOver(node) => write!(f, "node {node} is not being drained any more"),
            Self::NotWaiting(claim) => write!(f, "{claim} does not wait any more"),
            Self::NotHigher(claim) => write!(f, "{claim} is not of higher rank any more"),
            Self::StartsElsewhere(claim) => write!(f, "{claim} starts without its cards"),
            Self::StillWaits(claim) => write!(f, "{claim} can't be met with its cards any more"),
            Self::NotNeeded => {
                f.write_str("no claim needs its cards, and its pool has no replica too many")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wait(code: Code) -> Wait<'static> {
        Wait {
            code,
            needed: 4,
            pool: "chat",
            rank: 2,
            nearest: Some(NearestBlock {
                node: "node-7",
                cards: Cards::of(&[4, 5, 6, 7]),
                count: 2,
            }),
            ceiling: None,
            ready: None,
        }
    }

    #[test]
    fn a6_a_wait_says_what_is_missing_and_why() {
        assert_eq!(
            wait(Code::Floor).to_string(),
            "needs one block of 4; reachable: 2 of 4 GPUs on node-7 (cards 4, 5, 6, 7); to take more would bring a pool below its floor"
        );
        assert_eq!(wait(Code::Floor).reachable(), 2);
        let none = Wait {
            nearest: None,
            needed: 1,
            ..wait(Code::Rank)
        };
        assert_eq!(
            none.to_string(),
            "needs 1 GPU; reachable: none; claims of rank 2 or higher have the rest, and nothing is reclaimed from them"
        );
        assert_eq!(none.reachable(), 0);
    }

    #[test]
    fn a3_a_ceiling_says_what_it_leaves() {
        let wait = Wait {
            ceiling: Some((8, 7)),
            ..wait(Code::Ceiling)
        };
        assert_eq!(
            wait.to_string(),
            "needs one block of 4; pool chat has 7 of its ceiling of 8 GPUs, 1 left"
        );
        assert_eq!(wait.reachable(), 1);
        let lowered = Wait {
            ceiling: Some((4, 7)),
            ..wait
        };
        assert_eq!(lowered.reachable(), 0);
    }
}
