//! What a run may take and write, before its first trial: ranges from the volume of its workloads
//! and the speed of slow and of fast devices.
//!
//! Limit: the device was not measured, so the ranges are wide. The share of the device's life
//! mostly rests on an assumed endurance, because hardly any device reports one.

use std::ops::RangeInclusive;

use flashfit_bench::{StartKind, Workload, estimate_ns, most_written_bytes};
use flashfit_search::{MIN_CONFIRMING_TRIALS, least_trials};
use flashfit_testbed::MOST_SETTLED_BYTES;
use flashfit_wear::device_life::{ASSUMED_AMPLIFICATION, erases_of_each_block, life_thousandths};
use schemars::JsonSchema;
use serde::Serialize;

use crate::budget::TrialCost;
use crate::choice::StrategyKind;
use crate::spec::RunSpec;
use crate::starts;
use crate::sustained::{for_search, with_reserve};

/// A trial on a fast device: the least time, and the speed of writing.
const LEAST_TRIAL_NS: u64 = 700_000_000;
const FAST_BYTES_PER_SECOND: u64 = 50 << 20;
/// What mkfs and mount write at most, and the share of a small device that inode tables and journal
/// take, which most trials write there.
const MORE_WRITTEN_BYTES: u64 = 8 << 20;
const TABLES_SHARE: u64 = 32;
/// Ranges of what a run may spend.
#[derive(Debug, Clone, PartialEq)]
pub struct Forecast {
    pub time_ns: RangeInclusive<u64>,
    pub trials: RangeInclusive<u64>,
    pub written_bytes: RangeInclusive<u64>,
    /// Of the device's life, in thousandths of a percent.
    pub life: RangeInclusive<u64>,
    /// What an answer that is confirmed needs, if the limits may not allow it.
    pub shortfall: Option<Shortfall>,
}

/// Limits that are too small for a search that confirms what it finds.
#[derive(Debug, Clone, PartialEq, Eq, JsonSchema, Serialize)]
pub struct Shortfall {
    /// Whether they are too small on a fast device, too, and not only on a slow one.
    pub is_certain: bool,
    pub trials: u64,
    /// What is needed instead of a limit that is too small: on a slow device, so that it suffices.
    pub budget_ns: Option<u64>,
    pub max_write_bytes: Option<u64>,
    pub max_trials: Option<u64>,
}

impl Shortfall {
    /// What so many trials lack of the limits if each costs so much, or at `least` so much.
    fn of(spec: &RunSpec, trials: u64, trial: TrialCost, least: TrialCost) -> Option<Self> {
        let limits = &spec.limits;
        let lacks = |limit: Option<u64>, cost: u64| {
            let needed = trials.saturating_mul(cost.max(1));
            limit.is_some_and(|limit| for_search(spec, limit) < needed)
        };
        let lacks_trials = limits.trials.is_some_and(|most| u64::from(most) < trials);
        let any = |cost: TrialCost| {
            lacks(limits.budget_ns, cost.time_ns)
                || lacks(limits.max_write_bytes, cost.written_bytes)
                || lacks_trials
        };
        if spec.strategy != StrategyKind::Adaptive || !any(trial) {
            return None;
        }
        let time_ns = trials.saturating_mul(trial.time_ns);
        let budget_ns = lacks(limits.budget_ns, trial.time_ns)
            .then(|| with_reserve(spec, Some(time_ns), time_ns));
        let written_bytes = trials.saturating_mul(trial.written_bytes);
        Some(Self {
            is_certain: any(least),
            trials,
            budget_ns,
            max_write_bytes: lacks(limits.max_write_bytes, trial.written_bytes)
                .then(|| with_reserve(spec, budget_ns.or(limits.budget_ns), written_bytes)),
            max_trials: lacks_trials.then_some(trials),
        })
    }
}

