//! What `flashfit crash states` prints: a table of setups by promise.

pub mod notes;

use std::fmt::Write;
use std::path::Path;

use flashfit_crash::campaign::{BrokenState, CampaignPlan, SetupResult, StateBatch};
use flashfit_crash::model::Violation;
use flashfit_crash::setup::CrashSetup;
use flashfit_crash::workload::CrashWorkload;
use flashfit_filesystem::Promise;
use flashfit_host::path_text::to_text;
use flashfit_report::text::wrap;
use flashfit_report::{Align, Column, Shorten, TextTable};

use notes::notes;

/// Examples that are shown of a setup.
const MOST_EXAMPLES: usize = 3;
/// Violations that are shown of an example.
const MOST_LINES: usize = 3;
/// Headings of the promises, in their order.
const HEADINGS: [(Promise, &str); 7] = [
    (Promise::Consistent, "SOUND"),
    (Promise::Synced, "SYNCED"),
    (Promise::OwnData, "OWN"),
    (Promise::AtomicRename, "RENAME"),
    (Promise::ReplaceWithoutFsync, "REPLACE"),
    (Promise::ReplaceNotEmpty, "EMPTY"),
    (Promise::OrderedNames, "ORDER"),
];

/// What was counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Counted {
    States,
    Cuts,
}

pub fn text(
    plan: &CampaignPlan,
    setups: &[CrashSetup],
    results: &[SetupResult],
    dir: &Path,
    counted: Counted,
    width: usize,
) -> String {
    let on = plan.mounting_kernel().map_or(String::new(), |release| format!(" on Linux {release}"));
    let (heading, title) = match counted {
        Counted::States => ("STATES", format!("States with a broken promise{on}, by promise:")),
        Counted::Cuts => ("CUTS", format!("Power cuts that broke a promise{on}, by promise:")),
    };
    let columns = HEADINGS.map(|(_, heading)| Column::text(heading).align(Align::Right));
    let mut table = TextTable::new(
        [Column::text("SETUP").shorten(Shorten::Middle), Column::number(heading)]
            .into_iter()
            .chain(columns),
    );
    for (setup, result) in setups.iter().zip(results) {
        let cells = HEADINGS.map(|(promise, _)| cell(setup, result, &plan.workload, promise));
        let first = [result.label.clone(), result.counts.states.to_string()];
        table.row(first.into_iter().chain(cells));
    }
    let mut text = format!("{title}\n\n");
    text.push_str(&table.render(width));
    text.push('\n');
    for paragraph in notes(plan, setups, results, counted) {
        for line in wrap(&paragraph, width) {
            writeln!(text, "{line}").expect("a string takes any text");
        }
    }
    text.push_str(&examples(setups, results, dir, width));
    text
}

/// How often a promise was broken: in parentheses where it is not given, and none where nobody can
/// notice.
fn cell(
    setup: &CrashSetup,
    result: &SetupResult,
    workload: &CrashWorkload,
    promise: Promise,
) -> String {
    if !workload.examines(promise) {
        return "-".to_owned();
    }
    if result.counts.states == 0 {
        return "?".to_owned();
    }
    let broken = result.counts.by_promise.get(&promise).copied().unwrap_or(0);
    let is_given = setup.promises.keeps.contains(&promise);
    match (is_given, broken) {
        (true, 0) => "0".to_owned(),
        (true, _) if setup.withdrawn.contains(&promise) => format!("{broken} w"),
        (true, _) if setup.promises.exceptions.contains(&promise) => format!("{broken} e"),
        (true, _) => broken.to_string(),
        (false, 0) => "(0)".to_owned(),
        (false, _) => format!("({broken})"),
    }
}

