//! The smallest of many entries, kept while single entries change: a tree of matches, in which a changed entry plays only its own way up again.

/// No entry.
const NOBODY: u32 = u32::MAX;

/// A tournament of a fixed number of players, known by their places.
#[derive(Debug)]
pub(super) struct Tournament {
    /// Winners; the root is at 1, the players at the end.
    winners: Vec<u32>,
    /// Players, rounded up to a power of two.
    width: usize,
}

impl Tournament {
    /// A tournament in which nobody has played.
    pub(super) fn new(players: usize) -> Self {
        let width = players.next_power_of_two();
        Self {
            winners: vec![NOBODY; 2 * width],
            width,
        }
    }

    /// Lets all of `0..players` play. `smaller(a, b)` says whether a is to come before b.
    pub(super) fn play_all(
        &mut self,
        players: u32,
        takes_part: impl Fn(u32) -> bool,
        smaller: impl Fn(u32, u32) -> bool,
    ) {
        for player in 0..players {
            self.winners[self.width + player as usize] =
                if takes_part(player) { player } else { NOBODY };
        }
        for place in (1..self.width).rev() {
            self.winners[place] = self.winner(place, &smaller);
        }
    }

    /// Lets one player, who changed, play again.
    pub(super) fn play(
        &mut self,
        player: u32,
        takes_part: bool,
        smaller: impl Fn(u32, u32) -> bool,
    ) {
        let mut place = self.width + player as usize;
        self.winners[place] = if takes_part { player } else { NOBODY };
        while place > 1 {
            place /= 2;
            self.winners[place] = self.winner(place, &smaller);
        }
    }

    fn winner(&self, place: usize, smaller: &impl Fn(u32, u32) -> bool) -> u32 {
        match (self.winners[2 * place], self.winners[2 * place + 1]) {
            (NOBODY, other) | (other, NOBODY) => other,
            (a, b) if smaller(b, a) => b,
            (a, _) => a,
        }
    }

    /// The smallest.
    pub(super) fn first(&self) -> Option<u32> {
        Some(self.winners[1]).filter(|winner| *winner != NOBODY)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_is_the_smallest_after_every_change() {
        for players in [1_usize, 2, 3, 8, 13] {
            let mut values: Vec<Option<u32>> = (0..players as u32)
                .map(|player| Some(player * 7 % 5))
                .collect();
            let mut tournament = Tournament::new(players);
            assert_eq!(tournament.first(), None);
            let smaller =
                |values: &[Option<u32>], a: u32, b: u32| values[a as usize] < values[b as usize];
            tournament.play_all(players as u32, |_| true, |a, b| smaller(&values, a, b));
            for step in 0..200_u32 {
                let player = step * 31 % players as u32;
                values[player as usize] = (step % 4 != 3).then_some(step * 17 % 23);
                tournament.play(player, values[player as usize].is_some(), |a, b| {
                    smaller(&values, a, b)
                });
                let least = values.iter().flatten().min();
                assert_eq!(
                    tournament
                        .first()
                        .and_then(|first| values[first as usize])
                        .as_ref(),
                    least
                );
            }
        }
    }
}
