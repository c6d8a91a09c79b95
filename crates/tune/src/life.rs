//! How many years each setup lasts, from estimates and from what its trials cost the device.
//!
//! A setup with recorded traces has its own estimate (`flashfit-wear`). Otherwise, the estimate of
//! a related setup is divided by the measured ratio of their costs: bytes programmed, or written to
//! a device that does not count those, per byte of the workload. Only full-length trials count.
//!
//! Limits: the ratio belongs to the workloads and the short trials of the run, not to the usage
//! model, and assumes that erases are spread over the blocks alike. `MIX_FACTOR`, `OPTIONS_FACTOR`
//! and `OTHER_FACTOR` are assumptions about this, not measured.

use std::collections::BTreeSet;

use flashfit_filesystem::Setup;
pub use flashfit_run_format::life::{EstimatedLife, GivenLife, RunLife, UnknownLife};
use flashfit_search::{CandidateIndex, Observation, WorkloadIndex};
use flashfit_wear::extrapolation::Interval;

use crate::driver;
use crate::objective::log_wear_merit;
use crate::problem::Problem;
use crate::record::TrialRecord;
use crate::stats::mean;

/// Within which factor a measured ratio also holds under other workloads, with 90 %, at best.
const MIX_FACTOR: f64 = 1.2;
/// By which factor options lengthen the life at most, before they are measured.
const OPTIONS_FACTOR: f64 = 3.0;
/// Within which factor a ratio of different file systems holds for their lives, with 90 %.
const OTHER_FACTOR: f64 = 2.0;
/// The 95 % quantile of the standard normal distribution.
const Q95: f64 = 1.645;
/// Assumed standard deviation of a logarithm of cost before there are repeats, and its weight.
const GUESSED_SD: f64 = 0.1;
const GUESS_COUNT: f64 = 4.0;

/// What the years of a setup are based on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LifeBasis {
    /// Recorded traces of this setup.
    Recorded,
    /// Traces of its file system, and the ratio of costs in the trials.
    Trials,
    /// Traces of the baseline's file system, and the ratio of costs in the trials.
    OtherFileSystem,
}

impl LifeBasis {
    /// As a cell of a table.
    pub fn text(self) -> &'static str {
        match self {
            Self::Recorded => "trace",
            Self::Trials => "trials",
            Self::OtherFileSystem => "other trace",
        }
    }
}

/// The life of a setup.
#[derive(Debug, Clone, PartialEq)]
pub enum SetupLife {
    Known {
        /// From a new device to its end, with 90 %.
        years: Interval,
        basis: LifeBasis,
        /// What ends it most often.
        limit: String,
    },
    /// Not known, with the reason.
    Unknown(String),
}

impl SetupLife {
    pub fn years(&self) -> Option<Interval> {
        match self {
            Self::Known { years, .. } => Some(*years),
            Self::Unknown(_) => None,
        }
    }
}

/// The lives of all candidates of a problem with a usage model.
#[derive(Debug, Clone)]
pub struct SetupLives {
    lives: Vec<SetupLife>,
    /// Candidates with a full-length trial under every workload.
    measured: Vec<bool>,
    /// By candidate: the highest lower end of its years that more trials can lead to.
    most_low: Vec<f64>,
    min_years: Option<f64>,
}

impl SetupLives {
    /// `None` without a usage model.
    pub fn of(problem: &Problem, trials: &[TrialRecord]) -> Option<Self> {
        let estimates = problem.life.as_ref()?;
        let costs = Costs::of(problem, trials);
        let candidates = 0..problem.setups.len();
        let measured: Vec<bool> =
            candidates.clone().map(|candidate| costs.is_measured(candidate)).collect();
        let finder = LifeFinder { problem, estimates, costs: &costs };
        let (lives, most_low) = candidates.map(|candidate| finder.life(candidate)).unzip();
        Some(Self { lives, measured, most_low, min_years: estimates.min_years() })
    }

    pub fn life(&self, candidate: CandidateIndex) -> &SetupLife {
        &self.lives[candidate]
    }

    /// The years that a recommended setup must last.
    pub fn min_years(&self) -> Option<f64> {
        self.min_years
    }

    /// The candidates that no number of trials can show to last as long as they must.
    pub fn cannot_be_shown(&self) -> BTreeSet<CandidateIndex> {
        let lows = self.most_low.iter().enumerate();
        let short =
            lows.filter(|(_, low)| self.min_years.is_some_and(|least| is_below((**low, least))));
        short.map(|(candidate, _)| candidate).collect()
    }

    /// Whether a candidate has a full-length trial under every workload, and a known life.
    pub fn is_measured(&self, candidate: CandidateIndex) -> bool {
        self.measured[candidate] && self.lives[candidate].years().is_some()
    }

    /// Whether a candidate lasts less than it must, with 50 %.
    pub fn is_probably_short(&self, candidate: CandidateIndex) -> bool {
        let median = self.lives[candidate].years().map(|years| years.median);
        median.zip(self.min_years).is_some_and(is_below)
    }

