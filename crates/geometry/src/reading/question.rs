//! Evaluates reads for the size of the erase block, and for the sizes of the page and the write
//! unit.
//!
//! Both use the step models of [`super::steps`]. For the erase block, only reads across multiples
//! of 16 KiB are compared, so that their position within a page is the same. The erase block is the
//! largest level with its own step; a single step at a small level may as well come from a write
//! unit and is not evidence. Sources of the priors: SD and eMMC cards in published flashbench
//! tables (write units of 8 to 64 KiB); TLC with three pages per word line.

use std::collections::BTreeSet;

use super::scores::BoundaryRead;
use super::steps::{StepModel, Sums, subsets};
use crate::belief::{ANSWERS, DeviceStructure, GeometryBelief, log_sum_exp};

/// The smallest boundary of reads for the erase block, in bytes.
pub const COARSE: u64 = 16 << 10;
/// The largest write unit, in bytes.
pub const LARGEST_WRITE_UNIT: u64 = 256 << 10;
/// The largest size of a page, in bytes.
const LARGEST_PAGE: u64 = 64 << 10;
/// Below this page size, the position within a page may affect the cost of a read.
const SMALLEST_PLAIN_PAGE: u64 = 16 << 10;
/// Prior probabilities of an additional step at a given level: of a write unit, of the mapping
/// table; and a factor for sizes that are not powers of two.
const ALSO_A_WRITE_UNIT: f64 = 0.03;
const ALSO_A_MAP: f64 = 0.003;
/// The same of half the largest unit: cards have half of the step there.
const ALSO_HALF: f64 = 0.03;
const NO_POWER_OF_TWO: f64 = 0.1;
/// Prior probability that reads show neither page nor write unit.
const NO_WRITE_UNIT: f64 = 0.3;

/// Step models for the erase block.
#[derive(Debug)]
pub struct EraseBlockReads {
    levels: Vec<u64>,
    models: Vec<StepModel>,
}

impl EraseBlockReads {
    pub fn new(capacity_bytes: u64) -> Self {
        let fits = |bytes: &u64| *bytes <= capacity_bytes / 2;
        let powers: Vec<u64> = (15..=28).map(|exponent| 1 << exponent).filter(fits).collect();
        let threes: Vec<u64> = (12..=26).map(|exponent| 3 << exponent).filter(fits).collect();
        let rare = [5, 7, 9].into_iter().flat_map(|odd: u64| (13..=23).map(move |k| odd << k));
        let rare: Vec<u64> = rare.filter(|bytes| ANSWERS.contains(bytes)).filter(fits).collect();
        let place = |from: usize, count: usize| (from..from + count).collect::<Vec<usize>>();
        let (of_two, of_three) = (place(0, powers.len()), place(powers.len(), threes.len()));
        let of_rare = place(powers.len() + threes.len(), rare.len());
        let mut models = subsets(&of_two, 3);
        for beside in subsets(&of_two, 2) {
            models.extend(of_three.iter().map(|&at| with(&beside, &[at])));
        }
        for beside in subsets(&of_two, 1) {
            models.extend(of_rare.iter().map(|&at| with(&beside, &[at])));
            let pairs = subsets(&of_three, 2).into_iter().filter(|pair| pair.len() == 2);
            models.extend(pairs.map(|pair| with(&beside, &pair)));
        }
        let levels = [powers, threes, rare].concat();
        Self { levels, models }
    }

