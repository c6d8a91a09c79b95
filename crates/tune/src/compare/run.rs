//! A run as it is compared: its trials, its conditions, and how far it got.
//!
//! Only the name and version of the format are required of `run.json`; a condition that one of two
//! runs does not record is not compared. Trials of several devices are converted to the first.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use flashfit_bench::WorkloadPoint;
use flashfit_device::Bytes;
use flashfit_filesystem::{Durability, Scheduler, Setup};
use flashfit_user_error::{ExitClass, Hint, UserError};
use serde_json::Value;

use super::difference::{CellSample, ComparedCell, Round, RunCells};
use crate::choice::Criterion;
use crate::life::{RunLife, SetupLife, SetupLives};
use crate::merit::Merit;
use crate::problem::{Problem, SetupStanding};
use crate::quantity::Weight;
use crate::record::{TrialDevice, TrialKey, TrialPurpose, TrialRecord};
use crate::replay;
use crate::run_dir::{self, RunDirError};
use crate::spread::DeviceEffects;

/// Why runs cannot be compared.
#[derive(Debug, thiserror::Error)]
pub enum CompareError {
    #[error(transparent)]
    Dir(#[from] RunDirError),
    #[error("a comparison needs two runs")]
    TooFew,
}

impl UserError for CompareError {
    fn class(&self) -> ExitClass {
        match self {
            Self::Dir(error) => error.class(),
            Self::TooFew => ExitClass::Usage,
        }
    }

    fn hint(&self) -> Option<Hint> {
        match self {
            Self::Dir(error) => error.hint(),
            Self::TooFew => Some("name two run directories".into()),
        }
    }
}

/// How a value of the header is shown.
#[derive(Debug, Clone, Copy)]
enum Shown {
    Plain,
    Size,
    Milliseconds,
}

/// Conditions that decide what is measured: with other ones, a difference is not that of the
/// devices or kernels.
const MEASUREMENT: [(&str, &str, Shown); 9] = [
    ("profile", "/spec/profile", Shown::Plain),
    ("data size", "/spec/data_size", Shown::Size),
    ("memory", "/spec/memory", Shown::Size),
    ("runtime of a stage", "/spec/runtime_ms", Shown::Milliseconds),
    ("fill, in hundredths of a percent", "/spec/state/fill_hundredths", Shown::Plain),
    ("rounds of aging", "/spec/state/age_rounds", Shown::Plain),
    ("varied starting states", "/spec/state/varied", Shown::Plain),
    ("kinds of starting states", "/spec/starts", Shown::Plain),
    ("limit of memory", "/facts/memory", Shown::Plain),
];

/// Conditions that users compare.
const CONDITIONS: [(&str, &str, Shown); 14] = [
    ("device", "/facts/medium/identity/model", Shown::Plain),
    ("serial number", "/facts/medium/identity/serial", Shown::Plain),
    ("size of the device", "/facts/medium/capacity", Shown::Size),
    ("simulated card", "/facts/card/name", Shown::Plain),
    ("model of the card", "/facts/card/model", Shown::Plain),
    ("test bed", "/facts/stand", Shown::Plain),
    ("machine", "/facts/machine", Shown::Plain),
    ("processors", "/facts/processors", Shown::Plain),
    ("kernel", "/facts/kernel", Shown::Plain),
    ("programs", "/facts/programs", Shown::Plain),
    ("start of the file system", "/spec/start", Shown::Plain),
    ("size of the partition", "/facts/layout/layout/partition/size_bytes", Shown::Size),
    ("definitions of the catalog", "/catalog/sha256", Shown::Plain),
    ("version of flashfit", "/tool_version", Shown::Plain),
];

/// Longer values are not shown.
const MOST_SHOWN_CHARS: usize = 40;

/// A condition in which two runs differ.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DifferingCondition {
    pub what: &'static str,
    /// Of the first run and of the other, for people.
    pub values: [String; 2],
    /// Whether figures mean the same in spite of it.
    pub is_comparable: bool,
}

