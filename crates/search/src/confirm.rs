//! Gains of one candidate over another from the confirming trials, with confidence intervals.
//!
//! Only confirming trials count. They run after the finalists were chosen, in rounds in which the
//! finalists and the baseline run in random order. Under each workload, a trial is the sum of its
//! candidate, its round and noise. Outlying trials are pulled in (Huber's estimator), because a few
//! stalls would otherwise determine the width of every interval. A gain is the weighted mean over
//! the workloads of the differences within rounds.
//!
//! The noise of a workload is pooled over all finalists, and over repeats in the search, so a few
//! trials that happen to agree do not give a narrow interval ([`crate::confirm_noise`]). The lower
//! end of an interval allows for the choice among the finalists.
//!
//! Rounds start in different kinds of states. What a state changes in a comparison widens the
//! interval of the mean gain, and [`Gain::seen`] is where a single comparison lies that starts in
//! any of them ([`crate::confirm_states`]).
//!
//! Limits: one round gives no interval. Fewer than [`MIN_ROUNDS`] rounds show nothing.

use std::collections::BTreeMap;

use crate::confirm_noise::{self, WorkloadNoise};
use crate::confirm_states::{self, Comparisons, Starts};
use crate::history::{Observation, Purpose, TrialLength};
use crate::space::{CandidateIndex, SearchSpace, WorkloadIndex};
use crate::student;

/// The gain of one candidate over another, in natural logarithm (0.05 is 5 %).
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Gain {
    pub mean: f64,
    /// The 95 % interval of the mean over starting states; `None` with fewer than two rounds.
    pub interval: Option<(f64, f64)>,
    /// Where one more comparison from any of the states lies in 95 of 100 cases; `None` as above.
    pub seen: Option<(f64, f64)>,
    /// How many rounds contain both candidates under every workload of the gain.
    pub rounds: usize,
    /// How many finalists the interval allows for.
    pub finalists: usize,
}

impl Gain {
    /// Whether the interval is above 0, from enough rounds.
    pub fn is_significant(&self) -> bool {
        self.rounds >= MIN_ROUNDS && self.interval.is_some_and(|(low, _)| low > 0.0)
    }

    /// Whether the interval is below 0, from enough rounds.
    pub fn is_significant_loss(&self) -> bool {
        self.rounds >= MIN_ROUNDS && self.interval.is_some_and(|(_, high)| high < 0.0)
    }
}

/// The fewest rounds that can show a difference.
pub const MIN_ROUNDS: usize = 4;

/// The fewest confirming trials of a setup and the baseline under each workload.
pub const MIN_CONFIRMING_TRIALS: usize = 2 * MIN_ROUNDS;
/// The probability of each end of an interval to miss the true value.
const MISS: f64 = 0.025;

/// Values of the confirming trials of one workload, with outliers pulled in, by candidate and
/// round.
type Rounds = BTreeMap<CandidateIndex, BTreeMap<u32, f64>>;

/// The mean of the differences within rounds.
pub(crate) struct PairedMean {
    pub mean: f64,
    pub variance: f64,
    /// Of the variance; 0 if that is not known.
    pub freedom: f64,
    pub rounds: usize,
    comparisons: Vec<Comparisons>,
}

/// The confirming trials by workload.
#[derive(Debug, Clone)]
pub struct ConfirmingTrials {
    weights: Vec<f64>,
    baseline: CandidateIndex,
    by_workload: Vec<Rounds>,
    /// The same as measured.
    raw: Vec<Rounds>,
    noise: Vec<WorkloadNoise>,
    /// The noise of trials that started alike.
    within: Vec<WorkloadNoise>,
    starts: Vec<Starts>,
    /// The variance of the effect shared by all trials of a candidate in a round.
    visit: f64,
}

