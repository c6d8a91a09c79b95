//! `flashfit probe TARGET`, `flashfit probe --import FILE`: finds out how a device is built, and
//! says how sure that is.

pub mod announce;
pub mod args;
mod client;
mod elsewhere;
pub mod free_space;
mod next;
pub mod quick;
mod region;
pub mod result;
pub mod saved;
mod twin;
pub mod watch;

use std::path::Path;

use flashfit_device::Device;
use flashfit_filesystem::FileSystemCatalog;
use flashfit_host::SystemRunner;
use flashfit_probe::{ProbeRun, WriteEstimate};
use flashfit_target::InspectedTarget;
use flashfit_testbed::TestBedSpec;
use flashfit_user_error::ExitClass;

use crate::command_error::CommandError;
use crate::output_file::OutputFile;
use crate::rendering::run_preview::wrapped;
use crate::{consent, output, signals};
use announce::WouldProbe;
use args::ProbeArgs;
use watch::ProbeProgress;

pub fn run(args: &ProbeArgs, catalog: Option<&Path>) -> Result<(), CommandError> {
    if let (true, Some(name)) = (args.capacity, args.target.as_deref()) {
        return free_space::run(args, name);
    }
    outputs_can_be_written(args)?;
    if args.twin.is_some() && args.target.is_some() && !args.write {
        return Err(CommandError::new(
            ExitClass::Usage,
            "a twin is fitted to measured writes, and this probe only reads",
            Some("add --write, which erases the region, or --import a table"),
        ));
    }
    match &args.on {
        TestBedSpec::Here => here(args, catalog),
        TestBedSpec::Ssh { host } => elsewhere::probe(args, host, catalog),
        TestBedSpec::Lab { .. } => Err(CommandError::new(
            ExitClass::Usage,
            "a probe examines one device, and a lab has several",
            Some("labgrid-client -p BOARD ssh, or --on ssh:HOST"),
        )),
        TestBedSpec::Vm(_) => Err(CommandError::new(
            ExitClass::Usage,
            "a probe in a virtual machine would time the machine, not the device",
            Some("probe it here: --on here, or on a board: --on ssh:HOST"),
        )),
    }
}

fn here(args: &ProbeArgs, catalog: Option<&Path>) -> Result<(), CommandError> {
    let fs_catalog = FileSystemCatalog::load(catalog)?;
    let Some(name) = args.target.as_deref() else {
        let (settings, outcome) = flashfit_probe::import(&args.import, args.seed)?;
        let mut progress = ProbeProgress::new(signals::interrupt()?);
        return result::present(args, settings, outcome, None, &fs_catalog, &mut progress);
    };
    let runner = SystemRunner::default();
    let target = InspectedTarget::inspect(name, &runner, catalog)?;
    let probe = ProbeRun::new(&target, args.options(name, catalog)?)?;
    if args.dry_run {
        let would = WouldProbe::look(name, args.write, &target, &probe)?;
        return match args.json {
            true => output::json(would),
            false => output::print_with_commands(&wrapped(&would.text(), output::width())),
        };
    }
    if args.write {
        target.device().map_or(Ok(()), consent::refuse_early)?;
    }
    let mut progress = ProbeProgress::new(signals::interrupt()?);
    let mut agree = |shown: &Device, estimate: &WriteEstimate| {
        // The client has announced it.
        if args.client.shown.is_none() {
            announce::show(&target, &probe, shown, estimate);
        }
        consent::for_shown(shown, args.confirm.as_deref(), &runner)
    };
    let outcome = probe.run(&mut agree, &mut progress);
    progress.finish();
    let settings = probe.settings();
    result::present(args, settings, outcome?, Some(&target), &fs_catalog, &mut progress)
}

/// Finds a file that cannot be written before the probe is made, not after.
fn outputs_can_be_written(args: &ProbeArgs) -> Result<(), CommandError> {
    let mut places = Vec::new();
    for (path, kind) in args.outputs() {
        OutputFile::check(path, kind, args.force)?;
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
        let folder = folder.unwrap_or(Path::new("."));
        let place = (folder.canonicalize().unwrap_or(folder.to_owned()), path.file_name());
        if places.contains(&place) {
            let message = format!("{} is named for two different outputs", path.display());
            let hint = "name another file for each of --output, --svg and --twin";
            return Err(CommandError::new(ExitClass::Usage, message, Some(hint)));
        }
        places.push(place);
    }
    Ok(())
}
