//! `flashfit list`: the devices of this machine.

use std::path::Path;

use flashfit_device::{Device, SystemRoots, list};
use flashfit_host::path_text::to_text;
use flashfit_report::{Column, Shorten, TextTable};

use crate::cli::ListArgs;
use crate::command_error::CommandError;
use crate::commands::catalog_mistakes;
use crate::output;

pub fn run(args: &ListArgs, catalog: Option<&Path>) -> Result<(), CommandError> {
    catalog_mistakes::check(catalog)?;
    let devices = list::devices(&SystemRoots::default());
    if args.json {
        return output::json(devices);
    }
    if devices.is_empty() {
        output::note("no block devices here; flashfit card list shows the simulated cards");
        return Ok(());
    }
    output::print(&table(&devices))
}

/// A line for each device.
pub fn table(devices: &[Device]) -> String {
    let mut table = TextTable::new([
        Column::text("DEVICE"),
        Column::text("KIND"),
        Column::number("SIZE"),
        Column::number("ERASE BLOCK"),
        Column::text("SCHEDULER"),
        Column::text("MODEL").shorten(Shorten::Middle),
        Column::text("MOUNTED").shorten(Shorten::Middle),
    ]);
    for device in devices {
        table.row([
            to_text(&device.path),
            device.kind.to_string(),
            device.capacity.to_string(),
            device
                .declared_erase_block
                .as_ref()
                .map_or_else(|| "-".to_owned(), |declared| declared.bytes.to_string()),
            device.queue.scheduler.clone().unwrap_or_else(|| "-".to_owned()),
            device.identity.summary(),
            device.mounts.first().map_or_else(String::new, |at| to_text(&at.point)),
        ]);
    }
    table.render(output::width())
}
