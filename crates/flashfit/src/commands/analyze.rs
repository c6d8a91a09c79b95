//! `flashfit analyze DIR`: setups in the order of the methodology's merits; with `--versus`, two
//! setups compared with each other.

use std::path::Path;

use flashfit_report::terminal;
use flashfit_search::CandidateIndex;
use flashfit_tune::head_to_head::SetupComparisons;
use flashfit_tune::{Space, StoredRun};

use crate::cli::AnalyzeArgs;
use crate::command_error::CommandError;
use crate::output;
use crate::rendering::head_to_head::{self, VersusDocument};
use crate::rendering::matrix;
use crate::rendering::named_setup;
use crate::rendering::rankings::ShownRanking;
use crate::rendering::rankings_document;
use crate::rendering::sustained::SustainedAnswer;
use crate::rendering::{self, RunView};
use crate::wear::recorded_life::estimate_recorded;
use flashfit_tune::run::Catalogs;
use flashfit_tune::run_dir::read_raw;

pub fn run(args: &AnalyzeArgs, catalog: Option<&Path>) -> Result<(), CommandError> {
    let mut run = StoredRun::read(&args.dir)?;
    // What refuses the run comes first: estimates take up to a minute.
    let catalogs = Catalogs::of_run(&run.header, catalog)?;
    let space = Space::of_run(&run.header, &catalogs.filesystems)?;
    estimate_recorded(&mut run.header, &args.life, catalog)?;
    let view = RunView::new(&run.header, &run.trials, &catalogs.workloads, &space)?;
    if let Some(names) = &args.versus {
        return versus(&view, names, args.json);
    }
    let by = args.by.map_or(run.header.spec.by, Into::into);
    let top = args.top as usize;
    let mut rankings = rendering::rankings::shown_rankings(&view, by, top);
    if let Some(overall) = rendering::rankings::overall(&view, by, top) {
        rankings.insert(0, overall);
    }
    if args.json {
        return output::json(rankings_document::document(&view, &rankings, by));
    }
    if let Some(text) = rendering::several_devices(&view) {
        output::note(&format!("note: {text}"));
    }
    if rankings.is_empty() {
        output::note("no full-length trial was completed in this run yet");
    }
    let mut text = banner(&view);
    let matrix = terminal::render_finding(&matrix::finding(&view, by), output::width());
    let (of_device, of_workloads): (Vec<_>, Vec<_>) =
        rankings.iter().partition(|shown| shown.ranking.workload.is_none());
    let tables = |shown: Vec<&ShownRanking>| {
        let tables = shown.into_iter();
        let tables = tables.map(|shown| terminal::render_ranking(&shown.table, output::width()));
        tables.filter(|table| !table.is_empty()).collect::<Vec<String>>()
    };
    let all = [tables(of_device), vec![matrix], tables(of_workloads)].concat();
    for part in all.iter().filter(|part| !part.is_empty()) {
        text.push_str(part);
        text.push('\n');
    }
    if let Some(longer) = SustainedAnswer::of(&view, &args.dir) {
        text.push_str(&terminal::render_finding(&longer.finding(), output::width()));
    }
    let raw = read_raw(&args.dir).unwrap_or_default();
    let bare = rendering::bare_device::finding(&view, &raw);
    text.push_str(&terminal::render_finding(&bare, output::width()));
    let years = rendering::life::finding(&view.conclusion);
    text.push_str(&terminal::render_finding(&years, output::width()));
    output::print(&text)
}

/// Two setups compared with each other.
fn versus(view: &RunView<'_>, names: &[String], as_json: bool) -> Result<(), CommandError> {
    let setups: Vec<CandidateIndex> =
        names.iter().map(|name| named_setup::find(view, name)).collect::<Result<_, _>>()?;
    let pair = SetupComparisons::of(&view.conclusion).pair(setups[0], setups[1]);
    if as_json {
        return output::json(VersusDocument::new(view, &pair));
    }
    let text = head_to_head::versus_text(view, &pair, output::width());
    output::print(&format!("{}{text}", banner(view)))
}

/// Says that a result is simulated.
fn banner(view: &RunView<'_>) -> String {
    match view.header.facts.card {
        Some(_) => format!("{}\n\n", terminal::SIMULATED_BANNER),
        None => String::new(),
    }
}
