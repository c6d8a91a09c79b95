//! A comparison as JSON. Changes are in hundredths of a percent: below 0, the run is worse than the
//! first.

use flashfit_filesystem::Setup;
use flashfit_host::path_text;
use flashfit_tune::Criterion;
use flashfit_tune::compare::{
    CONFIDENCE, ComparedRun, RunDifference, RunPair, RunVerdict, SetupPair, Slowdown,
    UntestedReason, UntestedRun, WorkloadPair,
};
use schemars::JsonSchema;
use serde::Serialize;

use super::ComparisonView;
use super::assumptions::YearsModel;
use crate::rendering::answer::hundredths;
use crate::rendering::life::YearsPart;

#[derive(JsonSchema, Serialize)]
pub struct ComparisonDocument {
    by: Criterion,
    confidence_percent: u32,
    /// The first is what the others are compared with.
    runs: Vec<RunPart>,
    comparisons: Vec<PairPart>,
    slowdowns: SlowdownPart,
    simulated: bool,
}

#[derive(JsonSchema, Serialize)]
struct RunPart {
    dir: String,
    device: Option<String>,
    kernel: Option<String>,
    tool_version: Option<String>,
    created_unix_s: Option<u64>,
    simulated: bool,
    trials: usize,
    completed: usize,
    under_way: bool,
    /// What weakens it.
    notes: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    life: Vec<SetupLifePart>,
    /// What the years in `life` rest on.
    #[serde(skip_serializing_if = "Option::is_none")]
    life_model: Option<YearsModel>,
}

#[derive(JsonSchema, Serialize)]
struct SetupLifePart {
    setup: Setup,
    #[serde(flatten)]
    years: YearsPart,
}

#[derive(JsonSchema, Serialize)]
struct PairPart {
    /// The place of the run in `runs`, from 0.
    run: usize,
    /// Whether both measured the same thing: same data size, profile and so on.
    comparable: bool,
    same_run: bool,
    /// Whether the years of both rest on the same usage model and modeled device; absent if one has
    /// none.
    #[serde(skip_serializing_if = "Option::is_none")]
    same_life_model: Option<bool>,
    /// Completed trials that both have, as a run and its continuation do. The figures are not those
    /// of independent runs then.
    shared_trials: usize,
    differing: Vec<ConditionPart>,
    /// Over all workloads that were measured at the same points.
    overall: Option<DifferencePart>,
    setups: Vec<SetupPart>,
    workloads: Vec<WorkloadPart>,
    only_in_first: Vec<Setup>,
    only_in_run: Vec<Setup>,
}

#[derive(JsonSchema, Serialize)]
struct ConditionPart {
    what: &'static str,
    first: String,
    run: String,
    comparable: bool,
}

#[derive(JsonSchema, Serialize)]
struct SetupPart {
    #[serde(flatten)]
    setup: Setup,
    label: String,
    difference: DifferencePart,
    /// Throughput in KiB/s or operations per second, latency in ms, or wear, in thousandths.
    #[serde(skip_serializing_if = "Option::is_none")]
    first_thousandths: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    run_thousandths: Option<i64>,
}

#[derive(JsonSchema, Serialize)]
struct WorkloadPart {
    workload: String,
    /// Whether it was measured at the same points.
    comparable: bool,
    difference: Option<DifferencePart>,
    setups: Vec<SetupPart>,
}

#[derive(JsonSchema, Serialize)]
struct DifferencePart {
    change_percent_hundredths: i64,
    low_percent_hundredths: Option<i64>,
    high_percent_hundredths: Option<i64>,
    /// Of these two runs, each one session: `better`, `worse`, `no-difference` (the interval
    /// includes 0), or `unknown` without an interval.
    verdict: &'static str,
    /// Whether the whole interval lies within 5 %, or without one, the figures are the same.
    equivalent: bool,
    /// Trials of the first run and of this one.
    trials: [usize; 2],
    /// The rounds that they were made in.
    rounds: [usize; 2],
    /// Setups that both measured.
    setups: usize,
    degrees_of_freedom_thousandths: Option<i64>,
    /// `repeats`, or `setups` where most were measured once.
    noise_from: Option<&'static str>,
}

#[derive(JsonSchema, Serialize)]
struct SlowdownPart {
    /// In hundredths of a percent; 0 if no limit was given.
    limit_percent_hundredths: u32,
    /// What two sessions without any change differ by in the tests (standard deviation).
    session_spread_percent_hundredths: u32,
    /// How many differences were tested.
    tests: usize,
    /// The sure ones with 95 % over all tests, the worst first.
    sure: Vec<SlowerPart>,
    /// The runs of which nothing was tested.
    untested: Vec<UntestedPart>,
}

#[derive(JsonSchema, Serialize)]
struct UntestedPart {
    run: usize,
    /// `no-trial`, `other-measurement`, `nothing-in-common`, `other-points` or `no-interval`.
    reason: &'static str,
}

#[derive(JsonSchema, Serialize)]
struct SlowerPart {
    run: usize,
    workload: Option<String>,
    setup: Option<Setup>,
    change_percent_hundredths: i64,
}

