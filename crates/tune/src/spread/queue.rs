//! The trials of a batch that still wait for a board.
//!
//! Any board may take any of them, but the confirming trials of one round under one workload, from
//! which a difference is made, belong to the board that began with them. Only when that board is
//! lost, another makes the rest; their difference then depends on the devices's levels.

use std::collections::BTreeMap;

use flashfit_search::{Proposal, Purpose};

/// The confirming round that a trial belongs to, and its workload.
type Round = (u32, usize);

/// Trials in the order in which they were asked for.
#[derive(Debug, Default)]
pub(crate) struct TrialQueue {
    waiting: Vec<Proposal>,
    begun: BTreeMap<Round, usize>,
}

impl TrialQueue {
    /// Of a batch; `begun` tells which board has begun a round of it.
    pub fn new(asks: &[Proposal], begun: impl Fn(Round) -> Option<usize>) -> Self {
        let rounds = asks.iter().filter_map(round);
        let begun = rounds.filter_map(|round| Some((round, begun(round)?))).collect();
        Self { waiting: asks.to_vec(), begun }
    }

    /// The next trial for a board.
    pub fn take(&mut self, board: usize) -> Option<Proposal> {
        let mine =
            |ask: &Proposal| round(ask).is_some_and(|of| self.begun.get(&of) == Some(&board));
        let open = |ask: &Proposal| round(ask).is_none_or(|of| !self.begun.contains_key(&of));
        let place = self.waiting.iter().position(mine);
        let place = place.or_else(|| self.waiting.iter().position(open))?;
        let ask = self.waiting.remove(place);
        if let Some(of) = round(&ask) {
            self.begun.insert(of, board);
        }
        Some(ask)
    }

    /// A board is lost: what it had begun is open to all, and the trial that it was making waits
    /// again, before the others.
    pub fn lost(&mut self, board: usize, unmade: Option<Proposal>) {
        self.begun.retain(|_, by| *by != board);
        self.waiting.splice(0..0, unmade);
    }

    /// Whether all were handed out.
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Takes out what need not be made any more.
    pub fn retain(&mut self, wanted: impl Fn(&Proposal) -> bool) {
        self.waiting.retain(|ask| wanted(ask));
    }
}

fn round(ask: &Proposal) -> Option<Round> {
    (ask.purpose == Purpose::Confirm).then_some((ask.repeat, ask.workload))
}

#[cfg(test)]
mod tests {
    use flashfit_search::{Batch, TrialLength};

    use super::*;

    fn ask(candidate: usize, purpose: Purpose, repeat: u32) -> Proposal {
        let batch = Batch { number: 0, size: 9 };
        Proposal { candidate, workload: 0, length: TrialLength::Full, purpose, repeat, batch }
    }

    #[test]
    fn a_round_stays_on_the_board_that_began_it() {
        let asks: Vec<Proposal> = (0..2)
            .flat_map(|repeat| [0, 1].map(|candidate| ask(candidate, Purpose::Confirm, repeat)))
            .collect();
        let mut queue = TrialQueue::new(&asks, |_| None);
        assert_eq!(queue.take(0), Some(asks[0]));
        assert_eq!(queue.take(1), Some(asks[2]), "the other round");
        assert_eq!(queue.take(2), None, "both are begun");
        assert_eq!(queue.take(1), Some(asks[3]));
        queue.lost(0, Some(asks[0]));
        assert_eq!(queue.take(1), Some(asks[0]));
        assert_eq!(queue.take(1), Some(asks[1]));
        assert!(queue.is_empty());
    }

    #[test]
    fn a_round_that_was_begun_before_goes_on_where_it_was() {
        let asks = [ask(0, Purpose::Confirm, 3), ask(1, Purpose::Search, 0)];
        let mut queue = TrialQueue::new(&asks, |_| Some(1));
        assert_eq!(queue.take(0), Some(asks[1]));
        assert_eq!(queue.take(0), None);
        assert_eq!(queue.take(1), Some(asks[0]));
    }
}