impl ConfirmingTrials {
    pub fn of(space: &SearchSpace, history: &[Observation]) -> Self {
        let workloads = space.workloads.len();
        let mut raw: Vec<Rounds> = vec![Rounds::new(); workloads];
        let mut searched: Vec<BTreeMap<(CandidateIndex, u64), BTreeMap<u32, f64>>> =
            vec![BTreeMap::new(); workloads];
        let mut starts: Vec<Starts> = vec![Starts::new(); workloads];
        for (at, observation) in (0..).zip(history) {
            let Some(log_merit) = observation.log_merit() else { continue };
            let proposal = &observation.proposal;
            let (candidate, workload, round) =
                (proposal.candidate, proposal.workload, proposal.repeat);
            match (proposal.purpose, proposal.length) {
                (Purpose::Confirm, _) => {
                    raw[workload].entry(candidate).or_default().insert(round, log_merit);
                    starts[workload].insert((candidate, round), observation.start);
                }
                (_, TrialLength::Full) => {
                    let alike = searched[workload].entry((candidate, observation.start));
                    alike.or_default().insert(at, log_merit);
                }
                (_, TrialLength::Short) => {}
            }
        }
        let prior: Vec<WorkloadNoise> = searched.iter().map(confirm_noise::of_repeats).collect();
        let (mut by_workload, mut residuals) = (Vec::new(), Vec::new());
        let (mut noise, mut within) = (Vec::new(), Vec::new());
        for ((rounds, starts), prior) in raw.iter().zip(&starts).zip(prior) {
            let fit = confirm_noise::fit(rounds, starts, prior);
            by_workload.push(fit.values);
            noise.push(fit.noise);
            within.push(fit.within);
            residuals.push(fit.residuals);
        }
        let visit = confirm_noise::shared_variance(&residuals);
        let (weights, baseline) = (space.weights(), space.baseline);
        Self { weights, baseline, by_workload, raw, noise, within, starts, visit }
    }

    /// All candidates of any round except the baseline.
    pub fn finalists(&self) -> Vec<CandidateIndex> {
        let mut found: Vec<CandidateIndex> =
            self.by_workload.iter().flat_map(BTreeMap::keys).copied().collect();
        found.sort_unstable();
        found.dedup();
        found.retain(|index| *index != self.baseline);
        found
    }

    /// How many rounds of a candidate contain every workload.
    pub fn rounds(&self, candidate: CandidateIndex) -> usize {
        let of = |rounds: &Rounds| rounds.get(&candidate).map_or(0, BTreeMap::len);
        self.by_workload.iter().map(of).min().unwrap_or(0)
    }

    /// The differences of two candidates under a workload by round.
    fn differences(
        &self,
        one: CandidateIndex,
        other: CandidateIndex,
        workload: WorkloadIndex,
    ) -> BTreeMap<u32, f64> {
        let rounds = &self.by_workload[workload];
        let Some((ones, others)) = rounds.get(&one).zip(rounds.get(&other)) else {
            return BTreeMap::new();
        };
        let both = ones.iter().filter_map(|(round, one)| Some((round, one, others.get(round)?)));
        both.map(|(round, one, other)| (*round, one - other)).collect()
    }

    /// The gain of `one` over `other`, chosen among all finalists; `None` unless they were compared
    /// under every workload.
    pub fn gain(&self, one: CandidateIndex, other: CandidateIndex) -> Option<Gain> {
        self.gain_among(one, other, self.finalists().len().max(1))
    }

    /// The gain of `one` over `other`, where `one` was chosen among this many finalists; 1 if it
    /// was chosen before.
    pub fn gain_among(
        &self,
        one: CandidateIndex,
        other: CandidateIndex,
        finalists: usize,
    ) -> Option<Gain> {
        self.gain_over(one, other, &self.workloads(), finalists)
    }

    /// The gain under one workload, as [`Self::gain_among`].
    pub fn gain_under(
        &self,
        one: CandidateIndex,
        other: CandidateIndex,
        workload: WorkloadIndex,
        finalists: usize,
    ) -> Option<Gain> {
        self.gain_over(one, other, &[workload], finalists)
    }

    fn gain_over(
        &self,
        one: CandidateIndex,
        other: CandidateIndex,
        workloads: &[WorkloadIndex],
        finalists: usize,
    ) -> Option<Gain> {
        let PairedMean { mean, variance, freedom, rounds, comparisons } =
            self.paired_mean(one, other, workloads)?;
        let interval = (freedom > 0.0).then(|| {
            let error = variance.sqrt();
            // A choice among finalists favors those with lucky trials, so only the lower end has to
            // allow for it.
            let low = student::quantile(1.0 - MISS / finalists as f64, freedom) * error;
            let high = student::quantile(1.0 - MISS, freedom) * error;
            (mean - low, mean + high)
        });
        let seen = interval.and_then(|(low, high)| {
            let model = confirm_states::range(&comparisons, mean, self.visit, MISS)?;
            let made = self.as_measured(one, other, workloads);
            let made = confirm_states::ends(made, MISS).unwrap_or(model);
            Some((model.0.min(made.0).min(low), model.1.max(made.1).max(high)))
        });
        Some(Gain { mean, interval, seen, rounds, finalists })
    }

