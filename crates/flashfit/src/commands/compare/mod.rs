//! `flashfit compare RUN RUN…`: the differences between runs, with intervals.

pub mod args;
mod filter;

use flashfit_filesystem::Setup;
use flashfit_host::path_text::to_text;
use flashfit_report::html;
use flashfit_tune::compare::{
    CompareRequest, ComparedRun, RunComparison, SessionSpread, SlowdownCheck,
};
use flashfit_user_error::ExitClass;

use crate::command_error::CommandError;
use crate::output;
use crate::output_file::{OutputFile, OutputKind};
use crate::rendering::comparison::{self, ComparisonView};
use args::CompareArgs;

pub fn run(args: &CompareArgs) -> Result<(), CommandError> {
    // An existing file is refused before the work begins.
    let named = args.output.as_deref();
    let file =
        named.map(|path| OutputFile::check(path, OutputKind::Report, args.force)).transpose()?;
    let runs: Vec<ComparedRun> =
        args.runs.iter().map(|dir| ComparedRun::read(dir)).collect::<Result<_, _>>()?;
    filter::check(args, &runs)?;
    let wants_setup = |setup: &Setup| filter::wants_setup(args, setup);
    let wants_workload = |workload: &str| filter::wants_workload(args, workload);
    let request = CompareRequest {
        by: args.by.map_or_else(|| ComparedRun::common_criterion(&runs), Into::into),
        wants_setup: &wants_setup,
        wants_workload: &wants_workload,
    };
    let compared = RunComparison::of(runs, &request)?;
    let limit = args.fail_if_slower.map_or(0.0, |percent| -(1.0 - percent.share()).ln());
    let spread = SessionSpread::of_share(args.session_spread.share());
    let check = SlowdownCheck::of(&compared, limit, spread);
    let view = ComparisonView {
        comparison: &compared,
        check: &check,
        limit: args.fail_if_slower,
        session_spread: args.session_spread,
    };
    if let Some(file) = file {
        file.write(&html::render_comparison(&comparison::page(&view)))?;
    }
    if args.json {
        output::json(comparison::document(&view))?;
    } else {
        output::print(&comparison::text(&view, output::width()))?;
    }
    if let Some(path) = named {
        output::note(&format!("written: {}", to_text(path)));
    }
    if args.fail_if_slower.is_none() {
        return Ok(());
    }
    if let Some(slower) = comparison::slower(&view) {
        return Err(CommandError::new(ExitClass::BadVerdict, slower, None));
    }
    match comparison::untested(&view) {
        Some(untested) => {
            let hint = "compare runs that measured the same setups and workloads in the same way, \
                        several times";
            let message = format!("whether a run is slower cannot be told: {untested}");
            Err(CommandError::new(ExitClass::Usage, message, Some(hint)))
        }
        None => Ok(()),
    }
}
