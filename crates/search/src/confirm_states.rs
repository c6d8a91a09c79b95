//! Kinds of starting states in confirming trials: how noisy trials are that started alike, and
//! where one more comparison from any of the states may lie.
//!
//! Rounds go through the kinds of states in turn, and all trials of a round start alike. The kinds
//! are few and known, so the range reaches from the worst to the best kind instead of assuming a
//! normal distribution of states. The spread of the kinds' means is shrunk by the part that noise
//! explains (James and Stein's positive part), so that it vanishes where states do not matter. The
//! range contains the comparisons that were made, except for the outer 2.5 % on each side: what was
//! an outlier for the mean, such as the rarer of two speeds, is what a user may meet.
//!
//! Limit: with one round of each kind, noise and states are separated only by repeats in the
//! search, and otherwise by assuming that most kinds agree.

use std::collections::{BTreeMap, BTreeSet};

use flashfit_numbers::median;

use crate::confirm_noise::{WorkloadNoise, noise_of};
use crate::space::CandidateIndex;
use crate::student;

/// The kind of state that a trial of a candidate in a round started in; 0 if it is not in here.
pub type Starts = BTreeMap<(CandidateIndex, u32), u64>;

/// From this many trials of a candidate that started alike, outliers are pulled in.
const ENOUGH_FOR_OUTLIERS: usize = 3;
/// With fewer degrees of freedom, the noise of trials that started alike is not known.
const LEAST_FREEDOM: f64 = 2.0;
/// A residual that moved by less was not an outlier, but rounded.
const MIN_PULL: f64 = 1e-9;

/// Trials by candidate and kind of state.
pub struct Cells {
    /// The cell of each trial.
    of: Vec<usize>,
    count: usize,
    /// Degrees of freedom of the states' effects on comparisons.
    freedom: f64,
}

impl Cells {
    pub fn of(trials: &[(CandidateIndex, u32, f64)], starts: &Starts) -> Self {
        let kind = |candidate, round| starts.get(&(candidate, round)).copied().unwrap_or(0);
        let kinds: BTreeSet<u64> = trials.iter().map(|(c, r, _)| kind(*c, *r)).collect();
        let mut known: BTreeMap<(CandidateIndex, u64), usize> = BTreeMap::new();
        let mut of = Vec::new();
        for (candidate, round, _) in trials {
            let next = known.len();
            let cell = (*candidate, kind(*candidate, *round));
            // With one kind there is nothing to tell apart.
            let cell = if kinds.len() > 1 { cell } else { (0, 0) };
            of.push(*known.entry(cell).or_insert(next));
        }
        let candidates: BTreeSet<CandidateIndex> = trials.iter().map(|(c, ..)| *c).collect();
        let freedom = candidates.len().saturating_sub(1) * kinds.len().saturating_sub(1);
        Self { of, count: if kinds.len() > 1 { known.len() } else { 0 }, freedom: freedom as f64 }
    }

    /// The degrees of freedom of trials that started alike, of all those of the residuals.
    pub fn freedom(&self, all: f64) -> f64 {
        if self.count == 0 { all } else { (all - self.freedom).max(1.0) }
    }

    fn members(&self, residuals: &[f64]) -> Vec<Vec<f64>> {
        let mut members = vec![Vec::new(); self.count];
        for (cell, residual) in self.of.iter().zip(residuals).filter(|_| self.count > 0) {
            members[*cell].push(*residual);
        }
        members
    }

    /// Towards what each residual is pulled if it is an outlier: with too few that started alike,
    /// the residual itself.
    pub fn centers(&self, residuals: &[f64]) -> Vec<f64> {
        let members = self.members(residuals);
        let center = |(cell, residual): (&usize, &f64)| {
            if self.count == 0 {
                return 0.0;
            }
            let alike = &members[*cell];
            let is_enough = alike.len() >= ENOUGH_FOR_OUTLIERS;
            median(alike).filter(|_| is_enough).unwrap_or(*residual)
        };
        self.of.iter().zip(residuals).map(center).collect()
    }

