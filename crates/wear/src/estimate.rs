//! Estimates how many years a setup lasts under a usage model.
//!
//! The recorded traces of the setup's workloads are replayed on a replica of the device, a few
//! gibibytes large with the same proportions, until it has been written several times over, its
//! spare blocks included; the erases of its blocks in the second half give the rates that
//! [`crate::extrapolation`] extrapolates. Limits: see [`crate::replay`] and
//! [`EraseRates`]; a life is not simulated to its end.

use flashfit_card::{BlockWear, CardModel, ModelError};
use flashfit_device::{BlockDevError, Bytes};
use flashfit_numbers::fnv1a;
use flashfit_user_error::{ExitClass, Hint, UserError};
use schemars::JsonSchema;
use serde::Serialize;

use crate::aging;
use crate::extrapolation::{
    Assumption, EraseRates, Interval, LifeEnd, LifeLimit, LifeModel, Uncertainty, usual_limit,
};
use crate::mix::{ModeledUsage, SetupTraces};
use crate::replay::{Replay, ReplayOptions};
use crate::replica;
use crate::usage::{TrimInterval, UsageModel};
use crate::used_life::UsedLife;

const GIB: f64 = (1_u64 << 30) as f64;
const HOUR_NS: f64 = 3.6e12;
/// Courses of the workload that are simulated.
const COURSES: u64 = 3;
const DRAWS: usize = 1000;
/// The replica is written over so many times with its spare blocks, which are used first, half of
/// it before anything is counted.
const TURNOVERS: u64 = 6;
/// A replica is not larger, in tiles.
const TILES_MAX: u32 = 16;
/// Months in a year.
const MONTHS: f64 = 12.0;

#[derive(Debug, Clone, Copy)]
pub struct EstimateRequest<'a> {
    /// The device, with its true capacity.
    pub model: &'a CardModel,
    pub usage: &'a UsageModel,
    pub uncertainty: Uncertainty,
    /// What the device has used already.
    pub used: UsedLife,
    pub seed: u64,
}

#[derive(Debug, thiserror::Error)]
pub enum EstimateError {
    #[error(transparent)]
    Model(#[from] ModelError),
    /// The usage model asks for more than the device can write.
    #[error(
        "{setup}: {} a day need {needed_hours:.1} hours of writing, but the usage model `{usage}` \
         has {active_hours} active hours a day: the simulated device can write {} in them",
        volume_text(*gib_a_day),
        volume_text(*most_gib_a_day)
    )]
    TooMuch {
        setup: String,
        usage: String,
        gib_a_day: f64,
        needed_hours: f64,
        active_hours: f64,
        most_gib_a_day: f64,
    },
    #[error("the model `{model}` has an endurance of 0 cycles: it cannot be written at all")]
    NoEndurance { model: String },
    #[error(
        "the usage model writes {capacity} of the card: the recorded workloads need at least {needed}"
    )]
    TooSmall { capacity: Bytes, needed: Bytes },
    #[error("the traces of {setup} are of devices of different sizes")]
    Sizes { setup: String },
    #[error("the simulated device failed: {0}")]
    Device(#[from] BlockDevError),
}

impl UserError for EstimateError {
    fn class(&self) -> ExitClass {
        match self {
            Self::Model(error) => error.class(),
            Self::TooMuch { .. }
            | Self::NoEndurance { .. }
            | Self::TooSmall { .. }
            | Self::Sizes { .. } => ExitClass::Usage,
            Self::Device(_) => ExitClass::Io,
        }
    }

    fn hint(&self) -> Option<Hint> {
        match self {
            Self::Model(error) => error.hint(),
            Self::TooMuch { .. } => Some(
                "choose a faster device or another file system; in a usage model of your own, \
                 check the volume and its unit"
                    .into(),
            ),
            Self::TooSmall { .. } => Some("choose a larger capacity".into()),
            _ => None,
        }
    }
}