/// States that show what was found: first those that broke a promise of the file system.
fn examples(setups: &[CrashSetup], results: &[SetupResult], dir: &Path, width: usize) -> String {
    let mut text = String::new();
    for (setup, result) in setups.iter().zip(results) {
        let is_minor =
            |violation: &Violation| !setup.promises.keeps.contains(&violation.oracle.promise());
        let mut examples: Vec<&BrokenState> = result.examples.iter().collect();
        examples.sort_by_key(|broken| broken.violations.iter().all(is_minor));
        for broken in examples.into_iter().take(MOST_EXAMPLES) {
            let mut violations: Vec<&Violation> = broken.violations.iter().collect();
            violations.sort_by_key(|violation| is_minor(violation));
            let more = violations.len().saturating_sub(MOST_LINES);
            let more = (more > 0).then(|| format!("{} and {more} more", broken.id));
            let lines = violations.into_iter().take(MOST_LINES).map(|violation| {
                format!("{} {}: {}", broken.id, violation.oracle.name(), violation.detail)
            });
            for line in lines.chain(more).flat_map(|line| wrap(&line, width)) {
                writeln!(text, "{line}").expect("a string takes any text");
            }
        }
    }
    if text.is_empty() {
        return format!("\nrecords: {}\n", to_text(dir));
    }
    format!("\nExamples:\n{text}\nrecords and logs: {}\n", to_text(dir))
}

/// The first states of a batch that broke a promise of their file system, a line each.
pub fn broken<'a>(batch: &'a StateBatch, setups: &'a [CrashSetup]) -> impl Iterator<Item = String> {
    let setup = setups.iter().find(|setup| setup.label == batch.setup);
    let states = setup.into_iter().flat_map(|setup| {
        let keeps = &setup.promises.keeps;
        batch.broken.iter().filter_map(|it| Some((&it.id, it.breaking(keeps)?)))
    });
    states.map(|(id, violation)| format!("{id}: {}", violation.detail))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use flashfit_crash::campaign::{CampaignStart, StateCounts};
    use flashfit_crash::model::Oracle;
    use flashfit_crash::state::{CrashState, FlushFault};
    use flashfit_filesystem::{Conditions, FileSystemCatalog};

    use super::*;

    #[test]
    fn an_exception_of_the_catalog_is_marked_and_its_example_comes_first() {
        let catalog = FileSystemCatalog::load(None).unwrap();
        let setup = CrashSetup::parse("btrfs", &catalog, &Conditions::default()).unwrap();
        let found = |number: u32, oracle| BrokenState {
            id: format!("btrfs/0/{number}"),
            state: CrashState::complete(number),
            violations: vec![Violation::new(oracle, "f")],
        };
        let result = SetupResult {
            label: "btrfs".to_owned(),
            counts: StateCounts {
                states: 9,
                broken: 1,
                by_promise: BTreeMap::from([
                    (Promise::AtomicRename, 1),
                    (Promise::OrderedNames, 8),
                ]),
                ..StateCounts::default()
            },
            rounds: 1,
            judged_rounds: 1,
            broken_rounds: 1,
            examples: vec![found(1, Oracle::NameOrder), found(2, Oracle::Replace)],
        };
        let plan = CampaignPlan {
            setups: vec!["btrfs".to_owned()],
            workload: CrashWorkload::Files,
            seed: 1,
            states: None,
            unit_sectors: 8,
            flushes: FlushFault::One,
            card: None,
            kernel: None,
            board: None,
            requests: None,
            start: CampaignStart::default(),
        };
        let unknown = SetupResult {
            label: "ext4".to_owned(),
            counts: StateCounts::default(),
            rounds: 0,
            judged_rounds: 0,
            broken_rounds: 0,
            examples: Vec::new(),
        };
        let setups = [setup, CrashSetup::parse("ext4", &catalog, &Conditions::default()).unwrap()];
        let dir = Path::new("crash");
        let shown = text(&plan, &setups, &[result, unknown], dir, Counted::States, 80);
        let row = shown.lines().find(|line| line.starts_with("btrfs ")).unwrap();
        assert!(row.contains(" 1 e ") && row.contains("(8)"), "{row}");
        let row = shown.lines().find(|line| line.starts_with("ext4 ")).unwrap();
        assert!(row.contains(" ? ") && !row.contains("(0)"), "{row}");
        assert!(shown.contains("ext4: no state was checked, so nothing is known."), "{shown}");
        assert!(shown.contains("was not judged"), "{shown}");
        assert!(shown.contains("in 1 of 1 log;") && shown.contains("at most 100 %"), "{shown}");
        assert!(shown.contains("ignored-flush was asked for and happened at no"), "{shown}");
        assert!(shown.contains("Examples:\nbtrfs/0/2 replace: f\n"), "{shown}");
    }
}
