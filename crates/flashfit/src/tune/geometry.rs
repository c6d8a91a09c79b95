//! The geometry that a run begins with: of a file, or of timed reads.

use std::path::Path;

use flashfit_geometry::Geometry;
use flashfit_host::SystemRunner;
use flashfit_host::interrupt::Interrupt;
use flashfit_probe::SavedProbe;
use flashfit_target::InspectedTarget;
use flashfit_testbed::TestBedSpec;
use flashfit_tune::Config;
use flashfit_user_error::ExitClass;

use super::args::TuneArgs;
use crate::command_error::CommandError;
use crate::output::note;
use crate::probe::{quick, saved};

/// The geometry of a run.
#[derive(Debug, Default)]
pub struct RunGeometry {
    pub found: Geometry,
    /// Its document, if the device is on another machine: it is compared there.
    pub unchecked: Option<SavedProbe>,
}

/// What the named file says of this device, or what timed reads show if no erase block was given.
/// Only a device of this machine can be read.
pub fn of_run(
    args: &TuneArgs,
    config: &Config,
    (target, on): (&str, &TestBedSpec),
    catalog: Option<&Path>,
    interrupt: &Interrupt,
) -> Result<RunGeometry, CommandError> {
    let what = &args.what;
    let is_known = what.erase_block.or(config.media_erase_block_size).is_some();
    let is_here = matches!(on, TestBedSpec::Here | TestBedSpec::Vm(_));
    if what.geometry.is_none() && (what.no_probe || is_known || !is_here) {
        return Ok(RunGeometry::default());
    }
    if let Some(file) = what.geometry.as_ref().filter(|_| !is_here) {
        let probe = SavedProbe::read(file)?;
        return Ok(RunGeometry { found: probe.geometry(), unchecked: Some(probe) });
    }
    let mut notes = Vec::new();
    let inspected = InspectedTarget::inspect(target, &SystemRunner::default(), catalog)?;
    let found = match &what.geometry {
        Some(file) => saved::read(Some(file), &inspected.planned(), &mut notes)?,
        None if inspected.device().is_none() => Geometry::default(),
        None => quick::geometry(target, &inspected, interrupt.clone(), &mut notes),
    };
    if interrupt.is_raised() {
        return Err(CommandError::new(ExitClass::Interrupted, "interrupted", None));
    }
    notes.iter().for_each(|text| note(&format!("note: {text}")));
    Ok(RunGeometry { found, unchecked: None })
}

/// Refuses a document that is of another device than that of a board, or of the host.
pub fn check(
    probe: &SavedProbe,
    board: Option<&str>,
    device: &InspectedTarget,
    on: &TestBedSpec,
) -> Result<(), CommandError> {
    let mut notes = Vec::new();
    saved::of_device(probe, &device.planned(), on, &mut notes)?;
    let board = board.map_or_else(String::new, |name| format!("{name}: "));
    notes.iter().for_each(|text| note(&format!("note: {board}{text}")));
    Ok(())
}
