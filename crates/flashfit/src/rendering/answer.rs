//! What a search says beside its choice, as JSON: ties, effects, interactions, the front, and what
//! is out. Changes are in hundredths of a percent.

use flashfit_filesystem::Setup;
use flashfit_tune::Conclusion;
use flashfit_tune::recommend::percent;
use flashfit_tune::stats::Estimate;
use serde::Serialize;

/// All of it; empty before anything that may be chosen was measured.
#[derive(Debug, Default, Serialize)]
pub struct AnswerParts {
    /// The chance that the choice is within the asked distance of the best, 0 to 1.
    within_probability: Option<f64>,
    runner_up: Option<RunnerUp>,
    /// Setups that is tied with the choice, it among them.
    ties: Vec<Tied>,
    /// What each option does, averaged over the others.
    effects: Vec<Effect>,
    /// What two choices do together beyond what each does, where that is sure.
    interactions: Vec<Interaction>,
    /// Setups that no other beats in throughput, latency, wear and safety at once.
    front: Vec<Profiled>,
    /// Setups that break the demand beyond noise.
    beyond_demand: Vec<Setup>,
    /// The change of the baseline over 100 trials, where that can be told.
    drift: Option<Change>,
}

/// A change with its 95 % interval.
#[derive(Debug, Serialize)]
pub struct Change {
    percent_hundredths: i64,
    low_percent_hundredths: Option<i64>,
    high_percent_hundredths: Option<i64>,
    /// Rounds or trials that it is made of; `None` for what the search believes by all trials.
    count: Option<usize>,
}

#[derive(Debug, Serialize)]
struct RunnerUp {
    setup: Setup,
    /// What the choice gains over it, from confirming trials alone.
    gain: Change,
}

#[derive(Debug, Serialize)]
struct Tied {
    setup: Setup,
    difference_percent_hundredths: i64,
    within_probability: f64,
    measured: bool,
}

#[derive(Debug, Serialize)]
struct Effect {
    factor: String,
    level: String,
    change: Change,
}

#[derive(Debug, Serialize)]
struct Interaction {
    factors: [String; 2],
    levels: [String; 2],
    change: Change,
}

#[derive(Debug, Serialize)]
struct Profiled {
    setup: Setup,
    throughput_percent_hundredths: i64,
    latency_percent_hundredths: Option<i64>,
    wear_percent_hundredths: Option<i64>,
    durability: String,
    trials: usize,
}

impl From<&Estimate> for Change {
    fn from(estimate: &Estimate) -> Self {
        Self::of(estimate.middle, estimate.interval, Some(estimate.count))
    }
}

impl Change {
    fn of(middle: f64, interval: Option<(f64, f64)>, count: Option<usize>) -> Self {
        Self {
            percent_hundredths: hundredths(middle),
            low_percent_hundredths: interval.map(|(low, _)| hundredths(low)),
            high_percent_hundredths: interval.map(|(_, high)| hundredths(high)),
            count,
        }
    }
}

impl AnswerParts {
    /// Of a search.
    pub fn of(conclusion: &Conclusion) -> Self {
        let problem = &conclusion.problem;
        let setup = |candidate: usize| problem.setups[candidate].clone();
        let factor = |factor: usize| problem.space.factors[factor].name.clone();
        let level = |factor: usize, level: u16| {
            problem.space.factors[factor]
                .levels
                .get(usize::from(level))
                .cloned()
                .unwrap_or_default()
        };
        let front = conclusion.profiles.iter().filter(|profile| profile.on_front);
        let parts = Self {
            front: front
                .map(|profile| Profiled {
                    setup: profile.setup.clone(),
                    throughput_percent_hundredths: hundredths(profile.throughput),
                    latency_percent_hundredths: profile.latency.map(hundredths),
                    wear_percent_hundredths: profile.wear.map(hundredths),
                    durability: super::findings::safety(profile.safety).to_owned(),
                    trials: profile.trials,
                })
                .collect(),
            beyond_demand: conclusion.broken.keys().map(|candidate| setup(*candidate)).collect(),
            drift: conclusion.drift.as_ref().map(Change::from),
            ..Self::default()
        };
        let Some(answer) = &conclusion.answer else { return parts };
        let found = conclusion.recommendation.as_ref();
        Self {
            within_probability: Some(answer.within),
            runner_up: found
                .and_then(|found| found.runner_up.as_ref())
                .map(|(setup, gain)| RunnerUp { setup: setup.clone(), gain: Change::from(gain) }),
            ties: answer
                .ties
                .iter()
                .map(|tie| Tied {
                    setup: setup(tie.candidate),
                    difference_percent_hundredths: hundredths(tie.difference),
                    within_probability: tie.within,
                    measured: tie.measured,
                })
                .collect(),
            effects: answer
                .effects
                .iter()
                .map(|effect| Effect {
                    factor: factor(effect.factor),
                    level: level(effect.factor, effect.level),
                    change: Change::of(effect.mean, Some(effect.interval), None),
                })
                .collect(),
            interactions: answer
                .interactions
                .iter()
                .map(|found| {
                    let ((one, other), (first, second)) = (found.factors, found.levels);
                    Interaction {
                        factors: [factor(one), factor(other)],
                        levels: [level(one, first), level(other, second)],
                        change: Change::of(found.mean, Some(found.interval), None),
                    }
                })
                .collect(),
            ..parts
        }
    }
}

/// A logarithm of a ratio in hundredths of a percent.
pub fn hundredths(log: f64) -> i64 {
    rounded(percent(log) * 100.0)
}

/// To the nearest whole number.
pub fn rounded(value: f64) -> i64 {
    value.round() as i64
}
