//! `flashfit inspect TARGET`: what one device, or one simulated card, says of itself.

use std::path::Path;

use flashfit_device::{Device, SystemRoots, Target};
use flashfit_host::SystemRunner;

use crate::cli::InspectArgs;
use crate::command_error::CommandError;
use crate::output;
use crate::rendering::inspect::{card_text, device_text};
use crate::survey;

pub fn run(args: &InspectArgs, catalog: Option<&Path>) -> Result<(), CommandError> {
    let target = Target::parse(&args.target)?;
    let device = match &target {
        Target::Simulated(name) => {
            let model = flashfit_card::catalog::load(name, catalog)?;
            return if args.json { output::json(model) } else { output::print(&card_text(&model)) };
        }
        Target::Node(path) => {
            Device::from_node(&SystemRoots::default(), &SystemRunner::default(), path)?
        }
        Target::Image(path) => Device::from_image(&SystemRunner::default(), path)?,
    };
    if args.json {
        output::json(&device)?
    } else {
        output::print(&device_text(&device))?
    }
    let place = (device.capacity.0, device.partition_start.is_some());
    survey::mention(&args.survey, device.kind, &device.identity, &device.declared, place)
}