/// A volume with at least two digits, as 0.25 MiB, 123 MiB or 2.0 GiB.
fn volume_text(gib: f64) -> String {
    match gib {
        ..0.01 => format!("{:.2} MiB", gib * 1024.0),
        ..1.0 => format!("{:.0} MiB", gib * 1024.0),
        _ => format!("{gib:.1} GiB"),
    }
}

/// The influence of one assumption: years at its 5 % and 95 % quantile.
#[derive(Debug, Clone, PartialEq, JsonSchema, Serialize)]
pub struct AssumptionEffect {
    pub assumption: Assumption,
    pub years_low: f64,
    pub years_high: f64,
}

#[derive(Debug, Clone, Copy, PartialEq, JsonSchema, Serialize)]
pub struct LimitYears {
    pub limit: LifeLimit,
    /// With everything unknown at its median; null if it is not reached.
    pub years: Option<f64>,
}

/// Erase counts of a block after one year.
#[derive(Debug, Clone, Copy, PartialEq, JsonSchema, Serialize)]
pub struct YearlyErases {
    pub most: f64,
    pub mean: f64,
}

/// The scores of the CELF methodology, section 4.1.
#[derive(Debug, Clone, Copy, PartialEq, JsonSchema, Serialize)]
pub struct CelfScore {
    /// Growth of the total erase counter in one cycle of the benchmark, the recorded workloads, as
    /// a share of the device's rated total, in millionths. Lower is better.
    pub score_millionths: f64,
    /// Months of this usage that one cycle corresponds to.
    pub cycle_months: f64,
}

#[derive(Debug, Clone, PartialEq, JsonSchema, Serialize)]
pub struct SetupEstimate {
    pub setup: String,
    /// From now until the first limit, with 90 %. Past its rating, a maker promises nothing.
    pub years: Interval,
    /// What is the first limit most often.
    pub limit: LifeLimit,
    /// From now until the spare blocks are used up, with 90 %: until then the device accepts
    /// writes.
    pub writable_years: Interval,
    pub limits: Vec<LimitYears>,
    /// Bytes that the device programs per byte that it is sent.
    pub write_amplification: f64,
    /// Bytes sent to the device per byte that programs write.
    pub filesystem_amplification: f64,
    pub erases: YearlyErases,
    /// How many times as much of its rating as the mean the most worn block has used when it
    /// reaches its rating.
    pub worst_to_mean: f64,
    pub celf: CelfScore,
    pub modeled: ModeledUsage,
    /// The most influential first.
    pub assumptions: Vec<AssumptionEffect>,
    /// Always true: no figure is measured on a device.
    pub simulated: bool,
    #[serde(skip)]
    ends: Vec<LifeEnd>,
}

impl SetupEstimate {
    /// The share of draws in which it lasts longer than `years`, in percent.
    pub fn percent_beyond(&self, years: f64) -> f64 {
        let beyond = self.ends.iter().filter(|end| end.years > years).count();
        beyond as f64 * 100.0 / self.ends.len() as f64
    }

    /// How many times as long as `other` it lasts, by draws in pairs. Draws in which a device is at
    /// its end are left out; `None` without others.
    pub fn ratio_to(&self, other: &Self) -> Option<Interval> {
        let pairs = self.ends.iter().zip(&other.ends);
        let ratios: Vec<f64> = pairs
            .filter(|(own, other)| own.years > 0.0 && other.years > 0.0)
            .map(|(own, other)| own.years / other.years)
            .collect();
        (!ratios.is_empty()).then(|| Interval::of(ratios))
    }
}

/// One course of a workload on a replica.
struct Course {
    modeled: ModeledUsage,
    rates: EraseRates,
    erases: EraseRates,
    amplification: f64,
    filesystem_amplification: f64,
    /// Time that the device needs for one GiB of programs, in hours.
    hours_per_gib: f64,
}