    /// The noise of comparisons over all states, and that of trials that started alike; `pulled`
    /// are the residuals with outliers among those that started alike pulled in.
    pub fn noise(
        &self,
        residuals: &[f64],
        pulled: &[f64],
        freedom: f64,
        prior: WorkloadNoise,
    ) -> (WorkloadNoise, WorkloadNoise) {
        let robust = noise_of(&mut residuals.to_vec(), freedom, prior);
        if self.count == 0 || freedom < 0.5 {
            return (robust, robust);
        }
        let members = self.members(residuals);
        let mut apart: Vec<f64> = Vec::new();
        for alike in members.iter().filter(|alike| alike.len() > 1) {
            let mean = alike.iter().sum::<f64>() / alike.len() as f64;
            apart.extend(alike.iter().map(|value| value - mean));
        }
        let alike = noise_of(&mut apart, freedom - self.freedom, prior);
        let within = if alike.freedom < LEAST_FREEDOM { robust } else { alike };
        // The mean is that of the pulled values, so their variance counts, as in Huber's estimate.
        let squares: f64 = pulled.iter().map(|value| value * value).sum();
        let is_inside = |(one, other): &(&f64, &f64)| (*one - *other).abs() < MIN_PULL;
        let inside = pulled.iter().zip(residuals).filter(is_inside).count();
        let share = (inside as f64 / residuals.len() as f64).max(0.5);
        let variance = squares / freedom / share.powi(2);
        let over_states = WorkloadNoise { variance, freedom };
        // States cannot make comparisons less noisy: if it seems so, they have no effect.
        let noise = if variance > within.variance { over_states } else { robust };
        (noise, within)
    }
}

/// The comparisons of two candidates under a workload.
#[derive(Debug, Clone)]
pub struct Comparisons {
    /// The workload's share in the gain.
    pub weight: f64,
    /// The differences with the kinds of states that they started in.
    pub differences: Vec<(u64, f64)>,
    /// The noise of a trial among those that started alike.
    pub within: WorkloadNoise,
}

/// Where one more comparison from any of the states lies with a probability of at least
/// 1 - 2 `miss`, around the mean gain; `shared` is the variance of the effect shared by all trials
/// of a candidate in a round.
pub fn range(comparisons: &[Comparisons], mean: f64, shared: f64, miss: f64) -> Option<(f64, f64)> {
    let (mut once, mut of_mean, mut per_freedom) = (0.0, 0.0, 0.0);
    let mut kinds: BTreeMap<u64, KindMean> = BTreeMap::new();
    for of in comparisons {
        let part = of.weight.powi(2) * 2.0 * of.within.variance;
        once += part;
        of_mean += part / of.differences.len().max(1) as f64;
        per_freedom += part.powi(2) / of.within.freedom.max(1.0);
        let mut by_kind: BTreeMap<u64, Vec<f64>> = BTreeMap::new();
        for (kind, difference) in &of.differences {
            by_kind.entry(*kind).or_default().push(*difference);
        }
        for (kind, values) in by_kind {
            let count = values.len() as f64;
            let found = kinds.entry(kind).or_default();
            found.mean += of.weight * values.iter().sum::<f64>() / count;
            found.variance += part / count;
            found.workloads += 1;
        }
    }
    if comparisons.iter().any(|of| of.within.freedom <= 0.0) {
        return None;
    }
    // A kind that a workload lacks has no mean of the whole gain.
    kinds.retain(|_, kind| kind.workloads == comparisons.len());
    let (below, above, error) = spread(&kinds, of_mean);
    let variance = once + 2.0 * shared + error;
    let freedom = if per_freedom > 0.0 { once.powi(2) / per_freedom } else { 1.0 };
    let half = student::quantile(1.0 - miss, freedom) * variance.sqrt();
    Some((mean - below - half, mean + above + half))
}

/// The smallest and the largest value without this share on each side.
pub fn ends(mut values: Vec<f64>, miss: f64) -> Option<(f64, f64)> {
    values.sort_by(f64::total_cmp);
    let left_out = (values.len() as f64 * miss) as usize;
    let last = values.len().checked_sub(1 + left_out)?;
    Some((values[left_out], values[last]))
}

#[derive(Debug, Clone, Copy, Default)]
struct KindMean {
    mean: f64,
    variance: f64,
    workloads: usize,
}

/// How far the kinds reach below and above their mean, without what noise explains, and the
/// variance of a kind's mean.
fn spread(kinds: &BTreeMap<u64, KindMean>, of_mean: f64) -> (f64, f64, f64) {
    if kinds.len() < 2 {
        return (0.0, 0.0, of_mean);
    }
    let count = kinds.len() as f64;
    let middle = kinds.values().map(|kind| kind.mean).sum::<f64>() / count;
    let noise = kinds.values().map(|kind| kind.variance).sum::<f64>() / count;
    let squares: f64 = kinds.values().map(|kind| (kind.mean - middle).powi(2)).sum();
    let seen = squares / (count - 1.0);
    let kept = if seen > 0.0 { (1.0 - noise / seen).max(0.0) } else { 0.0 };
    let ends = kinds.values().fold((0.0_f64, 0.0_f64), |(below, above), kind| {
        (below.max(middle - kind.mean), above.max(kind.mean - middle))
    });
    (kept * ends.0, kept * ends.1, kept * noise + (1.0 - kept) * of_mean)
}

