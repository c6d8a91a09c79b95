//! What the trials so far say of each setup.

use std::collections::BTreeMap;

use flashfit_filesystem::Setup;

use crate::choice::By;
use crate::merit::Merit;
use crate::record::{Purpose, TrialKey, TrialRecord};
use crate::stats;

/// The merits measured of one setup under one workload.
#[derive(Debug, Clone, Default)]
struct Measured {
    by_repeat: BTreeMap<u32, Merit>,
    failed: Option<String>,
}

/// Where a setup stands.
#[derive(Debug, Clone, PartialEq)]
pub enum Standing {
    /// Some trials are still to be made.
    Incomplete,
    /// A trial failed: the setup is out.
    Failed(String),
    /// All trials are made; the sum over workloads of the median merit.
    Score(f64),
}

/// Merits by setup and workload.
#[derive(Debug, Clone)]
pub struct Results {
    by_setup: BTreeMap<(Purpose, Setup), BTreeMap<String, Measured>>,
    workloads: Vec<String>,
    repeats: u32,
    by: By,
}

impl Results {
    /// Of a run's trials, where each setup is to be tried `repeats` times under each workload.
    pub fn of(trials: &[TrialRecord], workloads: &[String], repeats: u32, by: By) -> Self {
        let mut results =
            Self { by_setup: BTreeMap::new(), workloads: workloads.to_vec(), repeats, by };
        for trial in trials {
            results.add(trial);
        }
        results
    }

    /// Takes one more trial in.
    pub fn add(&mut self, trial: &TrialRecord) {
        let key = (trial.key.purpose, trial.key.setup.clone());
        let by_workload = self.by_setup.entry(key).or_default();
        let measured = by_workload.entry(trial.key.workload.clone()).or_default();
        match &trial.outcome {
            crate::record::Outcome::Completed { points } => {
                measured.by_repeat.insert(trial.key.repeat, Merit::of(points));
            }
            crate::record::Outcome::Failed { message } => measured.failed = Some(message.clone()),
        }
    }

    /// What a run is ranked by.
    pub fn by(&self) -> By {
        self.by
    }

    /// The workloads of the run.
    pub fn workloads(&self) -> &[String] {
        &self.workloads
    }

    /// The setups that have any trial of this purpose, in order.
    pub fn setups(&self, purpose: Purpose) -> impl Iterator<Item = &Setup> {
        self.by_setup.keys().filter(move |(found, _)| *found == purpose).map(|(_, setup)| setup)
    }

    /// The merits of a setup under a workload, in the order of the repeats.
    pub fn merits(&self, purpose: Purpose, setup: &Setup, workload: &str, by: By) -> Vec<f64> {
        self.measured(purpose, setup, workload)
            .map(|measured| measured.by_repeat.values().map(|merit| merit.by(by)).collect())
            .unwrap_or_default()
    }

    /// The logarithms of the merits of a setup under a workload, in the order of the repeats.
    pub fn logs(&self, purpose: Purpose, setup: &Setup, workload: &str, by: By) -> Vec<f64> {
        self.measured(purpose, setup, workload)
            .map(|measured| measured.by_repeat.values().map(|merit| merit.log(by)).collect())
            .unwrap_or_default()
    }

    /// Why a setup is out, if it is.
    pub fn failure(&self, purpose: Purpose, setup: &Setup) -> Option<&str> {
        let by_workload = self.by_setup.get(&(purpose, setup.clone()))?;
        by_workload.values().find_map(|measured| measured.failed.as_deref())
    }

    /// Where a setup of the search stands.
    pub fn standing(&self, setup: &Setup) -> Standing {
        if let Some(message) = self.failure(Purpose::Search, setup) {
            return Standing::Failed(message.to_owned());
        }
        if !self.missing(Purpose::Search, setup, self.repeats).is_empty() {
            return Standing::Incomplete;
        }
        let medians = self.workloads.iter().filter_map(|workload| {
            stats::median(&self.merits(Purpose::Search, setup, workload, self.by))
        });
        Standing::Score(medians.sum())
    }

    /// The trials of a setup that are still to be made, of `repeats` under each workload; none for
    /// a setup that failed.
    pub fn missing(&self, purpose: Purpose, setup: &Setup, repeats: u32) -> Vec<TrialKey> {
        if self.failure(purpose, setup).is_some() {
            return Vec::new();
        }
        let mut keys = Vec::new();
        for workload in &self.workloads {
            let measured = self.measured(purpose, setup, workload);
            let is_made =
                |repeat: &u32| measured.is_some_and(|found| found.by_repeat.contains_key(repeat));
            keys.extend((0..repeats).filter(|repeat| !is_made(repeat)).map(|repeat| TrialKey {
                purpose,
                setup: setup.clone(),
                workload: workload.clone(),
                repeat,
            }));
        }
        keys
    }

    fn measured(&self, purpose: Purpose, setup: &Setup, workload: &str) -> Option<&Measured> {
        self.by_setup.get(&(purpose, setup.clone()))?.get(workload)
    }
}
