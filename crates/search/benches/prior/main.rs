//! Measures what results of similar devices are worth to a search, and what misleading ones cost
//! (`make prior-benchmark`).
//!
//! For each seed, a search runs on a landscape without results of others, with those of devices
//! that are like it, and with those of devices that have nothing in common with it. Prints the
//! first part of docs/similar-devices.md. `--seeds N` sets the number of seeds, from 300,
//! `--threads N` the number of concurrent searches, `--only KIND` one kind of landscape, `--twin`
//! takes simulated twins of the device in place of other devices. No pass or fail.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use flashfit_search::landscape::{Landscape, LandscapeKind, similar, surveyed};
use flashfit_search::{
    Adaptive, NextStep, Observation, SearchEnd, SearchPrior, SearchSettings, ShortRun, Strategy,
    next_step, spent,
};

const SEEDS: u64 = 24;
const FIRST_SEED: u64 = 300;
const THREADS: usize = 2;
/// The accepted distance from the best.
const NEAR: f64 = 0.02;

const HEAD: &str = "\
# What results of similar devices are worth

Written by `make prior-benchmark`. How a search uses a survey is in [A survey of
cards](survey.md).

## Simulated landscapes

A search runs on a landscape (docs/search.md) without results of other devices, and with those of
one or three others. Scores on these are a mixture of those on the landscape and of an
independent one, so that both have the given correlation: 0 is a survey that misleads. Each was
searched with the same budget, and only what that search tried is known of it.

*Trials*: what was spent when the choice came within 2 % of the best and stayed there, median and
90 % quantile; `-` if it did not within the budget. *Ratio*: the geometric mean of the ratio to a
search without results, by seed, with a 95 % interval; a search that did not get there counts with
its budget. *Regret*: how far the last choice is below the best, 90 % quantile. *Sure and right*:
of the searches that stopped because they were confident, those within 2 %.";

/// What is known before the first trial.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Known {
    Nothing,
    /// So many devices whose merits have this correlation with those of the device.
    Similar {
        devices: u64,
        correlation: f64,
    },
    /// A simulated twin whose merits have this correlation with those of the device.
    Twin {
        correlation: f64,
    },
}

const KNOWN: [Known; 7] = [
    Known::Nothing,
    Known::Similar { devices: 1, correlation: 0.98 },
    Known::Similar { devices: 3, correlation: 0.98 },
    Known::Similar { devices: 1, correlation: 0.9 },
    Known::Similar { devices: 3, correlation: 0.9 },
    Known::Similar { devices: 1, correlation: 0.0 },
    Known::Similar { devices: 3, correlation: 0.0 },
];

/// The same with `--twin`.
const TWINS: [Known; 4] = [
    Known::Nothing,
    Known::Twin { correlation: 0.98 },
    Known::Twin { correlation: 0.9 },
    Known::Twin { correlation: 0.0 },
];

/// Kinds with their budgets and whether short trials are possible.
const SUBJECTS: [(LandscapeKind, f64, bool); 4] = [
    (LandscapeKind::Smooth, 480.0, true),
    (LandscapeKind::Rugged, 800.0, true),
    (LandscapeKind::Small, 250.0, false),
    (LandscapeKind::Grid, 360.0, false),
];

#[derive(Debug, Clone, Copy)]
struct Played {
    /// `None` if the choice was not within 2 % at the end.
    trials: Option<f64>,
    regret: f64,
    is_sure: bool,
}

fn main() {
    let number = |name: &str| -> Option<u64> {
        std::env::args().skip_while(|argument| argument != name).nth(1)?.parse().ok()
    };
    let only: Option<String> = std::env::args().skip_while(|argument| argument != "--only").nth(1);
    let seeds = number("--seeds").unwrap_or(SEEDS);
    let threads = number("--threads").map_or(THREADS, |threads| threads.clamp(1, 64) as usize);
    let twin = std::env::args().any(|argument| argument == "--twin");
    let known: &[Known] = if twin { &TWINS } else { &KNOWN };
    if only.is_none() && !twin {
        print_text(HEAD);
    }
    for (kind, budget, short) in SUBJECTS {
        if only.as_ref().is_some_and(|only| only != kind.name()) {
            continue;
        }
        let cases: Vec<(usize, u64)> =
            (0..seeds).flat_map(|seed| (0..known.len()).map(move |known| (known, seed))).collect();
        let next = AtomicUsize::new(0);
        let found = Mutex::new(vec![vec![None; seeds as usize]; known.len()]);
        std::thread::scope(|scope| {
            for _ in 0..threads {
                scope.spawn(|| {
                    while let Some(&(at, seed)) = cases.get(next.fetch_add(1, Ordering::Relaxed)) {
                        let played = play(kind, budget, short, known[at], FIRST_SEED + seed);
                        found.lock().expect("no thread panicked")[at][seed as usize] = Some(played);
                    }
                });
            }
        });
        let found = found.into_inner().expect("no thread panicked");
        let rows: Vec<Vec<Played>> = found
            .into_iter()
            .map(|row| row.into_iter().map(|one| one.expect("played")).collect())
            .collect();
        print_rows(kind, budget, known, &rows);
    }
}

