//! What trials of similar devices say before the first trial: the prior mean of a search.
//!
//! The results of all similar devices, without the levels of each, are smoothed by the search's
//! own model, which also fills in the setups that were not measured there. That mean, relative to
//! the workload's level, is `m`. A trial's logarithm is then modeled as `b m` plus what the model
//! learns from the device itself. The factor `b` is estimated from the device's own trials: near 1
//! if the devices rank alike, 0 if they have nothing in common. So a misleading prior is
//! overruled.
//!
//! Limits: `b` is one number for all setups and workloads; that the smoothed results are uncertain
//! themselves is seen only in what remains of the device's own trials.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use crate::history::{Batch, Observation, Proposal, Purpose, TrialLength, TrialOutcome};
use crate::model::{Coding, Model, Variances};
use crate::random::RandomStream;
use crate::space::{CandidateIndex, SearchSpace, WorkloadIndex};

/// The factor that is expected before the first trial, and its standard deviation.
const EXPECTED_FACTOR: f64 = 0.7;
const FACTOR_SD: f64 = 0.5;
/// The largest factor: differences that are larger than on the similar devices.
const MAX_FACTOR: f64 = 1.3;
/// The most results that are smoothed; of more, those with most repeats and a random part of the
/// others are taken.
const MAX_RESULTS: usize = 900;
/// The most repeats of one result that count.
const MAX_REPEATS: u32 = 50;
const SUBSET_SEED: u64 = 0x7369_626c_696e_6773;
/// The least variance of a trial around the prior.
const LEAST_VARIANCE: f64 = 1e-4;

/// A result of a similar device.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SimilarResult {
    pub candidate: CandidateIndex,
    pub workload: WorkloadIndex,
    pub length: TrialLength,
    /// The mean of the natural logarithm of the merit over its trials.
    pub log_merit: f64,
    /// The number of trials, and the standard deviation of their logarithms; 0 if there is one.
    pub repeats: u32,
    pub sd: f64,
}

/// The results of similar devices, for searches of one space.
#[derive(Debug, Clone)]
pub struct SearchPrior {
    devices: Vec<Vec<SimilarResult>>,
    /// Whether they come from a twin of the device itself.
    is_twin: bool,
    /// Shared by all clones, because smoothing takes long.
    mean: Arc<OnceLock<Option<PriorMean>>>,
}

impl SearchPrior {
    /// The results by device. Those of candidates or workloads that the space lacks are left out.
    pub fn new(devices: Vec<Vec<SimilarResult>>) -> Self {
        Self { devices, is_twin: false, mean: Arc::default() }
    }

    /// The results of a simulated twin of the device: the best of them run first.
    #[must_use]
    pub fn of_twin(self) -> Self {
        Self { is_twin: true, ..self }
    }

    pub fn is_twin(&self) -> bool {
        self.is_twin
    }

    /// The prior mean; `None` without results. All searches have the same candidates and workloads.
    pub(crate) fn mean(&self, space: &SearchSpace) -> Option<&PriorMean> {
        self.mean.get_or_init(|| PriorMean::of(space, &self.devices)).as_ref()
    }
}

/// The prior mean of every candidate under every workload, relative to the workload's level.
#[derive(Debug, Clone)]
pub(crate) struct PriorMean {
    cells: Vec<Vec<f64>>,
    weights: Vec<f64>,
}

/// A history relative to the prior.
#[derive(Debug, Clone)]
pub(crate) struct Relative {
    /// The trials without what the prior explains.
    pub history: Vec<Observation>,
    /// What to add to the merit of each candidate, and by how much more where the factor is one
    /// standard error larger.
    pub offsets: Vec<(f64, f64)>,
}

