//! Twins: card models fitted to what was measured of real devices.
//!
//! A twin is fitted to open-unit tables: how fast a device takes writes that go to several erase
//! units in turn ([`fit_target`]). The card is simulated under the very procedure by which they were
//! measured ([`counts`], [`predict`]); how it is built is searched for ([`search`], [`structure`]),
//! how long its parts take is fitted ([`times`]). What comes out is a card file ([`mod@file`]).
//! Limits: writes one at a time; no zone at the start, no cache that is flushed, no work in idle
//! time.

pub mod counts;
pub mod file;
pub mod fit_target;
pub mod predict;
pub mod search;
pub mod structure;
pub mod times;

use flashfit_card::CardModel;
use flashfit_device::Bytes;
use flashfit_geometry::flashbench::inference::align_step;
use flashfit_geometry::flashbench::{Comparison, Imported, OpenBlockTable, ProcedureError};
use flashfit_geometry::probed::ProbeObserver;
use flashfit_geometry::{GeometryFindings, QuantityValue};
use flashfit_user_error::{ExitClass, UserError};

use fit_target::FitTarget;
use search::{FitInterrupted, Search, SimulatedCounts};
use structure::CardStructure;

/// What is known of a device besides its open-unit tables.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct DeviceHints {
    /// What a read takes longer that reaches into another erase block, in nanoseconds.
    pub lookup_ns: u64,
}

impl DeviceHints {
    /// What imported alignment tables and what was found in them say.
    pub fn of(imported: &Imported, findings: &GeometryFindings) -> Self {
        let Some(QuantityValue::Bytes(unit)) = findings.erase_unit.value else {
            return Self::default();
        };
        let rows = align_step::pool(&imported.align);
        let level = |above: bool| {
            let extra = rows.iter().filter(|row| (row.align.0 >= unit) == above);
            flashfit_geometry::belief::median(&extra.map(|row| row.extra_ns).collect::<Vec<_>>())
        };
        let rise = level(true) - level(false);
        Self { lookup_ns: if rise > 0.0 { rise as u64 } else { 0 } }
    }
}

/// A card model and how well it agrees with what it was fitted to.
#[derive(Debug, Clone, PartialEq)]
pub struct Twin {
    /// The model.
    pub model: CardModel,
    /// How it is built, as the search knows it.
    pub structure: CardStructure,
    /// What it makes of the same procedure. All of it is simulated.
    pub rates: OpenBlockTable,
    /// The rates that it was fitted to beside its own.
    pub comparison: Comparison,
}

/// Why there is no twin.
#[derive(Debug, thiserror::Error)]
pub enum TwinError {
    /// No open-unit table, or one with very few rates.
    #[error("there are too few rates to fit a card model to")]
    TooLittle,
    /// No card model has units and writes of these sizes.
    #[error("no card model has erase units of {erase_unit} with writes of {least_write}")]
    NoModel {
        /// The erase block that was supposed by the measurement.
        erase_unit: Bytes,
        /// Its smallest write.
        least_write: Bytes,
    },
    /// Whoever looked on ended it.
    #[error("the fitting was interrupted")]
    Interrupted,
    /// The simulated card failed.
    #[error(transparent)]
    Procedure(#[from] ProcedureError),
}

impl UserError for TwinError {
    fn class(&self) -> ExitClass {
        match self {
            Self::TooLittle | Self::NoModel { .. } => ExitClass::Usage,
            Self::Interrupted => ExitClass::Interrupted,
            Self::Procedure(error) => error.class(),
        }
    }

    fn hint(&self) -> Option<String> {
        match self {
            Self::TooLittle => Some(
                "import open-unit tables too: `flashbench --open-au --open-au-nr=N DEVICE` for N \
                 from 1 on (it overwrites the medium)"
                    .to_owned(),
            ),
            Self::NoModel { .. } => Some("measure with an erase unit of 2^k or 3 x 2^k".to_owned()),
            Self::Interrupted => None,
            Self::Procedure(error) => error.hint(),
        }
    }
}

/// Fits a twin to open-unit tables of one device. `name` becomes the card's, `what` says what the
/// device is. It takes from seconds to some minutes; the same tables give the same twin.
///
/// # Errors
/// As [`TwinError`] tells.
pub fn fit(
    tables: &[OpenBlockTable],
    hints: DeviceHints,
    (name, what): (&str, &str),
    watch: &mut dyn ProbeObserver,
) -> Result<Twin, TwinError> {
    let target = FitTarget::of(tables).ok_or(TwinError::TooLittle)?;
    fit_to(&target, &mut SimulatedCounts::default(), hints, (name, what), watch)
}

/// As [`fit`], to a target of which structures may have been simulated before.
///
/// # Errors
/// As [`TwinError`] tells.
pub fn fit_to(
    target: &FitTarget,
    known: &mut SimulatedCounts,
    hints: DeviceHints,
    (name, what): (&str, &str),
    watch: &mut dyn ProbeObserver,
) -> Result<Twin, TwinError> {
    let best =
        Search::new(target, known, watch).run().map_err(|FitInterrupted| TwinError::Interrupted)?;
    let best = best.ok_or(TwinError::NoModel {
        erase_unit: target.erase_unit,
        least_write: target.least_write,
    })?;
    let bus = best.bus.bytes_per_second;
    let mut model = best.structure.model(target.erase_unit, bus, &best.fitted.times);
    model.name = plain_name(name);
    model.title = format!("Twin of {what}");
    model.source =
        format!("fitted by flashfit to {} open-unit rates of {what}", target.cells.len());
    model.layer.lookup_ns = hints.lookup_ns;
    let rates = predict::predict(&model, target)?;
    let known = OpenBlockTable { cells: target.cells.clone() };
    let comparison = Comparison::of(&known, &rates).ok_or(TwinError::TooLittle)?;
    Ok(Twin { model, structure: best.structure, rates, comparison })
}

/// A name as card files can have.
fn plain_name(name: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() || "-_.".contains(c) { c } else { '-' };
    let name: String = name.chars().map(plain).collect();
    if name.is_empty() { "twin".to_owned() } else { name }
}
