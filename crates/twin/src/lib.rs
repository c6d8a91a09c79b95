//! Fits card models ("twins") to measurements of real devices.
//!
//! A twin is fitted to open-block tables: how fast a device accepts writes that go to several erase
//! blocks in turn ([`fit_target`]), and to patterns of file systems ([`pattern`]). Candidate cards
//! are simulated under the same measurement procedure ([`counts`], [`predict`]); their structure is
//! searched ([`search`], [`structure`]) and their operation times are fitted ([`times`]). What a
//! probe found is where the search starts ([`hints`]), and a twin without a cliff that it found is
//! refused ([`cliff`]). The result is a card file ([`mod@file`]). Limits: one write at a time; no
//! flushed cache, no background work.

pub mod cliff;
pub mod counts;
pub mod file;
pub mod fit_target;
pub mod hints;
pub mod pattern;
pub mod predict;
pub mod search;
pub mod structure;
pub mod times;

use flashfit_card::CardModel;
use flashfit_card::model::DiscardModel;
use flashfit_device::{BlockDevInfo, Bytes};
use flashfit_geometry::flashbench::{
    AccessOrder, CellGroup, Comparison, GoodFor, OpenBlockTable, ProcedureError,
};
use flashfit_geometry::probed::ProbeObserver;
use flashfit_user_error::{ExitClass, Hint, UserError};

use cliff::SeenCliff;
use counts::CellKey;
use fit_target::{FitTarget, MOST_BYTES, MeasuredPatterns};
pub use hints::DeviceHints;
use pattern::PatternRatio;
use predict::Predicted;
use search::{FitInterrupted, FoundFit, Search, SimulatedCounts};
use structure::CardStructure;

/// The fewest erase blocks of a twin.
const LEAST_UNITS: u64 = 4;
/// How the title of a twin begins, and what follows is what it was fitted to.
const TWIN_OF: &str = "Twin of ";
/// How the source of a twin begins.
const FITTED_BY: &str = "fitted by flashfit to ";
/// Larger granularities of discards cannot be served to a kernel.
const MOST_DISCARD_BYTES: u64 = 1 << 31;

/// A fitted card model and its agreement with the measurements.
#[derive(Debug, Clone, PartialEq)]
pub struct Twin {
    pub model: CardModel,
    /// The structure found by the search.
    pub structure: CardStructure,
    /// The erase block that a probe found, if any. The model has the one that the tables assumed.
    pub found_erase_block: Option<Bytes>,
    /// The simulated rates of the same procedure.
    pub rates: OpenBlockTable,
    /// Comparison of the simulated with the measured rates.
    pub comparison: Comparison,
    /// The same by the kind of writes.
    pub groups: Vec<CellGroup>,
    /// How long each pattern takes on the device and on the twin.
    pub patterns: Vec<PatternRatio>,
    /// The best structures of other kinds of layers that explain the measurements as well.
    pub alike: Vec<CardStructure>,
}

impl Twin {
    /// Which writes it reproduces, and which it does not.
    pub fn good_for(&self) -> GoodFor {
        let mut all = GoodFor::of(&self.groups);
        for pattern in &self.patterns {
            match pattern.is_good() {
                Some(true) => all.good.push(pattern.what.clone()),
                Some(false) => all.not.push(pattern.what.clone()),
                None => {}
            }
        }
        all
    }
}

/// Why no twin was fitted.
#[derive(Debug, thiserror::Error)]
pub enum TwinError {
    /// No open-block table, or one with very few rates.
    #[error("too few rates to fit a card model")]
    TooFewRates,
    #[error("no card model has erase blocks of {erase_block} with writes of {least_write}")]
    NoModel {
        /// The erase block that the measurement assumed.
        erase_block: Bytes,
        least_write: Bytes,
    },
    #[error(
        "no card model that was tried slows down beyond {open} open erase blocks ({access} \
         writes), as the device does"
    )]
    LacksCliff { open: u32, access: AccessOrder },
    /// The observer stopped the search.
    #[error("the fitting was interrupted")]
    Interrupted,
    #[error(transparent)]
    Procedure(#[from] ProcedureError),
}