/// Estimates one setup.
///
/// # Errors
/// [`EstimateError`].
pub fn estimate(
    request: &EstimateRequest<'_>,
    setup: &SetupTraces,
) -> Result<SetupEstimate, EstimateError> {
    let usage = request.usage;
    let nand = &request.model.nand;
    let pslc_cycles = nand.pslc.as_ref().map_or(u64::MAX, |pslc| pslc.endurance_cycles);
    if nand.endurance_cycles.min(pslc_cycles) == 0 {
        return Err(EstimateError::NoEndurance { model: request.model.name.clone() });
    }
    let courses = (0..COURSES)
        .map(|course| run_course(request, setup, request.seed + course))
        .collect::<Result<Vec<_>, _>>()?;
    let gib_a_day = usage.gib_a_day();
    let mean_of = |of: fn(&Course) -> f64| courses.iter().map(of).sum::<f64>() / COURSES as f64;
    let hours_per_gib = mean_of(|course| course.hours_per_gib);
    let needed_hours = hours_per_gib * gib_a_day;
    let active_hours = usage.active_hours_a_day.value;
    if needed_hours > active_hours {
        return Err(EstimateError::TooMuch {
            setup: setup.name.clone(),
            usage: usage.name.clone(),
            gib_a_day,
            needed_hours,
            active_hours,
            most_gib_a_day: active_hours / hours_per_gib,
        });
    }
    let (write_amplification, filesystem_amplification) =
        (mean_of(|course| course.amplification), mean_of(|course| course.filesystem_amplification));
    let gib_a_year = gib_a_day * crate::extrapolation::YEAR_DAYS;
    let most_a_year: f64 = courses.iter().map(|course| course.erases.most_after(gib_a_year)).sum();
    let erases = YearlyErases {
        most: most_a_year / COURSES as f64,
        mean: mean_of(|course| course.erases.mean()) * gib_a_year,
    };
    let modeled = courses[0].modeled;
    let worst_to_mean = mean_of(|course| course.rates.skew());
    let cycle_gib = cycle_gib(usage, setup);
    let celf = CelfScore {
        score_millionths: mean_of(|course| course.rates.mean()) * cycle_gib * 1e6,
        cycle_months: cycle_gib / gib_a_year * MONTHS,
    };
    let model = request.model;
    let spare = f64::from(model.nand.spare_units.saturating_sub(model.needed_spare_units()));
    let life = LifeModel {
        courses: courses.into_iter().map(|course| course.rates).collect(),
        gib_a_day,
        spare_share: spare / f64::from(model.total_blocks()),
        uncertainty: request.uncertainty,
        used: request.used,
    };
    let ends = life.ends(DRAWS, request.seed, request.seed ^ fnv1a(setup.name.as_bytes()));
    let sensitivity = life.sensitivity().into_iter();
    Ok(SetupEstimate {
        setup: setup.name.clone(),
        years: Interval::of(ends.iter().map(|end| end.years).collect()),
        limit: usual_limit(&ends),
        writable_years: Interval::of(ends.iter().map(|end| end.writable_years).collect()),
        limits: (life.median_years().into_iter())
            .map(|(limit, years)| LimitYears {
                limit,
                years: Some(years).filter(|it| it.is_finite()),
            })
            .collect(),
        write_amplification,
        filesystem_amplification,
        erases,
        worst_to_mean,
        celf,
        modeled,
        assumptions: sensitivity
            .map(|(assumption, [years_low, years_high])| AssumptionEffect {
                assumption,
                years_low,
                years_high,
            })
            .collect(),
        simulated: true,
        ends,
    })
}

/// What programs write while all recorded workloads run once, in the proportion of the usage.
fn cycle_gib(usage: &UsageModel, setup: &SetupTraces) -> f64 {
    let total = usage.gib_a_day();
    (usage.writes.iter().zip(&setup.traces))
        .map(|((_, gib), trace)| trace.header.written_by_programs.0 as f64 / GIB * gib.value)
        .sum::<f64>()
        / total
}

