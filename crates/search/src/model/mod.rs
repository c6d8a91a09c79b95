//! The statistical model of a search: a posterior mean and covariance of every candidate's merit.
//!
//! The logarithm of a trial is modeled as the sum of its candidate's merit (the mean over
//! workloads: a Gaussian process over candidates, `surface`), workload-specific effects
//! (`workload`), drift, noise per trial (`noise`) and noise per visit (`visit`). The parts are
//! fitted in turn, each to the residuals of the others, until they agree (Gauss-Seidel). Outlying
//! trials get less weight. Up to a maximum number of cells, all merits are then fitted jointly
//! (`exact`) with the noise found this way.
//!
//! Limits: the uncertainty of the workload effects and of the variances themselves is only partly
//! included in that of the merits; [`Belief::within`] was calibrated on landscapes to compensate.

mod belief;
mod cells;
mod coding;
mod contenders;
mod exact;
mod exact_samples;
mod exact_variances;
mod linear;
mod noise;
mod surface;
mod variances;
mod visit;
mod workload;

use crate::history::Observation;
use crate::random::RandomStream;
use crate::space::{CandidateIndex, SearchSpace, WorkloadIndex};

pub use belief::{Belief, highest};
use cells::CellTrials;
pub use coding::{Coding, Term};
use exact::{CellPoint, ExactPosterior, ExactScales};
pub use linear::{Cholesky, Matrix};
pub use surface::{MeritEstimate, MeritSurface, Scales};
use workload::{Deviation, WorkloadBelief};

/// The source of the variances of a fit.
#[derive(Debug, Clone)]
pub enum Variances {
    Known(Scales),
    /// Learned from the history.
    Learned,
    /// Learned from the history, starting from variances learned from a part of it.
    LearnedFrom(Scales),
}

/// Rounds of fitting the parts in turn.
const ROUNDS: usize = 3;

/// From this number of repeats on, they estimate the noise better than the model's residuals.
const POOL_REPEATS: usize = 3;
/// Assumed ratio of noise in short and full-length trials while only one length has repeats.
const SHORT_RATIO: f64 = 1.5;

/// Selects the random stream of the samples of variances.
const SAMPLES_SEED: u64 = 0x7363_616c_6573;

/// Standard errors above which a drift is significant.
const SURE_DRIFT: f64 = 3.5;

#[derive(Debug, Clone)]
pub struct Model<'a> {
    coding: &'a Coding,
    weights: Vec<f64>,
    cells: Vec<CellTrials>,
    own: Vec<WorkloadBelief>,
    /// Squared noise scale by workload, in full-length and short trials.
    noise: Vec<[f64; 2]>,
    /// The variance of the residual effect of each cell.
    deviation: f64,
    /// The variance of the effect shared by the trials of a visit.
    visit: f64,
    /// Drift from one trial to the next, and the time at which it is 0.
    drift: f64,
    middle: f64,
    surface: MeritSurface<'a>,
    points: Vec<(CandidateIndex, bool)>,
    /// The joint fit with each of the sampled variances, or with one estimate of them; empty if
    /// there
    /// are too many cells.
    exact: Vec<ExactPosterior<'a>>,
    /// What a prior adds to the merit of each candidate, with its standard deviation, which all
    /// share; empty without one.
    offsets: Vec<(f64, f64)>,
}

