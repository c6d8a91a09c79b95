//! The trials of a batch that wait for a board.
//!
//! Any board may take any of them, except that the confirming trials of one round under one
//! workload, which are compared with each other, stay on one board. If that board fails, another
//! makes the rest, and the comparison then depends on the device effects.

use std::collections::BTreeMap;

use flashfit_search::{Proposal, Purpose};

/// Confirming round and workload of a trial.
type Round = (u32, usize);

/// Trials in the proposed order.
#[derive(Debug, Default)]
pub(crate) struct TrialQueue {
    waiting: Vec<Proposal>,
    begun: BTreeMap<Round, usize>,
}

impl TrialQueue {
    /// The queue of a batch; `begun` returns the board that started a round.
    pub fn new(proposals: &[Proposal], begun: impl Fn(Round) -> Option<usize>) -> Self {
        let rounds = proposals.iter().filter_map(round);
        let begun = rounds.filter_map(|round| Some((round, begun(round)?))).collect();
        Self { waiting: proposals.to_vec(), begun }
    }

    /// The next trial for a board.
    pub fn take(&mut self, board: usize) -> Option<Proposal> {
        let mine = |proposal: &Proposal| {
            round(proposal).is_some_and(|of| self.begun.get(&of) == Some(&board))
        };
        let open =
            |proposal: &Proposal| round(proposal).is_none_or(|of| !self.begun.contains_key(&of));
        let place = self.waiting.iter().position(mine);
        let place = place.or_else(|| self.waiting.iter().position(open))?;
        let proposal = self.waiting.remove(place);
        if let Some(of) = round(&proposal) {
            self.begun.insert(of, board);
        }
        Some(proposal)
    }

    /// Returns the trials of a failed board: its rounds become available to all, and its current
    /// trial comes first.
    pub fn lost(&mut self, board: usize, unmade: Option<Proposal>) {
        self.begun.retain(|_, by| *by != board);
        self.waiting.splice(0..0, unmade);
    }

    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Removes trials that are no longer needed.
    pub fn retain(&mut self, wanted: impl Fn(&Proposal) -> bool) {
        self.waiting.retain(|proposal| wanted(proposal));
    }
}

fn round(proposal: &Proposal) -> Option<Round> {
    (proposal.purpose == Purpose::Confirm).then_some((proposal.repeat, proposal.workload))
}

#[cfg(test)]
mod tests {
    use flashfit_search::{Batch, TrialLength};

    use super::*;

    fn proposal(candidate: usize, purpose: Purpose, repeat: u32) -> Proposal {
        let batch = Batch { number: 0, size: 9 };
        Proposal { candidate, workload: 0, length: TrialLength::Full, purpose, repeat, batch }
    }

    #[test]
    fn a_round_stays_on_the_board_that_began_it() {
        let proposals: Vec<Proposal> = (0..2)
            .flat_map(|repeat| {
                [0, 1].map(|candidate| proposal(candidate, Purpose::Confirm, repeat))
            })
            .collect();
        let mut queue = TrialQueue::new(&proposals, |_| None);
        assert_eq!(queue.take(0), Some(proposals[0]));
        assert_eq!(queue.take(1), Some(proposals[2]), "the other round");
        assert_eq!(queue.take(2), None, "both are begun");
        assert_eq!(queue.take(1), Some(proposals[3]));
        queue.lost(0, Some(proposals[0]));
        assert_eq!(queue.take(1), Some(proposals[0]));
        assert_eq!(queue.take(1), Some(proposals[1]));
        assert!(queue.is_empty());
    }

    #[test]
    fn a_round_that_was_begun_before_goes_on_where_it_was() {
        let proposals = [proposal(0, Purpose::Confirm, 3), proposal(1, Purpose::Search, 0)];
        let mut queue = TrialQueue::new(&proposals, |_| Some(1));
        assert_eq!(queue.take(0), Some(proposals[1]));
        assert_eq!(queue.take(0), None);
        assert_eq!(queue.take(1), Some(proposals[0]));
    }
}