impl Forecast {
    /// The forecast of a run on a device of this size, of which each erase block bears so many
    /// erases; `None` if nothing limits the run.
    pub fn of(
        spec: &RunSpec,
        workloads: &[Workload],
        capacity_bytes: u64,
        rated_erases: u64,
    ) -> Option<Self> {
        let plan = spec.run_plan();
        let named: Vec<&Workload> =
            workloads.iter().filter(|workload| spec.workloads.contains(&workload.name)).collect();
        let count = (named.len() as u64).max(1);
        let written = |workload: &&Workload| most_written_bytes(workload, &plan).unwrap_or(0);
        let slow = |workload: &&Workload| estimate_ns(workload, &plan).unwrap_or(0);
        let written = named.iter().map(written).sum::<u64>() / count;
        let kinds = starts::kinds(spec);
        let kind_count = (kinds.len() as u64).max(1);
        let start_ns = kinds.iter().map(|kind| kind.most_ns(spec.runtime_ns())).sum::<u64>();
        let start_bytes = kinds.iter().map(StartKind::mean_written_bytes).sum::<u64>() / kind_count;
        let state_bytes = spec.state.written_bytes(capacity_bytes);
        let slow_ns = named.iter().map(slow).sum::<u64>() / count + start_ns / kind_count;
        let slow_ns = slow_ns.saturating_add(spec.state.slow_ns(capacity_bytes));
        let fast_bytes = written.saturating_add(state_bytes);
        let fast_ns = LEAST_TRIAL_NS + fast_bytes / (FAST_BYTES_PER_SECOND / 1000) * 1_000_000;
        let fast_ns = fast_ns.min(slow_ns.max(1));
        // The fewest trials after which a search can be confident.
        let families = spec.filesystems.len() as u64;
        let least = match spec.strategy {
            StrategyKind::Adaptive => families + MIN_CONFIRMING_TRIALS as u64 * count,
            _ => families * count,
        };
        // The fewest limits with which it confirms what it finds.
        let enough = least_trials(usize::MAX, spec.filesystems.len(), named.len().max(1)) as u64;
        let limits = &spec.limits;
        let by_time = |trial_ns: u64| limits.budget_ns.map(|budget| (budget / trial_ns).max(1));
        let by_writes = |trial: u64| limits.max_write_bytes.map(|most| (most / trial).max(1));
        let by_trials = limits.trials.map(u64::from);
        let has_tables = !kinds.is_empty() && capacity_bytes <= MOST_SETTLED_BYTES;
        let tables_bytes = if has_tables { capacity_bytes / TABLES_SHARE } else { 0 };
        let other_bytes = written + start_bytes + tables_bytes + MORE_WRITTEN_BYTES;
        let trial_bytes = other_bytes.saturating_add(state_bytes);
        // Of a state, what is written is known better.
        let least_bytes = (other_bytes / 4).saturating_add(state_bytes / 2);
        let most = [by_time(fast_ns), by_writes(least_bytes), by_trials];
        let most = most.into_iter().flatten().min()?;
        let allowed = [by_time(slow_ns.max(1)), by_writes(trial_bytes), by_trials];
        let allowed = allowed.into_iter().flatten().min()?;
        let fewest = allowed.min(least).min(most);
        let trial = TrialCost { time_ns: slow_ns, written_bytes: trial_bytes };
        let least_trial = TrialCost { time_ns: fast_ns, written_bytes: least_bytes };
        let shortfall = Shortfall::of(spec, enough, trial, least_trial);
        let time = most.saturating_mul(slow_ns);
        let time = limits.budget_ns.map_or(time, |budget| budget.min(time));
        let written_most =
            most.saturating_mul(trial_bytes).min(limits.max_write_bytes.unwrap_or(u64::MAX));
        // Only what the first trial writes shows that the limit is too small for it.
        let written_most = written_most.max(trial_bytes);
        let written_least = fewest.saturating_mul(least_bytes).min(written_most);
        let life = |bytes: u64| {
            let erases =
                erases_of_each_block(bytes.saturating_mul(ASSUMED_AMPLIFICATION), capacity_bytes);
            life_thousandths(erases, rated_erases)
        };
        Some(Self {
            time_ns: fewest.saturating_mul(fast_ns).min(time)..=time,
            trials: fewest..=most,
            written_bytes: written_least..=written_most,
            life: life(written_least)..=life(written_most),
            shortfall,
        })
    }
}

