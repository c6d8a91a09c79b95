//! The JSON document of `flashfit crash states` and `flashfit crash cuts`.

use std::collections::BTreeMap;
use std::path::Path;

use flashfit_crash::campaign::{
    BrokenState, CampaignFolder, CampaignPlan, FaultCounts, SetupResult,
};
use flashfit_crash::model::Oracle;
use flashfit_crash::setup::CrashSetup;
use flashfit_device::MeasuredDevice;
use flashfit_filesystem::Promise;
use schemars::JsonSchema;
use serde::Serialize;

use super::cuts_report::CutMachine;
use crate::rendering::crash_states::notes::device_faults;

/// That of `crash states`.
#[derive(Debug, JsonSchema, Serialize)]
#[serde(transparent)]
pub struct StatesDocument<'a>(pub CampaignDocument<'a>);

/// That of `crash cuts`.
#[derive(Debug, JsonSchema, Serialize)]
#[serde(transparent)]
pub struct CutsDocument<'a>(pub CampaignDocument<'a>);

#[derive(Debug, JsonSchema, Serialize)]
pub struct CampaignDocument<'a> {
    plan: &'a CampaignPlan,
    dir: &'a Path,
    setups: Vec<SetupDocument<'a>>,
    /// The device whose power was cut, so that it is recognized; that of a board.
    #[serde(skip_serializing_if = "Option::is_none")]
    measured_device: Option<MeasuredDevice>,
    /// The kernel that was cut off, or that mounted the states.
    #[serde(skip_serializing_if = "Option::is_none")]
    kernel: Option<&'a String>,
    /// When power was cut last, in seconds since 1970.
    #[serde(skip_serializing_if = "Option::is_none")]
    created_unix_s: Option<u64>,
}

#[derive(Debug, JsonSchema, Serialize)]
struct SetupDocument<'a> {
    setup: &'a str,
    /// Recorded workloads.
    logs: u32,
    /// Those that count for `runs_upper_bound`: checked to the end, or broken.
    judged_logs: u32,
    /// Recorded workloads with a state in which a promise was broken.
    broken_logs: u32,
    states: u64,
    mounted: u64,
    equivalent: u64,
    same_bytes: u64,
    same_reads: u64,
    /// Equivalent states that were mounted nevertheless, and how many were judged otherwise.
    rechecked: u64,
    mismatched: u64,
    recovery_cuts: u64,
    /// States in which at least one promise of the file system was broken.
    broken_promises: u64,
    /// Of the share of such states among all states of these logs, at 95 %. It says nothing about
    /// other runs of the work.
    upper_bound: f64,
    /// Of the share of further runs of the same work in which a check of as many states, drawn at
    /// random, finds such a state, at 95 %. The probability that one state, drawn at random from a
    /// further run, is such a state is not above it, either.
    runs_upper_bound: f64,
    by_promise: BTreeMap<Promise, PromiseDocument>,
    by_oracle: &'a BTreeMap<Oracle, u64>,
    /// What happened to the device, and who noticed; also what was asked for and never happened.
    device_faults: BTreeMap<&'static str, FaultCounts>,
    longest_recovery_ms: u64,
    /// Of one worker's time.
    states_per_hour: u64,
    examples: &'a [BrokenState],
}

#[derive(Debug, JsonSchema, Serialize)]
struct PromiseDocument {
    /// Whether the check of this work can notice that it is broken.
    examined: bool,
    /// By the file system with default options.
    promised: bool,
    /// By an option of this setup, as the catalog says.
    withdrawn: bool,
    /// The catalog describes cases in which the file system breaks it.
    has_exceptions: bool,
    broken: u64,
}

pub fn document<'a>(
    plan: &'a CampaignPlan,
    setups: &'a [CrashSetup],
    results: &'a [SetupResult],
    dir: &'a Path,
    machine: Option<&'a CutMachine>,
) -> CampaignDocument<'a> {
    CampaignDocument {
        plan,
        dir,
        setups: setups.iter().zip(results).map(|(s, result)| one(s, result, plan)).collect(),
        measured_device: machine.and_then(|machine| machine.device.clone()),
        kernel: machine.map_or_else(|| plan.mounting_kernel(), |machine| machine.kernel.as_ref()),
        created_unix_s: machine.and_then(|_| CampaignFolder::last_recorded_unix_s(dir)),
    }
}

fn one<'a>(setup: &CrashSetup, result: &'a SetupResult, plan: &CampaignPlan) -> SetupDocument<'a> {
    let counts = &result.counts;
    let promise = |promise: Promise| {
        (
            promise,
            PromiseDocument {
                examined: plan.workload.examines(promise),
                promised: setup.promises.keeps.contains(&promise),
                withdrawn: setup.withdrawn.contains(&promise),
                has_exceptions: setup.promises.exceptions.contains(&promise),
                broken: counts.by_promise.get(&promise).copied().unwrap_or(0),
            },
        )
    };
    SetupDocument {
        setup: &result.label,
        logs: result.rounds,
        judged_logs: result.judged_rounds,
        broken_logs: result.broken_rounds,
        states: counts.states,
        mounted: counts.mounted,
        equivalent: counts.same_bytes + counts.same_reads,
        same_bytes: counts.same_bytes,
        same_reads: counts.same_reads,
        rechecked: counts.rechecked,
        mismatched: counts.mismatched,
        recovery_cuts: counts.recovery_cuts,
        broken_promises: counts.broken,
        upper_bound: result.upper_bound(),
        runs_upper_bound: result.runs_upper_bound(),
        by_promise: Promise::ALL.into_iter().map(promise).collect(),
        by_oracle: &counts.by_oracle,
        device_faults: device_faults(plan, result).into_iter().collect(),
        longest_recovery_ms: counts.longest_recovery_ms,
        states_per_hour: result.states_per_hour(),
        examples: &result.examples,
    }
}
