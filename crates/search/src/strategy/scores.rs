//! The plain score that the simple strategies go by: the weighted mean over workloads of the median
//! of a candidate's trials, once all that were asked for are made.

use crate::history::{Observation, Purpose, TrialLength, TrialOutcome, TrialTable};
use crate::limits::Limits;
use crate::space::{CandidateIndex, SearchSpace};

use super::Request;

/// Where a candidate stands.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum CandidateStanding {
    /// Some trials are still to be made.
    Incomplete,
    /// It failed, cannot be measured, or breaks a demand.
    Out,
    /// All trials are made.
    Score(f64),
}

/// The scores after a history.
#[derive(Debug)]
pub struct Scores<'a> {
    space: &'a SearchSpace,
    weights: Vec<f64>,
    table: TrialTable,
    repeats: usize,
}

impl<'a> Scores<'a> {
    /// From the full-length trials of the search.
    pub fn of(space: &'a SearchSpace, history: &[Observation], limits: &Limits) -> Self {
        let table = TrialTable::of(history, |ask| {
            ask.purpose == Purpose::Search && ask.length == TrialLength::Full
        });
        Self { space, weights: space.weights(), table, repeats: limits.repeats as usize }
    }

    /// Where a candidate stands.
    pub fn standing(&self, candidate: CandidateIndex) -> CandidateStanding {
        if self.table.out(candidate).is_some() {
            return CandidateStanding::Out;
        }
        let mut score = 0.0;
        for (workload, weight) in self.weights.iter().enumerate() {
            let cell = self.table.cell(candidate, workload);
            if cell.len() < self.repeats {
                return CandidateStanding::Incomplete;
            }
            if breaks_demand(cell) {
                return CandidateStanding::Out;
            }
            score += weight * median(cell.iter().filter_map(Observation::log_merit).collect());
        }
        CandidateStanding::Score(score)
    }

    /// The trials that some candidates still need, repeat by repeat so that a budget that ends
    /// early has touched all of them.
    pub fn missing(&self, candidates: &[CandidateIndex]) -> Vec<Request> {
        let mut wishes = Vec::new();
        for repeat in 0..self.repeats {
            for &candidate in candidates {
                if self.table.out(candidate).is_some() {
                    continue;
                }
                let lacking = (0..self.weights.len())
                    .filter(|&workload| self.table.cell(candidate, workload).len() <= repeat);
                wishes.extend(lacking.map(|workload| Request {
                    candidate,
                    workload,
                    length: TrialLength::Full,
                    purpose: Purpose::Search,
                }));
            }
        }
        wishes
    }

    /// The best of some candidates among those that may be chosen; of equal ones the first.
    pub fn best(
        &self,
        candidates: impl IntoIterator<Item = CandidateIndex>,
    ) -> Option<(CandidateIndex, f64)> {
        let allowed = |&index: &CandidateIndex| self.space.candidates[index].allowed;
        self.best_of(candidates.into_iter().filter(allowed))
    }

    /// The best of some candidates, whether they may be chosen or not; of equal ones the first.
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

    /// The best of all whose trials are made; failing that, of those with the most workloads
    /// measured, the one that is most above the others under them.
    pub fn choice(&self) -> Option<CandidateIndex> {
        if let Some((candidate, _)) = self.best(0..self.space.candidates.len()) {
            return Some(candidate);
        }
        let partial = self.table.candidates().into_iter().filter(|&candidate| {
            self.space.candidates[candidate].allowed && self.table.out(candidate).is_none()
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

/// Whether most of a cell's trials break a demand.
pub fn breaks_demand(cell: &[Observation]) -> bool {
    let excess: Vec<f64> = cell
        .iter()
        .filter_map(|told| match told.outcome {
            TrialOutcome::Measured { excess, .. } => excess,
            TrialOutcome::Failed | TrialOutcome::Missing => None,
        })
        .collect();
    !excess.is_empty() && median(excess) > 0.0
}

/// The median; 0 of no values.
pub fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    let half = values.len() / 2;
    match values.len() {
        0 => 0.0,
        count if count % 2 == 1 => values[half],
        _ => f64::midpoint(values[half - 1], values[half]),
    }
}
