//! What the trials so far say of each setup, by the methodology's merits.
//!
//! Whole trials count alone: a short one has a bias of its own. What a trial was for does not
//! matter here; who needs unflattered figures asks for those of one purpose.

use std::collections::BTreeMap;

use flashfit_filesystem::Setup;

use crate::choice::Criterion;
use crate::merit::Merit;
use crate::record::{RecordedOutcome, TrialPurpose, TrialRecord};

/// The merits measured of one setup under one workload, in the order of time.
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
    /// Of a run's trials under these workloads.
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

    /// Takes one more trial in.
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

    /// The setups that have any trial, in order.
    pub fn setups(&self) -> impl Iterator<Item = &Setup> {
        self.by_setup.keys()
    }

    /// The merits of a setup under a workload, in the order of time.
    pub fn merits(&self, setup: &Setup, workload: &str, by: Criterion) -> Vec<f64> {
        let measured = self.measured(setup, workload);
        measured.iter().filter_map(|(_, merit)| merit.by(by)).collect()
    }

    /// Why a setup is out, if it is.
    pub fn failure(&self, setup: &Setup) -> Option<&str> {
        self.failed.get(setup).map(String::as_str)
    }

    fn measured(&self, setup: &Setup, workload: &str) -> &[(TrialPurpose, Merit)] {
        let found = self.by_setup.get(setup).and_then(|by_workload| by_workload.get(workload));
        found.map_or(&[], |measured| &measured.merits)
    }
}
