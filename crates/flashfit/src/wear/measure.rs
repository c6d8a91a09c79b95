//! `flashfit wear measure DEVICE -- COMMAND`: what a command costs a device.

use std::path::Path;
use std::time::Duration;

use flashfit_device::SystemRoots;
use flashfit_host::calendar::unix_seconds;
use flashfit_host::interrupt::Interrupt;
use flashfit_host::{Program, SystemRunner};
use flashfit_user_error::ExitClass;
use flashfit_wear_counters::{
    AtaAttributes, CommandOnDevice, FEWEST_RUNS, MeasureBudget, MeasurementEnd, WearMeasurement,
    measure,
};

use crate::command_error::CommandError;
use crate::output;
use crate::rendering::{wear_counters, wear_measurement};
use crate::wear::args::WearMeasureArgs;
use crate::wear::device::{device, disk_capacity};

pub fn run(args: &WearMeasureArgs, catalog: Option<&Path>) -> Result<(), CommandError> {
    let interrupt = Interrupt::on_signals().map_err(|error| {
        CommandError::new(ExitClass::Environment, format!("cannot handle signals: {error}"), None)
    })?;
    let (system, runner) = (SystemRoots::default(), SystemRunner::new(interrupt));
    let attributes = AtaAttributes::load(catalog)?;
    let sources = args.how.sources(&system, &runner, &attributes);
    let device = device(&args.device, &system, &runner, catalog)?;
    let (name, words) = args.command.split_first().expect("clap wants a command");
    let command = Program::new(name).args(words).timeout(Duration::MAX).show_output();
    let mut workload = CommandOnDevice {
        capacity: disk_capacity(&system, &device),
        sources: &sources,
        device,
        command,
        runner: &runner,
        settle: Duration::from_secs(args.settle),
    };
    let budget = MeasureBudget {
        max_written: args.max_write,
        max_runs: args.repeat,
        error_percent: args.error,
    };
    let found = WearMeasurement {
        command: args.command.clone(),
        created_unix_s: Some(unix_seconds()),
        ..measure(&mut workload, &budget, args.counter.as_deref())?
    };
    if args.json {
        output::json(&found)?;
    } else {
        output::print(&wear_measurement::text(&found, output::width()))?;
    }
    resolved(&found)
}

/// An error if the counter was not resolved, after what was measured has been printed.
fn resolved(found: &WearMeasurement) -> Result<(), CommandError> {
    let hint = match found.end {
        MeasurementEnd::Resolved => return Ok(()),
        MeasurementEnd::Runs | MeasurementEnd::Hopeless => {
            "allow more runs with --repeat, or let the command write more"
        }
        MeasurementEnd::Volume => "allow more with --max-write, or a larger --error",
        MeasurementEnd::Spread => {
            "allow more runs with --repeat and --max-write, or a larger --error"
        }
    };
    let reason = if found.end == MeasurementEnd::Spread {
        "the runs differ by more than the wanted error".to_owned()
    } else if found.steps_counted >= found.steps_wanted {
        let runs = found.runs;
        format!("the spread between runs takes at least {FEWEST_RUNS} runs, not {runs}")
    } else {
        let needed = wear_counters::volume(&found.needed);
        let (counted, wanted) = (found.steps_counted, found.steps_wanted);
        format!("it counted {counted} of {wanted} steps, and all take {needed}")
    };
    let (device, goal) = (found.device.display(), &found.goal);
    let message = format!("{device}: `{goal}` is not resolved: {reason}");
    Err(CommandError::new(ExitClass::BadVerdict, message, Some(hint)))
}