#[derive(Debug, Clone)]
pub struct ComparedRun {
    pub path: PathBuf,
    /// The trials, converted to the first device of the run.
    pub trials: Vec<TrialRecord>,
    /// The devices of a run with several.
    pub devices: Vec<TrialDevice>,
    /// Whether a process works on it now.
    pub is_under_way: bool,
    header: Value,
    /// The completed trials as they were recorded, in JSON.
    recorded: BTreeSet<String>,
}

impl ComparedRun {
    /// Reads a run; nothing in the directory is changed.
    ///
    /// # Errors
    /// See [`CompareError`].
    pub fn read(path: &Path) -> Result<Self, CompareError> {
        let (header, trials): (Value, Vec<TrialRecord>) = run_dir::read_any(path)?;
        let is_under_way = run_dir::is_locked(path)?;
        let effects = DeviceEffects::of_whole_batches(&trials);
        let devices = effects.devices().to_vec();
        let completed = trials.iter().filter(|trial| trial.points().is_some());
        let recorded = completed.filter_map(|trial| serde_json::to_string(trial).ok()).collect();
        let trials = if effects.are_several() { effects.applied_to_all(&trials) } else { trials };
        Ok(Self { path: path.to_owned(), trials, devices, is_under_way, header, recorded })
    }

    fn text(&self, pointer: &str) -> Option<String> {
        let value = self.header.pointer(pointer)?;
        (!value.is_null()).then(|| shown(value, Shown::Plain))
    }

    /// What was measured, for people.
    pub fn device(&self) -> Option<String> {
        let card = self.text("/facts/card/name").map(|name| format!("simulated card {name}"));
        card.or_else(|| self.text("/facts/medium/identity/model"))
            .or_else(|| self.text("/spec/target"))
    }

    pub fn kernel(&self) -> Option<String> {
        self.text("/facts/kernel")
    }

    pub fn tool_version(&self) -> Option<String> {
        self.text("/tool_version")
    }

    /// What the run was ranked by, if this version knows it.
    fn ranked_by(&self) -> Option<Criterion> {
        serde_json::from_value(self.header.pointer("/spec/by")?.clone()).ok()
    }

    /// What all these runs were ranked by, or else throughput.
    pub fn common_criterion(runs: &[Self]) -> Criterion {
        let first = runs.first().and_then(Self::ranked_by);
        let is_common = runs.iter().all(|run| run.ranked_by() == first);
        first.filter(|_| is_common).unwrap_or(Criterion::Throughput)
    }

    pub fn created_unix_s(&self) -> Option<u64> {
        self.header.pointer("/created_unix_s")?.as_u64()
    }

    pub fn is_simulated(&self) -> bool {
        self.header.pointer("/facts/card").is_some_and(|card| !card.is_null())
    }

    /// How much a workload counts.
    pub fn weight(&self, workload: &str) -> f64 {
        let weight = self
            .header
            .pointer("/spec/weights_thousandths")
            .and_then(|all| u32::try_from(all.get(workload)?.as_u64()?).ok());
        weight.map_or(Weight::ONE, Weight).value()
    }

    pub fn completed(&self) -> usize {
        self.trials.iter().filter(|trial| trial.points().is_some()).count()
    }

    /// Whether it is the same run, perhaps in a copied directory.
    pub fn is_same_run(&self, other: &Self) -> bool {
        let lines = |run: &Self| -> Vec<Option<String>> {
            run.trials.iter().map(|trial| serde_json::to_string(trial).ok()).collect()
        };
        self.header == other.header && lines(self) == lines(other)
    }

    /// Whether its completed trials are those of the other run; false without any.
    pub fn has_same_trials(&self, other: &Self) -> bool {
        !self.recorded.is_empty() && self.recorded == other.recorded
    }

    /// How many completed trials both have: those of a run before it was copied and continued.
    pub fn shared_trials(&self, other: &Self) -> usize {
        self.recorded.intersection(&other.recorded).count()
    }

