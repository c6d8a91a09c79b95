//! Measures the search on recorded grids and prints the second half of `docs/search.md`
//! (`make search-benchmark`).
//!
//! A grid is a set of runs that recorded every setup of a small space under every workload several
//! times. Strategies sample their trials from it, and their choice is compared with the recorded
//! merits of all setups. `--seeds N` sets the number of seeds; paths are the runs (folders) of one
//! grid to use instead of `examples/grids/*.tar.gz`, which `tar` unpacks. The benchmark has no pass
//! or fail.
//!
//! Limits: with few repeats the recorded merits are noisy, and the best of many is overestimated;
//! the noise is reported. Trials are sampled from the same data as the reference merits.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use flashfit_filesystem::{Durability, FileSystemCatalog, Setup};
use flashfit_search::{SearchEnd, TrialOutcome};
use flashfit_tune::replay::{Recording, ReplayRequest, Replayed, replay};
use flashfit_tune::{
    Budget, Conclusion, DriverRules, RunEnd, StrategyKind, TrialPurpose, TrialRecord, Weight,
};

/// Number of seeds, from 0.
const SEEDS: u64 = 50;
/// The budgets of the adaptive search and of random setups, as shares of the trials of greedy with
/// one a setup and workload.
const SHARES: [(&str, f64); 5] =
    [("a tenth", 0.1), ("a fifth", FIFTH), ("a third", 1.0 / 3.0), ("half", 0.5), ("all", 1.0)];
const FIFTH: f64 = 0.2;
/// The defaults of `--repeats` and `--confirm-rounds`.
const DEFAULT_REPEATS: u32 = 3;
const DEFAULT_CONFIRM_ROUNDS: u32 = 5;
/// The accepted distance from the best: 2 %.
const NEAR: f64 = 0.02;

const HEAD: &str = "
## Recorded grids

Every setup of a small space was recorded under every workload, on simulated cards with the real
kernel (`make grids`). Strategies draw their trials from the record. The true value of a setup is
the mean over the workloads of the mean logarithm of its recorded trials, as for replays
(docs/tuning.md). There are two greedy strategies: that of the methodology (each setup once under
each workload, no confirmation), and `--strategy greedy` with its defaults (three trials each; the
choice, the runner-up and the baseline five times more). The budgets of the adaptive search are
shares of the median number of trials of these two. The drawn trials are part of the true value,
so trusting noise is punished less than on a device, and random setups score better. The first
table of each grid shows the recommended setup and the choice after some time in trials, with the
times that the trials took when they were recorded: what `--budget` buys on this simulated card. Of
`adaptive`, the second table shows the recommended setup, and of the others the choice.";

/// A grid that was recorded.
struct Grid {
    name: String,
    /// The folders of its runs.
    runs: Vec<PathBuf>,
}

/// The result of a replay.
struct Played {
    /// In full-length trials.
    trials: f64,
    /// Distance of the recommended setup from the best, 0 to 1; of the choice if the strategy is
    /// not `adaptive`.
    regret: f64,
    /// Of the choice.
    regret_of_choice: f64,
    /// Whether it stopped because it was confident.
    sure: bool,
}

#[expect(clippy::print_stdout, reason = "the document is this program's output")]
fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let mut given: Vec<PathBuf> = Vec::new();
    let mut seeds = SEEDS;
    let mut rest = arguments.iter();
    while let Some(argument) = rest.next() {
        match argument.as_str() {
            "--seeds" => {
                let number = rest.next().and_then(|number| number.parse().ok());
                seeds = number.expect("--seeds takes a number");
            }
            flag if flag.starts_with('-') => {}
            path => given.push(PathBuf::from(path)),
        }
    }
    println!("{HEAD}");
    let unpacked = tempfile::tempdir().expect("a folder to unpack into");
    let grids = match given.first() {
        None => unpack(unpacked.path()),
        Some(first) => {
            let name =
                first.file_name().map_or_else(String::new, |name| name.to_string_lossy().into());
            vec![Grid { name, runs: given }]
        }
    };
    if grids.is_empty() {
        println!("\nNo grid is recorded yet.");
    }
    let catalog = FileSystemCatalog::load(None).expect("the built-in catalog");
    for grid in grids {
        match Recording::read(&grid.runs) {
            Ok(recording) => one_grid(&grid.name, &recording, &catalog, seeds),
            Err(error) => println!("\n{} cannot be read: {error}", grid.name),
        }
    }
}

/// Unpacks the grids of the repository.
fn unpack(into: &Path) -> Vec<Grid> {
    let stored = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/grids");
    let archives: Vec<PathBuf> = listed(&stored)
        .into_iter()
        .filter(|path| path.to_string_lossy().ends_with(".tar.gz"))
        // These are runs of several devices, for searches that begin with what is known of them.
        .filter(|path| path.file_name().is_some_and(|name| name != "similar.tar.gz"))
        .collect();
    let unpacked = archives.iter().map(|archive| {
        let name = archive.file_name().map(|name| name.to_string_lossy().into_owned());
        let name = name.unwrap_or_default().trim_end_matches(".tar.gz").to_owned();
        let folder = into.join(&name);
        std::fs::create_dir(&folder).expect("no two grids have one name");
        let status = Command::new("tar").arg("-xzf").arg(archive).arg("-C").arg(&folder).status();
        assert!(status.is_ok_and(|status| status.success()), "{} unpacks", archive.display());
        Grid { name, runs: listed(&folder) }
    });
    unpacked.collect()
}

