//! What all subcommands of `flashfit crash` begin with: rights, signals, the conditions of a
//! device.

use std::path::Path;

use flashfit_crash::CrashError;
use flashfit_device::Bytes;
use flashfit_filesystem::Conditions;
use flashfit_geometry::{Geometry, QuantitySource, Sourced};
use flashfit_host::SystemRunner;
use flashfit_host::capability::missing_for_simulated_cards;
use flashfit_host::interrupt::Interrupt;
use flashfit_user_error::ExitClass;

use crate::command_error::CommandError;

/// Without a card: what any flash device writes at once.
const WRITE_UNIT: Bytes = Bytes::kib(4);
/// For options that need an erase block, where no card has one.
const ERASE_BLOCK: Bytes = Bytes::mib(4);

/// Refuses where nothing can be mounted.
pub fn check_rights() -> Result<(), CommandError> {
    let Some(reason) = missing_for_simulated_cards() else { return Ok(()) };
    let message = format!("crash states cannot be mounted: {reason}");
    Err(CommandError::from(CrashError::Unprivileged(message)))
}

/// Runs programs until the user interrupts.
pub fn runner() -> Result<SystemRunner, CommandError> {
    let interrupt = Interrupt::on_signals().map_err(|error| {
        CommandError::new(ExitClass::Environment, format!("cannot catch signals: {error}"), None)
    })?;
    Ok(SystemRunner::new(interrupt))
}

/// The conditions for options, and the write unit.
pub fn device(
    card: Option<&str>,
    catalog: Option<&Path>,
) -> Result<(Conditions, Bytes), CommandError> {
    let (write_unit, erase_block) = match card {
        None => (WRITE_UNIT, ERASE_BLOCK),
        Some(name) => {
            let name = name.strip_prefix(flashfit_target::SIMULATED).unwrap_or(name);
            let model = flashfit_card::catalog::load(name, catalog)?;
            (Bytes(model.write_unit_bytes()), Bytes(model.erase_block_bytes()))
        }
    };
    let known = |bytes| Some(Sourced::new(bytes, QuantitySource::Given));
    let geometry = Geometry { erase_block: known(erase_block), write_unit: known(write_unit) };
    let conditions =
        Conditions { geometry, discard: true, volatile_cache: true, ..Conditions::default() };
    Ok((conditions, write_unit))
}