impl<'a> Model<'a> {
    pub fn fit(
        space: &SearchSpace,
        coding: &'a Coding,
        history: &[Observation],
        variances: Variances,
    ) -> Self {
        let (scales, from) = match variances {
            Variances::Known(scales) => (Some(scales), None),
            Variances::Learned => (None, None),
            Variances::LearnedFrom(scales) => (None, scales.exact.first().cloned()),
        };
        let weights = space.weights();
        let cells = cells::of(history);
        let levels = cells::first_levels(&cells, weights.len());
        let spread = cells::spread(&cells, &levels);
        let guess_sd = (0.3 * spread).sqrt().max(0.01);
        let own: Vec<WorkloadBelief> = levels
            .iter()
            .map(|[full, short]| WorkloadBelief::level(coding, *full, *short, guess_sd))
            .collect();
        let guess = scales.clone().unwrap_or_else(|| Scales::guess(coding, spread.max(1e-4)));
        let mut model = Self {
            coding,
            noise: vec![[(0.3 * spread).max(1e-4); 2]; weights.len()],
            weights,
            cells,
            own,
            deviation: 0.1 * spread,
            visit: visit::PRIOR_SD.powi(2),
            drift: 0.0,
            middle: middle(history),
            surface: MeritSurface::of(coding, Vec::new(), guess),
            points: Vec::new(),
            exact: Vec::new(),
            offsets: Vec::new(),
        };
        model.learn_noise();
        for round in 0..ROUNDS {
            let points = model.merits();
            model.points = points.iter().map(|point| (point.candidate, point.short)).collect();
            let last = round + 1 == ROUNDS;
            let known = model.surface;
            model.surface = if round == 0 {
                MeritSurface::of(coding, points, known.scales().clone())
            } else if scales.is_none() && !last {
                known.given(points).learned()
            } else {
                known.given(points)
            };
            if !last {
                model.learn_workloads();
                model.learn_noise();
                model.learn_drift();
            }
        }
        if exact::is_feasible(model.cells.len()) {
            let known = scales.map(|scales| scales.exact).unwrap_or_default();
            model.exact = if known.is_empty() {
                model.learned_joint_posteriors(from, history.len())
            } else {
                known.into_iter().map(|scales| model.joint_posterior(scales)).collect()
            };
        }
        model
    }

    /// The variances, for further fits.
    pub fn scales(&self) -> Scales {
        let exact = self.exact.iter().map(|exact| exact.scales().clone()).collect();
        Scales { exact, ..self.surface.scales().clone() }
    }

    /// The model of merits that are these above those of the history: each with a standard
    /// deviation in one common direction.
    #[must_use]
    pub fn with_offsets(self, offsets: Vec<(f64, f64)>) -> Self {
        Self { offsets, ..self }
    }

    pub fn offset(&self, candidate: CandidateIndex) -> f64 {
        self.offsets.get(candidate).map_or(0.0, |(offset, _)| *offset)
    }

    /// The standard deviations of the offsets; `None` without.
    pub fn offset_sds(&self, candidates: &[CandidateIndex]) -> Option<Vec<f64>> {
        let sds = candidates.iter().map(|&candidate| Some(self.offsets.get(candidate)?.1));
        sds.collect()
    }

    /// The posterior mean of a candidate's merit; only differences between candidates are
    /// meaningful.
    pub fn mean(&self, candidate: CandidateIndex) -> f64 {
        let offset = self.offset(candidate);
        if self.exact.is_empty() {
            return self.surface.mean(candidate) + offset;
        }
        let sum: f64 = self.exact.iter().map(|exact| exact.mean(candidate)).sum();
        sum / self.exact.len() as f64 + offset
    }

    /// The posterior mean of a candidate under one workload, without offsets; only differences
    /// between candidates are meaningful.
    pub fn mean_under(&self, candidate: CandidateIndex, workload: WorkloadIndex) -> f64 {
        if self.exact.is_empty() {
            let own = self.own[workload].offset(self.coding, candidate, false);
            return self.surface.mean(candidate) + own;
        }
        let of = |exact: &ExactPosterior<'_>| exact.mean_under(candidate, workload);
        self.exact.iter().map(of).sum::<f64>() / self.exact.len() as f64
    }

    /// The joint posterior of some candidates in full-length trials, one for each sample of the
    /// variances: means, whose average is [`Self::mean`], and the lower triangle of the covariance.
    pub fn joints(&self, candidates: &[CandidateIndex]) -> Vec<(Vec<f64>, Matrix)> {
        let mut joints: Vec<(Vec<f64>, Matrix)> = match self.exact.as_slice() {
            [] => vec![self.surface.joint(candidates)],
            exact => exact.iter().map(|exact| exact.joint(candidates)).collect(),
        };
        for (means, _) in &mut joints {
            for (mean, &candidate) in means.iter_mut().zip(candidates) {
                *mean += self.offset(candidate);
            }
        }
        joints
    }

