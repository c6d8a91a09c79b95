//! The published findings of `catalog/findings/`, tried on simulated cards of the same class behind
//! the real kernel: `make findings` writes `docs/findings.md`.
//!
//! Every figure of ours is simulated, and none of the cards is the one that was measured then: what
//! is compared is which case is faster, and by how much.
//!
//! Arguments, to look at one finding: a part of its file name, and another card of the catalog.

#![expect(clippy::print_stdout, reason = "it prints the table")]

mod finding;
mod play;
mod verdict;
mod work;

use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use finding::{BAND, Case, Finding};
use flashfit_host::interrupt::Interrupt;
use flashfit_host::{SystemRunner, capability, mount};
use flashfit_option_probe::kernel;
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
    let words: Vec<String> =
        std::env::args().skip(1).filter(|word| !word.starts_with('-')).collect();
    let mut text = format!(
        "# Published findings on simulated cards\n\nWritten by `make findings`. Our figures are \
         simulated, on a card of the same class, not on the published card. Each is the median of \
         {REPEATS} runs, each with a new card that was written completely once; in parentheses the \
         lowest and the highest. \"busy\" is the share of the time in which the card worked.\n\n\
         A finding with published figures is reproduced if each case is as many times as fast as \
         the first one as was published, within a factor of {BAND:.0} above and below; controls, which \
         made no difference then, must make none here. The others say what they expect.\n",
    );
    for path in files(words.first().map(String::as_str))? {
        let mut finding = Finding::read(&path)?;
        if let Some(card) = words.get(1) {
            finding.card.clone_from(card);
        }
        section(&mut text, &runner, &finding)?;
    }
    Ok(text)
}

fn files(only: Option<&str>) -> Fallible<Vec<PathBuf>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../catalog/findings");
    let mut paths = Vec::new();
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        if only.is_none_or(|only| path.display().to_string().contains(only)) {
            paths.push(path);
        }
    }
    paths.sort();
    Ok(paths)
}

/// The repeats of a case, slowest first.
fn repeats(runner: &SystemRunner, finding: &Finding, case: &Case) -> Fallible<Vec<Outcome>> {
    let mut outcomes = Vec::new();
    for _ in 0..REPEATS {
        outcomes.push(play::play(runner, &finding.card, case)?);
    }
    outcomes.sort_by(|one, other| one.rate.total_cmp(&other.rate));
    Ok(outcomes)
}

fn section(text: &mut String, runner: &SystemRunner, finding: &Finding) -> Fallible<()> {
    writeln!(
        text,
        "\n## {}\n\n{}. Published result: {}. Here on `{}`, in {}.\n",
        finding.title, finding.source, finding.claim, finding.card, finding.measured
    )?;
    let lacks = finding.cases.iter().find(|case| !kernel::has(case.filesystem()));
    if let Some(case) = lacks {
        writeln!(text, "**Not tried**: this kernel has no {}.", case.filesystem())?;
    } else {
        let mut middles = Vec::new();
        let mut rows = Vec::new();
        for case in &finding.cases {
            let outcomes = repeats(runner, finding, case)?;
            let first = *middles.first().unwrap_or(&outcomes[REPEATS / 2].rate);
            rows.push(row(case, &outcomes, first, finding.cases[0].published));
            middles.push(outcomes[REPEATS / 2].rate);
        }
        writeln!(
            text,
            "| case | published | relative | simulated | relative | busy | write amplification |\n\
             |---|--:|--:|--:|--:|--:|--:|\n{}\n\n{}",
            rows.join("\n"),
            verdict::verdict(finding, &middles)
        )?;
    }
    if let Some(note) = &finding.note {
        writeln!(text, "\n{}", note.trim())?;
    }
    Ok(())
}

fn row(case: &Case, outcomes: &[Outcome], first: f64, first_published: Option<f64>) -> String {
    let or_none = |text: Option<String>| text.unwrap_or_else(|| "–".to_owned());
    let published = or_none(case.published.map(|figure| figure.to_string()));
    let ratio = case.published.zip(first_published).map(|(figure, first)| figure / first);
    let middle = outcomes[REPEATS / 2];
    let amplification = middle.write_amplification_thousandths;
    format!(
        "| {} | {published} | {} | {} ({} to {}) | {:.1} | {:.0} % | {} |",
        case.label,
        or_none(ratio.map(|ratio| format!("{ratio:.1}"))),
        figure(middle.rate),
        figure(outcomes[0].rate),
        figure(outcomes[REPEATS - 1].rate),
        middle.rate / first,
        middle.busy * 100.0,
        or_none(amplification.map(|times| format!("{:.1}", times as f64 / 1000.0)))
    )
}

fn figure(rate: f64) -> String {
    if rate < 100.0 { format!("{rate:.1}") } else { format!("{rate:.0}") }
}