fn run_course(
    request: &EstimateRequest<'_>,
    setup: &SetupTraces,
    seed: u64,
) -> Result<Course, EstimateError> {
    let usage = request.usage;
    let tile = setup.fitting_tile(request.model.capacity)?;
    let shares = setup.shares(usage, 1);
    let used = shares.len() as u32;
    let tiles = (setup.tiles_per_pass(usage) + 0.5) as u32;
    let tiles = tiles.clamp(used, TILES_MAX.max(used));
    // Blocks that failed would be missing from the counts; the extrapolation draws its own.
    let mut lasting = request.model.clone();
    lasting.nand.wear_out = None;
    let model = replica::scaled(&lasting, Bytes(tile * u64::from(tiles)))?;
    // Erase blocks need not divide a tile.
    let tiles = u32::try_from(model.capacity.0 / tile).unwrap_or(tiles).max(1);
    let mut replay = Replay::new(
        &shares,
        ReplayOptions {
            tiles,
            fill_percent: usage.fill_percent.value as u32,
            trim: usage.trim.value != TrimInterval::Never,
            seed,
        },
    );
    let modeled = ModeledUsage {
        changed_percent: setup.changed_percent(1, tiles),
        filled_percent: replay.filled_percent(),
    };
    let mut card = aging::filled(&model, &mut replay)?;
    let blocks = u64::from(model.capacity_blocks() + model.nand.spare_units);
    let half = blocks * model.erase_block_bytes() * TURNOVERS / 2;
    aging::replay_bytes(&mut card, &mut replay, half)?;
    let before = card.wear_by_block();
    let counters = aging::replay_bytes(&mut card, &mut replay, half)?;
    let device_gib = counters.host_written_bytes as f64 / GIB;
    let filesystem_amplification = setup.filesystem_amplification(usage);
    let program_gib = device_gib / filesystem_amplification;
    // On the device, the same erases are spread over as many more blocks.
    let scale = model.capacity.0 as f64 / request.model.capacity.0 as f64 / program_gib;
    let [rates, erases] = erase_rates(&model, &before, &card.wear_by_block(), scale);
    Ok(Course {
        modeled,
        rates,
        erases,
        amplification: counters.write_amplification_thousandths.unwrap_or(0) as f64 / 1000.0,
        filesystem_amplification,
        hours_per_gib: counters.busy_ns as f64 / HOUR_NS / program_gib,
    })
}

/// What each block used of its rating, and its erases, while programs wrote one GiB; `scale` is
/// from what the replica's blocks were erased to that.
fn erase_rates(
    model: &CardModel,
    before: &[BlockWear],
    after: &[BlockWear],
    scale: f64,
) -> [EraseRates; 2] {
    let is_ordinary = |block: &&(f64, u64)| block.1 == model.nand.endurance_cycles;
    let grown: Vec<(f64, u64)> = (before.iter().zip(after))
        .map(|(before, after)| {
            (f64::from(after.erases - before.erases) * scale, after.rated_cycles)
        })
        .collect();
    let spread = model.layer.wear_spread.map_or(f64::INFINITY, f64::from);
    let of = |share: fn(f64, u64) -> f64| {
        let (ordinary, pslc): (Vec<_>, Vec<_>) = grown.iter().partition(is_ordinary);
        let shares = |blocks: Vec<&(f64, u64)>| {
            blocks.into_iter().map(|&(erases, rated)| share(erases, rated)).collect::<Vec<f64>>()
        };
        let lead = share(spread, model.nand.endurance_cycles);
        // A pSLC area is used in turn and is not leveled.
        EraseRates::of_areas([(shares(ordinary), lead), (shares(pslc), f64::INFINITY)])
    };
    [of(|erases, rated| erases / rated as f64), of(|erases, _| erases)]
}

#[cfg(test)]
mod tests;