    /// What weakens the run, in a few words each; usually nothing.
    pub fn remarks(&self) -> Vec<String> {
        let mut remarks = Vec::new();
        if self.is_under_way {
            remarks.push("still under way".to_owned());
        }
        match self.completed() {
            0 if self.trials.is_empty() => remarks.push("no trials".to_owned()),
            0 => remarks.push("every trial failed".to_owned()),
            _ => {}
        }
        if let Some((done, size)) = self.last_batch().filter(|(done, size)| done < size) {
            remarks.push(format!("ended after {done} of the {size} trials of its last batch"));
        } else if self.lacks_confirming_trials() {
            let ended = self.early_end().filter(|_| !self.is_under_way);
            remarks.push(ended.unwrap_or_else(|| "no confirming trials".to_owned()));
        }
        if self.devices.len() > 1 {
            remarks.push(format!("{} devices", self.devices.len()));
        }
        remarks
    }

    /// How many trials of the last batch there are, and how many it has.
    fn last_batch(&self) -> Option<(usize, usize)> {
        let last = self.trials.iter().filter_map(|trial| trial.batch).max_by_key(|b| b.number)?;
        let of_last = |trial: &&TrialRecord| trial.batch.is_some_and(|b| b.number == last.number);
        let done = self.trials.iter().filter(of_last).count();
        Some((done, usize::try_from(last.size).unwrap_or(usize::MAX)))
    }

    /// How far a run without confirming trials got, if it could have gone on.
    fn early_end(&self) -> Option<String> {
        let limit = |name: &str| self.header.pointer("/spec/limits")?.get(name)?.as_u64();
        let made = self.trials.len();
        if let Some(most) = limit("trials").filter(|most| (made as u64) < *most) {
            return Some(format!("ended before any confirming trial: {made} of {most} trials"));
        }
        let spent = self.trials.iter().map(|trial| trial.phases.total_ns).sum::<u64>();
        let budget = limit("budget_ns").filter(|budget| spent < *budget)?;
        Some(format!(
            "ended before any confirming trial: {} of {} s",
            spent / 1_000_000_000,
            budget / 1_000_000_000
        ))
    }

    fn lacks_confirming_trials(&self) -> bool {
        let rounds = self.header.pointer("/spec/confirm_rounds").and_then(Value::as_u64);
        let is_confirming = |trial: &TrialRecord| trial.key.purpose == TrialPurpose::Confirm;
        rounds.is_some_and(|rounds| rounds > 0)
            && !self.trials.is_empty()
            && !self.trials.iter().any(is_confirming)
    }

    /// The logarithms of the figure by cell; trials without it are left out.
    pub(super) fn cells(&self, by: Criterion) -> RunCells {
        let mut cells = RunCells::new();
        for trial in &self.trials {
            let Some(points) = trial.points() else { continue };
            let has_none = match by {
                Criterion::Throughput => Merit::has_no_rate(points),
                Criterion::Latency => Merit::has_no_latency(points),
                Criterion::Wear => false,
            };
            let log = Merit::of_trial(trial, points).log(by).filter(|log| log.is_finite());
            let Some(log) = log.filter(|_| !has_none) else { continue };
            let key = &trial.key;
            let number = trial.batch.map_or(key.repeat, |batch| batch.number);
            let round = Round { purpose: key.purpose, number };
            let cell = ComparedCell::new(&key.workload, &key.setup, key.length);
            cells.entry(cell).or_default().push(CellSample { log, round });
        }
        cells
    }

    /// The points and stages of the trials of a workload.
    pub(super) fn points(&self, workload: &str, is_full: bool) -> BTreeSet<(WorkloadPoint, &str)> {
        let of_it = self.trials.iter().filter(|trial| {
            trial.key.workload == workload && trial.key.length.is_full() == is_full
        });
        let points = of_it.filter_map(TrialRecord::points).flatten();
        points
            .flat_map(|point| point.stages.iter().map(|stage| (point.point, stage.name.as_str())))
            .collect()
    }