impl UserError for TwinError {
    fn class(&self) -> ExitClass {
        match self {
            Self::TooFewRates | Self::NoModel { .. } => ExitClass::Usage,
            Self::LacksCliff { .. } => ExitClass::BadVerdict,
            Self::Interrupted => ExitClass::Interrupted,
            Self::Procedure(error) => error.class(),
        }
    }

    fn hint(&self) -> Option<Hint> {
        match self {
            Self::TooFewRates => Some(
                "give a probe more time, or import open-block tables too: `flashbench --open-au \
                 --open-au-nr=N DEVICE` for N from 1 on (it overwrites the device)"
                    .into(),
            ),
            Self::NoModel { .. } => Some("measure with an erase block of 2^k or 3 x 2^k".into()),
            Self::LacksCliff { .. } => {
                Some("a twin would mislead; measure on the device itself".into())
            }
            Self::Interrupted => None,
            Self::Procedure(error) => error.hint(),
        }
    }
}

/// Fits a twin to open-block tables and patterns of one device; this takes seconds to minutes and
/// is deterministic. The tuple gives the card's name and a description of the device.
pub fn fit(
    tables: &[OpenBlockTable],
    patterns: Option<MeasuredPatterns>,
    hints: DeviceHints,
    (name, what): (&str, &str),
    watch: &mut dyn ProbeObserver,
) -> Result<Twin, TwinError> {
    let target = FitTarget::from_tables(tables).ok_or(TwinError::TooFewRates)?;
    let target = target.with_patterns(patterns, hints.device);
    fit_to(&target, &mut SimulatedCounts::default(), hints, (name, what), watch)
}

/// Like [`fit`], for a prepared target and with a cache of simulated structures.
pub fn fit_to(
    target: &FitTarget,
    known: &mut SimulatedCounts,
    hints: DeviceHints,
    (name, what): (&str, &str),
    watch: &mut dyn ProbeObserver,
) -> Result<Twin, TwinError> {
    let cliffs = SeenCliff::all(target, &hints);
    let best = Search::new(target, known, watch)
        .with_hints(&hints, &cliffs)
        .run()
        .map_err(|FitInterrupted| TwinError::Interrupted)?;
    let FoundFit { best, alike } = best.ok_or(TwinError::NoModel {
        erase_block: target.erase_block,
        least_write: target.least_write,
    })?;
    let bus = best.bus.bytes_per_second;
    let mut model = best.structure.model(target, bus, &best.fitted.times);
    model.name = plain_name(name);
    model.title = format!("{TWIN_OF}{what}");
    model.source = format!("{FITTED_BY}{} of {what}", target.measurements());
    model.layer.lookup_ns = hints.lookup_ns;
    let Predicted { rates, parts_ns } = predict::predict(&model, target, &best.structure)?;
    let rate = |key: CellKey| rates.rate(key.0, key.1, key.2).map(|rate| rate as f64);
    if let Some(cliff) = cliffs.iter().find(|cliff| !cliff.shows_in(rate)) {
        return Err(TwinError::LacksCliff { open: cliff.open, access: cliff.access });
    }
    let known = OpenBlockTable { cells: target.cells.clone() };
    let comparison = Comparison::of(&known, &rates).ok_or(TwinError::TooFewRates)?;
    let patterns = target.patterns.as_ref();
    let patterns = patterns.map(|all| PatternRatio::all(all, &parts_ns)).unwrap_or_default();
    like_device(&mut model, hints.device);
    let groups = CellGroup::all(&known, &rates, few_units(target, &hints, &best.structure));
    Ok(Twin {
        model,
        structure: best.structure,
        found_erase_block: hints.erase_block_bytes.map(Bytes),
        rates,
        comparison,
        groups,
        patterns,
        alike,
    })
}