    /// The joint fit of all cells with these variances.
    fn joint_posterior(&self, scales: ExactScales) -> ExactPosterior<'a> {
        let points = self.cells.iter().zip(self.deviations()).map(|(cell, value)| CellPoint {
            candidate: cell.candidate,
            workload: cell.workload,
            short: cell.short,
            value,
            variance: self.noise_of(cell),
            batches: cell.shares(),
        });
        ExactPosterior::of(self.coding, self.weights.clone(), points.collect(), scales, self.visit)
    }

    /// The joint fit with learned variances, starting from these or from a guess.
    fn learned_joint_posteriors(
        &self,
        from: Option<ExactScales>,
        trials: usize,
    ) -> Vec<ExactPosterior<'a>> {
        if let Some(scales) = from {
            return vec![self.joint_posterior(scales).learned_again()];
        }
        let squares: f64 = self.deviations().map(|off| off.powi(2)).sum();
        let variance = (squares / self.cells.len() as f64).max(1e-4);
        let guess = ExactScales::guess(self.coding, variance);
        let learned = self.joint_posterior(guess).learned();
        if !exact_samples::is_feasible(self.cells.len()) {
            return vec![learned];
        }
        let repeats: usize = self.cells.iter().map(|cell| cell.values.len() - 1).sum();
        let mut random = RandomStream::of_history(SAMPLES_SEED, trials);
        learned.sampled(repeats as f64, &mut random)
    }

    /// The difference of every cell from the mean of its workload's cells of the same length.
    fn deviations(&self) -> impl Iterator<Item = f64> {
        let levels = cells::mean_levels(&self.cells, self.weights.len());
        let off =
            move |cell: &CellTrials| cell.mean() - levels[cell.workload][usize::from(cell.short)];
        self.cells.iter().map(off)
    }

    pub fn surface(&self) -> &MeritSurface<'a> {
        &self.surface
    }

    /// The measured candidates in order, possibly with duplicates.
    pub fn measured(&self) -> impl Iterator<Item = CandidateIndex> {
        self.points.iter().map(|&(candidate, _)| candidate)
    }

    /// The standard deviation of noise by workload, in full-length and short trials.
    pub fn noise_sd(&self) -> Vec<[f64; 2]> {
        self.noise.iter().map(|both| both.map(f64::sqrt)).collect()
    }

    /// The variance of a cell's mean.
    fn noise_of(&self, cell: &CellTrials) -> f64 {
        noise::SPREAD * self.noise[cell.workload][usize::from(cell.short)] / cell.weight()
    }

    /// The expected value of a cell: merit, bias if short, and workload effect.
    fn expected(&self, cell: &CellTrials, means: &[(f64, f64)], at: usize) -> f64 {
        let (mean, bias) = means[at];
        let of_length = if cell.short { bias } else { 0.0 };
        mean + of_length + self.own[cell.workload].offset(self.coding, cell.candidate, cell.short)
    }

    /// The posterior merit and short bias of every cell's candidate.
    fn means_of_cells(&self) -> Vec<(f64, f64)> {
        let mut last: Option<(CandidateIndex, (f64, f64))> = None;
        self.cells
            .iter()
            .map(|cell| {
                let known = last.filter(|(candidate, _)| *candidate == cell.candidate);
                let (_, means) = known.unwrap_or_else(|| {
                    let mean = self.surface.mean(cell.candidate);
                    (cell.candidate, (mean, self.surface.short_bias(cell.candidate)))
                });
                last = Some((cell.candidate, means));
                means
            })
            .collect()
    }

    /// Each candidate's merit estimated from its own trials, by length.
    fn merits(&self) -> Vec<MeritEstimate> {
        let mut points = Vec::new();
        let mut at = 0;
        while at < self.cells.len() {
            let CellTrials { candidate, short, .. } = self.cells[at];
            let same = |cell: &&CellTrials| cell.candidate == candidate && cell.short == short;
            let cells: Vec<&CellTrials> = self.cells[at..].iter().take_while(same).collect();
            at += cells.len();
            points.push(self.merit_of(&cells));
        }
        points
    }

    /// The merit estimated from the cells of one candidate and length: between the weighted mean
    /// over workloads (correct if all are measured) and the most precise mean of those that are.
    fn merit_of(&self, cells: &[&CellTrials]) -> MeritEstimate {
        let CellTrials { candidate, short, .. } = *cells[0];
        let mut precision = 0.0;
        let mut mean = 0.0;
        let mut known = Vec::with_capacity(cells.len());
        let mut covered = 0.0;
        for cell in cells {
            let own = &self.own[cell.workload];
            let value = cell.mean() - own.offset(self.coding, candidate, short);
            let doubt = self.deviation + own.variance(self.coding, candidate, short);
            let noise = self.noise_of(cell);
            let share = doubt / (doubt + noise);
            precision += 1.0 / (doubt + noise);
            mean += value / (doubt + noise);
            covered += self.weights[cell.workload] * share;
            known.push((cell.workload, value, doubt, noise, share));
        }
        mean /= precision;
        let mut merit = mean;
        let mut variance = 0.0;
        let mut unseen: Vec<f64> = self.weights.clone();
        let mut visits = visit::BatchShares::default();
        for (cell, (workload, value, doubt, noise, share)) in cells.iter().zip(known) {
            let weight = self.weights[workload];
            unseen[workload] = 0.0;
            merit += weight * share * (value - mean);
            let of_value = (1.0 - covered) / (doubt + noise) / precision + weight * share;
            variance += (of_value - weight).powi(2) * doubt + of_value.powi(2) * noise;
            visits.add(cell, of_value);
        }
        variance += self.visit * visits.squares();
        for (workload, weight) in unseen.iter().enumerate().filter(|(_, weight)| **weight > 0.0) {
            let own = self.own[workload].variance(self.coding, candidate, short);
            variance += weight.powi(2) * (self.deviation + own);
        }
        MeritEstimate { candidate, short, value: merit, variance }
    }

    fn learn_workloads(&mut self) {
        let means = self.means_of_cells();
        let mut deviations: Vec<Vec<Deviation>> = vec![Vec::new(); self.weights.len()];
        for (cell, (mean, bias)) in self.cells.iter().zip(&means) {
            let noise = self.noise_of(cell);
            deviations[cell.workload].push(Deviation {
                candidate: cell.candidate,
                short: cell.short,
                value: cell.mean() - mean - if cell.short { *bias } else { 0.0 },
                variance: noise + self.deviation,
            });
        }
        for (own, deviations) in self.own.iter_mut().zip(&deviations) {
            own.learn(self.coding, deviations);
        }
        WorkloadBelief::center(&mut self.own, &self.weights);
    }

    /// Removes a significant linear trend from the residuals. Part of a drift is attributed to
    /// differences between candidates tried at different times, so this underestimates it.
    fn learn_drift(&mut self) {
        let means = self.means_of_cells();
        let (mut along, mut length) = (0.0, 0.0);
        for (at, cell) in self.cells.iter().enumerate() {
            let expected = self.expected(cell, &means, at);
            let noise = self.noise_of(cell) * cell.weight() + self.deviation;
            for ((value, visit), weight) in cell.values.iter().zip(&cell.visits).zip(&cell.weights)
            {
                let time = visit - self.middle;
                along += weight * time * (value - expected) / noise;
                length += weight * time * time / noise;
            }
        }
        if length > 0.0 && (along / length.sqrt()).abs() > SURE_DRIFT {
            let step = along / length;
            self.drift += step;
            for cell in &mut self.cells {
                for (value, visit) in cell.values.iter_mut().zip(&cell.visits) {
                    *value -= step * (visit - self.middle);
                }
            }
        }
    }

    /// The drift from one trial to the next in natural logarithm; 0 unless it is significant.
    pub fn drift(&self) -> f64 {
        self.drift
    }

    /// The noise pooled over all workloads, in full-length and short trials.
    fn pooled_noise(&self, misfit: f64) -> [f64; 2] {
        let repeats = |short: bool| -> Vec<f64> {
            let cells = self.cells.iter().filter(|cell| cell.short == short);
            cells.flat_map(CellTrials::repeat_deviations).collect()
        };
        let of = |short: bool| {
            let repeats = repeats(short);
            (repeats.len() >= POOL_REPEATS).then(|| noise::scale(&repeats, misfit))
        };
        match (of(false), of(true)) {
            (Some(full), Some(short)) => [full, short],
            (Some(full), None) => [full, full * SHORT_RATIO.powi(2)],
            (None, Some(short)) => [short / SHORT_RATIO.powi(2), short],
            (None, None) => [misfit, misfit],
        }
    }

    /// Estimates the noise from repeats, attributes the rest of the residuals to the cells' own
    /// deviation, and updates the weights of the trials.
    fn learn_noise(&mut self) {
        let means = self.means_of_cells();
        let misfits: Vec<f64> = self
            .cells
            .iter()
            .enumerate()
            .map(|(at, cell)| cell.mean() - self.expected(cell, &means, at))
            .collect();
        let freedom: f64 =
            self.surface.freedom() + self.own.iter().map(WorkloadBelief::freedom).sum::<f64>();
        let count = self.cells.len().max(1) as f64;
        let widen = (count / (count - freedom).max(0.25 * count)).sqrt();
        let misfit = noise::median_scale(&misfits).unwrap_or(0.01) * widen.powi(2);
        let pooled = self.pooled_noise(misfit);
        let mut beyond = (0.0, 0.0);
        for workload in 0..self.weights.len() {
            for short in [false, true] {
                let here: Vec<usize> = (0..self.cells.len())
                    .filter(|&at| {
                        self.cells[at].workload == workload && self.cells[at].short == short
                    })
                    .collect();
                let repeats: Vec<f64> =
                    here.iter().flat_map(|&at| self.cells[at].repeat_deviations()).collect();
                let pooled = pooled[usize::from(short)];
                // The residuals of cells with many trials mostly show the cell's deviation, those
                // of cells with one trial mostly noise.
                let single: Vec<f64> = here
                    .iter()
                    .filter(|&&at| self.cells[at].values.len() == 1)
                    .map(|&at| widen * misfits[at])
                    .collect();
                let total = noise::scale(&single, pooled);
                let by_repeats = noise::scale(&repeats, pooled.min(total));
                let noise = by_repeats.min(total);
                self.noise[workload][usize::from(short)] = noise;
                beyond.0 += single.len() as f64 * (total - noise);
                beyond.1 += single.len() as f64;
            }
        }
        if beyond.1 > 0.0 {
            self.deviation = (beyond.0 / beyond.1).max(1e-5);
        }
        for at in 0..self.cells.len() {
            let expected = self.expected(&self.cells[at], &means, at);
            let cell = &mut self.cells[at];
            let scale = self.noise[cell.workload][usize::from(cell.short)];
            let many = cell.values.len() > 2;
            let (center, doubt) = if many {
                (cells::upper_median(&cell.values), 0.0)
            } else {
                (expected, self.deviation)
            };
            for (weight, value) in cell.weights.iter_mut().zip(&cell.values) {
                *weight = noise::weight(value - center, scale + doubt);
            }
        }
        self.visit = visit::learned(&self.cells, |cell| self.noise_of(cell) * cell.weight());
    }
}

/// The mean time of a history.
fn middle(history: &[Observation]) -> f64 {
    let sum: f64 = history.iter().map(|observation| observation.visit as f64).sum();
    sum / history.len().max(1) as f64
}
