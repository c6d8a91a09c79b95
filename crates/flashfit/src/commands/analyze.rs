//! `flashfit analyze DIR`: setups in the order of the methodology's merits; with `--versus`, two
//! setups compared with each other.

use std::path::Path;

use flashfit_report::{RankingTable, terminal};
use flashfit_search::CandidateIndex;
use flashfit_tune::head_to_head::SetupComparisons;
use flashfit_tune::{Space, StoredRun};
use schemars::JsonSchema;
use serde::Serialize;

use crate::cli::AnalyzeArgs;
use crate::command_error::CommandError;
use crate::output;
use crate::rendering::head_to_head::{self, HeadToHeadParts, VersusDocument};
use crate::rendering::life::YearsPart;
use crate::rendering::named_setup;
use crate::rendering::setup_figures::{self, SetupFigures};
use crate::rendering::{self, RunView};
use crate::wear::run_life::estimate_recorded;
use flashfit_tune::run::Catalogs;

#[derive(JsonSchema, Serialize)]
pub struct RankingsDocument {
    rankings: Vec<Table>,
    setups: Vec<SetupFigures>,
    /// The finalists and the baseline compared with each other.
    head_to_head: Vec<HeadToHeadParts>,
}

#[derive(JsonSchema, Serialize)]
struct Table {
    title: String,
    rows: Vec<RankingRow>,
}

/// Merits in thousandths.
#[derive(JsonSchema, Serialize)]
struct RankingRow {
    place: u32,
    setup: String,
    merit_thousandths: i64,
    low_thousandths: Option<i64>,
    high_thousandths: Option<i64>,
    trials: u32,
    /// With a usage model.
    #[serde(flatten)]
    life: Option<YearsPart>,
    note: String,
}

pub fn run(args: &AnalyzeArgs, catalog: Option<&Path>) -> Result<(), CommandError> {
    let mut run = StoredRun::read(&args.dir)?;
    estimate_recorded(&mut run.header, &args.life, catalog)?;
    let catalogs = Catalogs::of_run(&run.header, catalog)?;
    let space = Space::of_run(&run.header, &catalogs.filesystems)?;
    let view = RunView::new(&run.header, &run.trials, &catalogs.workloads, &space)?;
    if let Some(names) = &args.versus {
        return versus(&view, names, args.json);
    }
    let rankings = rendering::rankings(&view, args.by.into(), args.top);
    if args.json {
        let document = RankingsDocument {
            rankings: rankings.iter().map(|ranking| table(&view, ranking)).collect(),
            setups: setup_figures::of(&view),
            head_to_head: head_to_head::of_finalists(&view.conclusion),
        };
        return output::json(document);
    }
    if let Some(text) = rendering::several_devices(&view) {
        output::note(&format!("note: {text}"));
    }
    if rankings.is_empty() {
        output::note("no trials were completed in this run yet");
    }
    let mut text = banner(&view);
    for ranking in &rankings {
        text.push_str(&terminal::render_ranking(ranking, output::width()));
        text.push('\n');
    }
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

fn table(view: &RunView<'_>, ranking: &RankingTable) -> Table {
    let lives = rendering::life::by_label(view);
    let rows = ranking.rows.iter().map(|row| RankingRow {
        place: row.rank,
        setup: row.setup.clone(),
        merit_thousandths: thousandths(row.score).unwrap_or_default(),
        low_thousandths: thousandths(row.low),
        high_thousandths: thousandths(row.high),
        trials: row.trials,
        life: lives.get(&row.setup).map(|life| YearsPart::from(*life)),
        note: row.note.clone(),
    });
    Table { title: ranking.title.clone(), rows: rows.collect() }
}

fn thousandths(value: f64) -> Option<i64> {
    value.is_finite().then(|| (value * 1000.0).round() as i64)
}