/// The entries of a folder, sorted by name.
fn listed(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).expect("a folder that can be listed");
    let mut paths: Vec<PathBuf> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
    paths.sort();
    paths
}

/// What is recommended, and the choice, after 10, 30 and 120 minutes of recorded trial time.
#[expect(clippy::print_stdout, reason = "the document is this program's output")]
fn by_time(play: &dyn Fn(DriverRules) -> Played, seeds: u64) {
    println!(
        "| time in trials | trials, median | recommended below the best, %, median / 90 % | choice, the same | within 2 % | confident |"
    );
    println!("|---|---|---|---|---|---|");
    for minutes in [10u64, 30, 120] {
        let results: Vec<Played> = (0..seeds)
            .map(|seed| {
                let mut rules = rules(StrategyKind::Adaptive, None, seed);
                rules.limits.budget_ns = Some(minutes * 60_000_000_000);
                play(rules)
            })
            .collect();
        let regrets = |of: fn(&Played) -> f64| -> String {
            let percent: Vec<f64> = results.iter().map(|one| 100.0 * of(one)).collect();
            format!("{:.1} / {:.1}", quantile(percent.clone(), 0.5), quantile(percent, 0.9))
        };
        println!(
            "| {minutes} min | {:.0} | {} | {} | {} of {} | {} |",
            quantile(results.iter().map(|one| one.trials).collect(), 0.5),
            regrets(|one| one.regret),
            regrets(|one| one.regret_of_choice),
            results.iter().filter(|one| one.regret <= NEAR).count(),
            results.len(),
            results.iter().filter(|one| one.sure).count()
        );
    }
    println!();
}

#[expect(clippy::print_stdout, reason = "the document is this program's output")]
fn one_grid(name: &str, recording: &Recording, catalog: &FileSystemCatalog, seeds: u64) {
    let first = play(recording, catalog, rules(StrategyKind::Greedy, None, 0));
    println!("\n### {name}\n\n{}\n", described(recording, &first));
    let play = |rules: DriverRules| {
        played(&play(recording, catalog, rules.clone()), &recording.trials, &rules)
    };
    by_time(&play, seeds);
    println!(
        "| strategy | budget | trials, median | regret %, median / 90 % | within 2 % | confident |"
    );
    println!("|---|---|---|---|---|---|");
    let once = |seed: u64| rules(StrategyKind::Greedy, None, seed);
    let confirmed = |seed: u64| DriverRules {
        repeats: DEFAULT_REPEATS,
        confirm_rounds: DEFAULT_CONFIRM_ROUNDS,
        ..once(seed)
    };
    let greedy: Vec<Played> = (0..seeds).map(|seed| play(once(seed))).collect();
    row("greedy, once", "none", &greedy);
    let trials = quantile(greedy.iter().map(|one| one.trials).collect(), 0.5);
    let greedy: Vec<Played> = (0..seeds).map(|seed| play(confirmed(seed))).collect();
    row("greedy, default", "none", &greedy);
    let trials_by_default = quantile(greedy.iter().map(|one| one.trials).collect(), 0.5);
    for (kind, name) in [(StrategyKind::Adaptive, "adaptive"), (StrategyKind::Random, "random")] {
        let of_once = SHARES.map(|(share, of)| (format!("{share} of once"), of * trials));
        let of_default = (String::from("a fifth of default"), FIFTH * trials_by_default);
        for (share, trials) in of_once.into_iter().chain([of_default]) {
            let budget = whole(trials.floor());
            let search = |seed: u64| rules(kind, Some(budget), seed);
            let results: Vec<Played> = (0..seeds).map(|seed| play(search(seed))).collect();
            row(name, &format!("{share}: {budget}"), &results);
        }
    }
}

fn rules(strategy: StrategyKind, trials: Option<u32>, seed: u64) -> DriverRules {
    let limits = Budget { trials, ..Budget::default() };
    DriverRules { strategy, repeats: 1, confirm_rounds: 0, limits, seed, short: true }
}

fn play(recording: &Recording, catalog: &FileSystemCatalog, rules: DriverRules) -> Replayed {
    let weight = |workload: &str| {
        let known = recording.weights_thousandths.get(workload);
        known.map_or(Weight::ONE, |weight| Weight(*weight)).value()
    };
    let question = ReplayRequest {
        rules,
        judge: recording.judge,
        workloads: Vec::new(),
        weight: &weight,
        allow: recording.allow.unwrap_or(Durability::Safe),
        wanted: &|_: &Setup| true,
        life: None,
        prior: None,
    };
    replay(recording, &question, catalog).expect("a grid can be searched")
}