#[cfg(test)]
mod tests {
    use flashfit_bench::Workloads;

    use flashfit_wear::device_life::ASSUMED_ERASES;

    use super::*;

    fn spec() -> RunSpec {
        let text = r#"{"target":"x","filesystems":["ext4"],"options":{},"workloads":["sync-files"],
            "schedulers":[],"strategy":"adaptive","profile":"quick","by":"throughput","repeats":1,
            "confirm_rounds":4,"seed":9,"start":"auto","allow":"safe","data_size":16777216,
            "memory":134217728,"runtime_ms":2000,"erase_unit":null,"write_unit":null}"#;
        serde_json::from_str(text).expect("a specification")
    }

    #[test]
    fn filling_and_aging_are_counted() {
        let workloads = Workloads::load(None).unwrap();
        let forecast = |fill_hundredths, age_rounds| {
            let mut spec = spec();
            spec.limits.budget_ns = None;
            spec.limits.max_write_bytes = None;
            spec.limits.trials = Some(8);
            spec.state.fill_hundredths = fill_hundredths;
            spec.state.age_rounds = age_rounds;
            Forecast::of(&spec, workloads.all(), 1 << 30, ASSUMED_ERASES).unwrap()
        };
        let (empty, filled) = (forecast(0, 0), forecast(8000, 2));
        // 80 % and, for each round, five eighths of that.
        let state_bytes = (1_u64 << 30) / 10 * 8 * 9 / 4;
        let most = filled.written_bytes.end() - empty.written_bytes.end();
        assert!(most.abs_diff(8 * state_bytes) < 1000, "{most}");
        assert!(*filled.written_bytes.start() > state_bytes / 2);
        let slow_ns = state_bytes / (1 << 20) * 1_000_000_000;
        assert!(*filled.time_ns.end() > empty.time_ns.end() + 8 * slow_ns);
        assert!(filled.time_ns.start() > empty.time_ns.start());
    }

    #[test]
    fn limits_that_cannot_give_a_sure_answer_are_found() {
        let workloads = Workloads::load(None).unwrap();
        let shortfall = |change: &dyn Fn(&mut RunSpec)| {
            let mut spec = spec();
            spec.limits.budget_ns = None;
            spec.limits.max_write_bytes = None;
            spec.limits.trials = None;
            change(&mut spec);
            Forecast::of(&spec, workloads.all(), 4 << 30, ASSUMED_ERASES)
                .and_then(|found| found.shortfall)
        };
        let second_ns = 1_000_000_000;
        assert_eq!(shortfall(&|spec| spec.limits.budget_ns = Some(86_400 * second_ns)), None);
        let short = shortfall(&|spec| spec.limits.budget_ns = Some(2 * second_ns)).unwrap();
        assert!(short.is_certain && short.max_trials.is_none(), "{short:?}");
        let needed = short.budget_ns.unwrap();
        assert_eq!(shortfall(&|spec| spec.limits.budget_ns = Some(needed)), None);
        // A part of a long one is kept for longer trials, which the search lacks.
        let many = |budget_ns: u64| {
            shortfall(&|spec| {
                spec.workloads = workloads.all().iter().map(|of| of.name.clone()).collect();
                spec.limits.budget_ns = Some(budget_ns);
            })
        };
        let needed = many(400 * second_ns).unwrap().budget_ns.unwrap();
        assert_eq!(many(needed), None);
        assert!(many(needed / 100 * 99).is_some());
        let few = shortfall(&|spec| spec.limits.trials = Some(3)).unwrap();
        assert_eq!((few.is_certain, few.max_trials), (true, Some(few.trials)));
        let greedy = |spec: &mut RunSpec| {
            spec.strategy = StrategyKind::Greedy;
            spec.limits.trials = Some(3);
        };
        assert_eq!(shortfall(&greedy), None);
    }
}
