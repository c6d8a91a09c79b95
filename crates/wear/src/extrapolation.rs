//! From erase rates to years: when blocks fail, when the spare ones are used up, and with which
//! uncertainty.
//!
//! Three limits are computed: the mean of all erase blocks past its rating, the most worn block
//! past its rating, and the spare blocks used up by blocks that fail. A maker promises nothing
//! past the rating; the device accepts writes until its spare blocks are used up. What is not
//! known is drawn: the endurance of the device, the spread of its blocks, blocks that fail early,
//! the volume that is written, and the error of the simulation. A used device is taken as worn by
//! the same use; if it could not work after that, by one that wore its blocks more evenly.

use flashfit_device::random::Random;
use schemars::JsonSchema;

use crate::device_class::MODEL_FACTOR;
use crate::draws::{Q95, exp, normal, quantile, uniform};
pub use crate::erase_rates::EraseRates;
use crate::erase_rates::PastWear;
use crate::used_life::UsedLife;

pub const YEAR_DAYS: f64 = 365.25;
/// How often an endurance is drawn for a device that still works, after the same use and then
/// after one that wore its blocks more evenly.
const DRAWS_OF_ENDURANCE: u32 = 15;
const DRAWS_OF_EVENNESS: u32 = 15;

/// What a device reaches in its life.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, JsonSchema, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum LifeLimit {
    MeanPastRating,
    MostWornPastRating,
    SparesUsedUp,
}

impl LifeLimit {
    pub const ALL: [Self; 3] = [Self::MeanPastRating, Self::MostWornPastRating, Self::SparesUsedUp];

    /// As a cell of a table.
    pub fn short(self) -> &'static str {
        match self {
            Self::MeanPastRating => "mean",
            Self::MostWornPastRating => "worst block",
            Self::SparesUsedUp => "no spares",
        }
    }

    /// As part of a sentence.
    pub fn text(self) -> &'static str {
        match self {
            Self::MeanPastRating => "mean past its rating",
            Self::MostWornPastRating => "most worn block past its rating",
            Self::SparesUsedUp => "spare blocks used up",
        }
    }
}

/// What is not known exactly. A factor f means: within 1/f and f of the value with 90 %.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Uncertainty {
    /// Endurance of the device relative to its rating.
    pub endurance_factor: f64,
    /// Standard deviation of the blocks' endurance, as a share of the device's.
    pub block_spread: f64,
    /// Share of the blocks that fail early, at most.
    pub early_failures: f64,
    pub volume_factor: f64,
    /// Of the model of the device; the same for all setups.
    pub model_factor: f64,
    /// Of the recording and its replay; independent for each setup.
    pub replay_factor: f64,
}

impl Default for Uncertainty {
    fn default() -> Self {
        Self {
            endurance_factor: 1.5,
            block_spread: 0.1,
            early_failures: 0.01,
            volume_factor: 1.0,
            model_factor: MODEL_FACTOR,
            replay_factor: 1.15,
        }
    }
}

/// The assumptions whose influence is computed one at a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, JsonSchema, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Assumption {
    Volume,
    Endurance,
    BlockSpread,
    EarlyFailures,
    Simulation,
    WorkloadSeed,
    UsedLife,
}

impl Assumption {
    pub const ALL: [Self; 7] = [
        Self::Volume,
        Self::Endurance,
        Self::BlockSpread,
        Self::EarlyFailures,
        Self::Simulation,
        Self::WorkloadSeed,
        Self::UsedLife,
    ];

    pub fn text(self) -> &'static str {
        match self {
            Self::Volume => "volume written a day",
            Self::Endurance => "endurance of the device",
            Self::BlockSpread => "spread of the blocks' endurance",
            Self::EarlyFailures => "blocks that fail early",
            Self::Simulation => "error of the simulation",
            Self::WorkloadSeed => "course of the workload",
            Self::UsedLife => "life that is used already",
        }
    }
}

/// One draw of everything unknown, in standard units.
#[derive(Debug, Clone, Copy, Default)]
struct Draw {
    volume: f64,
    endurance: f64,
    spread: f64,
    early: f64,
    simulation: f64,
    /// Of the replay: independent of other setups.
    replay: f64,
    /// Within 0 to 1.
    seed: f64,
    /// Within the step of the register, 0 to 1.
    used: f64,
    /// How evenly the device was worn, 0 to 1; see [`PastWear`].
    evenness: f64,
    blocks: u64,
}

const MEDIAN: Draw = Draw {
    volume: 0.0,
    endurance: 0.0,
    spread: 0.0,
    early: 0.5,
    simulation: 0.0,
    replay: 0.0,
    seed: 0.5,
    used: 0.5,
    evenness: 0.0,
    blocks: 0,
};