#[cfg(test)]
mod tests {
    use crate::confirm::ConfirmingTrials;
    use crate::history::{Batch, Observation, Proposal, Purpose, TrialLength, TrialOutcome};
    use crate::landscape::LandscapeKind;
    use crate::random::RandomStream;

    const NOISE: f64 = 0.05;

    /// What the state changes in the comparison, by kind.
    type StateEffects = [f64; 4];

    fn trials(rounds: u32, effects: StateEffects, random: &mut RandomStream) -> Vec<Observation> {
        let mut history = Vec::new();
        for round in 0..rounds {
            let kind = round as usize % effects.len();
            let common = 0.3 * random.normal();
            for candidate in [0, 5] {
                let effect = if candidate == 5 { effects[kind] } else { 0.0 };
                let log_merit = NOISE.mul_add(random.normal(), common + effect);
                let batch = Batch { number: round, size: 2 };
                let (length, purpose) = (TrialLength::Full, Purpose::Confirm);
                let (workload, repeat) = (0, round);
                let proposal = Proposal { candidate, workload, length, purpose, repeat, batch };
                let outcome = TrialOutcome::Measured { log_merit, excess: None };
                history.push(Observation { proposal, visit: 0, start: kind as u64, outcome });
            }
        }
        history
    }

    /// The shares of a user's comparisons that are in the range, and of mean gains in the interval,
    /// and the mean width of the range.
    fn coverage(rounds: u32, effects: StateEffects) -> (f64, f64, f64) {
        let mut space = LandscapeKind::Tiny.make(1).space;
        space.baseline = 0;
        let mut random = RandomStream::new(u64::from(rounds));
        let (mut inside, mut of_mean, mut width) = (0, 0, 0.0);
        const RUNS: usize = 1000;
        let mean = effects.iter().sum::<f64>() / 4.0;
        for run in 0..RUNS {
            let history = trials(rounds, effects, &mut random);
            let gain = ConfirmingTrials::of(&space, &history).gain(5, 0).expect("both ran");
            let ((low, high), interval) = (gain.seen.expect("rounds"), gain.interval.expect("too"));
            let noise = NOISE * (random.normal() - random.normal());
            let users = effects[run % 4] + noise;
            inside += usize::from(low <= users && users <= high);
            of_mean += usize::from(interval.0 <= mean && mean <= interval.1);
            width += (high - low) / RUNS as f64;
        }
        (inside as f64 / RUNS as f64, of_mean as f64 / RUNS as f64, width)
    }

    #[test]
    fn a_comparison_from_any_state_lies_in_the_range() {
        for effects in
            [[0.0; 4], [-0.5, 0.1, 0.1, 0.1], [0.4, 0.4, -0.1, -0.1], [0.0, 0.1, 0.2, 0.3]]
        {
            for rounds in [4, 6, 12] {
                let (inside, of_mean, width) = coverage(rounds, effects);
                let limit = 0.93;
                assert!(inside >= limit, "{effects:?}, {rounds}: {inside} ({width})");
                assert!(of_mean >= limit, "{effects:?}, {rounds}: mean {of_mean}");
            }
        }
    }

    #[test]
    fn where_states_do_not_matter_the_range_is_hardly_wider_than_noise() {
        let (_, _, width) = coverage(12, [0.0; 4]);
        let least = 2.0 * 1.96 * NOISE * 2.0_f64.sqrt();
        assert!((least..1.6 * least).contains(&width), "{width}, noise alone {least}");
    }

    #[test]
    fn a_state_that_changes_a_comparison_is_not_an_outlier() {
        let effects = [-0.6, 0.3, 0.3, 0.3];
        let mut space = LandscapeKind::Tiny.make(1).space;
        space.baseline = 0;
        let history = trials(4, effects, &mut RandomStream::new(5));
        let gain = ConfirmingTrials::of(&space, &history).gain(5, 0).expect("both ran");
        assert!(!gain.is_significant(), "{gain:?}");
        assert!(gain.seen.is_some_and(|(low, high)| low < -0.5 && high > 0.25), "{gain:?}");
        assert!((0.0..0.15).contains(&gain.mean), "{gain:?}");
    }
}
