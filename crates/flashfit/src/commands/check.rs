//! `flashfit check TARGET`: one read-only look at a device, the command to start with.

use std::path::{Path, PathBuf};

use clap::Args;
use flashfit_check::{CheckRequest, DeviceCheck, QUICK_READ_NS, VolumeNodes, look};
use flashfit_device::{Bytes, SystemRoots};
use flashfit_filesystem::FileSystemCatalog;
use flashfit_filesystem::check::Severity;
use flashfit_filesystem::plan::{check_given_sizes, units};
use flashfit_geometry::Geometry;
use flashfit_host::SystemRunner;
use flashfit_target::InspectedTarget;
use flashfit_user_error::ExitClass;
use flashfit_wear_counters::AtaAttributes;
use schemars::JsonSchema;
use serde::Serialize;

use crate::apply::{unfinished_apply, unfinished_improvement};
use crate::cli::{size, target_name};
use crate::command_error::CommandError;
use crate::output;
use crate::probe::{saved, watch::ProbeProgress};
use crate::rendering::check::{self as rendering, FindingDocument};
use crate::rendering::check_next::{NextCommands, next};
use crate::signals;
use crate::wear::device::usual_sources;

const EXAMPLES: &str = "\
Examples:
  flashfit check /dev/mmcblk0
  flashfit check card.img --erase-block 8MiB --json

Exit codes: 0 nothing is wrong, or it cannot be determined (--strict: 1); 1 something is bad.";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct CheckArgs {
    /// Device node or image file.
    #[arg(value_parser = target_name())]
    pub target: String,
    /// Result of `flashfit probe --output`, with the geometry of this device.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["erase_block", "write_unit"])]
    pub geometry: Option<PathBuf>,
    /// Erase block size, if you know it better than the device reports it.
    #[arg(
        long = "erase-block",
        alias = "erase-unit",
        value_name = "SIZE",
        value_parser = size
    )]
    pub erase_block: Option<Bytes>,
    /// Write unit size: the pages that are programmed together.
    #[arg(long, value_name = "SIZE", value_parser = size)]
    pub write_unit: Option<Bytes>,
    /// Exit with 1 also if something could not be determined.
    #[arg(long)]
    pub strict: bool,
    /// Print one JSON document instead of text.
    #[arg(long)]
    pub json: bool,
}

#[derive(JsonSchema, Serialize)]
pub struct Checked<'a> {
    findings: Vec<FindingDocument>,
    #[serde(flatten)]
    check: &'a DeviceCheck,
    next: &'a NextCommands,
}

pub fn run(args: &CheckArgs, catalog: Option<&Path>) -> Result<(), CommandError> {
    let catalog_files = FileSystemCatalog::load(catalog)?;
    let attributes = AtaAttributes::load(catalog)?;
    let runner = SystemRunner::default();
    let system = SystemRoots::default();
    let target = InspectedTarget::inspect(&args.target, &runner, catalog)?;
    let Some(device) = target.device() else {
        return Err(CommandError::new(
            ExitClass::Usage,
            format!("{} starts empty, so there is nothing to check", args.target),
            Some(&format!("see what would fit it: flashfit plan {}", args.target)),
        ));
    };
    let planned = target.planned();
    if device.capacity.0 < planned.sector_bytes {
        return Err(CommandError::new(
            ExitClass::Usage,
            format!("{} has {}, which is less than a sector", args.target, device.capacity),
            Some("name a device or the image of one: flashfit list"),
        ));
    }
    check_given_sizes(args.erase_block, args.write_unit, planned.sector_bytes, device.capacity)?;
    let volumes = VolumeNodes::attach(&runner, device);
    let mut notes = volumes.warnings.clone();
    let flags = Geometry::of_sizes(units::given(args.erase_block), units::given(args.write_unit));
    let (probed, capacity) = saved::read_tested(args.geometry.as_deref(), &planned, &mut notes)?;
    notes.iter().for_each(|note| output::warn(note));
    let (unfinished, unreadable) = match unfinished_apply(&system, device) {
        Err(error) if error.class() == ExitClass::Io => (None, Some(error.message().to_owned())),
        found => (found?, None),
    };
    let request = CheckRequest {
        name: &args.target,
        target: &target,
        given: flags.or(probed),
        geometry_file: args.geometry.as_deref(),
        capacity,
        nodes: &volumes.nodes,
        unreadable,
        unfinished,
        unfinished_improvement: unfinished_improvement(&system, device)?,
        wear: &usual_sources(&system, &runner, &attributes),
        max_read_ns: QUICK_READ_NS,
    };
    let mut progress = ProbeProgress::new(signals::interrupt()?);
    let checked = look(request, &runner, &catalog_files, &mut progress);
    progress.finish();
    let checked = checked.expect("the target is a device");
    let next = next(&args.target, &checked);
    if args.json {
        output::json(Checked {
            findings: rendering::findings(&checked),
            check: &checked,
            next: &next,
        })?;
    } else {
        output::print(&rendering::text(&checked, &next, output::width()))?;
    }
    verdict(args, &checked)
}

fn verdict(args: &CheckArgs, checked: &DeviceCheck) -> Result<(), CommandError> {
    let count =
        |severity| checked.findings.iter().filter(|finding| finding.severity == severity).count();
    let things = |number, what| match number {
        1 => format!("1 thing {what}"),
        _ => format!("{number} things {what}"),
    };
    let message = match (count(Severity::Bad), count(Severity::CannotTell)) {
        (0, 0) => return Ok(()),
        (0, _) if !args.strict => return Ok(()),
        (0, unknown) => things(unknown, "could not be determined"),
        (bad, _) => things(bad, "wrong"),
    };
    let message = format!("{}: {message}", args.target);
    Err(CommandError::new(ExitClass::BadVerdict, message, None))
}