impl Draw {
    fn new(random: &mut Random, own: &mut Random) -> Self {
        let drawn = Self {
            replay: normal(own),
            volume: normal(random),
            endurance: normal(random),
            spread: normal(random),
            early: uniform(random),
            simulation: normal(random),
            seed: uniform(random),
            used: 0.0,
            evenness: 0.0,
            blocks: random.next_u64(),
        };
        let used = uniform(&mut Random::new(!drawn.blocks));
        Self { used, ..drawn }
    }

    /// All as in `median`, except one at its 5 % or 95 % quantile.
    fn only(assumption: Assumption, upper: bool, unknown: &Uncertainty, median: Self) -> Self {
        let (z, share) = if upper { (Q95, 0.95) } else { (-Q95, 0.05) };
        match assumption {
            Assumption::Volume => Self { volume: z, ..median },
            Assumption::Endurance => Self { endurance: z, ..median },
            Assumption::BlockSpread => Self { spread: z, ..median },
            Assumption::EarlyFailures => Self { early: share, ..median },
            Assumption::Simulation => {
                let z = z * share_of_both(unknown.model_factor, unknown.replay_factor);
                Self { simulation: z, replay: z, ..median }
            }
            Assumption::WorkloadSeed => Self { seed: if upper { 1.0 } else { 0.0 }, ..median },
            Assumption::UsedLife => Self { used: share, ..median },
        }
    }
}

#[derive(Debug, Clone)]
pub struct LifeModel {
    /// Rates by different courses of the same workload.
    pub courses: Vec<EraseRates>,
    pub gib_a_day: f64,
    /// Share of the blocks that may fail before the device can no longer be written.
    pub spare_share: f64,
    pub uncertainty: Uncertainty,
    /// What the device has used already.
    pub used: UsedLife,
}

/// The end of a life, in years from now.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LifeEnd {
    /// Until the first limit.
    pub years: f64,
    /// The first limit.
    pub limit: LifeLimit,
    /// Until the spare blocks are used up: until then the device accepts writes.
    pub writable_years: f64,
}

/// The share of each of two independent errors at which their product is at its quantile: their
/// logarithms add up like lengths at a right angle.
fn share_of_both(one: f64, other: f64) -> f64 {
    let (one, other) = (ln(one), ln(other));
    let sum = one + other;
    if sum > 0.0 { (one * one + other * other).sqrt() / sum } else { 1.0 }
}

fn factor(of: f64, z: f64) -> f64 {
    // For factors up to 10 the exponent is at most 3 times ln(10) / 1.64.
    exp(ln(of) / Q95 * z.clamp(-3.0, 3.0) / 3.0).powi(3)
}

/// The natural logarithm, by Newton's method on [`exp`]; for 0.1 to 10.
fn ln(x: f64) -> f64 {
    let mut guess = 0.0;
    for _ in 0..30 {
        guess += x / exp(guess) - 1.0;
    }
    guess
}

impl LifeModel {
    /// The end for one draw, and when each limit is reached, in days.
    fn days(&self, draw: &Draw) -> [f64; 3] {
        let Some(used) = self.used.at(draw.used) else { return [0.0; 3] };
        let unknown = &self.uncertainty;
        let last = self.courses.len() - 1;
        let course = &self.courses[((draw.seed * (last + 1) as f64) as usize).min(last)];
        let endurance = factor(unknown.endurance_factor, draw.endurance);
        let pace = self.gib_a_day
            * factor(unknown.volume_factor, draw.volume)
            * factor(unknown.model_factor, draw.simulation)
            * factor(unknown.replay_factor, draw.replay);
        let spread = unknown.block_spread * factor(1.5, draw.spread);
        let early = unknown.early_failures * draw.early;
        let past = PastWear { mean: used, evenness: draw.evenness };
        let mut random = Random::new(draw.blocks);
        let mut failures =
            course.failures(past, || (endurance * (1.0 + spread * normal(&mut random))).max(0.02));
        failures.sort_by(f64::total_cmp);
        let allowed = (self.spare_share - early).max(0.0) * failures.len() as f64;
        let spares = failures[(allowed as usize).min(failures.len() - 1)];
        [course.mean_until(endurance, past), course.most_until(endurance, past), spares]
            .map(|gib| gib / pace)
    }

    fn end(&self, draw: &Draw) -> LifeEnd {
        let all = self.days(draw);
        // Of limits that are reached together, the last one says most; but a device that is past
        // its rating already is worn as a whole.
        let earlier = |a: &(LifeLimit, f64), b: &(LifeLimit, f64)| {
            let tied = if a.1 > 0.0 { b.0.cmp(&a.0) } else { a.0.cmp(&b.0) };
            a.1.total_cmp(&b.1).then(tied)
        };
        let (limit, days) =
            LifeLimit::ALL.into_iter().zip(all).min_by(earlier).expect("there are three");
        LifeEnd { years: days / YEAR_DAYS, limit, writable_years: all[2] / YEAR_DAYS }
    }

