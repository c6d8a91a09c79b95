//! Published alignment tables: agreement between repeats of a card, and answers where a step is
//! visible.
//!
//! *The pooled repeats of a card show a step* is decided without the inference that is judged: for
//! each row the median difference over all tables of the card; a step at a row from 64 KiB to
//! 64 MiB when at least 95 % of all pairs of a row from it on and one of the (at most six) rows
//! below it, down to 16 KiB, rise, and the medians of both sides lie apart by more than 5 times the
//! median deviation from them (as a standard deviation) and by more than 2 % of a read.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::{Path, PathBuf};

use flashfit_device::Bytes;
use flashfit_geometry::belief::median;
use flashfit_geometry::flashbench::inference::align_step::{PooledRow, pool};
use flashfit_geometry::flashbench::inference::{heuristic, infer};
use flashfit_geometry::flashbench::{AlignTable, Imported};
use flashfit_geometry::{CandidateValue, GeometryFinding, QuantityValue};

/// The published tables of each card of a kind, with file names.
pub fn published(kind: &str) -> BTreeMap<String, Vec<(String, Imported)>> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../geometry/tests/data/flashbench");
    let mut cards = BTreeMap::new();
    for card in folder(&root).into_iter().filter(|path| path.is_dir()) {
        let tables: Vec<(String, Imported)> = folder(&card)
            .into_iter()
            .filter(|path| name(path).starts_with(kind))
            .map(|path| {
                let bytes = std::fs::read(&path).expect("a table can be read");
                (name(&path), Imported::read(&bytes).expect("a published table"))
            })
            .collect();
        if !tables.is_empty() {
            cards.insert(name(&card), tables);
        }
    }
    cards
}

fn folder(path: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(path).expect("the published tables");
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.expect("readable").path()).collect();
    paths.sort();
    paths
}

fn name(path: &Path) -> String {
    path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
}

/// Whether the pooled repeats of a card show a step, as defined in the module documentation.
fn shows_a_step(rows: &[PooledRow]) -> bool {
    let read_ns = median(&rows.iter().map(|row| row.adjacent_ns).collect::<Vec<_>>());
    let sizes =
        rows.iter().map(|row| row.align.0).filter(|size| (64 << 10..=64 << 20).contains(size));
    sizes.into_iter().any(|at| {
        let side = |holds: &dyn Fn(u64) -> bool| -> Vec<f64> {
            rows.iter().filter(|row| holds(row.align.0)).map(|row| row.extra_ns).collect()
        };
        let least = (at / 64).max(16 << 10);
        let (below, above) = (side(&|size| size < at && size >= least), side(&|size| size >= at));
        if below.len() < 2 || above.len() < 2 {
            return false;
        }
        let pairs = below.len() * above.len();
        let rising = above.iter().map(|high| below.iter().filter(|low| high > low).count());
        let (low, high) = (median(&below), median(&above));
        let off: Vec<f64> = below
            .iter()
            .map(|value| (value - low).abs())
            .chain(above.iter().map(|value| (value - high).abs()))
            .collect();
        let apart = (5.0 * 1.4826 * median(&off)).max(0.02 * read_ns);
        rising.sum::<usize>() * 100 >= pairs * 95 && high - low > apart
    })
}

/// Pairs of repeats of a card, and the number with the same answer.
fn pairs(answers: &[Option<u64>]) -> (usize, usize) {
    let given: Vec<u64> = answers.iter().copied().flatten().collect();
    let all = (0..given.len()).flat_map(|one| (0..one).map(move |other| (one, other)));
    let alike = all.clone().filter(|&(one, other)| given[one] == given[other]).count();
    (alike, all.count())
}

/// Pairs of answers that differ, of which one run names both sizes as likely.
fn named_with_each_other(findings: &[GeometryFinding]) -> usize {
    let names = |one: &GeometryFinding, other: &GeometryFinding| {
        let is_it = |of: &CandidateValue| Some(of.value) == other.value && of.probability > 0.1;
        one.candidates.iter().any(is_it)
    };
    let given: Vec<&GeometryFinding> = findings.iter().filter(|of| of.value.is_some()).collect();
    let pairs = (0..given.len()).flat_map(|one| (0..one).map(move |other| (one, other)));
    pairs
        .map(|(one, other)| (given[one], given[other]))
        .filter(|(one, other)| one.value != other.value && (names(one, other) || names(other, one)))
        .count()
}