    /// The belief after these reads and the levels of the most likely model, in bytes. `disproved`
    /// are levels whose steps do not come from an erase block; `smaller_shows` is the probability
    /// that the write unit is visible separately.
    pub fn belief(
        &self,
        crossings: &[BoundaryRead],
        capacity_bytes: u64,
        disproved: &BTreeSet<u64>,
        smaller_shows: impl Fn(u64) -> f64,
    ) -> (GeometryBelief, Vec<u64>) {
        let coarse: Vec<BoundaryRead> =
            crossings.iter().copied().filter(|crossing| crossing.center % COARSE == 0).collect();
        let evidence = Sums::weigh(&coarse, &self.levels, &self.models, |_, _| true);
        let shows_below: Vec<f64> = self.levels.iter().map(|&level| smaller_shows(level)).collect();
        let mut of_unit: Vec<(Option<u64>, f64)> = Vec::new();
        let mut likeliest: (&[usize], f64) = (&[], f64::NEG_INFINITY);
        for (model, evidence) in self.models.iter().zip(evidence) {
            if evidence == f64::NEG_INFINITY {
                continue;
            }
            let top = self.top(model, disproved);
            let levels = model.iter().map(|&at| self.levels[at]);
            let beside: f64 = model
                .iter()
                .filter(|&&at| Some(self.levels[at]) != top)
                .filter(|&&at| !disproved.contains(&self.levels[at]))
                .map(|&at| {
                    let level = self.levels[at];
                    let is_half = top == Some(2 * level) && level > LARGEST_WRITE_UNIT;
                    if is_half && level.is_power_of_two() {
                        ALSO_HALF
                    } else {
                        also(level, shows_below[at])
                    }
                })
                .product();
            let weight = evidence + beside.ln();
            if weight > likeliest.1 {
                likeliest = (model, weight);
            }
            let Some(top) = top else {
                of_unit.push((None, weight));
                continue;
            };
            let smaller = levels.clone().any(|level| level < top);
            let shows = if smaller { 1.0 } else { smaller_shows(top) };
            let is_unit = shows * erase_block_above(top) + (1.0 - shows) * erase_block_alone(top);
            of_unit.push((Some(top), weight + is_unit.ln()));
            // As the step of a write unit it counts as an additional step.
            of_unit.push((None, weight + ((1.0 - is_unit) * also(top, 0.0)).ln()));
        }
        let total = |unit: Option<u64>| {
            let logs = of_unit.iter().filter(move |(of, _)| *of == unit).map(|&(_, log)| log);
            log_sum_exp(logs)
        };
        let nothing = total(None);
        let mut belief = GeometryBelief::new(capacity_bytes, &[]);
        let known: BTreeSet<u64> = self.levels.iter().copied().collect();
        belief.update(|structure| match structure {
            DeviceStructure::Nothing => nothing,
            // Sizes without a model keep their prior, unless disproved.
            DeviceStructure::Unit(bytes) if !known.contains(&bytes) => nothing,
            DeviceStructure::Unit(bytes) => total(Some(bytes)),
        });
        (belief, likeliest.0.iter().map(|&at| self.levels[at]).collect())
    }

    /// The level of the erase block in a model: the largest possible one, or else the largest.
    fn top(&self, model: &[usize], disproved: &BTreeSet<u64>) -> Option<u64> {
        let left = model.iter().map(|&at| self.levels[at]).filter(|at| !disproved.contains(at));
        let possible = left.clone().filter(|bytes| ANSWERS.contains(bytes)).max();
        possible.or_else(|| left.max())
    }
}

/// The prior of an additional step at a level. If the write unit is visible below it
/// (`smaller_shows`), the step does not come from a write unit.
fn also(level: u64, smaller_shows: f64) -> f64 {
    let by_size = if level <= LARGEST_WRITE_UNIT { smaller_shows } else { 1.0 };
    let size = ALSO_A_WRITE_UNIT * (1.0 - by_size) + ALSO_A_MAP * by_size;
    if level.is_power_of_two() { size } else { size * NO_POWER_OF_TWO }
}

fn with(beside: &[usize], levels: &[usize]) -> StepModel {
    [beside, levels].concat()
}

/// The probability that the largest of several levels is the erase block.
fn erase_block_above(bytes: u64) -> f64 {
    match bytes >> 10 {
        0..64 => 0.02,
        64..128 => 0.8,
        128..256 => 0.98,
        _ => 0.995,
    }
}

/// The same for a single level.
fn erase_block_alone(bytes: u64) -> f64 {
    match bytes >> 10 {
        0..128 => 0.01,
        128..384 => 0.2,
        384..1024 => 0.95,
        _ => 0.995,
    }
}

