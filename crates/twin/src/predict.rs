//! Simulates the measurement procedure of a target on a card model.

use flashfit_card::CardModel;
use flashfit_geometry::flashbench::procedure::part_of;
use flashfit_geometry::flashbench::{OpenBlockTable, ProcedureError, TableCell};

use crate::counts::{precondition, procedure};
use crate::fit_target::FitTarget;

/// The simulated rates of a model in every cell of a target's runs.
pub fn predict(model: &CardModel, target: &FitTarget) -> Result<OpenBlockTable, ProcedureError> {
    let procedure = procedure(target);
    let mut device = precondition(model)?;
    let clock = device.clock().clone();
    let data = procedure.data();
    let mut cells = Vec::new();
    for &(units, access) in &target.runs {
        for write in procedure.sizes()? {
            let time_ns =
                procedure.time_ns(&mut device, &clock, (units, access), part_of(&data, write))?;
            let bytes = u128::from(units) * u128::from(target.erase_block.0);
            let rate = bytes * 1_000_000_000 / u128::from(time_ns.max(1));
            let bytes_per_second = u64::try_from(rate).unwrap_or(u64::MAX);
            cells.push(TableCell { units, access, write, bytes_per_second });
        }
    }
    Ok(OpenBlockTable { cells })
}
