//! Longer trials at the end of a run: whether what a search recommends holds for work that goes on
//! for several times as long as its trials.
//!
//! A card may take a few seconds of writes into a buffer, a log or erased blocks, and tidy up
//! later. Trials of two seconds then compare the buffers, and which setup is faster can be the
//! opposite in longer work. So the recommended setup and the baseline (or, if that is recommended,
//! the best other setup) run in rounds with a longer time limit and more data. These trials change
//! nothing in the search and its gain; a contradiction is reported.
//!
//! Limits: not in runs on several boards, with a number of trials as the budget or less than six
//! minutes, or where the trials so far say that their share of the budget is not enough for trials
//! that are four times as long. The longest are half a minute, so there are none if a trial takes
//! more than 7.5 s: a device that is written for hours may be slower still.

use flashfit_bench::MeasurementLength;
use flashfit_filesystem::Setup;
use flashfit_run_format::{SustainedTrials, unix_seconds};
use flashfit_search::TrialOutcome;
use flashfit_testbed::{TestBed, TrialError, TrialReport, TrialRequest};

use crate::budget::TrialCost;
use crate::choice::StrategyKind;
use crate::completed::CompletedTrial;
use crate::conclusion::Conclusion;
use crate::driver::DriverRules;
use crate::objective::Objective;
use crate::record::{RecordedOutcome, TrialKey, TrialPurpose, TrialRecord};
use crate::session::{Observer, TuneError, TuneSession, request};
use crate::spec::RunSpec;
use crate::starts;

/// Comparisons of the two setups under each workload, if the budget allows them, else one.
pub const ROUNDS: u32 = 2;
/// The part of the budget that is kept for them.
const SHARE: u64 = 6;
/// With less time, all of it is for the search.
const LEAST_BUDGET_NS: u64 = 360_000_000_000;
/// How much longer a trial is, at most and at least, in quarters.
const MOST_QUARTERS: u64 = 60;
const LEAST_QUARTERS: u64 = 16;
/// The longest time limit of a stage.
const MOST_RUNTIME_NS: u64 = 30_000_000_000;
/// The data takes at most this part of what is free of the device.
const SHARE_OF_FREE: u64 = 4;

/// What they may cost; without a limit where the budget has none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SustainedReserve {
    time_ns: Option<u64>,
    written_bytes: Option<u64>,
}

/// How long the trials are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct SustainedPlan {
    runtime_ns: u64,
    data_bytes: u64,
    rounds: u32,
}

/// Whether a run with this time keeps a part of its limits for longer trials.
fn is_reserved(spec: &RunSpec, budget_ns: Option<u64>) -> bool {
    let can_be_longer = spec.runtime_ns().saturating_mul(LEAST_QUARTERS) / 4 <= MOST_RUNTIME_NS;
    spec.strategy == StrategyKind::Adaptive
        && spec.limits.trials.is_none()
        && budget_ns.is_none_or(|budget| budget >= LEAST_BUDGET_NS)
        && can_be_longer
}

/// What the search may take of a limit of a run.
pub(crate) fn for_search(spec: &RunSpec, limit: u64) -> u64 {
    if is_reserved(spec, spec.limits.budget_ns) { limit - limit / SHARE } else { limit }
}

/// The limit of which the search may take so much, in a run with this time.
pub(crate) fn with_reserve(spec: &RunSpec, budget_ns: Option<u64>, needed: u64) -> u64 {
    match is_reserved(spec, budget_ns) {
        true => needed.saturating_mul(SHARE).div_ceil(SHARE - 1),
        false => needed,
    }
}

