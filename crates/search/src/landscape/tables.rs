//! Landscapes with one objective that resemble published configuration tables: 100 to 1,000 setups
//! of a program with on/off options and a few settings of several levels, some combinations
//! invalid, a noise of 3 %.
//!
//! The kinds differ in where they depart from a sum of effects. Limit: they are generated; no
//! published table is part of the benchmark.

use crate::random::RandomStream;
use crate::space::{Candidate, Factor, FactorRole, SearchSpace, Weighted};

use super::Landscape;
use super::noise::LandscapeNoise;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TableKind {
    /// A sum of effects with some interactions of two options.
    Additive,
    /// Two options are good together and bad alone, and decide more than all others.
    Trap,
    /// The slowest of several parts decides, each with its own options.
    Bottleneck,
    /// Settings with an optimum in the middle that depends on another setting.
    Tuned,
    /// A few groups of setups, each with its own level: interactions of three and more options.
    Tree,
}

impl TableKind {
    pub const ALL: [Self; 5] =
        [Self::Additive, Self::Trap, Self::Bottleneck, Self::Tuned, Self::Tree];

    pub fn name(self) -> &'static str {
        match self {
            Self::Additive => "additive",
            Self::Trap => "trap",
            Self::Bottleneck => "bottleneck",
            Self::Tuned => "tuned",
            Self::Tree => "tree",
        }
    }

    /// Generates the table of this kind for a seed.
    pub fn make(self, seed: u64) -> Landscape {
        let random = &mut RandomStream::stream(seed ^ 0x7461_626c, self as u64);
        let space = space(random);
        let scores: Vec<f64> = match self {
            Self::Additive => sum(&space, 0.4, 0.15, random),
            Self::Trap => trap(&space, random),
            Self::Bottleneck => bottleneck(&space, random),
            Self::Tuned => tuned(&space, random),
            Self::Tree => tree(&space, random),
        };
        let count = scores.len();
        let mut sorted: Vec<usize> = (0..count).collect();
        sorted.sort_by(|&a, &b| scores[a].total_cmp(&scores[b]));
        let mut space = space;
        // The baseline is an ordinary setup.
        space.baseline = sorted[count / 2];
        let base = space.candidates[space.baseline].levels.clone();
        for (factor, level) in base.iter().enumerate() {
            space.factors[factor].default = level.expect("every option applies");
        }
        for candidate in &mut space.candidates {
            let differs = candidate.levels.iter().zip(&base).filter(|(a, b)| a != b).count();
            candidate.distance = u32::try_from(differs).expect("few options");
        }
        Landscape {
            space,
            truth: scores.into_iter().map(|score| vec![6.0 + score]).collect(),
            short_bias: vec![0.0; count],
            failing: Vec::new(),
            noise: LandscapeNoise {
                sigma: vec![0.03],
                heavy_tails: false,
                outliers: 0.0,
                visit: 0.0,
                drift: 0.0,
                short_ratio: 1.67,
                seed: random.next_u64(),
            },
        }
    }
}

/// A grid of options from which combinations are dropped until at most 1,000 setups are left.
fn space(random: &mut RandomStream) -> SearchSpace {
    let wanted = 100 + random.below(901);
    let mut levels: Vec<u16> = Vec::new();
    let mut count = 1;
    while count < wanted {
        let next = match random.below(6) {
            0 => 3,
            1 => 4 + u16::try_from(random.below(4)).expect("small"),
            _ => 2,
        };
        levels.push(next);
        count *= usize::from(next);
    }
    let factors = levels
        .iter()
        .enumerate()
        .map(|(at, &count)| Factor {
            name: format!("option {at}"),
            levels: (0..count).map(|level| level.to_string()).collect(),
            role: FactorRole::Choice,
            default: 0,
        })
        .collect();
    let mut rows: Vec<Vec<u16>> = vec![Vec::new()];
    for &count in &levels {
        let with = |row: &Vec<u16>, level| row.iter().copied().chain([level]).collect();
        rows = rows.iter().flat_map(|row| (0..count).map(move |l| with(row, l))).collect();
    }
    random.shuffle(&mut rows);
    rows.truncate(wanted);
    rows.sort_unstable();
    let candidate = |row: Vec<u16>| Candidate {
        levels: row.into_iter().map(Some).collect(),
        allowed: true,
        safety: 0,
        distance: 0,
    };
    let workloads = vec![Weighted { name: "benchmark".into(), weight: 1.0 }];
    SearchSpace {
        factors,
        candidates: rows.into_iter().map(candidate).collect(),
        workloads,
        baseline: 0,
    }
}

