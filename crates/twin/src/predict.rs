//! Simulates the measurement procedure of a target on a card model.

use flashfit_card::{CardModel, InProcessCard};
use flashfit_device::{BlockDevError, VirtualClock};
use flashfit_geometry::flashbench::procedure::part_of;
use flashfit_geometry::flashbench::{OpenBlockTable, ProcedureError, TableCell};

use crate::counts::{SEED, before_measurement, before_patterns, procedure};
use crate::fit_target::{FitTarget, MeasuredPatterns, MeasuredRun};
use crate::pattern::PatternPlayer;
use crate::structure::CardStructure;

/// What a model takes for the measurements of a target.
#[derive(Debug, Clone, PartialEq)]
pub struct Predicted {
    /// Simulated rates in every cell of the runs.
    pub rates: OpenBlockTable,
    /// Simulated durations of every measured part of the patterns, in nanoseconds.
    pub parts_ns: Vec<u64>,
}

/// Simulates all measurements of a target, in their order, on a card that was in the state of the
/// structure.
pub fn predict(
    model: &CardModel,
    target: &FitTarget,
    structure: &CardStructure,
) -> Result<Predicted, ProcedureError> {
    let procedure = procedure(target);
    let mut device = before_measurement(model, structure.was_full)?;
    let clock = device.clock().clone();
    let data = procedure.data();
    let mut cells = Vec::new();
    for &MeasuredRun { units, access, least_write } in &target.runs {
        for write in procedure.sizes()?.into_iter().filter(|&write| write >= least_write) {
            let time_ns =
                procedure.time_ns(&mut device, &clock, (units, access), part_of(&data, write))?;
            let bytes = u128::from(units) * u128::from(target.erase_block.0);
            let rate = bytes * 1_000_000_000 / u128::from(time_ns.max(1));
            let bytes_per_second = u64::try_from(rate).unwrap_or(u64::MAX);
            cells.push(TableCell { units, access, write, bytes_per_second });
        }
    }
    let parts_ns = match &target.patterns {
        Some(patterns) => {
            // As in `counts`.
            if structure.log_blocks > 0 {
                device = before_measurement(model, structure.was_full)?;
            }
            time_patterns(&mut device, patterns, structure)?
        }
        None => Vec::new(),
    };
    Ok(Predicted { rates: OpenBlockTable { cells }, parts_ns })
}

fn time_patterns(
    device: &mut InProcessCard<VirtualClock>,
    patterns: &MeasuredPatterns,
    structure: &CardStructure,
) -> Result<Vec<u64>, BlockDevError> {
    let clock = device.clock().clone();
    let mut player = PatternPlayer::new(0, SEED);
    before_patterns(device, &mut player, patterns, structure)?;
    let mut parts_ns = Vec::new();
    for of in &patterns.measured {
        for part in &of.pattern.parts[..of.parts_ns.len()] {
            parts_ns.push(player.time_ns(device, &clock, part)?);
        }
    }
    Ok(parts_ns)
}
