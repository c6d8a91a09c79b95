//! Many searches, on two threads, each from scratch; and how long the adaptive one thinks.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use flashfit_search::landscape::{LandscapeKind, run};
use flashfit_search::{
    Adaptive, ConfirmingTrials, Exhaustive, Greedy, Limits, NextStep, Observation, RandomSearch,
    SearchEnd, ShortRun, Strategy, next_step, spent,
};

/// A strategy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Who {
    Adaptive,
    Greedy,
    Random,
    Exhaustive,
}

impl Who {
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

/// What is played once a seed.
#[derive(Debug, Clone, Copy)]
pub struct Case {
    pub kind: LandscapeKind,
    pub who: Who,
    pub trials: Option<f64>,
    pub short: bool,
}

/// What came of one search.
#[derive(Debug, Clone, Copy)]
pub struct Played {
    /// How far below the best the choice is, 0 to 1.
    pub regret: f64,
    /// Full-length trials' worth.
    pub spent: f64,
    /// Whether it stopped because it was sure enough.
    pub sure: bool,
    /// Whether it claims a gain over the baseline.
    pub claims: bool,
    /// Whether the interval of the gain has the true gain in it, where there is one.
    pub covered: Option<bool>,
}

/// Every case with every seed, so many at a time.
pub fn play(cases: &[Case], seeds: &[u64], threads: usize) -> Vec<Vec<Played>> {
    let all: Vec<(usize, u64)> =
        seeds.iter().flat_map(|seed| (0..cases.len()).map(move |case| (case, *seed))).collect();
    let next = AtomicUsize::new(0);
    let played = Mutex::new(vec![Vec::new(); cases.len()]);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                while let Some((case, seed)) = all.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let one = play_one(&cases[*case], *seed);
                    played.lock().expect("no thread panicked")[*case].push(one);
                }
            });
        }
    });
    played.into_inner().expect("no thread panicked")
}

fn limits(case: &Case, seed: u64) -> Limits {
    let short = case.short.then_some(ShortRun { cost: 0.4 });
    Limits { trials: case.trials, short, seed, ..Limits::default() }
}

fn play_one(case: &Case, seed: u64) -> Played {
    let landscape = case.kind.make(seed);
    let limits = limits(case, seed);
    let trace = run(case.who.strategy().as_ref(), &landscape, &limits).expect("a search");
    let choice = trace.choice.expect("something was measured");
    let reference = landscape.space.reference;
    let gain = ConfirmingTrials::of(&landscape.space, &trace.history).gain(choice, reference);
    let gain = gain.filter(|_| choice != reference);
    let truth = landscape.merit(choice) - landscape.merit(reference);
    Played {
        regret: landscape.regret(choice),
        spent: spent(&trace.history, &limits),
        sure: matches!(trace.stop, SearchEnd::SureEnough { .. }),
        claims: gain.is_some_and(|gain| gain.is_sure()),
        covered: gain
            .and_then(|gain| gain.interval)
            .map(|(low, high)| low <= truth && truth <= high),
    }
}

/// How long the adaptive search thinks on the largest landscape.
#[derive(Debug, Clone, Copy)]
pub struct Thinking {
    /// Trials told at the end.
    pub trials: usize,
    /// The median and the longest time of one step, in milliseconds.
    pub median_ms: u128,
    pub longest_ms: u128,
    /// The most memory this process had, in KiB; `None` where the system does not say.
    pub memory_kib: Option<u64>,
}

/// A search that is never sure, to two thousand trials.
pub fn thinking() -> Thinking {
    let case =
        Case { kind: LandscapeKind::Rugged, who: Who::Adaptive, trials: Some(1500.0), short: true };
    let landscape = case.kind.make(0);
    let mut limits = limits(&case, 0);
    limits.goal.probability = 0.999;
    let strategy = case.who.strategy();
    let mut history: Vec<Observation> = Vec::new();
    let mut times = Vec::new();
    loop {
        let start = Instant::now();
        let step = next_step(strategy.as_ref(), &landscape.space, &history, &limits);
        times.push(start.elapsed().as_millis());
        let Ok(NextStep::Try(asks)) = step else { break };
        for ask in asks {
            let visit = history.len() as u64;
            history.push(Observation { ask, visit, outcome: landscape.measure(&ask, visit) });
        }
    }
    times.sort_unstable();
    Thinking {
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