    /// Whether a candidate lasts less than it must, with 95 %.
    pub fn is_shown_to_be_short(&self, candidate: CandidateIndex) -> bool {
        let high = self.lives[candidate].years().map(|years| years.high);
        high.zip(self.min_years).is_some_and(is_below)
    }

    /// Whether a candidate was measured under every workload, and lasts as long as it must with
    /// 95 %.
    pub fn is_shown_to_last(&self, candidate: CandidateIndex) -> bool {
        let lasts = |years: Interval| self.min_years.is_none_or(|least| years.low >= least);
        self.measured[candidate] && self.lives[candidate].years().is_some_and(lasts)
    }

    /// Of these candidates, the one that lasts longest; one that was measured if there is any.
    pub fn longest_lasting(
        &self,
        is_of_interest: impl Fn(CandidateIndex) -> bool,
    ) -> Option<CandidateIndex> {
        let known = self.lives.iter().enumerate().filter(|(at, _)| is_of_interest(*at));
        let known = known.filter_map(|(candidate, life)| Some((candidate, life.years()?)));
        let rank = |(candidate, years): &(CandidateIndex, Interval)| {
            (self.measured[*candidate], years.low, std::cmp::Reverse(*candidate))
        };
        known
            .max_by(|a, b| {
                let (a, b) = (rank(a), rank(b));
                a.0.cmp(&b.0).then(a.1.total_cmp(&b.1)).then(a.2.cmp(&b.2))
            })
            .map(|(candidate, _)| candidate)
    }
}

/// The setups that cannot be shown to last as long as they must. Only complete batches count, so
/// that an interrupted one is asked for again; before the first, none is excluded.
pub fn short_lived(
    problem: &Problem,
    history: &[Observation],
    trials: &[TrialRecord],
) -> BTreeSet<CandidateIndex> {
    let is_whole = driver::whole_batches(history);
    let whole: BTreeSet<u32> = (history.iter())
        .filter(|observation| is_whole(observation))
        .map(|observation| observation.proposal.batch.number)
        .collect();
    if problem.life.is_none() || whole.is_empty() {
        return BTreeSet::new();
    }
    let of_whole =
        |trial: &&TrialRecord| trial.batch.is_some_and(|batch| whole.contains(&batch.number));
    let trials: Vec<TrialRecord> = trials.iter().filter(of_whole).cloned().collect();
    SetupLives::of(problem, &trials).map(|lives| lives.cannot_be_shown()).unwrap_or_default()
}

fn is_below((years, least): (f64, f64)) -> bool {
    years < least
}

fn interval(life: &EstimatedLife) -> Interval {
    let [low, median, high] = life.years_thousandths.map(|years| years.max(1) as f64 / 1000.0);
    Interval { low, median, high }
}

struct LifeFinder<'a> {
    problem: &'a Problem,
    estimates: &'a RunLife,
    costs: &'a Costs,
}

impl LifeFinder<'_> {
    fn estimate(&self, setup: &Setup) -> Option<&EstimatedLife> {
        self.estimates.of(&setup.filesystem, &setup.options)
    }

    /// The life, and the highest lower end of its years that more trials can lead to.
    fn life(&self, candidate: CandidateIndex) -> (SetupLife, f64) {
        let setup = &self.problem.setups[candidate];
        if let Some(own) = self.estimate(setup) {
            let (years, limit) = (interval(own), own.limit.clone());
            return (SetupLife::Known { years, basis: LifeBasis::Recorded, limit }, years.low);
        }
        if !self.costs.is_measured(candidate) {
            let reason = "not measured at full length under every workload yet";
            let most = self.estimates.of(&setup.filesystem, &[]).map_or(f64::INFINITY, |default| {
                interval(default).at_cost(1.0 / OPTIONS_FACTOR, MIX_FACTOR).low
            });
            return (SetupLife::Unknown(reason.to_owned()), most);
        }
        let related = self.defaults_of(setup).into_iter().map(|of| (of, LifeBasis::Trials, 1.0));
        let baseline = self.problem.space.baseline;
        let other = (baseline, LifeBasis::OtherFileSystem, OTHER_FACTOR);
        for (reference, basis, basis_factor) in related.chain([other]) {
            let Some(known) = self.estimate(&self.problem.setups[reference]) else { continue };
            // How a file system writes changes the amplification of the card.
            let counted_by_card = basis == LifeBasis::OtherFileSystem;
            let Some(cost) = self.costs.ratio(candidate, reference, counted_by_card) else {
                continue;
            };
            let factor = cost.half_width.hypot(basis_factor.ln()).exp();
            let (years, limit) = (interval(known).at_cost(cost.log.exp(), factor), &known.limit);
            let most = years.low * (Q95 * cost.noise_sd).exp();
            return (SetupLife::Known { years, basis, limit: limit.clone() }, most);
        }
        (SetupLife::Unknown(self.reason(setup)), 0.0)
    }

    /// The default setups of the same file system: first with the same scheduler.
    fn defaults_of(&self, setup: &Setup) -> Vec<CandidateIndex> {
        let is_default =
            |other: &Setup| other.filesystem == setup.filesystem && other.options.is_empty();
        let setups = self.problem.setups.iter().enumerate();
        let mut found: Vec<CandidateIndex> =
            setups.filter(|(_, other)| is_default(other)).map(|(index, _)| index).collect();
        found.sort_by_key(|index| self.problem.setups[*index].scheduler != setup.scheduler);
        found
    }

    fn reason(&self, setup: &Setup) -> String {
        let unknown = &self.estimates.unknown;
        match unknown.iter().find(|unknown| unknown.filesystem == setup.filesystem) {
            Some(unknown) => unknown.reason.clone(),
            None => "the trials did not count what was written, or the default setup of its file \
                     system was not measured"
                .to_owned(),
        }
    }
}

