//! `flashfit list`: the devices of this machine.

use flashfit_device::{Device, SystemRoots, list};
use flashfit_report::{Column, Shorten, TextTable};

use crate::cli::ListArgs;
use crate::command_error::CommandError;
use crate::output;

pub fn run(args: &ListArgs) -> Result<(), CommandError> {
    let media = list::devices(&SystemRoots::default());
    if args.json {
        return output::json("media", media);
    }
    if media.is_empty() {
        output::note("no block devices here; flashfit card list shows the simulated cards");
        return Ok(());
    }
    output::print(&table(&media))
}

/// A line for each device.
pub fn table(media: &[Device]) -> String {
    let mut table = TextTable::new([
        Column::text("DEVICE"),
        Column::text("KIND"),
        Column::number("SIZE"),
        Column::number("ERASE BLOCK"),
        Column::text("SCHEDULER"),
        Column::text("MODEL").shorten(Shorten::Middle),
        Column::text("MOUNTED ON").shorten(Shorten::Middle),
    ]);
    for medium in media {
        table.row([
            medium.path.display().to_string(),
            medium.kind.to_string(),
            medium.capacity.to_string(),
            medium
                .declared_erase_block
                .as_ref()
                .map_or_else(|| "-".to_owned(), |declared| declared.bytes.to_string()),
            medium.queue.scheduler.clone().unwrap_or_else(|| "-".to_owned()),
            medium.identity.summary(),
            medium.mounts.first().map_or_else(String::new, |at| at.point.display().to_string()),
        ]);
    }
    table.render(output::width())
}