impl PriorMean {
    /// `None` if there are no results of candidates of the space.
    fn of(space: &SearchSpace, devices: &[Vec<SimilarResult>]) -> Option<Self> {
        let (candidates, workloads) = (space.candidates.len(), space.workloads.len());
        let known = |result: &SimilarResult| {
            result.candidate < candidates
                && result.workload < workloads
                && result.log_merit.is_finite()
        };
        let mut devices: Vec<Vec<SimilarResult>> =
            devices.iter().map(|device| device.iter().copied().filter(known).collect()).collect();
        devices.retain(|device| !device.is_empty());
        devices.sort_by_key(|device| std::cmp::Reverse(device.len()));
        let all: Vec<CandidateIndex> = (0..candidates).collect();
        let coding = Coding::of(space, &all);
        let nothing = vec![vec![0.0; workloads]; candidates];
        let mut mean = Self { cells: nothing, weights: space.weights() };
        if devices.is_empty() {
            return None;
        }
        // The device with the most results first; then all, with levels relative to that one.
        let mut steps = vec![1, devices.len()];
        steps.dedup();
        for known in steps {
            let pooled: Vec<SimilarResult> =
                devices[..known].iter().flat_map(|device| mean.without_levels(device)).collect();
            let model = Model::fit(space, &coding, &as_history(&pooled), Variances::Learned);
            let of = |candidate: CandidateIndex| -> Vec<f64> {
                (0..workloads).map(|workload| model.mean_under(candidate, workload)).collect()
            };
            let mut cells: Vec<Vec<f64>> = all.iter().map(|&candidate| of(candidate)).collect();
            for workload in 0..workloads {
                let level = cells.iter().map(|cell| cell[workload]).sum::<f64>();
                let level = level / candidates as f64;
                cells.iter_mut().for_each(|cell| cell[workload] -= level);
            }
            mean.cells = cells;
        }
        Some(mean)
    }

    /// The results of a device less their level above this mean under each workload.
    fn without_levels(&self, device: &[SimilarResult]) -> Vec<SimilarResult> {
        let mut sums: BTreeMap<(WorkloadIndex, TrialLength), (f64, f64)> = BTreeMap::new();
        for result in device {
            let sum = sums.entry((result.workload, result.length)).or_default();
            sum.0 += result.log_merit - self.cells[result.candidate][result.workload];
            sum.1 += 1.0;
        }
        let level = |result: &SimilarResult| {
            let (sum, count) = sums[&(result.workload, result.length)];
            sum / count
        };
        let without = |result: &SimilarResult| SimilarResult {
            log_merit: result.log_merit - level(result),
            ..*result
        };
        device.iter().map(without).collect()
    }

    /// The prior mean of a candidate's merit.
    pub fn merit(&self, candidate: CandidateIndex) -> f64 {
        self.weights.iter().zip(&self.cells[candidate]).map(|(weight, mean)| weight * mean).sum()
    }

    /// A history without what the prior explains of it.
    pub fn relative(&self, history: &[Observation]) -> Relative {
        let (factor, doubt) = self.factor(history);
        let without = |observation: &Observation| {
            let Proposal { candidate, workload, .. } = observation.proposal;
            let outcome = match observation.outcome {
                TrialOutcome::Measured { log_merit, excess } => TrialOutcome::Measured {
                    log_merit: log_merit - factor * self.cells[candidate][workload],
                    excess,
                },
                other => other,
            };
            Observation { outcome, ..*observation }
        };
        Relative {
            history: history.iter().map(without).collect(),
            offsets: (0..self.cells.len())
                .map(|index| self.merit(index))
                .map(|merit| (factor * merit, doubt * merit))
                .collect(),
        }
    }

    /// How far the trials differ as the prior says: 1 if they do, 0 if not at all.
    pub fn factor_of(&self, history: &[Observation]) -> f64 {
        self.factor(history).0
    }

