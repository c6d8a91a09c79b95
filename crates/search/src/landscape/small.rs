//! Small spaces: 2 to 48 setups, where a search could stop too early because it has seen too little
//! to know how much setups differ.

use crate::random::RandomStream;

use super::Landscape;
use super::kinds::conditional_space;
use super::noise::LandscapeNoise;
use super::terms::{Strengths, truth};

/// The numbers of setups that [`small_space`] makes.
pub const SMALL_SPACES: [usize; 4] = [2, 4, 16, 48];

/// A space of this many setups with random effects and a noise of 3 to 12 %.
///
/// # Panics
/// If the number of setups is not one of [`SMALL_SPACES`].
pub fn small_space(setups: usize, workloads: usize, seed: u64) -> Landscape {
    let key = (setups as u64) << 32 | (workloads as u64) << 16;
    let random = &mut RandomStream::stream(seed ^ 0x736d_616c, key);
    let (families, schedulers): (&[&[u16]], u16) = match setups {
        2 => (&[&[], &[]], 1),
        4 => (&[&[2], &[2]], 1),
        16 => (&[&[2, 2, 2], &[2, 2, 2]], 1),
        48 => (&[&[2, 2, 2], &[2, 2, 2]], 3),
        _ => panic!("there is no small space of {setups} setups"),
    };
    let mut space = conditional_space(families, schedulers, workloads);
    let strengths = Strengths {
        family: 0.08,
        real: 0.08,
        faint: 0.005,
        real_share: 0.5,
        pairs: (0.3, 0.03),
        triples: (0.0, 0.0),
        residual: 0.005,
        own: 0.4,
    };
    let truth = truth(&space, &strengths, random);
    // Any setup without options can be the baseline, also a bad one.
    let defaults: Vec<usize> =
        (0..setups).filter(|&index| space.candidates[index].distance == 0).collect();
    space.baseline = defaults[random.below(defaults.len())];
    let sigma = (0..workloads).map(|_| random.unit().mul_add(0.09, 0.03)).collect();
    Landscape { noise: noise(sigma, random), ..plain(space, truth) }
}

/// Two setups of which the second is better by `gain` (natural logarithm) under every workload,
/// with a noise of 10 %.
pub fn pair(gain: f64, workloads: usize, seed: u64) -> Landscape {
    let random = &mut RandomStream::stream(seed ^ 0x7061_6972, workloads as u64);
    let space = conditional_space(&[&[], &[]], 1, workloads);
    let base: Vec<f64> = (0..workloads).map(|_| 8.0 + 2.0 * random.normal()).collect();
    let better = base.iter().map(|level| level + gain).collect();
    let noise = LandscapeNoise {
        heavy_tails: false,
        outliers: 0.0,
        visit: 0.0,
        ..noise(vec![0.1; workloads], random)
    };
    Landscape { noise, ..plain(space, vec![base, better]) }
}

/// 48 setups under six workloads, one of which has ten times the noise of the others (2 %).
pub fn one_noisy_workload(seed: u64) -> Landscape {
    let mut landscape = small_space(48, 6, seed ^ 0x6e6f_6973);
    landscape.noise.sigma = vec![0.02; 6];
    landscape.noise.sigma[RandomStream::stream(seed, 0x6e).below(6)] = 0.2;
    landscape
}

fn noise(sigma: Vec<f64>, random: &mut RandomStream) -> LandscapeNoise {
    LandscapeNoise {
        sigma,
        heavy_tails: true,
        outliers: 0.02,
        visit: 0.01,
        drift: 0.0,
        short_ratio: 1.67,
        seed: random.next_u64(),
    }
}

fn plain(space: crate::space::SearchSpace, truth: Vec<Vec<f64>>) -> Landscape {
    let count = space.candidates.len();
    let sigma = vec![0.1; space.workloads.len()];
    let noise = noise(sigma, &mut RandomStream::new(0));
    Landscape { space, truth, short_bias: vec![0.0; count], failing: Vec::new(), noise }
}
