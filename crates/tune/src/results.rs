//! Merits of each setup from the trials so far, as defined by the methodology.
//!
//! Only full-length trials count, because short ones are biased. The purpose of a trial does not
//! matter unless a caller requests one purpose.

use std::collections::BTreeMap;

use flashfit_filesystem::Setup;

use crate::choice::Criterion;
use crate::merit::Merit;
use crate::record::{RecordedOutcome, TrialPurpose, TrialRecord};

/// Merits of one setup under one workload, in time order.
#[derive(Debug, Clone, Default)]
struct Measured {
    merits: Vec<(TrialPurpose, Merit)>,
}

/// Merits by setup and workload.
#[derive(Debug, Clone)]
pub struct MeritResults {
    by_setup: BTreeMap<Setup, BTreeMap<String, Measured>>,
    failed: BTreeMap<Setup, String>,
    workloads: Vec<String>,
}

impl MeritResults {
    /// The merits of a run's trials under these workloads.
    pub fn of(trials: &[TrialRecord], workloads: &[String]) -> Self {
        let mut results = Self {
            by_setup: BTreeMap::new(),
            failed: BTreeMap::new(),
            workloads: workloads.to_vec(),
        };
        for trial in trials {
            results.add(trial);
        }
        results
    }

    pub fn add(&mut self, trial: &TrialRecord) {
        let key = &trial.key;
        let by_workload = self.by_setup.entry(key.setup.clone()).or_default();
        match &trial.outcome {
            RecordedOutcome::Completed { points } if key.length.is_full() => {
                let measured = by_workload.entry(key.workload.clone()).or_default();
                measured.merits.push((key.purpose, Merit::of_trial(trial, points)));
            }
            RecordedOutcome::Completed { .. } => {}
            RecordedOutcome::Failed { message } => {
                self.failed.entry(key.setup.clone()).or_insert_with(|| message.clone());
            }
        }
    }

    /// The workloads of the run.
    pub fn workloads(&self) -> &[String] {
        &self.workloads
    }

    /// The setups with any trial, in order.
    pub fn setups(&self) -> impl Iterator<Item = &Setup> {
        self.by_setup.keys()
    }

    /// The merits of a setup under a workload, in time order.
    pub fn merits(&self, setup: &Setup, workload: &str, by: Criterion) -> Vec<f64> {
        let measured = self.measured(setup, workload);
        measured.iter().filter_map(|(_, merit)| merit.by(by)).collect()
    }

    /// The logarithms of the same, whose differences are logarithms of ratios.
    pub fn logs(&self, setup: &Setup, workload: &str, by: Criterion) -> Vec<f64> {
        let measured = self.measured(setup, workload);
        measured.iter().filter_map(|(_, merit)| merit.log(by)).collect()
    }

    /// The error of a failed setup.
    pub fn failure(&self, setup: &Setup) -> Option<&str> {
        self.failed.get(setup).map(String::as_str)
    }

    fn measured(&self, setup: &Setup, workload: &str) -> &[(TrialPurpose, Merit)] {
        let found = self.by_setup.get(setup).and_then(|by_workload| by_workload.get(workload));
        found.map_or(&[], |measured| &measured.merits)
    }
}
