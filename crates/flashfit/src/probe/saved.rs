//! A probe's document as `flashfit plan` and `flashfit tune` use it.

use std::path::Path;

use flashfit_device::Bytes;
use flashfit_filesystem::plan::{PlannedDevice, check_given_sizes};
use flashfit_geometry::{Geometry, Sourced};
use flashfit_host::program::{quote, quote_path};
use flashfit_probe::{Doubt, FirstEraseBlock, SavedGeometry, SavedProbe, TestedCapacity};
use flashfit_testbed::TestBedSpec;

use crate::command_error::CommandError;

/// The geometry in the file that the user names, if any; `notes` gets remarks about it.
pub fn read(
    path: Option<&Path>,
    device: &PlannedDevice,
    notes: &mut Vec<String>,
) -> Result<Geometry, CommandError> {
    let Some(path) = path else { return Ok(Geometry::default()) };
    of_device(&SavedProbe::read(path)?, device, &TestBedSpec::Here, notes)
}

/// The same also of a device that loses data, and what its test of the capacity found.
pub fn read_tested(
    path: Option<&Path>,
    device: &PlannedDevice,
    notes: &mut Vec<String>,
) -> Result<(Geometry, TestedCapacity), CommandError> {
    let Some(path) = path else { return Ok(Default::default()) };
    tested(&SavedProbe::read(path)?, device, &TestBedSpec::Here, notes)
}

/// What a document says of the device of a test bed.
pub fn of_device(
    probe: &SavedProbe,
    device: &PlannedDevice,
    on: &TestBedSpec,
    notes: &mut Vec<String>,
) -> Result<Geometry, CommandError> {
    let (geometry, capacity) = tested(probe, device, on, notes)?;
    refuse_faulty(&probe.path, capacity)?;
    Ok(geometry)
}

/// A device that loses data is not to be used.
fn refuse_faulty(path: &Path, capacity: TestedCapacity) -> Result<(), CommandError> {
    let refused = |fault| Err(CommandError::from(fault).at(&path.display().to_string()));
    capacity.fault().map_or(Ok(()), refused)
}

fn tested(
    probe: &SavedProbe,
    device: &PlannedDevice,
    on: &TestBedSpec,
    notes: &mut Vec<String>,
) -> Result<(Geometry, TestedCapacity), CommandError> {
    let command = command(&device.path, on);
    let saved = checked(probe, device, notes).map_err(|error| match &command {
        Some(command) => error.or_hint(&format!("probe this device: {command} --output FILE")),
        None => error.or_hint("leave --geometry out; --erase-block SIZE gives the erase block"),
    })?;
    notes.extend(saved.doubt.map(|Doubt { reason, ends_with_probe }| {
        let file = quote_path(&probe.path);
        match command.filter(|_| ends_with_probe) {
            Some(command) => format!("{reason}. To be sure: {command} --output {file}"),
            None => reason,
        }
    }));
    Ok((saved.geometry, saved.capacity))
}

/// The command that probes a device of a test bed, if there is one.
fn command(device: &Path, on: &TestBedSpec) -> Option<String> {
    let target = quote_path(device);
    match on {
        TestBedSpec::Here | TestBedSpec::Vm(_) => Some(format!("flashfit probe {target}")),
        TestBedSpec::Ssh { host } => {
            Some(format!("flashfit probe {target} --on {}", quote(&format!("ssh:{host}"))))
        }
        // The boards of a lab are tuned only.
        TestBedSpec::Lab { .. } => None,
    }
}

/// The geometry in a file, and why it may be of another device, as a sentence without a period.
pub fn read_with_doubt(
    path: &Path,
    device: &PlannedDevice,
    notes: &mut Vec<String>,
) -> Result<(Geometry, Option<Doubt>), CommandError> {
    let saved = checked(&SavedProbe::read(path)?, device, notes)?;
    refuse_faulty(path, saved.capacity)?;
    Ok((saved.geometry, saved.doubt))
}

fn checked(
    probe: &SavedProbe,
    device: &PlannedDevice,
    notes: &mut Vec<String>,
) -> Result<SavedGeometry, CommandError> {
    let (path, mut saved) = (&probe.path, probe.of(device)?);
    let sizes = &saved.geometry;
    let bytes = |known: &Option<Sourced>| known.as_ref().map(|known| known.bytes);
    let capacity = Bytes(device.capacity_bytes);
    check_given_sizes(
        bytes(&sizes.erase_block),
        bytes(&sizes.write_unit),
        device.sector_bytes,
        capacity,
    )
    .map_err(|error| {
        let hint = "probe this device: flashfit probe TARGET --output FILE";
        CommandError::from(error).at(&path.display().to_string()).with_hint(hint)
    })?;
    let is_faulty = matches!(saved.capacity, TestedCapacity::Faulty(_));
    if let Some(reason) = saved.no_erase_block.as_ref().filter(|_| !is_faulty) {
        notes.push(format!("the probe in {} found no erase block: {reason}", path.display()));
    }
    notes.extend(saved.first_erase_block.map(first_erase_block));
    saved.doubt = saved.doubt.map(|Doubt { reason, ends_with_probe }| {
        let reason = format!("the probe in {} may be of another device: {reason}", path.display());
        Doubt { reason, ends_with_probe }
    });
    Ok(saved)
}

/// Erase blocks that do not start with the disk ask for a partition that starts with one of them.
pub fn first_erase_block(first: FirstEraseBlock) -> String {
    let FirstEraseBlock { offset } = first;
    format!(
        "the first erase block starts {offset} bytes after the start of the disk: a partition is \
         aligned if it starts there or whole erase blocks later"
    )
}
