//! What a search reports besides its choice, as JSON: ties, effects, interactions, the Pareto
//! front, and what is out. Changes are in hundredths of a percent.

use flashfit_filesystem::Setup;
use flashfit_tune::Conclusion;
use flashfit_tune::drift::BaselineCheck;
use flashfit_tune::recommend::percent;
use flashfit_tune::start_effect::{KindEffect, StartEffect};
use flashfit_tune::stats::Estimate;
use schemars::JsonSchema;
use serde::Serialize;

use super::head_to_head::{self, HeadToHeadParts};
use super::life::{LifeParts, YearsPart};
use super::likely::LikelyParts;

/// All of it; empty before anything that may be chosen was measured.
#[derive(Debug, Default, JsonSchema, Serialize)]
pub struct AnswerParts {
    /// The probability that `setup` is within the requested distance of the best, 0 to 1.
    within_probability: Option<f64>,
    /// Why `setup` is recommended although its gain is not shown.
    #[serde(skip_serializing_if = "Option::is_none")]
    likely: Option<LikelyParts>,
    /// The setup that `gain` belongs to: `setup`, or the winner if the baseline is recommended.
    gain_of: Option<Setup>,
    /// The gain of each workload, if there are several.
    gain_by_workload: Vec<WorkloadGain>,
    /// The winner's own gain, if `gain` is that of another setup.
    winner_gain: Option<Change>,
    runner_up: Option<RunnerUp>,
    /// The finalists and the baseline compared with each other.
    head_to_head: Vec<HeadToHeadParts>,
    /// Measured setups that are tied with the winner, and the winner.
    ties: Vec<Tied>,
    /// What the best setup may gain over the recommended one according to the model: the mean, and
    /// what it does not exceed with a probability of 90 %.
    left_to_gain_percent_hundredths: Option<[i64; 2]>,
    /// How many setups without a trial the model cannot distinguish from the winner.
    untried_ties: usize,
    /// What each option does, averaged over the others.
    effects: Vec<Effect>,
    /// What two choices do together beyond what each does, where that is sure.
    interactions: Vec<Interaction>,
    /// Setups that no other beats in throughput, latency, wear and safety at once.
    front: Vec<Profiled>,
    /// How long setups last, with a usage model.
    #[serde(skip_serializing_if = "Option::is_none")]
    life: Option<LifeParts>,
    /// Setups that break the demand beyond noise.
    beyond_demand: Vec<Setup>,
    /// With a constraint: whether any setup was shown to meet it.
    constraint_shown: Option<bool>,
    /// The setup nearest to the constraint, if none was shown to meet it.
    nearest_to_constraint: Option<Nearest>,
    /// Completed trials without the figure that the run is ranked by, if any: they count for
    /// nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    trials_without_figure: Option<usize>,
    /// `ok`, `drift`, `failed` (repeats differ too much), or `too-few-repeats`.
    baseline_check: &'static str,
    /// The change of the baseline over `drift_over_trials`, if it was measured.
    drift: Option<Change>,
    drift_over_trials: Option<u32>,
    /// Setups whose trials under a workload fall into two groups.
    two_modes: Vec<Modes>,
    /// Workloads whose result depends on the state in which they start.
    start_effects: Vec<StartDependence>,
}

/// How the result of a workload depends on its start, relative to the mean of all kinds.
#[derive(Debug, JsonSchema, Serialize)]
struct StartDependence {
    workload: String,
    filesystem: String,
    /// The worst first.
    kinds: Vec<KindResult>,
}

#[derive(Debug, JsonSchema, Serialize)]
struct KindResult {
    kind: String,
    percent_hundredths: i64,
    trials: usize,
}

/// The setup that exceeds the constraint least, where it exceeds it most.
#[derive(Debug, JsonSchema, Serialize)]
struct Nearest {
    setup: Setup,
    workload: String,
    /// How far above the constraint, in hundredths of a percent.
    excess_percent_hundredths: i64,
    trials: usize,
}

#[derive(Debug, JsonSchema, Serialize)]
struct WorkloadGain {
    workload: String,
    gain: Change,
}

#[derive(Debug, JsonSchema, Serialize)]
struct Modes {
    setup: Setup,
    workload: String,
    ratio_percent_hundredths: i64,
    worse_trials: usize,
    better_trials: usize,
}

/// A change with its 95 % interval: of a single measurement from any starting state where that is
/// known, with that of the mean, else of the mean.
#[derive(Debug, JsonSchema, Serialize)]
pub struct Change {
    percent_hundredths: i64,
    low_percent_hundredths: Option<i64>,
    high_percent_hundredths: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    mean_low_percent_hundredths: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    mean_high_percent_hundredths: Option<i64>,
    /// Rounds or trials that it is made of; `None` for what the search believes by all trials.
    count: Option<usize>,
}

#[derive(Debug, JsonSchema, Serialize)]
struct RunnerUp {
    setup: Setup,
    /// What the choice gains over it, from confirming trials alone.
    gain: Change,
}

#[derive(Debug, JsonSchema, Serialize)]
struct Tied {
    setup: Setup,
    /// From the winner.
    difference_percent_hundredths: i64,
    /// That it is within the requested distance of the best, 0 to 1.
    within_probability: f64,
    measured: bool,
    trials: usize,
}