/// Step models for the write unit.
#[derive(Debug)]
pub struct WriteUnitReads {
    levels: Vec<u64>,
    models: Vec<StepModel>,
}

/// Units with probabilities, most likely first; `None` for no visible unit.
pub type UnitShares = Vec<(Option<u64>, f64)>;

/// The posterior of the units below the erase block.
#[derive(Debug, Default)]
pub struct SmallUnitBelief {
    /// The largest with a step.
    pub write_unit: UnitShares,
    /// The smallest of several.
    pub page: UnitShares,
    /// The smallest, whether page or write unit.
    pub finest: UnitShares,
}

impl WriteUnitReads {
    pub fn new(sector_bytes: u64) -> Self {
        let powers = (9..=18).map(|exponent| 1 << exponent).filter(|&bytes| bytes > sector_bytes);
        let powers: Vec<u64> = powers.collect();
        let threes: Vec<u64> = (12..=16).map(|exponent| 3 << exponent).collect();
        let of_two: Vec<usize> = (0..powers.len()).collect();
        let mut models = subsets(&of_two, 3);
        for beside in subsets(&of_two, 2) {
            models.extend((0..threes.len()).map(|at| with(&beside, &[powers.len() + at])));
        }
        Self { levels: [powers, threes].concat(), models }
    }

    /// The posterior of each size. Reads across larger units, including multiples of `erase_block`
    /// if it is known, are ignored.
    pub fn shares(&self, crossings: &[BoundaryRead], erase_block: Option<u64>) -> SmallUnitBelief {
        let limit = erase_block.unwrap_or(u64::MAX);
        let fine: Vec<BoundaryRead> = crossings
            .iter()
            .copied()
            .filter(|crossing| {
                crossing.center % (2 * LARGEST_WRITE_UNIT) != 0 && crossing.center % limit != 0
            })
            .collect();
        let largest = |model: &StepModel| model.iter().copied().max_by_key(|&at| self.levels[at]);
        let plain = |model: &StepModel, at: usize| {
            Some(at) == largest(model) || self.levels[at] >= SMALLEST_PLAIN_PAGE
        };
        let below = |model: &&StepModel| model.iter().all(|&at| self.levels[at] < limit);
        let models: Vec<StepModel> = self.models.iter().filter(below).cloned().collect();
        let evidence = Sums::weigh(&fine, &self.levels, &models, plain);
        let (mut write_units, mut pages, mut finest) = (Vec::new(), Vec::new(), Vec::new());
        for (model, evidence) in models.iter().zip(evidence) {
            let prior: f64 = model
                .iter()
                .map(|&at| if self.levels[at].is_power_of_two() { 0.07 } else { 0.01 })
                .product();
            let write_unit = largest(model).map(|at| self.levels[at]);
            let shows = if model.is_empty() { NO_WRITE_UNIT } else { 1.0 - NO_WRITE_UNIT };
            let log = evidence + prior.ln() + shows.ln();
            let smallest = model.iter().map(|&at| self.levels[at]).min();
            let page = smallest.filter(|&page| model.len() > 1 && page <= LARGEST_PAGE);
            write_units.push((write_unit, log));
            pages.push((page, log));
            finest.push((smallest, log));
        }
        SmallUnitBelief {
            write_unit: shares(&write_units),
            page: shares(&pages),
            finest: shares(&finest),
        }
    }
}

/// Sums the weights of each size and normalizes them.
fn shares(weights: &[(Option<u64>, f64)]) -> UnitShares {
    let total = log_sum_exp(weights.iter().map(|&(_, log)| log));
    let sizes: BTreeSet<Option<u64>> = weights.iter().map(|&(size, _)| size).collect();
    let mut shares: UnitShares = sizes
        .into_iter()
        .map(|size| {
            let logs = weights.iter().filter(|(of, _)| *of == size).map(|&(_, log)| log);
            (size, (log_sum_exp(logs) - total).exp())
        })
        .collect();
    shares.sort_by(|one, other| other.1.total_cmp(&one.1));
    shares
}
