//! The least harmful block of the whole set for a claim, without looking at every node for every claim.
//!
//! For each block size a tournament keeps every node's best block, as any claim of the present pool would see it. Within a pass everything only tightens
//! (see [`super::state`]), so what a node could offer earlier is never worse than what it can offer now: it is enough to look again at a node whose
//! offer is about to win. What a claim can have that others can't is on few nodes; they are looked at for it alone.

use super::candidate::{Candidate, best_on_node, still_legal};
use super::fleet::{place, size_place};
use super::holds::Own;
use super::state::Pass;
use super::tournament::Tournament;
use crate::capacity::fabric::BLOCK_SIZES;

/// The offers of all nodes, by block size.
#[derive(Default)]
pub(super) struct Search {
    sizes: [Option<Offers>; BLOCK_SIZES.len()],
}

struct Offers {
    size: usize,
    offers: Vec<Option<Candidate>>,
    /// The node's stamp when its offer was worked out.
    stamps: Vec<u32>,
    tournament: Tournament,
}

impl Search {
    /// The best block for this claim; its cost says whether minimum runtimes must pass first.
    pub(super) fn best(&mut self, pass: &Pass<'_>, claim: u32) -> Option<Candidate> {
        let size = size_place(pass.fleet.claim(claim).gpus);
        let offers = self.sizes[size].get_or_insert_with(|| Offers::new(pass, size));
        // What the claim sees there is not what others see: not even how well a block fits.
        for node in pass.holds.own_nodes(claim) {
            offers.leave_out(node);
        }
        let mut best = offers.best(pass).cloned();
        for node in pass.holds.own_nodes(claim) {
            offers.look_again(pass, node);
            let own = best_on_node(pass, node, size, Own::of(pass, claim, node));
            if let Some(own) =
                own.filter(|own| best.as_ref().is_none_or(|best| own.cost < best.cost))
            {
                best = Some(own);
            }
        }
        best
    }

    /// Looks at a node again on which a claim was given a block: cards of its victims that it does not need are now for nothing.
    pub(super) fn changed(&mut self, pass: &Pass<'_>, node: u32) {
        for offers in self.sizes.iter_mut().flatten() {
            offers.look_again(pass, node);
        }
    }
}

impl Offers {
    fn new(pass: &Pass<'_>, size: usize) -> Self {
        let nodes = place(pass.fleet.nodes.len());
        let offers: Vec<_> = (0..nodes)
            .map(|node| best_on_node(pass, node, size, Own::default()))
            .collect();
        let mut tournament = Tournament::new(offers.len());
        tournament.play_all(
            nodes,
            |node| offers[node as usize].is_some(),
            |a, b| smaller(&offers, a, b),
        );
        Self {
            size,
            offers,
            stamps: pass.nodes.iter().map(|node| node.stamp).collect(),
            tournament,
        }
    }

    fn best(&mut self, pass: &Pass<'_>) -> Option<&Candidate> {
        loop {
            let node = self.tournament.first()?;
            let fresh = self.stamps[node as usize] == pass.nodes[node as usize].stamp;
            let legal = self.offers[node as usize]
                .as_ref()
                .is_some_and(|offer| still_legal(pass, offer));
            if fresh && legal {
                break self.offers[node as usize].as_ref();
            }
            self.look_again(pass, node);
        }
    }

    /// Lets a node offer nothing until it is looked at again.
    fn leave_out(&mut self, node: u32) {
        self.offers[node as usize] = None;
        let offers = &self.offers;
        self.tournament
            .play(node, false, |a, b| smaller(offers, a, b));
    }

    fn look_again(&mut self, pass: &Pass<'_>, node: u32) {
        self.offers[node as usize] = best_on_node(pass, node, self.size, Own::default());
        self.stamps[node as usize] = pass.nodes[node as usize].stamp;
        let offers = &self.offers;
        self.tournament
            .play(node, offers[node as usize].is_some(), |a, b| {
                smaller(offers, a, b)
            });
    }
}

fn smaller(offers: &[Option<Candidate>], a: u32, b: u32) -> bool {
    match (&offers[a as usize], &offers[b as usize]) {
        (Some(a), Some(b)) => a.cost < b.cost,
        (a, b) => a.is_some() && b.is_none(),
    }
}
