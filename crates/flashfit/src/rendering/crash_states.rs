//! What `flashfit crash states` prints: a table of setups by promise.

use std::collections::BTreeSet;
use std::fmt::Write;
use std::path::Path;

use flashfit_crash::campaign::{BrokenState, SetupResult, StateBatch, StateCounts};
use flashfit_crash::model::Violation;
use flashfit_crash::setup::CrashSetup;
use flashfit_crash::workload::CrashWorkload;
use flashfit_filesystem::Promise;
use flashfit_report::text::wrap;
use flashfit_report::{Align, Column, Shorten, TextTable};

use super::two_digits;

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
    setups: &[CrashSetup],
    results: &[SetupResult],
    workload: &CrashWorkload,
    dir: &Path,
    counted: Counted,
    width: usize,
) -> String {
    let (heading, title) = match counted {
        Counted::States => ("STATES", "States with a broken promise, by promise:"),
        Counted::Cuts => ("CUTS", "Power cuts that broke a promise, by promise:"),
    };
    let columns = HEADINGS.map(|(_, heading)| Column::text(heading).align(Align::Right));
    let mut table = TextTable::new(
        [Column::text("SETUP").shorten(Shorten::Middle), Column::number(heading)]
            .into_iter()
            .chain(columns),
    );
    for (setup, result) in setups.iter().zip(results) {
        let cells = HEADINGS.map(|(promise, _)| cell(setup, result, workload, promise));
        let first = [result.label.clone(), result.counts.states.to_string()];
        table.row(first.into_iter().chain(cells));
    }
    let mut text = format!("{title}\n\n");
    text.push_str(&table.render(width));
    text.push('\n');
    for paragraph in notes(setups, results, workload, counted) {
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

fn notes(
    setups: &[CrashSetup],
    results: &[SetupResult],
    workload: &CrashWorkload,
    counted: Counted,
) -> Vec<String> {
    let mut notes = Vec::new();
    for result in results {
        let counts = &result.counts;
        let percent = two_digits(result.upper_bound() * 100.0);
        let (label, broken, all) = (&result.label, counts.broken, counts.states);
        notes.push(match counted {
            Counted::States => format!(
                "{label}: {broken} of {all} states with a broken promise, at most {percent} % at 95 %; {} mounted, {} equal to one of them.",
                counts.mounted,
                counts.same_bytes + counts.same_reads,
            ),
            Counted::Cuts => format!(
                "{label}: {broken} of {all} power cuts broke a promise, at most {percent} % at 95 %; {} power cuts an hour.",
                result.states_per_hour(),
            ),
        });
        notes.extend(faults(counts).map(|text| format!("{label}: {text}")));
        if counts.mismatched > 0 {
            notes.push(format!(
                "{}: {} of {} equal states were judged otherwise when mounted. Please report it.",
                result.label, counts.mismatched, counts.rechecked
            ));
        }
    }
    if counted == Counted::States {
        notes.push(
            "The bounds take states for independent. Those of one recorded workload are alike, so \
             the share in other workloads can be higher; another --seed records others."
                .to_owned(),
        );
    }
    let withdraws = setups.iter().any(|setup| !setup.withdrawn.is_empty());
    notes.push("(n): the file system does not promise it.".to_owned());
    notes.extend(match workload {
        CrashWorkload::Files | CrashWorkload::Metadata => None,
        CrashWorkload::Sqlite(_) | CrashWorkload::Program(_) => {
            Some("-: not examined with this work.".to_owned())
        }
        CrashWorkload::Requests => Some(
            "-: not examined, because nobody knows what the recorded work promised.".to_owned(),
        ),
    });
    if withdraws {
        notes.push("n w: an option withdraws the promise, as the catalog says.".to_owned());
    }
    let mut named = BTreeSet::new();
    for (setup, result) in setups.iter().zip(results) {
        let is_broken = |promise| result.counts.by_promise.get(promise).is_some_and(|n| *n > 0);
        let kind = setup.recipe.kind();
        if setup.promises.exceptions.iter().any(is_broken) && named.insert(kind) {
            notes.push(format!(
                "n e: the catalog names exceptions of this promise of {kind}; whether these states \
                 are such was not judged: {}",
                setup.risk
            ));
        }
    }
    notes
}

/// What the device did, and how often it was noticed.
fn faults(counts: &StateCounts) -> impl Iterator<Item = String> {
    let named = counts.faults.iter().map(|(class, faults)| (class.name(), faults));
    let ignored =
        (counts.ignored_flushes.happened > 0).then_some(("ignored flush", &counts.ignored_flushes));
    named.chain(ignored).map(|(name, faults)| {
        let by: Vec<String> = faults
            .by_oracle
            .iter()
            .map(|(oracle, count)| format!("{} {count}", oracle.name()))
            .collect();
        let by = if by.is_empty() { String::new() } else { format!(" ({})", by.join(", ")) };
        format!(
            "{name} happened {} times, with a broken promise {} times{by}.",
            faults.happened, faults.noticed
        )
    })
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
        return format!("\nrecords: {}\n", dir.display());
    }
    format!("\nExamples:\n{text}\nrecords and logs: {}\n", dir.display())
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

    use flashfit_crash::model::Oracle;
    use flashfit_crash::state::CrashState;
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
            examples: vec![found(1, Oracle::NameOrder), found(2, Oracle::Replace)],
        };
        let shown = text(
            &[setup],
            &[result],
            &CrashWorkload::Files,
            Path::new("crash"),
            Counted::States,
            80,
        );
        let row = shown.lines().find(|line| line.starts_with("btrfs ")).unwrap();
        assert!(row.contains(" 1 e ") && row.contains("(8)"), "{row}");
        assert!(shown.contains("was not judged"), "{shown}");
        assert!(shown.contains("Examples:\nbtrfs/0/2 replace: f\n"), "{shown}");
    }
}
