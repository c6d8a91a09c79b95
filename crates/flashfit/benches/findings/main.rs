//! The published findings of `catalog/findings/`, tried on simulated cards of the same class behind
//! the real kernel: `make findings` writes `docs/findings.md`.
//!
//! Every figure of ours is simulated, and none of the cards is the one that was measured then: what
//! is compared is which case is faster, and by how much.

#![expect(clippy::print_stdout, reason = "it prints the table")]

mod finding;
mod play;

use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use finding::{Case, Finding};
use flashfit_host::interrupt::Interrupt;
use flashfit_host::{SystemRunner, capability, mount};
use play::Outcome;

/// The median of three is reported.
const REPEATS: usize = 3;

type Fallible<T> = Result<T, Box<dyn std::error::Error>>;

fn main() -> ExitCode {
    if let Some(reason) = capability::missing_for_simulated_cards() {
        println!("skipped: {reason}");
        return ExitCode::SUCCESS;
    }
    match run() {
        Ok(text) => {
            print!("{text}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            println!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Fallible<String> {
    mount::enter_private_namespace()?;
    let runner = SystemRunner::new(Interrupt::on_signals()?);
    let mut text = String::from(
        "# Published findings on simulated cards\n\nWritten by `make findings`. Our figures are \
         simulated, on a card of the same class, not on the published card. Each is the median of \
         three runs, each with a new card that was written completely once. \"busy\" is the share \
         of the time in which the card worked.\n",
    );
    for path in files()? {
        let finding = Finding::read(&path)?;
        let mut outcomes = Vec::new();
        for case in &finding.cases {
            outcomes.push(middle(&runner, &finding, case)?);
        }
        section(&mut text, &finding, &outcomes);
    }
    Ok(text)
}

fn files() -> Fallible<Vec<PathBuf>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../catalog/findings");
    let only = std::env::args().nth(1).filter(|word| !word.starts_with('-'));
    let mut paths = Vec::new();
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        if only.as_ref().is_none_or(|only| path.display().to_string().contains(only)) {
            paths.push(path);
        }
    }
    paths.sort();
    Ok(paths)
}

fn middle(runner: &SystemRunner, finding: &Finding, case: &Case) -> Fallible<Outcome> {
    let mut outcomes = Vec::new();
    for _ in 0..REPEATS {
        outcomes.push(play::play(runner, finding, case)?);
    }
    outcomes.sort_by_key(|outcome| outcome.rate_thousandths);
    Ok(outcomes.swap_remove(REPEATS / 2))
}

fn section(text: &mut String, finding: &Finding, outcomes: &[Outcome]) {
    let rates: Vec<u64> = outcomes.iter().map(|outcome| outcome.rate_thousandths).collect();
    let verdict = if finding.came_out(&rates) { "Reproduced." } else { "NOT reproduced." };
    let mut line = |line: String| writeln!(text, "{line}").expect("a string takes any text");
    line(format!("\n## {}\n", finding.title));
    line(format!(
        "{}. Published result: {}. Here on `{}`, in {}.\n",
        finding.source, finding.claim, finding.card, finding.measured
    ));
    line(
        "| case | published | simulated | relative to the first | busy | write amplification |"
            .to_owned(),
    );
    line("|---|--:|--:|--:|--:|--:|".to_owned());
    for (case, outcome) in finding.cases.iter().zip(outcomes) {
        line(row(case, outcome, rates[0]));
    }
    line(format!("\n{verdict}"));
    if let Some(note) = &finding.note {
        line(format!("\n{note}"));
    }
}

fn row(case: &Case, outcome: &Outcome, first: u64) -> String {
    let published = case.published.map_or_else(|| "–".to_owned(), |figure| figure.to_string());
    let tenths = |thousandths: u64| format!("{}.{}", thousandths / 1000, thousandths % 1000 / 100);
    let ratio = tenths(outcome.rate_thousandths.saturating_mul(1000) / first.max(1));
    let busy = outcome.card_busy.as_nanos() * 100 / outcome.elapsed.as_nanos().max(1);
    let amplification =
        outcome.write_amplification_thousandths.map_or_else(|| "–".to_owned(), tenths);
    format!(
        "| {} | {published} | {} | {ratio} | {busy} % | {amplification} |",
        case.label,
        tenths(outcome.rate_thousandths)
    )
}
