//! Runs many searches concurrently, each from scratch, and measures the computing time of the
//! adaptive search.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use flashfit_search::landscape::{LandscapeKind, run};
use flashfit_search::{
    Adaptive, ConfirmingTrials, Exhaustive, Greedy, NextStep, Observation, RandomSearch, SearchEnd,
    SearchSettings, ShortRun, Strategy, next_step, spent,
};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StrategyKind {
    Adaptive,
    Greedy,
    Random,
    Exhaustive,
}

impl StrategyKind {
    pub fn name(self) -> &'static str {
        match self {
            Self::Adaptive => "adaptive",
            Self::Greedy => "greedy",
            Self::Random => "random",
            Self::Exhaustive => "exhaustive",
        }
    }

    fn strategy(self) -> Box<dyn Strategy> {
        match self {
            Self::Adaptive => Box::new(Adaptive::default()),
            Self::Greedy => Box::new(Greedy),
            Self::Random => Box::new(RandomSearch),
            Self::Exhaustive => Box::new(Exhaustive),
        }
    }
}

/// What is run once per seed.
#[derive(Debug, Clone, Copy)]
pub struct Case {
    pub kind: LandscapeKind,
    pub strategy: StrategyKind,
    pub trials: Option<f64>,
    pub short: bool,
}

#[derive(Debug, Clone, Copy)]
pub struct SearchResult {
    /// Shortfall of the choice from the best, 0 to 1.
    pub regret: f64,
    /// In full-length trials.
    pub spent: f64,
    /// Whether it stopped because it was confident.
    pub confident: bool,
    /// Whether it claims a gain over the baseline.
    pub claims: bool,
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
    let landscape = case.kind.make(seed);
    let settings = settings(case, seed);
    let trace = run(case.strategy.strategy().as_ref(), &landscape, &settings).expect("a search");
    let choice = trace.choice.expect("something was measured");
    let baseline = landscape.space.baseline;
    let gain = ConfirmingTrials::of(&landscape.space, &trace.history).gain(choice, baseline);
    let gain = gain.filter(|_| choice != baseline);
    let truth = landscape.merit(choice) - landscape.merit(baseline);
    SearchResult {
        regret: landscape.regret(choice),
        spent: spent(&trace.history, &settings),
        confident: matches!(trace.stop, SearchEnd::Confident { .. }),
        claims: gain.is_some_and(|gain| gain.is_significant()),
        covered: gain
            .and_then(|gain| gain.interval)
            .map(|(low, high)| low <= truth && truth <= high),
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
        kind: LandscapeKind::Rugged,
        strategy: StrategyKind::Adaptive,
        trials: Some(1500.0),
        short: true,
    };
    let landscape = case.kind.make(0);
    let mut settings = settings(&case, 0);
    settings.goal.probability = 0.999;
    let strategy = case.strategy.strategy();
    let mut history: Vec<Observation> = Vec::new();
    let mut times = Vec::new();
    loop {
        let start = Instant::now();
        let step = next_step(strategy.as_ref(), &landscape.space, &history, &settings);
        times.push(start.elapsed().as_millis());
        let Ok(NextStep::Try(proposals)) = step else { break };
        for proposal in proposals {
            let visit = history.len() as u64;
            history.push(Observation {
                proposal,
                visit,
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