    /// The mean difference of two candidates under these workloads; `None` unless they were
    /// compared under each of them.
    pub(crate) fn paired_mean(
        &self,
        one: CandidateIndex,
        other: CandidateIndex,
        workloads: &[WorkloadIndex],
    ) -> Option<PairedMean> {
        let total: f64 = workloads.iter().map(|&workload| self.weights[workload]).sum();
        let (mut mean, mut variance, mut per_freedom) = (0.0, 0.0, 0.0);
        let (mut rounds, mut own_shares) = (usize::MAX, 0.0);
        // The share of each round in the gain.
        let mut shares: BTreeMap<u32, f64> = BTreeMap::new();
        let mut comparisons = Vec::new();
        for &workload in workloads {
            let differences = self.differences(one, other, workload);
            let count = differences.len();
            if count == 0 {
                return None;
            }
            rounds = rounds.min(count);
            let weight = self.weights[workload] / total;
            mean += weight * differences.values().sum::<f64>() / count as f64;
            let noise = &self.noise[workload];
            let part = weight.powi(2) * 2.0 * noise.variance / count as f64;
            variance += part;
            per_freedom += part.powi(2) / noise.freedom.max(1.0);
            for round in differences.keys() {
                *shares.entry(*round).or_default() += weight / count as f64;
            }
            own_shares += weight.powi(2) / count as f64;
            comparisons.push(Comparisons {
                weight,
                differences: self.with_starts((one, other), workload, &differences),
                within: self.within[workload],
            });
        }
        // The noise of a workload contains the shared effect, so only what it adds between
        // workloads is missing.
        let together = shares.values().map(|share| share * share).sum::<f64>() - own_shares;
        variance += 2.0 * self.visit * together.max(0.0);
        let freedom = if per_freedom > 0.0 { variance.powi(2) / per_freedom } else { 1.0 };
        let has_noise = workloads.iter().all(|&workload| self.noise[workload].freedom > 0.0);
        let freedom = if rounds > 1 && has_noise { freedom } else { 0.0 };
        Some(PairedMean { mean, variance, freedom, rounds, comparisons })
    }

    /// All workloads.
    pub(crate) fn workloads(&self) -> Vec<WorkloadIndex> {
        (0..self.weights.len()).collect()
    }

    /// The gains of the rounds that have both candidates under all these workloads, as measured.
    fn as_measured(
        &self,
        one: CandidateIndex,
        other: CandidateIndex,
        workloads: &[WorkloadIndex],
    ) -> Vec<f64> {
        let total: f64 = workloads.iter().map(|&workload| self.weights[workload]).sum();
        let mut gains: BTreeMap<u32, (f64, usize)> = BTreeMap::new();
        for &workload in workloads {
            let raw = &self.raw[workload];
            let Some((ones, others)) = raw.get(&one).zip(raw.get(&other)) else { continue };
            for (round, of_one) in ones {
                let Some(of_other) = others.get(round) else { continue };
                let gain = gains.entry(*round).or_default();
                gain.0 += self.weights[workload] / total * (of_one - of_other);
                gain.1 += 1;
            }
        }
        let is_whole = |(_, count): &&(f64, usize)| *count == workloads.len();
        gains.values().filter(is_whole).map(|(gain, _)| *gain).collect()
    }