impl From<&RunDifference> for DifferencePart {
    fn from(found: &RunDifference) -> Self {
        let interval = found.interval(CONFIDENCE);
        Self {
            change_percent_hundredths: hundredths(found.log),
            low_percent_hundredths: interval.map(|(low, _)| hundredths(low)),
            high_percent_hundredths: interval.map(|(_, high)| hundredths(high)),
            verdict: match found.verdict(CONFIDENCE) {
                RunVerdict::Better => "better",
                RunVerdict::Worse => "worse",
                RunVerdict::NoDifference => "no-difference",
                RunVerdict::Unknown => "unknown",
            },
            equivalent: found.is_equivalent(CONFIDENCE),
            trials: found.trials,
            rounds: found.rounds,
            setups: found.setups,
            degrees_of_freedom_thousandths: found.error.map(|error| thousandths(error.freedom)),
            noise_from: found
                .error
                .map(|error| if error.is_between_setups { "setups" } else { "repeats" }),
        }
    }
}

pub fn document(view: &ComparisonView<'_>) -> ComparisonDocument {
    let comparison = view.comparison;
    let by = comparison.by;
    let pair = |pair: &RunPair| PairPart {
        run: pair.run,
        comparable: pair.is_comparable(),
        same_life_model: YearsModel::of(&comparison.runs[0])
            .zip(YearsModel::of(&comparison.runs[pair.run]))
            .map(|(first, other)| first.is_like(&other)),
        same_run: comparison.runs[pair.run].is_same_run(&comparison.runs[0]),
        shared_trials: comparison.runs[pair.run].shared_trials(&comparison.runs[0]),
        differing: pair
            .differing
            .iter()
            .map(|condition| ConditionPart {
                what: condition.what,
                first: condition.values[0].clone(),
                run: condition.values[1].clone(),
                comparable: condition.is_comparable,
            })
            .collect(),
        overall: pair.overall.as_ref().map(DifferencePart::from),
        setups: pair
            .setups
            .iter()
            .map(|(setup, found)| SetupPart {
                setup: setup.clone(),
                label: setup.label(),
                difference: found.into(),
                first_thousandths: None,
                run_thousandths: None,
            })
            .collect(),
        workloads: pair.workloads.iter().map(|found| workload(found, by)).collect(),
        only_in_first: pair.only_in_first.clone(),
        only_in_run: pair.only_in_run.clone(),
    };
    ComparisonDocument {
        by,
        confidence_percent: (CONFIDENCE * 100.0).round() as u32,
        runs: comparison.runs.iter().map(run_part).collect(),
        comparisons: comparison.pairs.iter().map(pair).collect(),
        slowdowns: SlowdownPart {
            limit_percent_hundredths: view.limit.map_or(0, |limit| limit.0),
            session_spread_percent_hundredths: view.session_spread.0,
            tests: view.check.tests,
            sure: view.check.slowdowns.iter().map(slower).collect(),
            untested: view.check.untested.iter().map(untested).collect(),
        },
        simulated: view.is_simulated(),
    }
}

fn run_part(run: &ComparedRun) -> RunPart {
    let life = |(setup, life): (Setup, _)| SetupLifePart { setup, years: YearsPart::from(&life) };
    RunPart {
        dir: path_text::to_text(&run.path),
        device: run.device(),
        kernel: run.kernel(),
        tool_version: run.tool_version(),
        created_unix_s: run.created_unix_s(),
        simulated: run.is_simulated(),
        trials: run.trials.len(),
        completed: run.completed(),
        under_way: run.is_under_way,
        notes: run.remarks(),
        life: run.lives().into_iter().map(life).collect(),
        life_model: YearsModel::of(run),
    }
}

fn workload(found: &WorkloadPair, by: Criterion) -> WorkloadPart {
    let level = |log: f64| {
        let value = match by {
            Criterion::Throughput | Criterion::Wear => log.exp(),
            Criterion::Latency => 1000.0 / log.exp(),
        };
        value.is_finite().then(|| thousandths(value))
    };
    let setup = |cell: &SetupPair| SetupPart {
        setup: cell.setup.clone(),
        label: cell.setup.label(),
        difference: (&cell.difference).into(),
        first_thousandths: level(cell.logs[0]),
        run_thousandths: level(cell.logs[1]),
    };
    WorkloadPart {
        workload: found.workload.clone(),
        comparable: found.has_same_points,
        difference: found.difference.as_ref().map(DifferencePart::from),
        setups: found.setups.iter().map(setup).collect(),
    }
}

fn slower(found: &Slowdown) -> SlowerPart {
    SlowerPart {
        run: found.run,
        workload: found.workload.clone(),
        setup: found.setup.clone(),
        change_percent_hundredths: hundredths(found.difference.log),
    }
}

fn untested(found: &UntestedRun) -> UntestedPart {
    let reason = match found.reason {
        UntestedReason::NoTrial => "no-trial",
        UntestedReason::OtherMeasurement => "other-measurement",
        UntestedReason::NothingInCommon => "nothing-in-common",
        UntestedReason::OtherPoints => "other-points",
        UntestedReason::NoInterval => "no-interval",
    };
    UntestedPart { run: found.run, reason }
}

fn thousandths(value: f64) -> i64 {
    (value * 1000.0).round() as i64
}
