//! Kinds of landscapes: two that resemble earlier studies of tuning methods (four file systems with
//! 3,264 setups under 8 workloads, smooth and rugged), and harder or smaller ones.

use crate::random::RandomStream;
use crate::space::{Candidate, Factor, FactorRole, SearchSpace, Weighted};

use super::Landscape;
use super::noise::LandscapeNoise;
use super::terms::{Strengths, truth};

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum LandscapeKind {
    /// Main effects with few, weak interactions; heavy-tailed noise.
    Smooth,
    /// Many strong interactions, including some of three options; heavy-tailed noise.
    Rugged,
    /// Like [`LandscapeKind::Smooth`] with normal noise.
    SmoothGauss,
    /// Like [`LandscapeKind::Rugged`] with normal noise.
    RuggedGauss,
    /// Like [`LandscapeKind::Smooth`], but all setups are equal.
    Flat,
    /// Only one option has an effect.
    OneEffect,
    /// Two options are good together and bad alone.
    Trap,
    /// Like [`LandscapeKind::Smooth`], but every trial is slower than the one before (wear).
    Drift,
    /// Like [`LandscapeKind::Smooth`], but one setup in ten fails.
    Failing,
    /// Two file systems, about a hundred setups, little noise; very different workloads.
    Small,
    /// Two file systems, five options, one workload.
    Tiny,
    /// Like [`LandscapeKind::Tiny`], but all setups are equal and the noise is large.
    TinyFlat,
    /// Two file systems, about a hundred setups, 11 very different workloads: similar to recorded
    /// grids.
    Grid,
}

impl LandscapeKind {
    pub const ALL: [Self; 13] = [
        Self::Smooth,
        Self::Rugged,
        Self::SmoothGauss,
        Self::RuggedGauss,
        Self::Flat,
        Self::OneEffect,
        Self::Trap,
        Self::Drift,
        Self::Failing,
        Self::Small,
        Self::Tiny,
        Self::TinyFlat,
        Self::Grid,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Self::Smooth => "smooth",
            Self::Rugged => "rugged",
            Self::SmoothGauss => "smooth-gauss",
            Self::RuggedGauss => "rugged-gauss",
            Self::Flat => "flat",
            Self::OneEffect => "one-effect",
            Self::Trap => "trap",
            Self::Drift => "drift",
            Self::Failing => "failing",
            Self::Small => "small",
            Self::Tiny => "tiny",
            Self::TinyFlat => "tiny-flat",
            Self::Grid => "grid",
        }
    }

    /// Generates the landscape of this kind for a seed.
    pub fn make(self, seed: u64) -> Landscape {
        let random = &mut RandomStream::stream(seed, self as u64);
        let (families, schedulers, workloads): (&[&[u16]], u16, usize) = match self {
            Self::Small => (&[&[3, 2, 2, 2], &[2, 2, 2, 2]], 3, 6),
            Self::Grid => (&[&[4, 2, 2, 2], &[3, 2, 2, 2]], 2, 11),
            Self::Tiny | Self::TinyFlat => (&[&[2, 2, 2], &[2, 2]], 1, 1),
            _ => (&FAMILIES, 4, 8),
        };
        let mut space = conditional_space(families, schedulers, workloads);
        let truth = truth(&space, &self.strengths(), random);
        let mut landscape = Landscape {
            noise: self.noise(workloads, random),
            short_bias: short_bias(&space, random),
            failing: Vec::new(),
            truth,
            space: space.clone(),
        };
        let count = space.candidates.len();
        match self {
            Self::Trap => set_trap(&mut landscape, random),
            Self::OneEffect => {
                for (candidate, row) in space.candidates.iter().zip(&mut landscape.truth) {
                    let gain = if candidate.levels[2] == Some(1) { 0.25 } else { 0.0 };
                    row.iter_mut().for_each(|value| *value += gain);
                }
            }
            Self::Failing => {
                landscape.failing = (1..count).filter(|_| random.unit() < 0.1).collect();
            }
            _ => {}
        }
        // The baseline is the default setup of the best family.
        let is_default = |index: &usize| space.candidates[*index].distance == 0;
        let best_default = (0..count)
            .filter(is_default)
            .max_by(|a, b| landscape.merit(*a).total_cmp(&landscape.merit(*b)));
        space.baseline = best_default.unwrap_or(0);
        landscape.space = space;
        landscape.failing.retain(|index| *index != landscape.space.baseline);
        landscape
    }

    fn strengths(self) -> Strengths {
        let smooth = Strengths {
            family: 0.1,
            real: 0.085,
            faint: 0.01,
            real_share: 0.35,
            pairs: (0.15, 0.022),
            triples: (0.0, 0.0),
            residual: 0.004,
            own: 0.4,
        };
        match self {
            Self::Rugged | Self::RuggedGauss => Strengths {
                family: 0.15,
                real: 0.13,
                pairs: (0.3, 0.06),
                triples: (0.05, 0.02),
                residual: 0.012,
                ..smooth
            },
            Self::Flat | Self::OneEffect | Self::TinyFlat => Strengths {
                family: 0.0,
                real: 0.0,
                faint: 0.0,
                pairs: (0.0, 0.0),
                residual: 0.0,
                ..smooth
            },
            Self::Small => Strengths {
                family: 0.35,
                real: 0.15,
                faint: 0.01,
                real_share: 0.5,
                pairs: (0.25, 0.05),
                residual: 0.01,
                own: 0.6,
                ..smooth
            },
            Self::Grid => Strengths {
                family: 0.3,
                real: 0.12,
                real_share: 0.4,
                pairs: (0.2, 0.03),
                residual: 0.005,
                own: 0.6,
                ..smooth
            },
            Self::Tiny => Strengths { family: 0.3, real: 0.2, real_share: 0.5, ..smooth },
            _ => smooth,
        }
    }

    fn noise(self, workloads: usize, random: &mut RandomStream) -> LandscapeNoise {
        let (least, most) = match self {
            Self::Small => (0.01, 0.06),
            Self::Grid => (0.03, 0.1),
            Self::TinyFlat => (0.05, 0.3),
            Self::Tiny => (0.02, 0.08),
            _ => (0.05, 0.15),
        };
        let normal = matches!(self, Self::SmoothGauss | Self::RuggedGauss | Self::Small);
        LandscapeNoise {
            sigma: (0..workloads).map(|_| random.unit().mul_add(most - least, least)).collect(),
            heavy_tails: !normal,
            outliers: 0.03,
            visit: 0.02,
            drift: if self == Self::Drift { -0.15 } else { 0.0 },
            short_ratio: 1.67,
            seed: random.next_u64(),
        }
    }
}

