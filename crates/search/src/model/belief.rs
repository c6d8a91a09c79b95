//! The posterior of the candidates that may still be the best: joint draws, and the probability
//! that each is the best or close to it.

use crate::random::RandomStream;
use crate::space::CandidateIndex;

use super::linear::Cholesky;
use super::{Model, contenders};

/// The candidates of the joint posterior: the best by mean, contenders
/// ([`super::contenders`]), and some random others.
const MAX_JOINT: usize = 180;
const RANDOM_OTHERS: usize = 40;
/// The best candidates by the columns only, whose full means are computed.
const MAX_PRESELECTED: usize = 400;
/// Factor on the posterior variances. The model treats the learned variances and workload effects
/// as exact; on landscapes, squared errors were larger than predicted by this factor. Sampled
/// variances leave less to allow for.
const VARIANCE_INFLATION: f64 = 1.5;
const SAMPLED_INFLATION: f64 = 1.2;
/// Number of draws from the joint posterior.
const DRAWS: usize = 256;

/// The posterior of the most relevant candidates.
#[derive(Debug, Clone)]
pub struct Belief {
    /// Sorted by mean, best first.
    pub candidates: Vec<CandidateIndex>,
    /// Posterior mean merits, in natural logarithm.
    pub means: Vec<f64>,
    /// Posterior standard deviations.
    pub sds: Vec<f64>,
    /// The probability that each is the best, 0 to 1.
    pub best: Vec<f64>,
    /// The probability that each is within the goal's distance of the best, 0 to 1.
    pub within: Vec<f64>,
    pub draws: Vec<Vec<f64>>,
}

impl Belief {
    /// The posterior of the candidates in `eligible`; `within` is the goal's distance.
    pub fn of(
        model: &Model,
        eligible: &[CandidateIndex],
        within: f64,
        random: &mut RandomStream,
    ) -> Self {
        let surface = model.surface();
        let mut ranked = ranked(eligible, |candidate| {
            surface.mean_of_columns(candidate) + model.offset(candidate)
        });
        let mut first: Vec<CandidateIndex> =
            ranked.iter().take(MAX_PRESELECTED).map(|&(_, index)| index).collect();
        first.extend(model.measured().filter(|index| eligible.contains(index)));
        first.sort_unstable();
        first.dedup();
        let near = |&(_, index): &(f64, CandidateIndex)| first.binary_search(&index).is_err();
        let far: Vec<(f64, CandidateIndex)> = ranked.into_iter().filter(near).collect();
        ranked = self::ranked(&first, |candidate| model.mean(candidate));
        ranked.extend(far);
        if ranked.len() > MAX_JOINT + RANDOM_OTHERS {
            let mut rest = ranked.split_off(MAX_JOINT);
            random.shuffle(&mut rest);
            let contenders = contenders::of(
                surface,
                &|candidate| model.offset(candidate),
                eligible,
                VARIANCE_INFLATION,
                random,
            );
            rest.sort_by_key(|(_, index)| contenders.binary_search(index).is_err());
            let others = rest.partition_point(|(_, index)| contenders.binary_search(index).is_ok());
            rest.truncate(others + RANDOM_OTHERS);
            rest.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
            ranked.extend(rest);
        }
        let candidates: Vec<CandidateIndex> = ranked.iter().map(|&(_, index)| index).collect();
        let joints = model.joints(&candidates);
        let offset_sds = model.offset_sds(&candidates);
        let samples = joints.len();
        let inflation = if samples > 1 { SAMPLED_INFLATION } else { VARIANCE_INFLATION };
        let size = candidates.len();
        let (mut means, mut squares) = (vec![0.0; size], vec![0.0; size]);
        let (mut best, mut near) = (vec![0.0; size], vec![0.0; size]);
        let mut draws = Vec::with_capacity(DRAWS);
        for (at, (of_sample, mut covariance)) in joints.into_iter().enumerate() {
            for row in 0..size {
                covariance.row_mut(row).iter_mut().for_each(|value| *value *= inflation);
                let variance = &mut covariance.row_mut(row)[row];
                *variance = variance.max(1e-12) + 1e-10;
                means[row] += of_sample[row] / samples as f64;
                squares[row] += (*variance + of_sample[row].powi(2)) / samples as f64;
            }
            let factor = Cholesky::of(covariance);
            let count = (at + 1) * DRAWS / samples - at * DRAWS / samples;
            for _ in 0..count {
                let z: Vec<f64> = (0..size).map(|_| random.normal()).collect();
                let mut draw = factor.correlate(&z);
                draw.iter_mut().zip(&of_sample).for_each(|(value, mean)| *value += mean);
                if let Some(sds) = &offset_sds {
                    let common = random.normal();
                    draw.iter_mut().zip(sds).for_each(|(value, sd)| *value += common * sd);
                }
                let Some((highest, most)) = highest(&draw) else { continue };
                best[highest] += 1.0 / DRAWS as f64;
                for (share, value) in near.iter_mut().zip(&draw) {
                    if *value >= most - within {
                        *share += 1.0 / DRAWS as f64;
                    }
                }
                draws.push(draw);
            }
        }
        for (square, sd) in squares.iter_mut().zip(offset_sds.iter().flatten()) {
            *square += sd * sd;
        }
        let sd = |(square, mean): (&f64, &f64)| (square - mean * mean).max(1e-12).sqrt();
        let sds = squares.iter().zip(&means).map(sd).collect();
        Self { candidates, means, sds, best, within: near, draws }
    }

    /// The candidate most likely to be close to the best, with that probability; ties go to the
    /// higher mean.
    pub fn choice(&self) -> Option<(CandidateIndex, f64)> {
        let mut choice: Option<(f64, usize)> = None;
        for (at, &share) in self.within.iter().enumerate() {
            let better = choice.is_none_or(|(known, other)| {
                share > known || (share == known && self.means[at] > self.means[other])
            });
            if better {
                choice = Some((share, at));
            }
        }
        choice.map(|(share, at)| (self.candidates[at], share))
    }
}

fn ranked(
    candidates: &[CandidateIndex],
    mean: impl Fn(CandidateIndex) -> f64,
) -> Vec<(f64, CandidateIndex)> {
    let mut ranked: Vec<(f64, CandidateIndex)> =
        candidates.iter().map(|&candidate| (mean(candidate), candidate)).collect();
    ranked.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
    ranked
}

/// The index of the highest value, and the value.
pub fn highest(values: &[f64]) -> Option<(usize, f64)> {
    let mut found: Option<(usize, f64)> = None;
    for (at, &value) in values.iter().enumerate() {
        if found.is_none_or(|(_, known)| value > known) {
            found = Some((at, value));
        }
    }
    found
}