    /// Draws that are the same for all models with this seed, except what is `own` to each, so that
    /// they can be compared in pairs.
    ///
    /// The device still works, so that what would have ended it is drawn again; only one far past
    /// its rating ends at once.
    pub fn ends(&self, draws: usize, seed: u64, own: u64) -> Vec<LifeEnd> {
        let (mut random, mut own) = (Random::new(seed), Random::new(own));
        let mut drawn = || {
            let mut draw = Draw::new(&mut random, &mut own);
            for attempt in 1..DRAWS_OF_ENDURANCE + DRAWS_OF_EVENNESS {
                let endurance = factor(self.uncertainty.endurance_factor, draw.endurance);
                if self.used.at(draw.used) < Some(endurance) {
                    let end = self.end(&draw);
                    if end.writable_years > 0.0 {
                        return end;
                    }
                }
                // The numbers of the next life stay the same for all setups.
                let mut again = Random::new(draw.blocks);
                let new = Draw::new(&mut again, &mut Random::new(0));
                draw = Draw { replay: draw.replay, ..new };
                if attempt >= DRAWS_OF_ENDURANCE {
                    draw.evenness = uniform(&mut again);
                }
            }
            self.end(&draw)
        };
        (0..draws).map(|_| drawn()).collect()
    }

    /// Everything at its median, with the least evenness at which the device still works.
    fn median(&self) -> Draw {
        (0..=10)
            .map(|tenths| Draw { evenness: f64::from(tenths) / 10.0, ..MEDIAN })
            .find(|draw| self.end(draw).writable_years > 0.0)
            .unwrap_or(MEDIAN)
    }

    /// Years until each limit, with everything unknown at its median.
    pub fn median_years(&self) -> [(LifeLimit, f64); 3] {
        let days = self.days(&self.median());
        let mut years = LifeLimit::ALL.map(|limit| (limit, 0.0));
        for (end, days) in years.iter_mut().zip(days) {
            end.1 = days / YEAR_DAYS;
        }
        years
    }

    /// For each assumption, the years at its 5 % and 95 % quantile with the others at their median;
    /// the most influential first.
    pub fn sensitivity(&self) -> Vec<(Assumption, [f64; 2])> {
        let unknown = |assumption: &Assumption| {
            *assumption != Assumption::UsedLife || self.used.at(1.0) > Some(self.used.low)
        };
        let median = self.median();
        let mut found: Vec<(Assumption, [f64; 2])> = Assumption::ALL
            .into_iter()
            .filter(unknown)
            .map(|assumption| {
                let mut years = [false, true].map(|upper| {
                    self.end(&Draw::only(assumption, upper, &self.uncertainty, median)).years
                });
                years.sort_by(f64::total_cmp);
                (assumption, years)
            })
            .collect();
        let span = |years: &[f64; 2]| years[1] / years[0].max(f64::MIN_POSITIVE);
        found.sort_by(|a, b| span(&b.1).total_cmp(&span(&a.1)));
        found
    }
}

/// A median with its 90 % interval.
#[derive(Debug, Clone, Copy, PartialEq, JsonSchema, serde::Serialize)]
pub struct Interval {
    pub low: f64,
    pub median: f64,
    pub high: f64,
}

impl Interval {
    /// # Panics
    /// Without values.
    pub fn of(mut values: Vec<f64>) -> Self {
        values.sort_by(f64::total_cmp);
        let at = |share| quantile(&values, share);
        Self { low: at(0.05), median: at(0.5), high: at(0.95) }
    }

    /// These years if every byte costs the device `cost` times as much: all limits are then reached
    /// that much earlier. The cost is known within `factor` with 90 %, independently of the years.
    #[must_use]
    pub fn at_cost(self, cost: f64, factor: f64) -> Self {
        if self.median <= 0.0 {
            // A device at its end: there is no ratio to nothing.
            return Self { low: 0.0, median: 0.0, high: self.high / cost * factor };
        }
        let unsure = factor.ln();
        let below = (self.median / self.low).ln().hypot(unsure);
        let above = (self.high / self.median).ln().hypot(unsure);
        let median = self.median / cost;
        Self { low: median * (-below).exp(), median, high: median * above.exp() }
    }
}

/// The limit that is reached first most often.
pub fn usual_limit(ends: &[LifeEnd]) -> LifeLimit {
    let count = |limit| ends.iter().filter(|end| end.limit == limit).count();
    LifeLimit::ALL.into_iter().max_by_key(|&limit| count(limit)).expect("there are three")
}

#[cfg(test)]
mod tests;
