//! What to do after a probe: where a partition starts, the mkfs line as the planner has it, and
//! what to type.

use std::path::Path;

use flashfit_device::Bytes;
use flashfit_filesystem::FileSystemCatalog;
use flashfit_filesystem::plan::EXAMPLE_NODE;
use flashfit_geometry::{Geometry, Sourced};
use flashfit_host::path_text;
use flashfit_host::program::{quote, quote_path};
use flashfit_probe::{FollowUp, NextCommand, ProbeDocument, ProbeMode, Remapped};
use flashfit_target::InspectedTarget;

use super::saved::first_erase_block;
use crate::rendering::check::size_argument;

/// What to do next, for a device that is there or for tables of one that is not. Empty if it loses
/// data. `saved` is the user's file of the document; `board` is the host of a device that is on
/// another machine than the user, for whom the commands are.
pub fn next(
    document: &ProbeDocument,
    inspected: Option<&InspectedTarget>,
    fs_catalog: &FileSystemCatalog,
    (saved, board): (Option<&Path>, Option<&str>),
) -> NextCommand {
    // A simulated card is anywhere.
    let board = board.filter(|_| !document.simulated);
    let on_board = |command: String| match board {
        Some(host) => format!("ssh {} {}", quote(host), quote(&command)),
        None => command,
    };
    let mut next = NextCommand::default();
    // Nothing is worth doing with a device that loses data.
    if document.tested_capacity().fault().is_some() {
        return next;
    }
    let probed = document.geometry();
    let target = match document.mode {
        ProbeMode::Import => EXAMPLE_NODE.to_owned(),
        _ => quote(&document.target),
    };
    let FollowUp { disagreements, plan } = FollowUp::new(document, inspected, fs_catalog);
    next.remarks.extend(disagreements);
    next.remarks.extend(document.first_erase_block().map(first_erase_block));
    match plan {
        Some(Ok(plan)) => {
            next.partition_start_bytes = plan.partitions.first().map(|part| part.start_bytes);
            let mkfs = plan.commands.iter().find(|command| command.program.starts_with("mkfs"));
            next.mkfs = mkfs.map(|command| {
                let words = std::iter::once(&command.program).chain(&command.args);
                on_board(words.map(|word| quote(word)).collect::<Vec<_>>().join(" "))
            });
        }
        Some(Err(error)) => next.remarks.push(error.to_string()),
        None => {
            next.partition_start_bytes = probed.erase_block.as_ref().map(|known| known.bytes.0);
        }
    }
    // Of a file or a composed device, writing tests no more than the capacity, and erases it.
    let device = inspected.and_then(InspectedTarget::device);
    let shows_flash = device.and_then(Remapped::of).is_none();
    if document.mode == ProbeMode::Read && probed.erase_block.is_none() && shows_flash {
        let place = board.map(|host| format!(" --on {}", quote(&format!("ssh:{host}"))));
        next.commands.push(format!("flashfit probe {target} --write{}", place.unwrap_or_default()));
    }
    let saved = saved.filter(|_| board.is_none());
    if saved.is_none() && probed.erase_block_offset != Bytes(0) {
        // Flags give only the sizes.
        let file = "geometry.json";
        next.commands.push(on_board(format!("flashfit probe {target} --write --output {file}")));
        next.commands.push(on_board(format!("flashfit plan {target} --geometry {file}")));
    } else {
        next.commands.push(on_board(plan_command(&target, &probed, saved)));
    }
    if let Some(twin) = &document.twin {
        let place = path_text::to_text(&twin.file);
        let path = if place.contains('/') { place } else { format!("./{place}") };
        next.commands
            .push(format!("flashfit tune {} --profile quick", quote(&format!("sim:{path}"))));
    }
    next
}

fn plan_command(target: &str, probed: &Geometry, saved: Option<&Path>) -> String {
    let mut command = format!("flashfit plan {target}");
    let mut flag = |name: &str, known: Option<&Sourced>| {
        if let Some(known) = known {
            command.push_str(&format!(" --{name} {}", size_argument(known.bytes.0)));
        }
    };
    match saved {
        Some(path) if !probed.is_unknown() => {
            command.push_str(&format!(" --geometry {}", quote_path(path)));
        }
        _ => {
            flag("erase-block", probed.erase_block.as_ref());
            flag("write-unit", probed.write_unit.as_ref());
        }
    }
    command
}

#[cfg(test)]
mod tests {
    use flashfit_device::DeclaredFacts;
    use flashfit_geometry::Probed;
    use flashfit_probe::ProbeSettings;

    use super::*;

    fn commands(target: &str, simulated: bool, board: Option<&str>) -> Vec<String> {
        let settings = ProbeSettings {
            target: target.to_owned(),
            mode: ProbeMode::Read,
            simulated,
            seed: 1,
            region: None,
            device: None,
            declared: DeclaredFacts::default(),
            created_unix_s: None,
        };
        let document = ProbeDocument::new(settings, Probed::default(), false);
        let fs_catalog = FileSystemCatalog::load(None).unwrap();
        next(&document, None, &fs_catalog, (Some(Path::new("g.json")), board)).commands
    }

    #[test]
    fn commands_for_a_device_of_a_board_reach_the_board() {
        let here = ["flashfit probe /dev/sdz --write", "flashfit plan /dev/sdz"];
        assert_eq!(commands("/dev/sdz", false, None), here);
        let there = [
            "flashfit probe /dev/sdz --write --on ssh:root@board",
            "ssh root@board 'flashfit plan /dev/sdz'",
        ];
        assert_eq!(commands("/dev/sdz", false, Some("root@board")), there);
        let card = ["flashfit probe sim:x --write", "flashfit plan sim:x"];
        assert_eq!(commands("sim:x", true, Some("root@board")), card);
    }
}