/// The ratio of two costs, as a logarithm; with 90 % within `half_width` of `log`.
struct CostRatio {
    log: f64,
    half_width: f64,
    /// The part of its standard deviation that more trials reduce.
    noise_sd: f64,
}

/// Logarithms of costs per byte of the workload.
struct Costs {
    /// By candidate and workload.
    cells: Vec<Vec<Vec<f64>>>,
    weights: Vec<f64>,
    /// Full-length results, by candidate and workload.
    trials: Vec<Vec<usize>>,
    /// Standard deviation of one.
    sd: f64,
    by_card: bool,
}

impl Costs {
    fn of(problem: &Problem, trials: &[TrialRecord]) -> Self {
        let workloads = problem.workloads.len();
        let mut cells = vec![vec![Vec::new(); workloads]; problem.setups.len()];
        let mut counts = vec![vec![0; workloads]; problem.setups.len()];
        let mut by_card = true;
        for trial in trials.iter().filter(|trial| trial.key.length.is_full()) {
            let place =
                (problem.candidate(&trial.key.setup), problem.workload(&trial.key.workload));
            let ((Some(candidate), Some(workload)), Some(points)) = (place, trial.points()) else {
                continue;
            };
            counts[candidate][workload] += 1;
            by_card &= trial.counters.is_some();
            let cost = log_wear_merit(trial, points).map(|merit| -merit);
            cells[candidate][workload].extend(cost);
        }
        let sd = pooled_sd(&cells);
        Self { cells, weights: problem.space.weights(), trials: counts, sd, by_card }
    }

    fn is_measured(&self, candidate: CandidateIndex) -> bool {
        self.trials[candidate].iter().all(|count| *count > 0)
    }

    /// `None` where one of them has no cost under any workload, or, if it must be
    /// `counted_by_card`, where only the kernel counted.
    fn ratio(
        &self,
        candidate: CandidateIndex,
        reference: CandidateIndex,
        counted_by_card: bool,
    ) -> Option<CostRatio> {
        if counted_by_card && !self.by_card {
            return None;
        }
        // A workload that only reads costs nothing.
        let both = |workload: &WorkloadIndex| {
            !self.cells[candidate][*workload].is_empty()
                && !self.cells[reference][*workload].is_empty()
        };
        let workloads: Vec<WorkloadIndex> = (0..self.weights.len()).filter(both).collect();
        let total: f64 = workloads.iter().map(|workload| self.weights[*workload]).sum();
        if total <= 0.0 {
            return None;
        }
        let (mut log, mut noise) = (0.0, 0.0);
        let mut differences = Vec::new();
        for workload in workloads {
            let (own, other) = (&self.cells[candidate][workload], &self.cells[reference][workload]);
            let weight = self.weights[workload] / total;
            let difference = mean(own) - mean(other);
            differences.push(difference);
            log += weight * difference;
            let counts = 1.0 / own.len() as f64 + 1.0 / other.len() as f64;
            noise += (weight * self.sd).powi(2) * counts;
        }
        // The usage model has other workloads: what they differ by among themselves, at least.
        let mix = (MIX_FACTOR.ln() / Q95).powi(2).max(variance(&differences));
        let half_width = Q95 * (noise + mix).sqrt();
        Some(CostRatio { log, half_width, noise_sd: noise.sqrt() })
    }
}

fn variance(values: &[f64]) -> f64 {
    if values.len() < 2 {
        return 0.0;
    }
    let middle = mean(values);
    let squares: f64 = values.iter().map(|value| (value - middle).powi(2)).sum();
    squares / (values.len() - 1) as f64
}

fn pooled_sd(cells: &[Vec<Vec<f64>>]) -> f64 {
    let mut squares = GUESSED_SD * GUESSED_SD * GUESS_COUNT;
    let mut freedom = GUESS_COUNT;
    for values in cells.iter().flatten().filter(|values| values.len() > 1) {
        let repeats = (values.len() - 1) as f64;
        squares += variance(values) * repeats;
        freedom += repeats;
    }
    (squares / freedom).sqrt()
}
