//! Random true merits over a space: effects of levels, of pairs and triples of levels, and a
//! residual. Each effect has a part shared by all workloads and a part specific to each workload.

use crate::random::RandomStream;
use crate::space::{FactorRole, SearchSpace};

/// Strengths of a landscape's terms, in natural logarithm.
#[derive(Debug, Clone, Copy)]
pub struct Strengths {
    /// Standard deviation of a family's effect.
    pub family: f64,
    /// Standard deviation of the levels of factors with real effects.
    pub real: f64,
    /// Standard deviation of the levels of all other factors.
    pub faint: f64,
    /// The share of factors with real effects.
    pub real_share: f64,
    /// The share of pairs that interact, and the standard deviation of their cells.
    pub pairs: (f64, f64),
    /// The share of triples that interact, and the standard deviation of their cells.
    pub triples: (f64, f64),
    /// Standard deviation of each candidate's residual.
    pub residual: f64,
    /// The workload-specific share of every term's variance.
    pub own: f64,
}

/// Effects by workload: a shared part plus a specific part each.
fn effects(random: &mut RandomStream, sd: f64, own: f64, workloads: usize) -> Vec<f64> {
    let shared = random.normal() * (1.0 - own).sqrt();
    (0..workloads).map(|_| sd * own.sqrt().mul_add(random.normal(), shared)).collect()
}

/// True log merit by candidate, then workload.
pub fn truth(
    space: &SearchSpace,
    strengths: &Strengths,
    random: &mut RandomStream,
) -> Vec<Vec<f64>> {
    let workloads = space.workloads.len();
    let base: Vec<f64> = (0..workloads).map(|_| 8.0 + 2.0 * random.normal()).collect();
    let mut truth = vec![base; space.candidates.len()];
    let factors: Vec<usize> = (0..space.factors.len()).collect();
    let Strengths { own, .. } = *strengths;
    for &factor in &factors {
        let is_family = space.factors[factor].role == FactorRole::Family;
        let is_real = random.unit() < strengths.real_share;
        let sd = match (is_family, is_real) {
            (true, _) => strengths.family,
            (false, true) => strengths.real,
            (false, false) => strengths.faint,
        };
        add(space, &mut truth, &[factor], |random| effects(random, sd, own, workloads), random);
    }
    let options: Vec<usize> =
        factors.into_iter().filter(|&f| space.factors[f].role != FactorRole::Family).collect();
    for (at, &first) in options.iter().enumerate() {
        for (next, &second) in options.iter().enumerate().skip(at + 1) {
            let together = |candidate: &crate::space::Candidate| {
                candidate.levels[first].is_some() && candidate.levels[second].is_some()
            };
            if !space.candidates.iter().any(together) {
                continue;
            }
            if random.unit() < strengths.pairs.0 {
                let draw =
                    |random: &mut RandomStream| effects(random, strengths.pairs.1, own, workloads);
                add(space, &mut truth, &[first, second], draw, random);
            }
            for &third in options.iter().skip(next + 1) {
                if strengths.triples.0 > 0.0 && random.unit() < strengths.triples.0 {
                    let draw = |random: &mut RandomStream| {
                        effects(random, strengths.triples.1, own, workloads)
                    };
                    add(space, &mut truth, &[first, second, third], draw, random);
                }
            }
        }
    }
    for row in &mut truth {
        for (value, effect) in
            row.iter_mut().zip(effects(random, strengths.residual, own, workloads))
        {
            *value += effect;
        }
    }
    truth
}

/// Adds a random effect to each combination of levels of some factors.
fn add(
    space: &SearchSpace,
    truth: &mut [Vec<f64>],
    factors: &[usize],
    draw: impl Fn(&mut RandomStream) -> Vec<f64>,
    random: &mut RandomStream,
) {
    let mut known: std::collections::BTreeMap<Vec<u16>, Vec<f64>> =
        std::collections::BTreeMap::new();
    for (candidate, row) in space.candidates.iter().zip(truth) {
        let levels: Option<Vec<u16>> = factors.iter().map(|&f| candidate.levels[f]).collect();
        if let Some(levels) = levels {
            let effect = known.entry(levels).or_insert_with(|| draw(random));
            for (value, added) in row.iter_mut().zip(effect) {
                *value += *added;
            }
        }
    }
}