fn played(replayed: &Replayed, trials: &[TrialRecord], rules: &DriverRules) -> Played {
    let regret = |candidate: Option<usize>| {
        let log = candidate.and_then(|candidate| replayed.regret(candidate));
        log.map_or(1.0, |log| 1.0 - (-log).exp())
    };
    let recommended = (rules.strategy == StrategyKind::Adaptive).then(|| {
        let conclusion = Conclusion::of(
            replayed.problem.clone(),
            replayed.history.clone(),
            replayed.costs.clone(),
            rules,
            trials,
            &replayed.copied,
        );
        let found = conclusion.recommendation?;
        replayed.problem.candidate(found.recommended())
    });
    Played {
        trials: replayed.full_length_trials(),
        regret: regret(recommended.unwrap_or(replayed.choice)),
        regret_of_choice: regret(replayed.choice),
        sure: matches!(replayed.ended, RunEnd::Search(SearchEnd::Confident { .. })),
    }
}

/// Describes the recording, its noise and the largest possible gain.
fn described(recording: &Recording, replayed: &Replayed) -> String {
    let known: Vec<f64> = replayed.recorded.iter().flatten().copied().collect();
    let best = known.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let near = known.iter().filter(|merit| **merit >= best + (1.0 - NEAR).ln()).count();
    let setups = replayed.problem.setups.len();
    let workloads = replayed.problem.workloads.len();
    let noise = noise(recording);
    let error = noise.map_or(String::new(), |(noise, repeats)| {
        format!(
            "Repeats of a trial differ by {:.0} % (standard deviation), so the recorded score of a setup is known to {:.1} %: a setup closer than this to the best may be better.\n",
            100.0 * noise,
            100.0 * noise / (repeats * real(workloads)).sqrt()
        )
    });
    let allowed = match recording.allow.unwrap_or(Durability::Safe) {
        Durability::Safe => "safe at a power cut",
        _ => "unsafe ones included",
    };
    format!(
        "{setups} setups ({allowed}), {workloads} workloads, {} trials, the baseline \
         {:.0} % below the best. {error}{near} of {} setups are within 2 % of the recorded best.",
        recording.trials.len(),
        100.0 * (1.0 - (-best).exp()),
        known.len(),
    )
}

/// The standard deviation of repeats in natural logarithm (the root of the workloads' mean
/// variance), and how many repeats there are in the median.
fn noise(recording: &Recording) -> Option<(f64, f64)> {
    let mut cells: BTreeMap<(&str, &Setup), Vec<f64>> = BTreeMap::new();
    for trial in recording.trials.iter().filter(|trial| trial.key.purpose == TrialPurpose::Search) {
        if let TrialOutcome::Measured { log_merit, .. } = recording.judge.outcome(trial) {
            cells.entry((&trial.key.workload, &trial.key.setup)).or_default().push(log_merit);
        }
    }
    let mut by_workload: BTreeMap<&str, (f64, f64)> = BTreeMap::new();
    let mut repeats = Vec::new();
    for ((workload, _), values) in cells.iter().filter(|(_, values)| values.len() > 1) {
        let mean = flashfit_tune::stats::mean(values);
        let (squares, freedom) = by_workload.entry(workload).or_default();
        *squares += values.iter().map(|value| (value - mean).powi(2)).sum::<f64>();
        *freedom += real(values.len() - 1);
        repeats.push(real(values.len()));
    }
    let variances: Vec<f64> = by_workload.into_values().map(|(sum, of)| sum / of).collect();
    let mean = flashfit_tune::stats::mean(&variances);
    (!variances.is_empty()).then(|| (mean.sqrt(), quantile(repeats, 0.5)))
}

#[expect(clippy::print_stdout, reason = "the document is this program's output")]
fn row(strategy: &str, budget: &str, results: &[Played]) {
    let regrets: Vec<f64> = results.iter().map(|one| 100.0 * one.regret).collect();
    let near = results.iter().filter(|one| one.regret <= NEAR).count();
    let sure: Vec<&Played> = results.iter().filter(|one| one.sure).collect();
    let right = sure.iter().filter(|one| one.regret <= NEAR).count();
    println!(
        "| {strategy} | {budget} | {:.0} | {:.1} / {:.1} | {near} of {} | {} |",
        quantile(results.iter().map(|one| one.trials).collect(), 0.5),
        quantile(regrets.clone(), 0.5),
        quantile(regrets, 0.9),
        results.len(),
        if sure.is_empty() { String::new() } else { format!("{}, right {right}", sure.len()) }
    );
}

fn quantile(mut values: Vec<f64>, share: f64) -> f64 {
    values.sort_by(f64::total_cmp);
    let at = (share * real(values.len())).ceil() as usize;
    values[at.clamp(1, values.len()) - 1]
}

fn real(count: usize) -> f64 {
    count as f64
}

fn whole(trials: f64) -> u32 {
    trials.max(1.0) as u32
}
