//! `flashfit doctor --on ssh:HOST`: what a board has for trials: kernel, programs, file
//! systems, devices. An agent is started there for it and ended; nothing is written to a device.

use std::collections::BTreeSet;
use std::path::Path;

use flashfit_filesystem::FileSystemCatalog;
use flashfit_host::{ProgramError, SystemRunner};
use flashfit_report::text::plain_command;
use flashfit_testbed::{Capabilities, Host, Requirements, lacks_programs};

use crate::command_error::CommandError;
use crate::commands::list;
use crate::hints;
use crate::output;
use crate::test_beds::ssh;

/// Asks the agent on `host`, and prints its answer.
pub fn run(
    host: &str,
    fs_catalog: &FileSystemCatalog,
    runner: &SystemRunner,
    catalog: Option<&Path>,
    json: bool,
) -> Result<(), CommandError> {
    let wanted = Requirements::of(fs_catalog);
    let token = ssh::token(Path::new(&format!("{host}:doctor")));
    let offers = ssh::reach(host, &token, runner, catalog)?.describe(&wanted)?;
    if json {
        return output::json(offers);
    }
    output::print_with_commands(&text(host, &wanted, &offers))
}

fn text(host: &str, wanted: &Requirements, offers: &Capabilities) -> String {
    let mut lines = vec![format!("{host}: kernel {}, {}.", offers.kernel, offers.machine)];
    let lacks = offers.lacks_devices.clone().or_else(|| lacks_programs(&offers.programs));
    lines.push(match (lacks, &offers.lacks_cards) {
        (Some(reason), _) => format!("Trials cannot be made there: {reason}."),
        (None, Some(reason)) => {
            format!("Trials can be made there, but not with simulated cards: {reason}.")
        }
        (None, None) => "Trials can be made there, with simulated cards too.".to_owned(),
    });
    let all = |what: &BTreeSet<String>| what.iter().cloned().collect::<Vec<_>>().join(", ");
    lines.push(format!("Installed programs: {}.", all(&offers.programs)));
    let missing: BTreeSet<String> = &wanted.programs - &offers.programs;
    if !missing.is_empty() {
        lines.push(format!("Missing programs: {}.", all(&missing)));
        let commands = missing
            .iter()
            .filter_map(|name| hints::hint(&ProgramError::Missing { name: name.clone() }))
            .filter(|hint| hint.starts_with("apt-get install "));
        lines.extend(commands.collect::<BTreeSet<_>>().into_iter().map(|hint| format!("  {hint}")));
    }
    lines.push(format!("File systems of its kernel: {}.", all(&offers.kinds)));
    let lacking: BTreeSet<String> = &wanted.kinds - &offers.kinds;
    if !lacking.is_empty() {
        lines.push(format!("File systems that its kernel lacks: {}.", all(&lacking)));
    }
    if offers.devices.is_empty() {
        lines.push("It has no storage devices.".to_owned());
    } else {
        lines.push("Its storage devices:".to_owned());
        let table = list::table(&offers.devices);
        lines.extend(table.lines().map(|line| format!("  {line}")));
    }
    // What a board says may be made to change the terminal.
    let plain: Vec<String> = lines.iter().map(|line| plain_command(line)).collect();
    plain.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_board_cannot_change_the_terminal() {
        let offers = Capabilities {
            kernel: "6.1\u{1b}[2J".to_owned(),
            lacks_cards: Some("evil\u{1b}[31m".to_owned()),
            programs: ["fio", "mount", "blkdiscard", "sfdisk", "mkfs.ext4"].map(Into::into).into(),
            ..Capabilities::default()
        };
        let text = text("root@board", &Requirements::default(), &offers);
        assert!(text.contains("6.1") && text.contains("evil"), "{text}");
        assert!(!text.contains('\u{1b}'), "{text}");
    }
}
