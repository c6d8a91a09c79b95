//! `flashfit wear show DEVICE`: what a device reports about its wear.

use flashfit_device::{Device, SystemRoots};
use flashfit_wear_counters::WearReading;

use crate::command_error::CommandError;
use crate::output;
use crate::rendering::wear_counters;
use crate::wear::args::WearShowArgs;

pub fn run(args: &WearShowArgs) -> Result<(), CommandError> {
    let system = SystemRoots::default();
    let device = Device::from_sysfs(&system, &args.device)?;
    let reading = WearReading::of(&system, &device);
    if args.json {
        output::json("wear-show", reading)
    } else {
        output::print(&wear_counters::text(&reading, output::width()))
    }
}