/// Gives a card what a device reports: its size, up to what is still fast to simulate, its sectors
/// and its discards.
fn like_device(model: &mut CardModel, device: Option<BlockDevInfo>) {
    let Some(device) = device else { return };
    let unit = model.nand.erase_block.0;
    let capacity = device.capacity_bytes.min(model.capacity.0.max(MOST_BYTES));
    // A device that is smaller than a few erase blocks cannot be measured, either.
    model.capacity = Bytes((capacity / unit).max(LEAST_UNITS) * unit);
    model.sector_bytes = device.sector_bytes;
    let granularity = Bytes(device.discard_granularity_bytes);
    let is_usable = granularity.0 > 0
        && granularity.0 % u64::from(device.sector_bytes) == 0
        && granularity.0 <= MOST_DISCARD_BYTES.min(model.capacity.0);
    model.discard = is_usable.then_some(DiscardModel { granularity });
}

/// What a twin has and the device has not, if it can only be a twin of another device.
pub fn difference_from(twin: &CardModel, device: BlockDevInfo) -> Option<TwinDifference> {
    let unit = twin.nand.erase_block.0;
    let mut like = twin.clone();
    like_device(&mut like, Some(device));
    let (twins, devices) = (twin.capacity, Bytes(device.capacity_bytes));
    // A twin of a larger device is cut to what is fast to simulate, and to whole erase blocks.
    if like.capacity != twins && twins.0.abs_diff(device.capacity_bytes) >= unit {
        return Some(TwinDifference::Capacity { twin: twins, device: devices });
    }
    (twin.sector_bytes != device.sector_bytes).then_some(TwinDifference::Sectors {
        twin: Bytes(twin.sector_bytes.into()),
        device: Bytes(device.sector_bytes.into()),
    })
}

/// In what a twin differs from a device of which it cannot be the twin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TwinDifference {
    Capacity { twin: Bytes, device: Bytes },
    Sectors { twin: Bytes, device: Bytes },
}

/// What a twin was fitted to, as its card file names it; `None` for another card.
pub fn fitted_to(model: &CardModel) -> Option<&str> {
    let is_fitted = model.source.starts_with(FITTED_BY);
    is_fitted.then(|| model.title.strip_prefix(TWIN_OF)).flatten()
}

/// The most units that count as few: the open erase blocks, or half of the units of the table.
fn few_units(target: &FitTarget, hints: &DeviceHints, structure: &CardStructure) -> u32 {
    let most = target.most_units();
    let open = hints.open_erase_blocks.unwrap_or(structure.open_erase_blocks);
    if (1..most).contains(&open) { open } else { most.div_ceil(2) }
}

/// Replaces characters that are not allowed in card names.
fn plain_name(name: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() || "-_.".contains(c) { c } else { '-' };
    let name: String = name.chars().map(plain).collect();
    if name.is_empty() { "twin".to_owned() } else { name }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_twin_of_another_device_is_told_by_capacity_and_sectors() {
        let device = |capacity_bytes| BlockDevInfo {
            capacity_bytes,
            sector_bytes: 512,
            discard_granularity_bytes: 0,
            volatile_cache: false,
        };
        let drawn = flashfit_card::catalog::load("sd-c4-block", None).unwrap();
        let (unit, odd) = (drawn.nand.erase_block.0, 12_345 * 512);
        // From a few erase blocks to more than what is simulated.
        for capacity in [5 * unit, (1 << 30) + odd, (8 << 30) + odd, 64 << 30] {
            let mut twin = drawn.clone();
            like_device(&mut twin, Some(device(capacity)));
            assert_eq!(difference_from(&twin, device(capacity)), None, "{capacity}");
            for other in [capacity / 2, (capacity + 2 * unit).min(7 << 30)] {
                let found = difference_from(&twin, device(other));
                let is_other = matches!(found, Some(TwinDifference::Capacity { .. }));
                assert!(is_other || (8 << 30..=capacity).contains(&other), "{capacity} {other}");
            }
            let sectors = BlockDevInfo { sector_bytes: 4096, ..device(capacity) };
            let found = difference_from(&twin, sectors);
            assert!(matches!(found, Some(TwinDifference::Sectors { .. })), "{found:?}");
        }
        assert_eq!(fitted_to(&drawn), None);
        let (title, source) = ("Twin of /dev/sdb".to_owned(), format!("{FITTED_BY}3 rates"));
        let fitted = CardModel { title, source, ..drawn };
        assert_eq!(fitted_to(&fitted), Some("/dev/sdb"));
    }
}
