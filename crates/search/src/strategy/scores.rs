//! The score of the simple strategies: the weighted mean over workloads of the median of a
//! candidate's trials, once all its trials are complete.

use crate::history::{Observation, Purpose, TrialLength, TrialOutcome, TrialTable};
use crate::settings::SearchSettings;
use crate::space::{CandidateIndex, SearchSpace};

use super::Request;

/// The state of a candidate.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum CandidateStanding {
    /// Some trials are missing.
    Incomplete,
    /// It failed, has no data, or violates a constraint.
    Out,
    Score(f64),
}

#[derive(Debug)]
pub struct Scores<'a> {
    space: &'a SearchSpace,
    weights: Vec<f64>,
    table: TrialTable,
    repeats: usize,
}

impl<'a> Scores<'a> {
    /// Uses the full-length search trials only.
    pub fn of(space: &'a SearchSpace, history: &[Observation], settings: &SearchSettings) -> Self {
        let table = TrialTable::of(history, |proposal| {
            proposal.purpose == Purpose::Search && proposal.length == TrialLength::Full
        });
        Self { space, weights: space.weights(), table, repeats: settings.repeats as usize }
    }

    pub fn standing(&self, candidate: CandidateIndex) -> CandidateStanding {
        if self.table.excluded(candidate).is_some() {
            return CandidateStanding::Out;
        }
        let mut score = 0.0;
        for (workload, weight) in self.weights.iter().enumerate() {
            let cell = self.table.cell(candidate, workload);
            if cell.len() < self.repeats {
                return CandidateStanding::Incomplete;
            }
            if violates_constraint(cell) {
                return CandidateStanding::Out;
            }
            score += weight * median(cell.iter().filter_map(Observation::log_merit).collect());
        }
        CandidateStanding::Score(score)
    }

    /// The trials that some candidates still need, ordered by repeat so that a budget that ends
    /// early has measured all of them.
    pub fn missing(&self, candidates: &[CandidateIndex]) -> Vec<Request> {
        let mut requests = Vec::new();
        for repeat in 0..self.repeats {
            for &candidate in candidates {
                if self.table.excluded(candidate).is_some() {
                    continue;
                }
                let lacking = (0..self.weights.len())
                    .filter(|&workload| self.table.cell(candidate, workload).len() <= repeat);
                requests.extend(lacking.map(|workload| Request {
                    candidate,
                    workload,
                    length: TrialLength::Full,
                    purpose: Purpose::Search,
                }));
            }
        }
        requests
    }

    /// The best allowed one of some candidates; ties go to the first.
    pub fn best(
        &self,
        candidates: impl IntoIterator<Item = CandidateIndex>,
    ) -> Option<(CandidateIndex, f64)> {
        let allowed = |&index: &CandidateIndex| self.space.candidates[index].allowed;
        self.best_of(candidates.into_iter().filter(allowed))
    }

    /// The best of some candidates, allowed or not; ties go to the first.
    pub fn best_of(
        &self,
        candidates: impl IntoIterator<Item = CandidateIndex>,
    ) -> Option<(CandidateIndex, f64)> {
        let mut best: Option<(CandidateIndex, f64)> = None;
        for candidate in candidates {
            if let CandidateStanding::Score(score) = self.standing(candidate) {
                if best.is_none_or(|(_, known)| score > known) {
                    best = Some((candidate, score));
                }
            }
        }
        best
    }

    /// The best complete candidate. Without one, the candidate that is most above the workload
    /// means among those with the most workloads measured.
    pub fn choice(&self) -> Option<CandidateIndex> {
        if let Some((candidate, _)) = self.best(0..self.space.candidates.len()) {
            return Some(candidate);
        }
        let partial = self.table.candidates().into_iter().filter(|&candidate| {
            self.space.candidates[candidate].allowed && self.table.excluded(candidate).is_none()
        });
        let means = self.workload_means();
        let mut best: Option<(usize, f64, CandidateIndex)> = None;
        for candidate in partial {
            let cells =
                (0..self.weights.len()).map(|workload| self.table.cell(candidate, workload));
            let known: Vec<(usize, &[Observation])> =
                cells.enumerate().filter(|(_, cell)| !cell.is_empty()).collect();
            let above = |&(workload, cell): &(usize, &[Observation])| {
                self.weights[workload]
                    * (median(cell.iter().filter_map(Observation::log_merit).collect())
                        - means[workload])
            };
            let score: f64 = known.iter().map(above).sum();
            if best.is_none_or(|(count, most, _)| (known.len(), score) > (count, most)) {
                best = Some((known.len(), score, candidate));
            }
        }
        best.map(|(_, _, candidate)| candidate)
    }

    fn workload_means(&self) -> Vec<f64> {
        let mut sums = vec![(0.0, 0.0); self.weights.len()];
        for (_, workload, cell) in self.table.cells() {
            for log_merit in cell.iter().filter_map(Observation::log_merit) {
                sums[workload].0 += log_merit;
                sums[workload].1 += 1.0;
            }
        }
        sums.iter().map(|(sum, count)| if *count > 0.0 { sum / count } else { 0.0 }).collect()
    }
}

/// Whether the median trial of a cell violates a constraint.
pub fn violates_constraint(cell: &[Observation]) -> bool {
    let excess: Vec<f64> = cell
        .iter()
        .filter_map(|observation| match observation.outcome {
            TrialOutcome::Measured { excess, .. } => excess,
            TrialOutcome::NoFigure | TrialOutcome::Failed | TrialOutcome::Missing => None,
        })
        .collect();
    !excess.is_empty() && median(excess) > 0.0
}

/// The median; 0 without values.
pub fn median(values: Vec<f64>) -> f64 {
    flashfit_numbers::median(&values).unwrap_or(0.0)
}
