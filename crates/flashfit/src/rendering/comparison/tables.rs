//! The tables of a comparison: runs, conditions, and differences by workload and setup.

use flashfit_filesystem::Setup;
use flashfit_report::{ColumnKind, ReportFinding};
use flashfit_tune::Criterion;
use flashfit_tune::compare::{RunComparison, RunDifference, RunPair, SetupPair};

use super::{ComparisonView, assumptions, change, interval, letter, verdict};
use crate::rendering::life;

/// Rows that the terminal shows.
const TERMINAL_ROWS: usize = 12;
/// The title of the years of setups.
pub(super) const YEARS: &str = "Years that setups last, simulated";

pub(super) fn findings(view: &ComparisonView<'_>) -> Vec<ReportFinding> {
    let comparison = view.comparison;
    let mut findings = vec![runs(comparison)];
    for pair in &comparison.pairs {
        findings.push(conditions(pair));
    }
    for pair in &comparison.pairs {
        findings.push(workloads(comparison, pair));
        findings.push(setups(comparison, pair));
        findings.push(cells(comparison, pair));
        findings.push(only_in_one(pair));
    }
    findings.push(years(comparison));
    findings.retain(|finding| !finding.rows.is_empty());
    findings
}

fn runs(comparison: &RunComparison) -> ReportFinding {
    let mut finding = ReportFinding::new(
        "Runs",
        "The first run is what the others are compared with.",
        [
            ("", ColumnKind::Name),
            ("directory", ColumnKind::Name),
            ("device", ColumnKind::Name),
            ("kernel", ColumnKind::Name),
            ("trials", ColumnKind::Number),
            ("note", ColumnKind::Remark),
        ],
        usize::MAX,
    );
    let unknown = || "–".to_owned();
    finding.rows = comparison
        .runs
        .iter()
        .enumerate()
        .map(|(index, run)| {
            vec![
                letter(index),
                run.path.display().to_string(),
                run.device().unwrap_or_else(unknown),
                run.kernel().unwrap_or_else(unknown),
                run.completed().to_string(),
                run.remarks().join("; "),
            ]
        })
        .collect();
    finding
}

fn conditions(pair: &RunPair) -> ReportFinding {
    let name = letter(pair.run);
    let mut finding = ReportFinding::new(
        &format!("What differs between A and {name}"),
        "Conditions that both runs record. Where figures are not comparable, the runs measured \
         something else.",
        [
            ("condition", ColumnKind::Remark),
            ("A", ColumnKind::Name),
            (&name, ColumnKind::Name),
            ("note", ColumnKind::Remark),
        ],
        TERMINAL_ROWS,
    );
    finding.rows = pair
        .differing
        .iter()
        .map(|condition| {
            let [first, other] = condition.values.clone();
            let note = if condition.is_comparable { "" } else { "not comparable" };
            vec![condition.what.to_owned(), first, other, note.to_owned()]
        })
        .collect();
    finding
}

fn difference_columns(what: &'static str) -> [(&'static str, ColumnKind); 5] {
    [
        (what, ColumnKind::Name),
        ("change", ColumnKind::Number),
        ("95 % interval", ColumnKind::Number),
        ("n", ColumnKind::Number),
        ("result", ColumnKind::Remark),
    ]
}

fn difference_row(name: String, found: &RunDifference, by: Criterion) -> Vec<String> {
    let [first, other] = found.trials;
    vec![
        name,
        change(found.log),
        interval(found),
        format!("{first}/{other}"),
        verdict(found, by).to_owned(),
    ]
}

fn workloads(comparison: &RunComparison, pair: &RunPair) -> ReportFinding {
    let name = letter(pair.run);
    let mut finding = ReportFinding::new(
        &format!("{name} compared with A, by workload"),
        "The mean change of the setups that both runs measured.",
        difference_columns("workload"),
        TERMINAL_ROWS,
    );
    for workload in &pair.workloads {
        let row = match &workload.difference {
            Some(found) => {
                let mut row = difference_row(workload.workload.clone(), found, comparison.by);
                if !workload.has_same_points {
                    row[4] = "not comparable: other points".to_owned();
                } else if !pair.is_comparable() {
                    row[4] = format!("not comparable ({})", row[4]);
                }
                row
            }
            None => {
                let dash = || "–".to_owned();
                let reason = "no common setup".to_owned();
                vec![workload.workload.clone(), dash(), dash(), dash(), reason]
            }
        };
        finding.rows.push(row);
    }
    finding
}

