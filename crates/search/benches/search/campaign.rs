//! Runs many searches concurrently, each from scratch, and measures the computing time of the
//! adaptive search.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use flashfit_search::landscape::{
    Landscape, LandscapeKind, TableKind, one_noisy_workload, pair, run, run_timed, small_space,
};
use flashfit_search::{
    Adaptive, Exhaustive, Greedy, NextStep, Observation, RandomSearch, SearchEnd, SearchSettings,
    ShortRun, Strategy, answer, next_step, spent,
};

use crate::gaussian_process;

#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Subject {
    Kind(LandscapeKind),
    /// Two setups with this gain in percent.
    Pair {
        gain_percent: u32,
        workloads: usize,
    },
    Space {
        setups: usize,
        workloads: usize,
    },
    OneNoisyWorkload,
    Table(TableKind),
}

impl Subject {
    pub fn name(self) -> String {
        match self {
            Self::Kind(kind) => kind.name().to_owned(),
            Self::Pair { gain_percent, workloads } => {
                format!("2 setups, {gain_percent} %, {workloads} workloads")
            }
            Self::Space { setups, workloads } => format!("{setups} setups, {workloads} workloads"),
            Self::OneNoisyWorkload => "48 setups, 6 workloads, one noisy".to_owned(),
            Self::Table(kind) => kind.name().to_owned(),
        }
    }

    /// The name, which says whether it is a table: there are two of `trap`.
    pub fn label(self) -> String {
        let table = if matches!(self, Self::Table(_)) { "table, " } else { "" };
        format!("{table}{}", self.name())
    }

    fn make(self, seed: u64) -> Landscape {
        match self {
            Self::Kind(kind) => kind.make(seed),
            Self::Pair { gain_percent, workloads } => {
                pair(f64::from(gain_percent) / 100.0, workloads, seed)
            }
            Self::Space { setups, workloads } => small_space(setups, workloads, seed),
            Self::OneNoisyWorkload => one_noisy_workload(seed),
            Self::Table(kind) => kind.make(seed),
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StrategyKind {
    Adaptive,
    Greedy,
    Random,
    Exhaustive,
    /// A plain Gaussian process, for comparison.
    GaussianProcess,
}

impl StrategyKind {
    pub fn name(self) -> &'static str {
        match self {
            Self::Adaptive => "adaptive",
            Self::Greedy => "greedy",
            Self::Random => "random",
            Self::Exhaustive => "exhaustive",
            Self::GaussianProcess => "Gaussian process",
        }
    }

    /// `None` for a method that is not part of flashfit.
    fn strategy(self) -> Option<Box<dyn Strategy>> {
        Some(match self {
            Self::Adaptive => Box::new(Adaptive::default()),
            Self::Greedy => Box::new(Greedy),
            Self::Random => Box::new(RandomSearch),
            Self::Exhaustive => Box::new(Exhaustive),
            Self::GaussianProcess => return None,
        })
    }
}

/// What is run once per seed.
#[derive(Debug, Clone, Copy)]
pub struct Case {
    pub subject: Subject,
    pub strategy: StrategyKind,
    pub trials: Option<f64>,
    pub short: bool,
    /// Whether the budget is a time, so that the first batch has to show what a trial costs.
    pub timed: bool,
}

#[derive(Debug, Clone, Copy)]
pub struct SearchResult {
    /// Shortfall of the recommended setup from the best, 0 to 1: the baseline unless a gain over it
    /// was shown or is likely. For strategies that do not confirm gains, of the choice.
    pub regret: f64,
    /// Shortfall of the choice, the best setup according to the search.
    pub regret_of_choice: f64,
    /// In full-length trials.
    pub spent: f64,
    /// Whether it stopped because it was confident.
    pub confident: bool,
    /// Whether it claims a gain over the baseline.
    pub claims: bool,
    /// The true gain, as a logarithm, of a setup that it recommends because its gain is likely.
    pub likely: Option<f64>,
    /// Whether the interval of the gain contains the true gain, if there is an interval.
    pub covered: Option<bool>,
}

/// Runs every case with every seed on this many threads.
pub fn run_all(cases: &[Case], seeds: &[u64], threads: usize) -> Vec<Vec<SearchResult>> {
    let all: Vec<(usize, u64)> =
        seeds.iter().flat_map(|seed| (0..cases.len()).map(move |case| (case, *seed))).collect();
    let next = AtomicUsize::new(0);
    let results = Mutex::new(vec![Vec::new(); cases.len()]);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                while let Some((case, seed)) = all.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let one = run_one(&cases[*case], *seed);
                    results.lock().expect("no thread panicked")[*case].push(one);
                }
            });
        }
    });
    results.into_inner().expect("no thread panicked")
}