    /// The differences with the kinds of states that both started in; 0 if they differ.
    fn with_starts(
        &self,
        (one, other): (CandidateIndex, CandidateIndex),
        workload: WorkloadIndex,
        differences: &BTreeMap<u32, f64>,
    ) -> Vec<(u64, f64)> {
        let start = |candidate, round| self.starts[workload].get(&(candidate, round));
        let of = |(round, difference): (&u32, &f64)| {
            let same = start(one, *round).filter(|kind| Some(*kind) == start(other, *round));
            (same.copied().unwrap_or(0), *difference)
        };
        differences.iter().map(of).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::history::{Batch, Proposal, TrialOutcome};
    use crate::landscape::LandscapeKind;
    use crate::random::RandomStream;

    fn observation(candidate: usize, repeat: u32, log_merit: f64) -> Observation {
        let batch = Batch { number: repeat, size: 3 };
        let (length, purpose) = (TrialLength::Full, Purpose::Confirm);
        let proposal = Proposal { candidate, workload: 0, length, purpose, repeat, batch };
        Observation {
            proposal,
            visit: 0,
            start: 0,
            outcome: TrialOutcome::Measured { log_merit, excess: None },
        }
    }

    fn space() -> SearchSpace {
        let mut space = LandscapeKind::Tiny.make(1).space;
        space.baseline = 0;
        space
    }

    fn of(gains: &[f64]) -> Option<Gain> {
        let history: Vec<Observation> = (0u32..)
            .zip(gains)
            .flat_map(|(round, gain)| {
                let common = 0.05 * f64::from(round);
                [observation(0, round, common), observation(5, round, common + gain)]
            })
            .collect();
        ConfirmingTrials::of(&space(), &history).gain(5, 0)
    }

    #[test]
    fn one_finalist_gives_about_the_paired_t_interval() {
        let gain = of(&[0.1, 0.2, 0.3, 0.2, 0.22]).expect("both ran");
        assert!((gain.mean - 0.2).abs() < 0.01, "{gain:?}");
        let (low, high) = gain.interval.expect("five rounds");
        // The paired t interval is 0.204 -+ 0.089.
        assert!((0.06..0.12).contains(&(gain.mean - low)), "{gain:?}");
        assert!((high + low - 2.0 * gain.mean).abs() < 1e-9);
        assert!(gain.is_significant());
        assert_eq!((gain.rounds, gain.finalists), (5, 1));
    }

    #[test]
    fn fewer_than_four_rounds_show_nothing() {
        let gain = of(&[0.2, 0.201, 0.199]).expect("both ran");
        assert!(gain.interval.expect("three rounds").0 > 0.0);
        assert!(!gain.is_significant());
        assert!(of(&[0.2, 0.201, 0.199, 0.2]).expect("both ran").is_significant());
    }

    #[test]
    fn one_stall_does_not_hide_a_gain() {
        let gains = [0.1, 0.11, 0.09, 0.1, 0.1, 0.11, -0.9, 0.1];
        let gain = of(&gains).expect("both ran");
        assert!(gain.is_significant(), "{gain:?}");
        assert!((0.07..0.11).contains(&gain.mean), "{gain:?}");
    }

    #[test]
    fn one_round_gives_no_interval_and_no_round_gives_no_gain() {
        let history = [observation(0, 0, 1.0), observation(5, 0, 1.5)];
        let confirmed = ConfirmingTrials::of(&space(), &history);
        assert_eq!(confirmed.gain(5, 0).expect("both ran").interval, None);
        assert_eq!(confirmed.gain(4, 0), None);
    }

    #[test]
    fn a_workload_that_was_not_compared_leaves_the_gain_unknown() {
        let space = LandscapeKind::Small.make(1).space;
        let history: Vec<Observation> = (0..6)
            .flat_map(|round| [observation(space.baseline, round, 0.0), observation(5, round, 1.0)])
            .collect();
        let confirmed = ConfirmingTrials::of(&space, &history);
        assert_eq!(confirmed.gain(5, space.baseline), None);
        assert!(confirmed.gain_under(5, space.baseline, 0, 1).is_some());
    }

    /// The search repeated the two setups and saw a spread of 50 %, so two confirming trials that
    /// happen to agree do not give an interval of 1 %.
    #[test]
    fn repeats_in_the_search_are_a_floor_of_the_noise() {
        let mut random = RandomStream::new(4);
        let mut history = Vec::new();
        for candidate in [0, 5] {
            for repeat in 0..6 {
                let mut of_search = observation(candidate, repeat, 0.5 * random.normal());
                of_search.proposal.purpose = Purpose::Search;
                history.push(of_search);
            }
        }
        for round in 0..4 {
            history.push(observation(0, round, 0.001 * f64::from(round)));
            history.push(observation(5, round, 0.5));
        }
        let gain = ConfirmingTrials::of(&space(), &history).gain(5, 0).expect("both ran");
        let (low, high) = gain.interval.expect("four rounds");
        assert!(high - low > 0.4, "{gain:?}");
    }

    /// The share of intervals of six rounds that contain the true gain, after a search that
    /// measured this many setups twice.
    fn coverage(searched_twice: usize) -> f64 {
        let mut random = RandomStream::new(9);
        let mut inside = 0;
        const SEARCHES: usize = 2000;
        for _ in 0..SEARCHES {
            let mut noise = || {
                let stall = if random.unit() < 0.03 { -0.5 } else { 0.0 };
                0.08f64.mul_add(random.normal(), stall)
            };
            let mut history = Vec::new();
            for (candidate, repeat) in (0..searched_twice).flat_map(|c| [(c, 0), (c, 1)]) {
                let mut of_search = observation(candidate, repeat, noise());
                of_search.proposal.purpose = Purpose::Search;
                history.push(of_search);
            }
            for round in 0..6 {
                let common = noise();
                history.extend([0, 5].map(|index| observation(index, round, common + noise())));
            }
            let gain = ConfirmingTrials::of(&space(), &history).gain(5, 0).expect("both ran");
            let (low, high) = gain.interval.expect("six rounds");
            inside += usize::from(low <= 0.0 && 0.0 <= high);
        }
        inside as f64 / SEARCHES as f64
    }

    #[test]
    fn intervals_of_paired_rounds_have_their_coverage() {
        for searched_twice in [0, 6] {
            let share = coverage(searched_twice);
            assert!((0.93..0.97).contains(&share), "{searched_twice}: {share}");
        }
    }
}