impl TuneSession<'_> {
    /// Takes what they may cost off the budget, if it allows them.
    pub(crate) fn reserve_sustained(&mut self) {
        let limits = &self.spec.limits;
        if !is_reserved(self.spec, limits.budget_ns) {
            return;
        }
        let take = |left: &mut Option<u64>, given: Option<u64>| {
            let share = given.map(|most| most / SHARE);
            *left = left.map(|most| most.saturating_sub(share.unwrap_or(0)).max(1));
            share
        };
        let left = &mut self.rules.limits;
        self.sustained = Some(SustainedReserve {
            time_ns: take(&mut left.budget_ns, limits.budget_ns),
            written_bytes: take(&mut left.max_write_bytes, limits.max_write_bytes),
        });
    }

    /// Gives it back where the search cannot do without.
    pub(crate) fn release_sustained(&mut self) {
        let Some(SustainedReserve { time_ns, written_bytes }) = self.sustained.take() else {
            return;
        };
        let give = |left: &mut Option<u64>, share: Option<u64>| {
            *left = left.map(|most| most.saturating_add(share.unwrap_or(0)));
        };
        give(&mut self.rules.limits.budget_ns, time_ns);
        give(&mut self.rules.limits.max_write_bytes, written_bytes);
    }

    /// The longest trials that the reserve is enough for.
    fn sustained_plan(
        &self,
        setups: &[Setup; 2],
        reserve: SustainedReserve,
        device_bytes: u64,
    ) -> Option<SustainedPlan> {
        let spec = self.spec;
        let longer = |of: u64, quarters: u64| of.saturating_mul(quarters) / 4;
        let fits = |cost: u64, limit: Option<u64>| limit.is_none_or(|most| cost <= most);
        let free_hundredths = u64::from(10_000_u32.saturating_sub(spec.state.fill_hundredths));
        let free_bytes = device_bytes / 10_000 * free_hundredths;
        let most_bytes = (free_bytes / SHARE_OF_FREE).max(spec.data_size.0);
        let mut lengths = (1..=ROUNDS)
            .rev()
            .flat_map(|rounds| (LEAST_QUARTERS..=MOST_QUARTERS).rev().map(move |q| (rounds, q)));
        lengths.find_map(|(rounds, quarters)| {
            let runtime_ns = longer(spec.runtime_ns(), quarters);
            let cost = self.cost_of_round(setups, quarters)?;
            let is_affordable = fits(cost.time_ns * u64::from(rounds), reserve.time_ns)
                && fits(cost.written_bytes * u64::from(rounds), reserve.written_bytes);
            let data_bytes = longer(spec.data_size.0, quarters).min(most_bytes);
            (runtime_ns <= MOST_RUNTIME_NS && is_affordable).then_some(SustainedPlan {
                runtime_ns,
                data_bytes,
                rounds,
            })
        })
    }

    /// What both setups cost under all workloads with so many quarters of the work, by their
    /// full-length trials; `None` if one has none.
    fn cost_of_round(&self, setups: &[Setup; 2], quarters: u64) -> Option<TrialCost> {
        let mut cost = TrialCost { time_ns: 0, written_bytes: 0 };
        for (setup, workload) in
            setups.iter().flat_map(|setup| self.spec.workloads.iter().map(move |of| (setup, of)))
        {
            let is_it = |trial: &&TrialRecord| {
                let key = &trial.key;
                key.setup == *setup && key.workload == *workload && key.length.is_full()
            };
            let trials: Vec<&TrialRecord> = self.trials.iter().filter(is_it).collect();
            let count = u64::try_from(trials.len()).ok().filter(|count| *count > 0)?;
            let longer = |all: u64, work: u64| {
                all.saturating_add(work.saturating_mul(quarters - 4) / 4) / count
            };
            let sum = |of: fn(&TrialRecord) -> u64| trials.iter().map(|trial| of(trial)).sum();
            cost.time_ns +=
                longer(sum(|trial| trial.cost().time_ns), sum(|trial| trial.phases.fio_ns));
            cost.written_bytes += longer(
                sum(|trial| trial.cost().written_bytes),
                sum(|trial| trial.written.map_or(0, |written| written.workload_bytes)),
            );
        }
        Some(cost)
    }

    /// Makes those that are not known yet. Ends early if they cost more than was reserved, or one
    /// of them fails.
    pub(crate) fn measure_sustained(
        &mut self,
        test_bed: &mut dyn TestBed,
        observer: &mut dyn Observer,
    ) -> Result<(), TuneError> {
        let Some(reserve) = self.sustained else { return Ok(()) };
        let Some(setups) = self.compared() else { return Ok(()) };
        let device_bytes = test_bed.facts().device.capacity.0;
        let Some(plan) = self.sustained_plan(&setups, reserve, device_bytes) else {
            return Ok(());
        };
        let mut known = SustainedTrials::new(plan.runtime_ns / 1_000_000, plan.data_bytes);
        if let Some(earlier) = self.dir.sustained()? {
            let is_same = (earlier.runtime_ms, earlier.data_bytes)
                == (known.runtime_ms, known.data_bytes)
                && earlier.trials.iter().all(|trial| setups.contains(&trial.key.setup));
            known.trials = if is_same { earlier.trials } else { Vec::new() };
        }
        let mut keys: Vec<TrialKey> = Vec::new();
        for repeat in 0..plan.rounds {
            for workload in &self.spec.workloads {
                // The other setup goes first in every second round.
                for at in [repeat as usize % 2, 1 - repeat as usize % 2] {
                    keys.push(TrialKey {
                        purpose: TrialPurpose::Confirm,
                        setup: setups[at].clone(),
                        workload: workload.clone(),
                        length: MeasurementLength::Full,
                        repeat,
                    });
                }
            }
        }
        for key in keys {
            if known.trials.iter().any(|trial| trial.key == key) {
                continue;
            }
            let spent: u64 = known.trials.iter().map(|trial| trial.cost().time_ns).sum();
            let has_failed =
                |trial: &TrialRecord| matches!(trial.outcome, RecordedOutcome::Failed { .. });
            if reserve.time_ns.is_some_and(|most| spent >= most)
                || known.trials.iter().any(has_failed)
            {
                break;
            }
            observer.on_sustained_start(&key, plan.runtime_ns);
            let number = u32::try_from(known.trials.len()).expect("few are made") + 1;
            known.trials.push(self.sustained(key, number, plan, test_bed)?);
            self.dir.keep_sustained(&known)?;
        }
        Ok(())
    }

    fn sustained(
        &self,
        key: TrialKey,
        number: u32,
        plan: SustainedPlan,
        test_bed: &mut dyn TestBed,
    ) -> Result<TrialRecord, TuneError> {
        let started_unix_s = unix_seconds();
        let start = starts::draw(self.spec, &key);
        let usual = request(self.spec, self.workloads, &key, start.as_ref());
        let longer =
            TrialRequest { data_bytes: plan.data_bytes, runtime_ns: plan.runtime_ns, ..usual };
        let (mut report, message): (TrialReport, _) = match test_bed.run_trial(&longer) {
            Ok(report) => (report, None),
            Err(TrialError::Setup { message, report }) => (*report, Some(message)),
            Err(fatal) => return Err(fatal.into()),
        };
        report.points.iter_mut().for_each(|point| point.raw_json.clear());
        let (batch, made_on) = (None, None);
        let made = CompletedTrial { key, batch, made_on, started_unix_s, report, message };
        Ok(made.into_record(number))
    }

    /// The setup that is recommended, or else the best other one, and the baseline.
    fn compared(&self) -> Option<[Setup; 2]> {
        let trials: Vec<TrialRecord> =
            self.trials.iter().filter(|trial| self.problem.has(&trial.key)).cloned().collect();
        let (problem, history) = (self.problem.clone(), self.history.clone());
        let rules = DriverRules::of(self.spec);
        let found = Conclusion::of(problem, history, self.costs.clone(), &rules, &trials, &[]);
        let found = found.recommendation?;
        let other = match found.subject == found.baseline {
            true => found.runner_up.map(|(setup, _)| setup)?,
            false => found.subject,
        };
        (other != found.baseline).then_some([other, found.baseline])
    }
}