    /// The factor on the prior mean, and its standard error: the regression of the trials on it,
    /// shrunk towards the expected one.
    fn factor(&self, history: &[Observation]) -> (f64, f64) {
        let measured: Vec<(usize, f64, f64)> = history
            .iter()
            .filter_map(|observation| {
                let Proposal { candidate, workload, length, .. } = observation.proposal;
                let group = 2 * workload + usize::from(length == TrialLength::Short);
                Some((group, self.cells[candidate][workload], observation.log_merit()?))
            })
            .collect();
        let mut sums = vec![(0.0, 0.0, 0.0); 2 * self.weights.len()];
        for &(group, prior, log) in &measured {
            let (count, of_prior, of_log) = &mut sums[group];
            *count += 1.0;
            *of_prior += prior;
            *of_log += log;
        }
        let centered: Vec<(f64, f64)> = measured
            .iter()
            .map(|&(group, prior, log)| {
                let (count, of_prior, of_log) = sums[group];
                (prior - of_prior / count, log - of_log / count)
            })
            .collect();
        let squares: f64 = centered.iter().map(|(prior, _)| prior * prior).sum();
        let products: f64 = centered.iter().map(|(prior, log)| prior * log).sum();
        let (mut factor, mut doubt) = (EXPECTED_FACTOR, FACTOR_SD);
        for _ in 0..3 {
            let rest: f64 =
                centered.iter().map(|(prior, log)| (log - factor * prior).powi(2)).sum();
            let variance = (rest / centered.len().max(1) as f64).max(LEAST_VARIANCE);
            let precision = variance / (FACTOR_SD * FACTOR_SD);
            factor = (products + precision * EXPECTED_FACTOR) / (squares + precision);
            doubt = (variance / (squares + precision)).sqrt();
        }
        (factor.clamp(0.0, MAX_FACTOR), doubt)
    }
}

/// Results as the history of a search: for each, repeats with its mean and standard deviation.
fn as_history(results: &[SimilarResult]) -> Vec<Observation> {
    let mut results = results.to_vec();
    if results.len() > MAX_RESULTS {
        RandomStream::new(SUBSET_SEED).shuffle(&mut results);
        results.sort_by_key(|result| std::cmp::Reverse(result.repeats));
        results.truncate(MAX_RESULTS);
    }
    let mut history = Vec::new();
    for (number, result) in (0..).zip(&results) {
        let repeats = result.repeats.clamp(1, MAX_REPEATS);
        for repeat in 0..repeats {
            history.push(Observation {
                proposal: Proposal {
                    candidate: result.candidate,
                    workload: result.workload,
                    length: result.length,
                    purpose: Purpose::Search,
                    repeat,
                    batch: Batch { number: number * MAX_REPEATS + repeat, size: 1 },
                },
                // All at one time: their order is not known, so there is no drift to be found.
                visit: 0,
                start: 0,
                outcome: TrialOutcome::Measured {
                    log_merit: result.log_merit + result.sd * deviation(repeat, repeats),
                    excess: None,
                },
            });
        }
    }
    history
}