#[derive(Debug, JsonSchema, Serialize)]
struct Effect {
    factor: String,
    level: String,
    change: Change,
    /// Trials with this level.
    trials: usize,
}

#[derive(Debug, JsonSchema, Serialize)]
struct Interaction {
    factors: [String; 2],
    levels: [String; 2],
    change: Change,
}

#[derive(Debug, JsonSchema, Serialize)]
struct Profiled {
    setup: Setup,
    throughput_percent_hundredths: i64,
    latency_percent_hundredths: Option<i64>,
    wear_percent_hundredths: Option<i64>,
    /// With a usage model.
    #[serde(flatten)]
    life: Option<YearsPart>,
    durability: String,
    trials: usize,
}

impl From<&Estimate> for Change {
    fn from(estimate: &Estimate) -> Self {
        let mean = estimate.interval.filter(|_| estimate.seen.is_some());
        Self {
            mean_low_percent_hundredths: mean.map(|(low, _)| hundredths(low)),
            mean_high_percent_hundredths: mean.map(|(_, high)| hundredths(high)),
            ..Self::of(estimate.middle, estimate.seen.or(estimate.interval), Some(estimate.count))
        }
    }
}

impl Change {
    fn of(middle: f64, interval: Option<(f64, f64)>, count: Option<usize>) -> Self {
        Self {
            percent_hundredths: hundredths(middle),
            low_percent_hundredths: interval.map(|(low, _)| hundredths(low)),
            high_percent_hundredths: interval.map(|(_, high)| hundredths(high)),
            mean_low_percent_hundredths: None,
            mean_high_percent_hundredths: None,
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
                    life: profile.life.as_ref().map(YearsPart::from),
                    durability: super::findings::safety(profile.safety).to_owned(),
                    trials: profile.trials,
                })
                .collect(),
            life: LifeParts::of(conclusion),
            trials_without_figure: Some(conclusion.without_figure.len()).filter(|count| *count > 0),
            head_to_head: head_to_head::of_finalists(conclusion),
            beyond_demand: conclusion.broken.keys().map(|candidate| setup(*candidate)).collect(),
            constraint_shown: conclusion
                .choosable_evidence()
                .map(|evidence| evidence.iter().any(|found| found.is_shown)),
            nearest_to_constraint: super::constraint::nearest(conclusion).map(|(at, found)| {
                Nearest {
                    setup: setup(at),
                    workload: problem.workloads[found.workload].clone(),
                    excess_percent_hundredths: hundredths(found.excess),
                    trials: found.trials,
                }
            }),
            baseline_check: baseline_check(&conclusion.baseline_check),
            drift: conclusion.baseline_check.drift().map(|drift| Change::from(&drift.change)),
            drift_over_trials: conclusion.baseline_check.drift().map(|drift| drift.over_trials),
            two_modes: conclusion
                .two_modes
                .iter()
                .map(|found| Modes {
                    setup: setup(found.candidate),
                    workload: problem.workloads[found.workload].clone(),
                    ratio_percent_hundredths: hundredths(found.ratio),
                    worse_trials: found.worse,
                    better_trials: found.better,
                })
                .collect(),
            start_effects: conclusion.start_effects.iter().map(start_dependence).collect(),
            ..Self::default()
        };
        let Some(answer) = &conclusion.answer else { return parts };
        let found = conclusion.recommendation.as_ref();
        Self {
            likely: found.and_then(|found| found.likely.as_ref()).map(LikelyParts::from),
            within_probability: Some(found.map_or(answer.recommended_within, |found| found.within)),
            gain_of: found.filter(|found| found.gain.is_some()).map(|found| found.subject.clone()),
            gain_by_workload: found
                .iter()
                .flat_map(|found| &found.gain_by_workload)
                .map(|(workload, gain)| WorkloadGain {
                    workload: workload.clone(),
                    gain: Change::from(gain),
                })
                .collect(),
            winner_gain: found.and_then(|found| found.winner_gain.as_ref()).map(Change::from),
            untried_ties: answer.untried_ties,
            left_to_gain_percent_hundredths: found
                .map_or(answer.left_to_gain, |found| found.left_to_gain)
                .map(|left| [hundredths(left.mean), hundredths(left.most)]),
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
                    measured: tie.trials > 0,
                    trials: tie.trials,
                })
                .collect(),
            effects: answer
                .effects
                .iter()
                .map(|effect| Effect {
                    factor: factor(effect.factor),
                    level: level(effect.factor, effect.level),
                    change: Change::of(effect.mean, Some(effect.interval), None),
                    trials: effect.trials,
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

fn start_dependence(found: &StartEffect) -> StartDependence {
    let kind = |kind: &KindEffect| KindResult {
        kind: kind.kind.clone(),
        percent_hundredths: hundredths(kind.log),
        trials: kind.trials,
    };
    StartDependence {
        workload: found.workload.clone(),
        filesystem: found.filesystem.clone(),
        kinds: found.kinds.iter().map(kind).collect(),
    }
}

fn baseline_check(check: &BaselineCheck) -> &'static str {
    match check {
        BaselineCheck::TooFewRepeats => "too-few-repeats",
        BaselineCheck::Failed { .. } => "failed",
        BaselineCheck::Measured(drift) if drift.change.excludes_zero() => "drift",
        BaselineCheck::Measured(_) => "ok",
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