    /// The conditions in which another run differs, as far as both record them; those that decide
    /// what is measured first.
    pub fn differing(&self, other: &Self) -> Vec<DifferingCondition> {
        let listed = MEASUREMENT.iter().map(|condition| (condition, false));
        let listed = listed.chain(CONDITIONS.iter().map(|condition| (condition, true)));
        let mut found: Vec<DifferingCondition> = listed
            .filter_map(|((what, pointer, how), is_comparable)| {
                let value = |run: &Self| {
                    let value = run.header.pointer(pointer);
                    value.filter(|value| !value.is_null()).cloned()
                };
                let (own, others) = (value(self)?, value(other)?);
                let values = [shown(&own, *how), shown(&others, *how)];
                (own != others).then_some(DifferingCondition { what, values, is_comparable })
            })
            .collect();
        if self.header.get("facts").is_some() && other.header.get("facts").is_some() {
            let kinds = [self, other].map(ComparedRun::is_simulated);
            let values = kinds.map(|is| if is { "simulated" } else { "a device" }.to_owned());
            if kinds[0] != kinds[1] {
                let what = "kind of device";
                found.push(DifferingCondition { what, values, is_comparable: true });
            }
        }
        found
    }

    /// The estimates of a run with a usage model.
    pub fn estimates(&self) -> Option<RunLife> {
        let life = self.header.pointer("/spec/life").cloned();
        life.and_then(|life| serde_json::from_value(life).ok())
    }

    /// How long setups last by the estimates of the run; empty if it has none.
    pub fn lives(&self) -> BTreeMap<Setup, SetupLife> {
        let Some(life) = self.estimates() else { return BTreeMap::new() };
        let mut setups: Vec<Setup> = Vec::new();
        // What the run lists comes first: batches are shuffled.
        let (mut filesystems, listed) = (self.names("filesystems"), self.names("workloads"));
        let mut workloads = listed.clone();
        for TrialKey { setup, workload, .. } in self.trials.iter().map(|trial| &trial.key) {
            if !setups.contains(setup) {
                setups.push(setup.clone());
                filesystems.push(setup.filesystem.clone());
            }
            if listed.is_empty() && !workloads.contains(workload) {
                workloads.push(workload.clone());
            }
        }
        let scheduler = self.header.pointer("/facts/default_scheduler").and_then(Value::as_str);
        let scheduler = scheduler.map(Scheduler::new);
        let bare = replay::baseline_of(&setups, &filesystems, scheduler.as_ref());
        let Some(baseline) = bare.or(setups.first()).cloned() else { return BTreeMap::new() };
        let standing = |_: &Setup, _| SetupStanding { durability: Durability::Safe, allowed: true };
        let weight = |workload: &str| self.weight(workload);
        let found = Problem::new(setups, &baseline, &[], &workloads, weight, standing);
        let Ok(mut problem) = found else { return BTreeMap::new() };
        problem.life = Some(life);
        let of_search = self.trials.iter().filter(|trial| problem.has(&trial.key));
        let of_search: Vec<TrialRecord> = of_search.cloned().collect();
        let Some(lives) = SetupLives::of(&problem, &of_search) else { return BTreeMap::new() };
        let setups = problem.setups.iter().enumerate();
        setups.map(|(index, setup)| (setup.clone(), lives.life(index).clone())).collect()
    }

    /// A list of names in the choices of the run.
    fn names(&self, key: &str) -> Vec<String> {
        let list = self.header.pointer("/spec").and_then(|spec| spec.get(key)?.as_array());
        let names = list.into_iter().flatten().filter_map(Value::as_str);
        names.map(str::to_owned).collect()
    }
}

fn shown(value: &Value, how: Shown) -> String {
    let text = match (how, value) {
        (Shown::Size, value) if value.is_u64() => {
            Bytes(value.as_u64().unwrap_or_default()).to_string()
        }
        (Shown::Milliseconds, value) => format!("{value} ms"),
        (_, Value::String(text)) => text.clone(),
        (_, value) => value.to_string(),
    };
    let is_long = text.chars().count() > MOST_SHOWN_CHARS;
    if is_long { "(see run.json)".to_owned() } else { text }
}
