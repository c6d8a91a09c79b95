//! `flashfit check TARGET`: what is wrong with a device as it is, what it costs, and how to
//! repair it. Reads only.

use std::path::Path;

use clap::Args;
use flashfit_device::{Bytes, Device, SystemRoots, Target};
use flashfit_filesystem::FileSystemCatalog;
use flashfit_filesystem::check::{
    self, ExaminedDevice, ExaminedNodes, Severity, UnfinishedApply, examine, verdict,
};
use flashfit_filesystem::plan::units;
use flashfit_geometry::Geometry;
use flashfit_host::loop_device::{LoopDevice, LoopOptions};
use flashfit_host::{Program, Runner, SystemRunner};
use flashfit_target::device_geometry;
use flashfit_user_error::ExitClass;
use serde::Serialize;

use crate::cli::size;
use crate::command_error::CommandError;
use crate::output;
use crate::rendering;
use crate::rendering::check::FindingDocument;

const EXAMPLES: &str = "\
Examples:
  flashfit check /dev/mmcblk0
  flashfit check card.img --erase-block 8MiB --json

Exit codes: 0 nothing is wrong, or it cannot be determined; 1 something is bad.";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct CheckArgs {
    /// Device node or image file.
    pub target: String,
    /// Erase block size, if you know it better than the device reports it.
    #[arg(
        long = "erase-block",
        alias = "erase-unit",
        value_name = "SIZE",
        value_parser = size
    )]
    pub erase_unit: Option<Bytes>,
    /// Write unit size: the pages that are programmed together.
    #[arg(long, value_name = "SIZE", value_parser = size)]
    pub write_unit: Option<Bytes>,
    /// Print one JSON document instead of text.
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Serialize)]
struct Checked {
    verdict: Severity,
    findings: Vec<FindingDocument>,
    #[serde(rename = "medium")]
    device: ExaminedDevice,
}

pub fn run(args: &CheckArgs, catalog: Option<&Path>) -> Result<(), CommandError> {
    let catalogue = FileSystemCatalog::load(catalog)?;
    let runner = SystemRunner::default();
    let system = SystemRoots::default();
    // The loop device is there for as long as its value lives.
    let (medium, nodes, _attached) = match Target::parse(&args.target)? {
        Target::Simulated(name) => {
            return Err(CommandError::new(
                ExitClass::Usage,
                format!("the simulated card {name} starts empty, so there is nothing to check"),
                Some("see what fits it: flashfit plan sim:NAME"),
            ));
        }
        Target::Node(path) => {
            let medium = Device::from_node(&system, &runner, &path)?;
            (medium, ExaminedNodes { disk: Some(path) }, None)
        }
        Target::Image(path) => {
            let medium = Device::from_image(&runner, &path)?;
            let (nodes, attached) = nodes_of_image(&runner, &medium);
            (medium, nodes, attached)
        }
    };
    let given = Geometry {
        erase_unit: units::given(args.erase_unit),
        write_unit: units::given(args.write_unit),
    };
    let declared = device_geometry(&medium);
    let left = unfinished(&system, &medium)?;
    let examined = examine(&runner, &args.target, &medium, &nodes, (&given, &declared), left);
    let findings = check::check(&examined, &catalogue);
    let bad = findings.iter().filter(|finding| finding.severity == Severity::Bad).count();
    if args.json {
        let document = Checked {
            verdict: verdict(&findings),
            findings: findings.iter().map(FindingDocument::of).collect(),
            device: examined,
        };
        output::json("check", document)?;
    } else {
        output::print(&rendering::check::text(&examined, &findings, output::width()))?;
    }
    if bad == 0 {
        return Ok(());
    }
    let things = if bad == 1 { "one thing is".to_owned() } else { format!("{bad} things are") };
    Err(CommandError::new(
        ExitClass::BadVerdict,
        format!("{things} wrong with {}", args.target),
        None,
    ))
}

/// The partitions of an image are read through a loop device that refuses writes; where there can
/// be none, they stay unread, and the checks say so.
fn nodes_of_image(runner: &dyn Runner, medium: &Device) -> (ExaminedNodes, Option<LoopDevice>) {
    if medium.partitions.is_empty() {
        return (ExaminedNodes { disk: Some(medium.path.clone()) }, None);
    }
    let options = LoopOptions { read_only: true, direct_io: false, ..LoopOptions::default() };
    match LoopDevice::attach(&medium.path, options) {
        Ok(device) => {
            // A kernel without support for the table's format is told each partition.
            let node = device.node().display().to_string();
            let tell = Program::new("partx").args(["--update", &node]);
            if let Err(error) = runner.run(&tell) {
                output::warn(&error.to_string());
            }
            (ExaminedNodes { disk: Some(device.node().to_owned()) }, Some(device))
        }
        Err(error) => {
            output::warn(&format!("{error}; its file systems are not read"));
            (ExaminedNodes { disk: None }, None)
        }
    }
}

/// What an interrupted apply left, by the device itself and by what this machine remembers.
fn unfinished(
    system: &SystemRoots,
    medium: &Device,
) -> Result<Option<UnfinishedApply>, CommandError> {
    let found = flashfit_apply::unfinished(system, medium, &crate::state::records())?;
    let told = |left: &flashfit_apply::UnfinishedChange| UnfinishedApply {
        what: left.to_string(),
        repair: left.again.clone().or_else(|| left.undo.clone()),
    };
    Ok(found.as_ref().map(told))
}