/// The section of the document.
pub fn section() -> String {
    let mut text = String::from(
        "\n## 3. Published tables\n\nAlignment tables of real cards (`crates/geometry/tests/data/\
         flashbench`), with an answer inferred from each run separately. For comparison, the rule of the CELF methodology takes the larger of the two rows with the largest relative jump.\n\n\
         | card | runs | step visible in all runs together | answered | answers | answers of the rule |\n\
         |---|---|---|---|---|---|\n",
    );
    let (mut ours, mut rules) = ((0, 0), (0, 0));
    let (mut with_step, mut answered, mut outside, mut named) = (0, 0, 0, 0);
    for (card, runs) in published("align") {
        let tables: Vec<AlignTable> = runs.iter().flat_map(|(_, run)| run.align.clone()).collect();
        let step = shows_a_step(&pool(&tables));
        let findings: Vec<GeometryFinding> = tables.iter().map(finding).collect();
        let answers: Vec<Option<u64>> = findings.iter().map(answer).collect();
        named += named_with_each_other(&findings);
        let rule: Vec<Option<u64>> = tables
            .iter()
            .map(|table| heuristic::methodology(table).map(|(erase_block, _)| erase_block.0))
            .collect();
        let given = answers.iter().flatten().count();
        outside +=
            answers.iter().flatten().filter(|size| !(64 << 10..=64 << 20).contains(*size)).count();
        if step {
            with_step += answers.len();
            answered += given;
        }
        let add = |sum: &mut (usize, usize), (alike, all)| *sum = (sum.0 + alike, sum.1 + all);
        add(&mut ours, pairs(&answers));
        add(&mut rules, pairs(&rule));
        let yes = if step { "yes" } else { "no" };
        let _ = writeln!(
            text,
            "| {card} | {} | {yes} | {given} | {} | {} |",
            tables.len(),
            tally(&answers),
            tally(&rule)
        );
    }
    let _ = writeln!(
        text,
        "\n| figure | flashfit | CELF rule |\n|---|---|---|\n\
         | pairs of runs of one card with the same answer | {} of {} ({:.1} %) | {} of {} ({:.1} %) |\n\
         | pairs with different answers, both named by one run because of two steps | {named} | |\n\
         | runs answered, of cards with a visible step | {answered} of {with_step} \
         ({:.1} %) | all |\n\
         | answers outside 64 KiB to 64 MiB | {outside} | {} |\n\n\
         A *step is visible* if the medians over all runs rise permanently at a row: in at least 95 % of the pairs of a row from it on and one of up to six below it, with the medians of both sides apart by five standard deviations (from the median deviation) and 2 % of a read.",
        ours.0,
        ours.1,
        share(ours),
        rules.0,
        rules.1,
        share(rules),
        share((answered, with_step)),
        rule_outside(),
    );
    text
}

fn rule_outside() -> usize {
    let runs = published("align").into_values().flatten();
    let tables = runs.flat_map(|(_, run)| run.align);
    let answers = tables.filter_map(|table| heuristic::methodology(&table));
    answers.filter(|(erase_block, _)| !(64 << 10..=64 << 20).contains(&erase_block.0)).count()
}

fn finding(table: &AlignTable) -> GeometryFinding {
    let one = Imported { align: vec![table.clone()], ..Imported::default() };
    infer(&one).findings.erase_block
}

fn answer(finding: &GeometryFinding) -> Option<u64> {
    match finding.value {
        Some(QuantityValue::Bytes(bytes)) => Some(bytes),
        _ => None,
    }
}

fn share((part, all): (usize, usize)) -> f64 {
    100.0 * part as f64 / all.max(1) as f64
}

/// `4 MiB x 7, none x 2`.
fn tally(answers: &[Option<u64>]) -> String {
    let mut counts: BTreeMap<Option<u64>, usize> = BTreeMap::new();
    for answer in answers {
        *counts.entry(*answer).or_default() += 1;
    }
    let one = |(answer, count): (&Option<u64>, &usize)| {
        let what = answer.map_or("none".to_owned(), |bytes| Bytes(bytes).to_string());
        format!("{what} x {count}")
    };
    counts.iter().rev().map(one).collect::<Vec<_>>().join(", ")
}
