//! Least harm (rule A7): how two ways to meet the same claim compare. The smaller is taken.
//!
//! Everything is a small integer by now: pools are numbered from the highest rank, start times and names are their places in sorted order.

use crate::capacity::arbiter::plan::fit::Fit;

/// The largest block, and so the most claims that one block can touch.
pub(super) const MOST: usize = 8;

/// A workload that would be interrupted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Victim {
    /// Its pool, counted from the highest rank.
    pub(super) pool: u32,
    /// All its GPUs, whether the block needs them or not.
    pub(super) gpus: u32,
    /// The place of its start time, earliest first; equal times share a place.
    pub(super) started: u32,
    /// The place of its name.
    pub(super) name: u32,
}

/// What a set of victims costs. Fields are compared in this order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub(super) struct Harm {
    /// GPUs taken from each pool, from the highest-ranked on: the pool in the upper part, inverted, so that an absent pool counts as 0 GPUs.
    gpus: [u32; MOST],
    /// Workloads interrupted.
    workloads: u8,
    /// Claims to wait for, victims or not.
    waited: u8,
    /// Start times from the longest-running on, inverted: the later is preferred.
    starts: [u32; MOST],
    /// Names, sorted.
    names: [u32; MOST],
}

impl Harm {
    /// What these victims (at most [`MOST`]) cost, when `waited` claims must be gone before the start.
    pub(super) fn of(victims: &[Victim], waited: u8) -> Self {
        let mut harm = Self {
            waited,
            workloads: u8::try_from(victims.len()).unwrap_or(u8::MAX),
            ..Self::default()
        };
        if victims.is_empty() {
            return harm;
        }
        let mut sorted = [Victim {
            pool: u32::MAX,
            gpus: 0,
            started: u32::MAX,
            name: u32::MAX,
        }; MOST];
        let count = victims.len().min(MOST);
        let sorted = &mut sorted[..count];
        sorted.copy_from_slice(&victims[..count]);

        sorted.sort_unstable_by_key(|victim| victim.pool);
        let (mut place, mut last) = (0, None);
        for victim in sorted.iter() {
            if last.is_some_and(|pool| pool != victim.pool) {
                place += 1;
            }
            last = Some(victim.pool);
            let gpus = (harm.gpus[place] & GPUS) + victim.gpus;
            harm.gpus[place] = ((MOST_POOLS - victim.pool) << GPU_BITS) | gpus.min(GPUS);
        }
        sorted.sort_unstable_by_key(|victim| victim.started);
        for (place, victim) in harm.starts.iter_mut().zip(sorted.iter()) {
            *place = u32::MAX - victim.started;
        }
        sorted.sort_unstable_by_key(|victim| victim.name);
        for (place, victim) in harm.names.iter_mut().zip(sorted.iter()) {
            *place = victim.name;
        }
        harm
    }
}

/// Bits for the GPUs of one pool in one block's victims: at most 8 victims of 8 GPUs.
const GPU_BITS: u32 = 8;
const GPUS: u32 = (1 << GPU_BITS) - 1;
/// Pools that can be told apart.
const MOST_POOLS: u32 = (1 << (32 - GPU_BITS)) - 1;

/// What a way to meet a claim costs. Fields are compared in this order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Cost {
    /// How long minimum runtimes still protect its victims: 0 for not at all, else the place of the latest start among them.
    pub(super) cooldown: u32,
    /// Whether anyone must be gone first: a free block that serves is always taken first.
    pub(super) occupied: bool,
    /// The harm to workloads that have no notice yet.
    pub(super) fresh: Harm,
    /// The harm to all.
    pub(super) all: Harm,
    /// Whether it is another block than the one that is held for the claim; of blocks that are free now it is never asked.
    pub(super) elsewhere: bool,
    /// How well it fits.
    pub(super) fit: Fit,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn victim(pool: u32, gpus: u32, started: u32, name: u32) -> Victim {
        Victim {
            pool,
            gpus,
            started,
            name,
        }
    }

    #[test]
    fn a7_the_lowest_rank_loses_first_whatever_it_takes() {
        let high = Harm::of(&[victim(1, 1, 9, 0)], 1);
        let low = Harm::of(
            &[victim(2, 4, 0, 1), victim(2, 4, 0, 2), victim(3, 8, 0, 3)],
            3,
        );
        assert!(low < high);
        assert!(Harm::of(&[], 8) < low);
    }

    #[test]
    fn a7_ranks_are_compared_from_the_highest_victim_down() {
        // 2 from pool 1 and 1 from pool 2, against 2 from pool 1 and 2 from pool 3: the difference is in pool 2.
        let one = Harm::of(&[victim(2, 1, 0, 0), victim(1, 2, 0, 1)], 2);
        let two = Harm::of(
            &[victim(1, 1, 0, 2), victim(3, 2, 0, 3), victim(1, 1, 0, 4)],
            3,
        );
        assert!(two < one);
        let more = Harm::of(&[victim(1, 4, 0, 5)], 1);
        assert!(one < more && two < more);
    }

    #[test]
    fn a7_then_workloads_then_claims_to_wait_for() {
        let one = Harm::of(&[victim(1, 2, 0, 9)], 1);
        assert!(one < Harm::of(&[victim(1, 1, 5, 0), victim(1, 1, 5, 1)], 2));
        assert!(one < Harm::of(&[victim(1, 2, 5, 0)], 2));
    }

    #[test]
    fn a7_then_the_longest_running_victim_that_started_later() {
        let one = Harm::of(&[victim(1, 1, 3, 0), victim(1, 1, 9, 1)], 2);
        let two = Harm::of(&[victim(1, 1, 4, 2), victim(1, 1, 4, 3)], 2);
        assert!(two < one);
        assert!(Harm::of(&[victim(1, 1, 4, 2), victim(1, 1, 5, 3)], 2) < two);
    }

    #[test]
    fn a7_then_names() {
        let one = Harm::of(&[victim(1, 1, 3, 7), victim(1, 1, 3, 1)], 2);
        let two = Harm::of(&[victim(1, 1, 3, 2), victim(1, 1, 3, 3)], 2);
        assert!(one < two);
    }
}
