//! `flashfit analyze DIR`: setups in the order of the methodology's merits.

use std::path::Path;

use flashfit_report::{RankingTable, terminal};
use flashfit_tune::{Space, StoredRun};
use serde::Serialize;

use crate::cli::AnalyzeArgs;
use crate::command_error::CommandError;
use crate::output;
use crate::rendering::life::YearsPart;
use crate::rendering::{self, RunView};
use crate::wear::run_life::estimate_recorded;
use flashfit_tune::run::Catalogs;

#[derive(Serialize)]
struct Table {
    title: String,
    rows: Vec<Row>,
}

/// Merits in thousandths.
#[derive(Serialize)]
struct Row {
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
    let rankings = rendering::rankings(&view, args.by.into(), args.top);
    if args.json {
        return output::json(
            "rankings",
            rankings.iter().map(|ranking| table(&view, ranking)).collect::<Vec<_>>(),
        );
    }
    if let Some(text) = rendering::several_devices(&view) {
        output::note(&format!("note: {text}"));
    }
    if rankings.is_empty() {
        output::note("no trials were completed in this run yet");
    }
    let mut text = String::new();
    if run.header.facts.card.is_some() {
        text.push_str(terminal::SIMULATED_BANNER);
        text.push_str("\n\n");
    }
    for ranking in &rankings {
        text.push_str(&terminal::render_ranking(ranking, output::width()));
        text.push('\n');
    }
    let years = rendering::life::finding(&view.conclusion);
    text.push_str(&terminal::render_finding(&years, output::width()));
    output::print(&text)
}

fn table(view: &RunView<'_>, ranking: &RankingTable) -> Table {
    let lives = rendering::life::by_label(view);
    let rows = ranking.rows.iter().map(|row| Row {
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