fn setups(comparison: &RunComparison, pair: &RunPair) -> ReportFinding {
    let name = letter(pair.run);
    let mut finding = ReportFinding::new(
        &format!("{name} compared with A, by setup"),
        "The mean change over the workloads that both runs measured, the largest loss first.",
        difference_columns("setup"),
        TERMINAL_ROWS,
    );
    let mut setups: Vec<&(Setup, RunDifference)> = pair.setups.iter().collect();
    setups.sort_by(|a, b| a.1.log.total_cmp(&b.1.log));
    finding.rows = setups
        .into_iter()
        .map(|(setup, found)| difference_row(setup.label(), found, comparison.by))
        .collect();
    finding
}

/// Each setup under each workload, for the report only.
fn cells(comparison: &RunComparison, pair: &RunPair) -> ReportFinding {
    let name = letter(pair.run);
    let mut finding = ReportFinding::new(
        &format!("{name} compared with A, by setup and workload"),
        scale_note(comparison.by),
        [
            ("setup", ColumnKind::Name),
            ("workload", ColumnKind::Remark),
            ("A", ColumnKind::Number),
            (&name, ColumnKind::Number),
            ("change", ColumnKind::Number),
            ("95 % interval", ColumnKind::Number),
            ("n", ColumnKind::Number),
            ("result", ColumnKind::Remark),
        ],
        0,
    );
    // With one workload, or one setup, this is one of the other tables.
    if pair.workloads.len() < 2 || pair.setups.len() < 2 {
        return finding;
    }
    for workload in &pair.workloads {
        for SetupPair { setup, difference, logs } in &workload.setups {
            let mut row = difference_row(setup.label(), difference, comparison.by);
            let levels = logs.map(|log| figure(log, comparison.by));
            row.splice(1..1, std::iter::once(workload.workload.clone()).chain(levels));
            finding.rows.push(row);
        }
    }
    finding
}

fn scale_note(by: Criterion) -> &'static str {
    match by {
        Criterion::Throughput => {
            "A and the other run: the geometric mean of all points in KiB/s, or in operations per \
             second for workloads that create and delete files."
        }
        Criterion::Latency => "A and the other run: the worst completion latency in milliseconds.",
        Criterion::Wear => {
            "A and the other run: bytes written by the workload / bytes programmed by the device, \
             or bytes written to a device that does not report those."
        }
    }
}

/// The figure of a mean logarithm.
pub(super) fn figure(log: f64, by: Criterion) -> String {
    let value = match by {
        Criterion::Throughput | Criterion::Wear => log.exp(),
        Criterion::Latency => 1000.0 / log.exp(),
    };
    flashfit_report::FigureUnit::Number.show(value)
}

fn only_in_one(pair: &RunPair) -> ReportFinding {
    let name = letter(pair.run);
    let mut finding = ReportFinding::new(
        &format!("Setups that only A or {name} measured"),
        "They are not part of any difference.",
        [("setup", ColumnKind::Name), ("run", ColumnKind::Remark)],
        TERMINAL_ROWS / 2,
    );
    let first = pair.only_in_first.iter().map(|setup| (setup, "A".to_owned()));
    let other = pair.only_in_run.iter().map(|setup| (setup, name.clone()));
    finding.rows = first.chain(other).map(|(setup, run)| vec![setup.label(), run]).collect();
    finding
}

/// Years of the common setups in all runs that have a usage model.
fn years(comparison: &RunComparison) -> ReportFinding {
    let lives: Vec<_> = comparison.runs.iter().map(|run| run.lives()).collect();
    let basis = assumptions::lines(comparison).join(" ");
    let mut finding = ReportFinding::new(
        YEARS,
        &format!("With 90 % intervals, under the usage model of each run. {basis}"),
        [("setup", ColumnKind::Name)],
        TERMINAL_ROWS,
    );
    if lives.iter().all(std::collections::BTreeMap::is_empty) {
        return finding;
    }
    let columns = (0..lives.len()).map(|run| (letter(run), ColumnKind::Number));
    finding.columns.extend(columns);
    for setup in comparison.common_setups() {
        let cell = |found: &std::collections::BTreeMap<Setup, _>| {
            found.get(&setup).map_or_else(|| "–".to_owned(), life::cell)
        };
        let cells = lives.iter().map(cell);
        finding.rows.push(std::iter::once(setup.label()).chain(cells).collect());
    }
    finding
}