fn settings(case: &Case, seed: u64) -> SearchSettings {
    let short = case.short.then_some(ShortRun { cost: 0.4 });
    SearchSettings { trials: case.trials, short, seed, ..SearchSettings::default() }
}

fn run_one(case: &Case, seed: u64) -> SearchResult {
    let landscape = case.subject.make(seed);
    let settings = settings(case, seed);
    let Some(strategy) = case.strategy.strategy() else {
        let trials = case.trials.expect("it has a budget");
        let regret = landscape.regret(gaussian_process::best(&landscape, trials as usize, seed));
        return SearchResult {
            regret,
            regret_of_choice: regret,
            spent: trials,
            confident: false,
            claims: false,
            likely: None,
            covered: None,
        };
    };
    let run = if case.timed { run_timed } else { run };
    let trace = run(strategy.as_ref(), &landscape, &settings).expect("a search");
    let choice = trace.choice.expect("something was measured");
    let space = &landscape.space;
    let (mut claims, mut likely, mut covered, mut recommended) = (false, None, None, choice);
    if case.strategy == StrategyKind::Adaptive {
        let answer = answer(space, &trace.history, &settings, choice, &[]);
        claims = answer.gain.is_some_and(|gain| gain.is_significant());
        // As `tune` recommends: the baseline, unless a gain over it is shown or likely.
        let is_better = !answer.shows_no_gain(space) || answer.likely_gain.is_some();
        recommended = if is_better { answer.recommended } else { space.baseline };
        let truth = landscape.merit(answer.recommended) - landscape.merit(space.baseline);
        let interval = answer.gain.and_then(|gain| gain.interval);
        covered = interval.map(|(low, high)| low <= truth && truth <= high);
        likely = answer.likely_gain.map(|_| truth);
    }
    SearchResult {
        regret: landscape.regret(recommended),
        regret_of_choice: landscape.regret(choice),
        spent: spent(&trace.history, &settings),
        confident: matches!(trace.stop, SearchEnd::Confident { .. }),
        claims,
        likely,
        covered,
    }
}

/// Computing time of the adaptive search on the largest landscape.
#[derive(Debug, Clone, Copy)]
pub struct StepTimes {
    /// Trials at the end.
    pub trials: usize,
    /// The median and the longest time of one step, in milliseconds.
    pub median_ms: u128,
    pub longest_ms: u128,
    /// Peak memory of this process in KiB; `None` if the system does not report it.
    pub memory_kib: Option<u64>,
}

/// Measures a search that never becomes confident, up to about two thousand trials.
pub fn step_times() -> StepTimes {
    let case = Case {
        subject: Subject::Kind(LandscapeKind::Rugged),
        strategy: StrategyKind::Adaptive,
        trials: Some(1500.0),
        short: true,
        timed: false,
    };
    let landscape = case.subject.make(0);
    let mut settings = settings(&case, 0);
    settings.goal.probability = 0.999;
    let strategy = Adaptive::default();
    let mut history: Vec<Observation> = Vec::new();
    let mut times = Vec::new();
    loop {
        let start = Instant::now();
        let step = next_step(&strategy, &landscape.space, &history, &settings);
        times.push(start.elapsed().as_millis());
        let Ok(NextStep::Try(proposals)) = step else { break };
        for proposal in proposals {
            let visit = history.len() as u64;
            history.push(Observation {
                proposal,
                visit,
                start: 0,
                outcome: landscape.measure(&proposal, visit),
            });
        }
    }
    times.sort_unstable();
    StepTimes {
        trials: history.len(),
        median_ms: times[times.len() / 2],
        longest_ms: times[times.len() - 1],
        memory_kib: memory_kib(),
    }
}

fn memory_kib() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find(|line| line.starts_with("VmHWM:"))?;
    line.split_whitespace().nth(1)?.parse().ok()
}