/// The values of `repeats` repeats whose mean is 0 and whose standard deviation is 1: half of them
/// on each side, the last of an odd number in the middle.
fn deviation(repeat: u32, repeats: u32) -> f64 {
    let count = f64::from(repeats);
    let sign = if repeat % 2 == 0 { 1.0 } else { -1.0 };
    match repeats % 2 {
        0 => sign * ((count - 1.0) / count).sqrt(),
        _ if repeat + 1 == repeats => 0.0,
        _ => sign,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::landscape::{LandscapeKind, SearchTrace, run, similar, surveyed};
    use crate::settings::SearchSettings;
    use crate::strategy::Adaptive;

    #[test]
    fn repeats_have_the_mean_and_the_deviation_of_their_result() {
        for repeats in 1..9u32 {
            let values: Vec<f64> = (0..repeats).map(|at| deviation(at, repeats)).collect();
            let squares: f64 = values.iter().map(|value| value * value).sum();
            assert!(values.iter().sum::<f64>().abs() < 1e-12);
            let wanted = f64::from(repeats - 1);
            assert!((squares - wanted).abs() < 1e-9, "{repeats}: {squares}");
        }
    }

    #[test]
    fn the_factor_follows_the_trials() {
        let landscape = LandscapeKind::Small.make(5);
        let count = landscape.truth.len();
        let cells: Vec<Vec<f64>> = (0..count)
            .map(|candidate| vec![landscape.merit(candidate) - landscape.merit(0); 6])
            .collect();
        let mean = PriorMean { cells, weights: landscape.space.weights() };
        let factor = |of: &dyn Fn(usize) -> f64| {
            let results: Vec<SimilarResult> = (0..40)
                .map(|trial| SimilarResult {
                    candidate: trial * 7 % count,
                    workload: trial % 6,
                    length: TrialLength::Full,
                    log_merit: of(trial * 7 % count),
                    repeats: 1,
                    sd: 0.0,
                })
                .collect();
            mean.factor(&as_history(&results)).0
        };
        assert!((factor(&|candidate| landscape.merit(candidate)) - 1.0).abs() < 0.1);
        assert!(factor(&|candidate| -landscape.merit(candidate)) == 0.0);
        assert!(factor(&|_| 3.0) < 0.1);
        assert_eq!(mean.factor(&[]), (EXPECTED_FACTOR, FACTOR_SD), "nothing is known yet");
    }

    #[test]
    fn devices_with_other_levels_are_pooled() {
        let landscape = LandscapeKind::Small.make(8);
        let of = |level: f64, first: usize| -> Vec<SimilarResult> {
            let candidates = (first..landscape.truth.len()).step_by(2);
            candidates
                .map(|candidate| SimilarResult {
                    candidate,
                    workload: candidate % 6,
                    length: TrialLength::Full,
                    log_merit: level + landscape.truth[candidate][candidate % 6],
                    repeats: 1,
                    sd: 0.0,
                })
                .collect()
        };
        let one = PriorMean::of(&landscape.space, &[of(0.0, 0), of(0.0, 1)]).expect("results");
        let other = PriorMean::of(&landscape.space, &[of(0.0, 0), of(5.0, 1)]).expect("results");
        for candidate in 0..landscape.truth.len() {
            assert!((one.merit(candidate) - other.merit(candidate)).abs() < 1e-6);
        }
        let unknown = SimilarResult { candidate: 5000, ..of(0.0, 0)[0] };
        assert!(PriorMean::of(&landscape.space, &[vec![unknown]]).is_none());
    }

    fn search(prior: Option<SearchPrior>, trials: f64) -> (SearchTrace, f64) {
        let landscape = LandscapeKind::Tiny.make(2);
        let settings = SearchSettings { trials: Some(trials), ..SearchSettings::default() };
        let trace = run(&Adaptive::with_prior(prior), &landscape, &settings).expect("a search");
        let regret = landscape.regret(trace.choice.expect("something was measured"));
        (trace, regret)
    }

    #[test]
    fn a_search_tries_what_was_best_on_a_similar_device_first() {
        let landscape = LandscapeKind::Tiny.make(2);
        let other = similar(&landscape, LandscapeKind::Tiny, 1.0, 9);
        let settings = SearchSettings { trials: Some(60.0), ..SearchSettings::default() };
        let results = surveyed(&Adaptive::default(), &other, &settings).expect("a search");
        let (trace, regret) = search(Some(SearchPrior::new(vec![results])), 12.0);
        assert!(regret < 0.02, "{regret}");
        let first = trace.history.iter().take(6).map(|trial| trial.proposal.candidate);
        assert!(first.collect::<Vec<_>>().contains(&landscape.best()));
        // Without results, the search is the usual one.
        let (usual, _) = search(None, 12.0);
        let (empty, _) = search(Some(SearchPrior::new(Vec::new())), 12.0);
        assert_eq!(usual.history, empty.history);
    }
}