#[expect(clippy::print_stdout, reason = "the document is this program's output")]
fn print_text(text: &str) {
    println!("{text}");
}

fn settings(budget: f64, short: bool, seed: u64) -> SearchSettings {
    let short = short.then_some(ShortRun { cost: 0.4 });
    SearchSettings { trials: Some(budget), short, seed, ..SearchSettings::default() }
}

fn play(kind: LandscapeKind, budget: f64, short: bool, known: Known, seed: u64) -> Played {
    let landscape = kind.make(seed);
    let strategy = match known {
        Known::Nothing => Adaptive::default(),
        Known::Similar { devices, correlation } => {
            let result = |device: u64| {
                let of = seed * 100 + device + 1;
                let other = similar(&landscape, kind, correlation, of);
                surveyed(&Adaptive::default(), &other, &settings(budget, short, of))
                    .expect("a search")
            };
            Adaptive::with_prior(Some(SearchPrior::new((0..devices).map(result).collect())))
        }
        Known::Twin { correlation } => {
            let of = seed * 100 + 1;
            let twin = similar(&landscape, kind, correlation, of);
            let results = surveyed(&Adaptive::default(), &twin, &settings(budget, short, of));
            let known = SearchPrior::new(vec![results.expect("a search")]);
            Adaptive::with_prior(Some(known.of_twin()))
        }
    };
    search(&strategy, &landscape, &settings(budget, short, seed))
}

fn search(strategy: &Adaptive, landscape: &Landscape, settings: &SearchSettings) -> Played {
    let space = &landscape.space;
    let mut history: Vec<Observation> = Vec::new();
    let mut near_since: Option<f64> = None;
    loop {
        let step = next_step(strategy, space, &history, settings).expect("a search");
        let choice = strategy.choice(space, &history, settings);
        let regret = choice.map_or(1.0, |choice| landscape.regret(choice));
        let now = spent(&history, settings);
        near_since = if regret <= NEAR { near_since.or(Some(now)) } else { None };
        match step {
            NextStep::Done(end) => {
                let is_sure = matches!(end, SearchEnd::Confident { .. });
                return Played { trials: near_since, regret, is_sure };
            }
            NextStep::Try(proposals) => {
                for proposal in proposals {
                    let visit = history.len() as u64;
                    let outcome = landscape.measure(&proposal, visit);
                    history.push(Observation { proposal, visit, start: 0, outcome });
                }
            }
        }
    }
}

#[expect(clippy::print_stdout, reason = "the document is this program's output")]
fn print_rows(kind: LandscapeKind, budget: f64, known: &[Known], rows: &[Vec<Played>]) {
    println!("\n### {}, budget {budget}\n", kind.name());
    println!(
        "| known | trials, median / 90 % | ratio | within 2 % | regret %, 90 % | sure and right |"
    );
    println!("|---|---|---|---|---|---|");
    let quantile = |row: &[Played], share: f64| {
        let mut trials: Vec<f64> =
            row.iter().map(|one| one.trials.unwrap_or(f64::INFINITY)).collect();
        trials.sort_by(f64::total_cmp);
        match trials[((trials.len() - 1) as f64 * share).round() as usize] {
            many if many.is_infinite() => "-".to_owned(),
            trials => format!("{trials:.0}"),
        }
    };
    for (known, row) in known.iter().zip(rows) {
        let mut regrets: Vec<f64> = row.iter().map(|one| 100.0 * one.regret).collect();
        regrets.sort_by(f64::total_cmp);
        let sure: Vec<&Played> = row.iter().filter(|one| one.is_sure).collect();
        let right = sure.iter().filter(|one| one.regret <= NEAR).count();
        println!(
            "| {} | {} / {} | {} | {} of {} | {:.1} | {right} of {} |",
            match known {
                Known::Nothing => "nothing".to_owned(),
                Known::Similar { devices, correlation } =>
                    format!("{devices} with correlation {correlation}"),
                Known::Twin { correlation } => format!("a twin with correlation {correlation}"),
            },
            quantile(row, 0.5),
            quantile(row, 0.9),
            ratio(&rows[0], row, budget),
            row.iter().filter(|one| one.trials.is_some()).count(),
            row.len(),
            regrets[((regrets.len() - 1) as f64 * 0.9).round() as usize],
            sure.len(),
        );
    }
}

/// The ratio of the geometric mean of trials, paired by seed, with a 95 % interval; a search that
/// did not get there counts with its budget.
fn ratio(before: &[Played], after: &[Played], budget: f64) -> String {
    let log = |played: &Played| played.trials.unwrap_or(budget).max(1.0).ln();
    let logs: Vec<f64> = before.iter().zip(after).map(|(b, a)| log(a) - log(b)).collect();
    let count = logs.len() as f64;
    let mean = logs.iter().sum::<f64>() / count;
    let variance =
        logs.iter().map(|one| (one - mean).powi(2)).sum::<f64>() / (count - 1.0).max(1.0);
    let half = 2.0 * (variance / count).sqrt();
    format!("{:.2} ({:.2} to {:.2})", mean.exp(), (mean - half).exp(), (mean + half).exp())
}