/// How a setup compares with the baseline in longer trials.
#[derive(Debug, Clone, PartialEq)]
pub struct SustainedGain {
    pub setup: Setup,
    pub runtime_ms: u64,
    /// The log ratios of each comparison by workload.
    pub by_workload: Vec<(String, Vec<f64>)>,
    /// The weighted mean over the workloads, by round.
    pub rounds: Vec<f64>,
}

impl SustainedGain {
    /// From all whole comparisons with the baseline; `None` if a round lacks a workload.
    pub fn of(spec: &RunSpec, found: &SustainedTrials, baseline: &Setup) -> Option<Self> {
        let objective = Objective::of(spec);
        let merit = |setup: &Setup, workload: &str, repeat: u32| {
            let is_it = |trial: &&TrialRecord| {
                let key = &trial.key;
                (&key.setup, key.workload.as_str(), key.repeat) == (setup, workload, repeat)
            };
            match objective.outcome(found.trials.iter().find(is_it)?) {
                TrialOutcome::Measured { log_merit, .. } => Some(log_merit),
                _ => None,
            }
        };
        let mut setups = found.trials.iter().map(|trial| &trial.key.setup);
        let setup = setups.find(|setup| *setup != baseline)?;
        let total: f64 = spec.workloads.iter().map(|workload| spec.weight(workload)).sum();
        let mut by_workload: Vec<(String, Vec<f64>)> =
            spec.workloads.iter().map(|workload| (workload.clone(), Vec::new())).collect();
        let mut rounds = Vec::new();
        for repeat in 0..ROUNDS {
            let ratios: Option<Vec<f64>> = spec
                .workloads
                .iter()
                .map(|of| Some(merit(setup, of, repeat)? - merit(baseline, of, repeat)?))
                .collect();
            let Some(ratios) = ratios else { break };
            let mut mean = 0.0;
            for ((workload, all), ratio) in by_workload.iter_mut().zip(ratios) {
                mean += spec.weight(workload) / total * ratio;
                all.push(ratio);
            }
            rounds.push(mean);
        }
        let (setup, runtime_ms) = (setup.clone(), found.runtime_ms);
        (!rounds.is_empty()).then_some(Self { setup, runtime_ms, by_workload, rounds })
    }

    /// The mean over the rounds, as a logarithm.
    pub fn mean(&self) -> f64 {
        self.rounds.iter().sum::<f64>() / self.rounds.len() as f64
    }

    /// Whether every comparison over all workloads says the opposite of a gain or loss in the usual
    /// trials, by at least this much.
    pub fn contradicts(&self, usual: f64, least: f64) -> bool {
        self.rounds.len() == ROUNDS as usize
            && self.rounds.iter().all(|round| round * usual.signum() < -least)
    }
}