fn level(candidate: &Candidate, factor: usize) -> usize {
    usize::from(candidate.levels[factor].expect("every option applies"))
}

/// Effects of levels, of which a few are large, and of pairs of levels.
fn sum(space: &SearchSpace, sd: f64, pair_sd: f64, random: &mut RandomStream) -> Vec<f64> {
    let mut scores = vec![0.0; space.candidates.len()];
    let factors = space.factors.len();
    for factor in 0..factors {
        let own = if random.unit() < 0.4 { sd } else { 0.1 * sd };
        let effects: Vec<f64> =
            space.factors[factor].levels.iter().map(|_| own * random.normal()).collect();
        for (score, candidate) in scores.iter_mut().zip(&space.candidates) {
            *score += effects[level(candidate, factor)];
        }
        for other in factor + 1..factors {
            if random.unit() > 0.2 {
                continue;
            }
            let width = space.factors[other].levels.len();
            let cells: Vec<f64> =
                (0..effects.len() * width).map(|_| pair_sd * random.normal()).collect();
            for (score, candidate) in scores.iter_mut().zip(&space.candidates) {
                *score += cells[level(candidate, factor) * width + level(candidate, other)];
            }
        }
    }
    scores
}

fn trap(space: &SearchSpace, random: &mut RandomStream) -> Vec<f64> {
    let mut scores = sum(space, 0.05, 0.02, random);
    let factors = space.factors.len();
    let first = random.below(factors);
    let second = (first + 1 + random.below(factors - 1)) % factors;
    for (score, candidate) in scores.iter_mut().zip(&space.candidates) {
        *score += match (level(candidate, first) == 1, level(candidate, second) == 1) {
            (true, true) => 0.22,
            (false, false) => 0.0,
            _ => -0.6,
        };
    }
    scores
}

fn bottleneck(space: &SearchSpace, random: &mut RandomStream) -> Vec<f64> {
    let parts: Vec<Vec<f64>> = (0..3).map(|_| sum(space, 0.35, 0.05, random)).collect();
    (0..space.candidates.len())
        .map(|at| parts.iter().map(|part| part[at]).fold(f64::INFINITY, f64::min))
        .collect()
}

fn tuned(space: &SearchSpace, random: &mut RandomStream) -> Vec<f64> {
    let mut scores = sum(space, 0.15, 0.03, random);
    let factors = space.factors.len();
    for factor in 0..factors {
        let most = space.factors[factor].levels.len() - 1;
        if most < 2 {
            continue;
        }
        let other = (factor + 1 + random.below(factors - 1)) % factors;
        let (at, shift) = (random.unit(), random.unit() - 0.5);
        let steep = 0.3 + random.unit();
        for (score, candidate) in scores.iter_mut().zip(&space.candidates) {
            let moved = if level(candidate, other) > 0 { at + shift } else { at };
            let here = level(candidate, factor) as f64 / most as f64;
            *score -= steep * (here - moved).powi(2);
        }
    }
    scores
}

fn tree(space: &SearchSpace, random: &mut RandomStream) -> Vec<f64> {
    let mut scores = sum(space, 0.03, 0.01, random);
    let all: Vec<usize> = (0..space.candidates.len()).collect();
    split(space, &all, 5, &mut scores, random);
    scores
}

fn split(
    space: &SearchSpace,
    members: &[usize],
    depth: u32,
    scores: &mut [f64],
    random: &mut RandomStream,
) {
    if depth == 0 || members.len() < 4 {
        return;
    }
    let factor = random.below(space.factors.len());
    let cut = random.below(space.factors[factor].levels.len());
    let (left, right): (Vec<usize>, Vec<usize>) =
        members.iter().partition(|&&at| level(&space.candidates[at], factor) <= cut);
    for side in [left, right] {
        let shift = 0.15 * random.normal();
        side.iter().for_each(|&at| scores[at] += shift);
        split(space, &side, depth - 1, scores, random);
    }
}