/// Numbers of levels of the options of ext4, btrfs, F2FS and XFS: 384, 144, 192 and 96 setups.
const FAMILIES: [&[u16]; 4] =
    [&[3, 2, 2, 2, 2, 2, 2, 2], &[3, 3, 2, 2, 2, 2], &[3, 2, 2, 2, 2, 2, 2], &[3, 2, 2, 2, 2, 2]];

fn factor(name: String, levels: u16, role: FactorRole) -> Factor {
    Factor { name, levels: (0..levels).map(|l| l.to_string()).collect(), role, default: 0 }
}

/// A space of families with separate options, each combination under every scheduler.
pub fn conditional_space(families: &[&[u16]], schedulers: u16, workloads: usize) -> SearchSpace {
    let count = u16::try_from(families.len()).expect("a handful");
    let mut factors = vec![
        factor("file system".into(), count, FactorRole::Family),
        factor("scheduler".into(), schedulers, FactorRole::Choice),
    ];
    let mut candidates = Vec::new();
    for (family, options) in (0u16..).zip(families) {
        let first = factors.len();
        for (option, &levels) in options.iter().enumerate() {
            factors.push(factor(format!("{family}/{option}"), levels, FactorRole::Choice));
        }
        let mut rows: Vec<Vec<u16>> = vec![Vec::new()];
        for &levels in *options {
            let with = |row: &Vec<u16>, level| row.iter().copied().chain([level]).collect();
            rows = rows
                .iter()
                .flat_map(|row| (0..levels).map(move |level| with(row, level)))
                .collect();
        }
        for row in rows {
            for scheduler in 0..schedulers {
                let mut levels = vec![Some(family), Some(scheduler)];
                levels.resize(first, None);
                levels.extend(row.iter().copied().map(Some));
                let changed = row.iter().filter(|&&level| level > 0).count();
                let distance = u32::try_from(changed).expect("few") + u32::from(scheduler > 0);
                candidates.push(Candidate { levels, allowed: true, safety: 0, distance });
            }
        }
    }
    for candidate in &mut candidates {
        candidate.levels.resize(factors.len(), None);
    }
    let workloads =
        (0..workloads).map(|w| Weighted { name: format!("workload {w}"), weight: 1.0 }).collect();
    SearchSpace { factors, candidates, workloads, baseline: 0 }
}

/// Bias of short trials: standard deviation 2 % per option level plus 1 % per candidate.
fn short_bias(space: &SearchSpace, random: &mut RandomStream) -> Vec<f64> {
    let by_level: Vec<Vec<f64>> = space
        .factors
        .iter()
        .map(|factor| factor.levels.iter().map(|_| 0.02 * random.normal()).collect())
        .collect();
    let bias = |candidate: &Candidate| {
        let levels = candidate.levels.iter().enumerate();
        levels
            .filter_map(|(factor, level)| level.map(|level| by_level[factor][usize::from(level)]))
            .sum::<f64>()
    };
    space.candidates.iter().map(|candidate| bias(candidate) + 0.01 * random.normal()).collect()
}

/// Makes two options of the largest family gain 18 % together and cost 10 % each alone.
fn set_trap(landscape: &mut Landscape, random: &mut RandomStream) {
    let first = 3 + random.below(3);
    let second = first + 1 + random.below(3);
    for (candidate, row) in landscape.space.candidates.iter().zip(&mut landscape.truth) {
        let change = match (candidate.levels[first], candidate.levels[second]) {
            (Some(1), Some(1)) => 0.18,
            (Some(0), Some(1)) | (Some(1), Some(0)) => -0.1,
            _ => 0.0,
        };
        row.iter_mut().for_each(|value| *value += change);
    }
}
