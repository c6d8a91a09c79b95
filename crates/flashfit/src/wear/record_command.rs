//! The commands that record a trace, as they can be typed.

use std::path::Path;

use flashfit_filesystem::{FsOption, OptionRequirement};
use flashfit_host::program::{quote, quote_path};

use crate::rendering::check::size_argument;
use crate::wear::life_args::WearRecordArgs;
use crate::wear::setup_traces::MissingTrace;

/// The command that records a trace again.
pub fn again(args: &WearRecordArgs, catalog: Option<&Path>) -> String {
    format!(
        "flashfit wear record {} --fs {} --workload {} --volume {} --data-size {} \
         --fill-percent {} --age {} --on {} --seed {}{} --output FILE",
        quote(&args.target),
        quote(&args.filesystem),
        args.workload,
        size_argument(args.volume.0),
        size_argument(args.data_size.0),
        args.fill_percent,
        args.age,
        quote(&args.on.to_string()),
        args.seed,
        catalog_flag(catalog)
    )
}

/// The command that records a missing trace of a setup with these options.
pub fn of_missing(
    missing: &MissingTrace,
    name: &str,
    options: &[&FsOption],
    catalog: Option<&Path>,
) -> String {
    let needs_cache = |option: &&FsOption| option.needs.contains(&OptionRequirement::VolatileCache);
    let card = if options.iter().any(needs_cache) { "usd-a2-cq" } else { "usd-a1-pagemap" };
    let MissingTrace { file, workload } = missing;
    let folder = catalog.map_or_else(|| "CATALOG".to_owned(), |path| path.display().to_string());
    let output = quote(&format!("{folder}/traces/{file}.toml"));
    format!(
        "flashfit wear record sim:{card} --fs {} --workload {}{} --output {output}",
        quote(name),
        quote(workload),
        catalog_flag(catalog)
    )
}

/// ` --catalog DIR`, or nothing.
pub fn catalog_flag(catalog: Option<&Path>) -> String {
    catalog.map_or_else(String::new, |path| format!(" --catalog {}", quote_path(path)))
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Line {
        #[command(flatten)]
        args: WearRecordArgs,
        #[arg(long)]
        catalog: Option<std::path::PathBuf>,
    }

    #[test]
    fn the_command_of_a_trace_can_be_typed() {
        let typed = "record|sim:my card.toml|--fs|ext4:noatime|--workload|logs|--volume|1000000|\
                     --data-size|192MiB|--catalog|my catalog|--output|FILE";
        let line = Line::parse_from(typed.split('|'));
        let command = again(&line.args, line.catalog.as_deref());
        let expected = "flashfit wear record 'sim:my card.toml' --fs ext4:noatime --workload logs \
                        --volume 1000000 --data-size 192MiB --fill-percent 50 --age 1 --on here \
                        --seed 1 --catalog 'my catalog' --output FILE";
        assert_eq!(command, expected);
    }

    #[test]
    fn the_traces_of_the_catalog_name_commands_that_can_be_typed() {
        for entry in flashfit_catalog::entries("traces", "toml", None).unwrap() {
            let first = entry.text.lines().next().unwrap();
            let command = first.strip_prefix("command = \"flashfit wear ").unwrap();
            let words = command.trim_end_matches('"').split(' ');
            let line = Line::try_parse_from(words).unwrap_or_else(|error| panic!("{error}"));
            assert_eq!(format!("command = \"{}\"", again(&line.args, None)), first);
        }
    }
}
