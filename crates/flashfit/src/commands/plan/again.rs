//! The arguments that make the same plan again, for the commands that are suggested.

use std::path::Path;

use clap::ValueEnum;
use flashfit_device::Bytes;
use flashfit_filesystem::Durability;
use flashfit_filesystem::plan::SecondChoice;
use flashfit_host::program::{quote, quote_path};

use super::args::{MOUNT_POINT, PlanArgs};
use crate::rendering::check::size_argument;

/// What was given and decides the plan, but for the file system, as words of a shell.
pub fn arguments(args: &PlanArgs) -> Vec<String> {
    let mut words = Vec::new();
    let mut add = |flag: &str, value: Option<String>| {
        if let Some(value) = value {
            words.extend([flag.to_owned(), value]);
        }
    };
    let size = |bytes: Bytes| size_argument(bytes.0);
    let word = |value: &Option<String>| value.as_deref().map(quote);
    add("--options", args.options.as_ref().map(|names| quote(&names.join(","))));
    add("--host", word(&args.host));
    add("--scheduler", word(&args.scheduler));
    let table = args.table.and_then(|table| table.to_possible_value());
    add("--table", table.map(|table| table.get_name().to_owned()));
    add("--start", word(&args.start));
    add("--label", word(&args.label));
    add("--second", args.second.as_ref().map(second));
    add("--erase-block", args.erase_block.map(size));
    add("--write-unit", args.write_unit.map(size));
    add("--geometry", args.geometry.as_deref().map(quote_path));
    let mount_point = Some(&args.mount_point).filter(|path| *path != Path::new(MOUNT_POINT));
    add("--mount-point", mount_point.map(|path| quote_path(path)));
    add("--recipe", word(&args.recipe));
    add("--allow", Some(args.allow.to_string()).filter(|_| args.allow != Durability::Safe));
    if args.align_end {
        words.push("--align-end".to_owned());
    }
    if args.no_probe {
        words.push("--no-probe".to_owned());
    }
    words
}

/// The argument of `--second`.
pub fn second(second: &SecondChoice) -> String {
    let point = second.mount_point.iter().map(|point| format!(":{}", point.display()));
    let size = size_argument(second.size_bytes);
    quote(&format!("{}:{size}{}", second.content, point.collect::<String>()))
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Command {
        #[command(flatten)]
        plan: PlanArgs,
    }

    fn again(arguments_given: &[&str]) -> String {
        let all = ["plan", "/dev/x"].iter().chain(arguments_given);
        arguments(&Command::parse_from(all).plan).join(" ")
    }

    #[test]
    fn only_what_decides_the_plan_is_repeated() {
        assert_eq!(again(&[]), "");
        assert_eq!(again(&["--fs", "ext4", "--all", "--json", "-o", "plan.json"]), "");
        assert_eq!(
            again(&["--erase-block", "4MiB", "--table", "mbr", "--no-probe", "--align-end"]),
            "--table mbr --erase-block 4MiB --align-end --no-probe"
        );
        assert_eq!(
            again(&["--options", "geometry,noatime", "--allow", "may-corrupt"]),
            "--options geometry,noatime --allow may-corrupt"
        );
        assert_eq!(again(&["--write-unit", "1050624"]), "--write-unit 1026KiB");
        assert_eq!(again(&["--geometry", "my card.json"]), "--geometry 'my card.json'");
    }
}
