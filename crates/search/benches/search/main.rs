//! Measures the quality of the search strategies and writes `docs/search.md` (`make
//! search-benchmark`).
//!
//! All figures come from landscapes with seeds that were not used in development (100 to 199, 200
//! to 399, and 9000 and up), except that the wrong searches of the first 50 of the table `trap`
//! were examined. `--seeds N` sets the number of seeds, `--from N` the first of them, `--threads N`
//! the number of concurrent searches, `--only NAME` the kind of landscape or space (`table, trap`
//! is the table; computing times are left out then), `--strategy NAME` the strategy. With
//! `--timed`, adaptive searches begin like those whose budget is a time, and with short trials. The
//! benchmark has no pass or fail; the document reports the results.

mod campaign;
mod document;
mod gaussian_process;

use campaign::{Case, StrategyKind, Subject, run_all};
use flashfit_search::landscape::{LandscapeKind, SMALL_SPACES, TableKind};

/// Number of seeds, from 0.
const SEEDS: u64 = 50;
/// Number of concurrent searches.
const THREADS: usize = 2;

fn main() {
    let count = number("--seeds").unwrap_or(SEEDS);
    let threads = number("--threads").map_or(THREADS, |threads| threads.clamp(1, 64) as usize);
    let from = number("--from").unwrap_or(0);
    let seeds: Vec<u64> = (from..from.saturating_add(count)).collect();
    let (only, strategy) = (following("--only"), following("--strategy"));
    let wanted = |case: &Case| {
        only.as_ref().is_none_or(|only| case.subject.label().contains(only))
            && strategy.as_ref().is_none_or(|strategy| case.strategy.name() == strategy)
    };
    let mut cases: Vec<Case> = cases().into_iter().filter(wanted).collect();
    if std::env::args().any(|argument| argument == "--timed") {
        for case in cases.iter_mut().filter(|case| case.strategy == StrategyKind::Adaptive) {
            (case.short, case.timed) = (true, true);
        }
    }
    let results = run_all(&cases, &seeds, threads);
    let step_times = only.is_none().then(campaign::step_times);
    document::write(&cases, &results, step_times, (seeds.len(), threads));
}

/// The number that follows an argument.
fn number(name: &str) -> Option<u64> {
    following(name)?.parse().ok()
}

fn following(name: &str) -> Option<String> {
    std::env::args().skip_while(|argument| argument != name).nth(1)
}

/// The cases in the order of the document.
fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for kind in [
        LandscapeKind::Smooth,
        LandscapeKind::SmoothGauss,
        LandscapeKind::Rugged,
        LandscapeKind::RuggedGauss,
    ] {
        let rugged = matches!(kind, LandscapeKind::Rugged | LandscapeKind::RuggedGauss);
        let last = if rugged { 1300.0 } else { 1000.0 };
        for trials in [320.0, 480.0, 800.0, last] {
            cases.push(Case {
                subject: Subject::Kind(kind),
                strategy: StrategyKind::Adaptive,
                trials: Some(trials),
                short: true,
                timed: false,
            });
        }
        cases.push(Case {
            subject: Subject::Kind(kind),
            strategy: StrategyKind::Random,
            trials: Some(last),
            short: false,
            timed: false,
        });
        cases.push(Case {
            subject: Subject::Kind(kind),
            strategy: StrategyKind::Greedy,
            trials: None,
            short: false,
            timed: false,
        });
        cases.push(Case {
            subject: Subject::Kind(kind),
            strategy: StrategyKind::Exhaustive,
            trials: None,
            short: false,
            timed: false,
        });
    }
    for (kind, budgets) in [
        (LandscapeKind::Trap, &[800.0][..]),
        (LandscapeKind::Drift, &[800.0]),
        (LandscapeKind::Failing, &[800.0]),
        (LandscapeKind::OneEffect, &[320.0]),
        (LandscapeKind::Flat, &[100.0, 320.0]),
        (LandscapeKind::Small, &[60.0, 100.0, 150.0, 250.0]),
        (LandscapeKind::Grid, &[60.0, 110.0, 180.0, 360.0]),
        (LandscapeKind::Tiny, &[20.0, 40.0]),
        (LandscapeKind::TinyFlat, &[20.0, 60.0, 200.0]),
    ] {
        let short = !matches!(
            kind,
            LandscapeKind::Small
                | LandscapeKind::Grid
                | LandscapeKind::Tiny
                | LandscapeKind::TinyFlat
        );
        for &trials in budgets {
            cases.push(Case {
                subject: Subject::Kind(kind),
                strategy: StrategyKind::Adaptive,
                trials: Some(trials),
                short,
                timed: false,
            });
        }
        if !matches!(kind, LandscapeKind::Flat | LandscapeKind::TinyFlat) {
            cases.push(Case {
                subject: Subject::Kind(kind),
                strategy: StrategyKind::Greedy,
                trials: None,
                short: false,
                timed: false,
            });
        }
    }
    let mut add = |subject: Subject, strategy: StrategyKind, trials: f64| {
        cases.push(Case { subject, strategy, trials: Some(trials), short: false, timed: false });
    };
    for gain_percent in [3, 5, 8] {
        for workloads in [1, 2, 8] {
            let trials = if workloads == 8 { 200.0 } else { 100.0 };
            let subject = Subject::Pair { gain_percent, workloads };
            add(subject, StrategyKind::Adaptive, trials);
        }
    }
    for setups in SMALL_SPACES {
        for workloads in [1, 2, 8] {
            let trials = if workloads == 8 { 300.0 } else { 150.0 };
            add(Subject::Space { setups, workloads }, StrategyKind::Adaptive, trials);
        }
    }
    add(Subject::OneNoisyWorkload, StrategyKind::Adaptive, 200.0);
    for kind in TableKind::ALL {
        for trials in [60.0, 100.0] {
            add(Subject::Table(kind), StrategyKind::Adaptive, trials);
            add(Subject::Table(kind), StrategyKind::GaussianProcess, trials);
        }
    }
    cases
}
