//! `flashfit probe TARGET --capacity --keep-data`: tests the free space of mounted file systems.

use flashfit_check::Price;
use flashfit_device::{Bytes, Device};
use flashfit_host::SystemRunner;
use flashfit_probe::free_space::{FreeSpaceResult, FreeSpaceTest, FreeSpaceVerdict};
use flashfit_target::InspectedTarget;
use flashfit_testbed::TestBedSpec;
use flashfit_user_error::ExitClass;
use schemars::JsonSchema;
use serde::Serialize;

use super::args::ProbeArgs;
use super::watch::ProbeProgress;
use crate::command_error::CommandError;
use crate::rendering::free_space;
use crate::rendering::run_preview::wrapped;
use crate::{consent, output, signals};

/// What a test would do, with nothing done.
#[derive(Debug, JsonSchema, Serialize)]
pub struct WouldTestFreeSpace {
    target: String,
    capacity_bytes: u64,
    places: Vec<TestedPlace>,
    /// Mounted file systems that would not be tested, with the reason.
    skipped: Vec<String>,
    price: Price,
}

/// A mounted file system that is filled.
#[derive(Debug, JsonSchema, Serialize)]
struct TestedPlace {
    mounted_on: String,
    written_bytes: u64,
}

/// The result, printed as the document `flashfit.free-space`.
#[derive(Debug, JsonSchema, Serialize)]
pub struct FreeSpaceDocument {
    target: String,
    #[serde(flatten)]
    result: FreeSpaceResult,
}

pub fn run(args: &ProbeArgs, name: &str) -> Result<(), CommandError> {
    if args.on != TestBedSpec::Here {
        return Err(CommandError::new(
            ExitClass::Usage,
            "--capacity --keep-data tests file systems that are mounted on this machine",
            Some("run flashfit on that machine, for example with ssh"),
        ));
    }
    let target = InspectedTarget::inspect(name, &SystemRunner::default(), None)?;
    let Some(device) = target.device() else {
        return Err(CommandError::new(
            ExitClass::Usage,
            format!("{name} is not mounted: it is a model of a card"),
            Some("flashfit card serve NAME makes it a device that can be mounted"),
        ));
    };
    let test = FreeSpaceTest::look(device)?;
    let price = Price::of_free_space(&target, flashfit_check::price(&target), test.planned_bytes());
    let what = free_space::announcement(device, &test, &price);
    if args.dry_run {
        let places = test
            .places()
            .map(|(mounted_on, written_bytes)| TestedPlace { mounted_on, written_bytes });
        let would = WouldTestFreeSpace {
            target: name.to_owned(),
            capacity_bytes: device.capacity.0,
            places: places.collect(),
            skipped: test.skipped().to_vec(),
            price,
        };
        return match args.json {
            true => output::json(would),
            false => {
                output::print(&wrapped(&format!("{what}\nNothing was done.\n"), output::width()))
            }
        };
    }
    output::note(&what);
    consent::for_free_space(device, args.confirm.as_deref())?;
    let mut progress = ProbeProgress::new(signals::interrupt()?);
    let result = test.run(args.seed, &mut progress);
    progress.finish();
    present(args, name, device, result?)
}

fn present(
    args: &ProbeArgs,
    name: &str,
    device: &Device,
    result: FreeSpaceResult,
) -> Result<(), CommandError> {
    let ended = ended(name, &result);
    match args.json {
        true => output::json(FreeSpaceDocument { target: name.to_owned(), result })?,
        false => output::print(&free_space::text(device, &result, output::width()))?,
    }
    ended
}

/// A bad verdict, a failure or an interruption.
fn ended(name: &str, result: &FreeSpaceResult) -> Result<(), CommandError> {
    if let (FreeSpaceVerdict::Wrong, Some(wrong)) = (result.verdict, &result.wrong) {
        let message = format!(
            "{name}: {} of {} tested: {}",
            Bytes(result.wrong_bytes),
            Bytes(result.tested_bytes),
            wrong.meaning()
        );
        let hint = "stop using it, and copy files that you need from it";
        return Err(CommandError::new(ExitClass::BadVerdict, message, Some(hint)));
    }
    if let Some(failure) = &result.failure {
        return Err(CommandError::new(
            ExitClass::Io,
            failure.clone(),
            Some("dmesg shows what the kernel saw"),
        ));
    }
    let left = result.volumes.iter().find_map(|volume| volume.not_removed.as_deref());
    if let Some(left) = left {
        let hint = format!("rm -r {left}");
        let message = format!("{left}: the files of the test could not be removed");
        return Err(CommandError::new(ExitClass::Io, message, Some(&hint)));
    }
    if result.interrupted {
        let message = "the test was interrupted; its files are removed";
        return Err(CommandError::new(ExitClass::Interrupted, message, None));
    }
    Ok(())
}
