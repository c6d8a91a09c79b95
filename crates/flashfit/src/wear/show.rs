//! `flashfit wear show DEVICE`: what a device reports about its wear.

use std::path::Path;

use flashfit_device::SystemRoots;
use flashfit_host::SystemRunner;
use flashfit_host::calendar::unix_seconds;
use flashfit_wear_counters::{AtaAttributes, WearReading};

use crate::command_error::CommandError;
use crate::output;
use crate::rendering::wear_counters;
use crate::wear::args::WearShowArgs;
use crate::wear::device::device;

pub fn run(args: &WearShowArgs, catalog: Option<&Path>) -> Result<(), CommandError> {
    let (system, runner) = (SystemRoots::default(), SystemRunner::default());
    let attributes = AtaAttributes::load(catalog)?;
    let sources = args.how.sources(&system, &runner, &attributes);
    let reading = sources.read(&device(&args.device, &system, &runner, catalog)?);
    if args.json {
        output::json(WearReading { created_unix_s: Some(unix_seconds()), ..reading })
    } else {
        output::print(&wear_counters::text(&reading, output::width()))
    }
}
