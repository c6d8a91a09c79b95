//! The twin first: a simulated card that was fitted to the device is tuned in a virtual machine
//! with counted instructions, and what it gave is the prior of the search on the device.
//!
//! Limits: the twin has the costs that a probe can measure, not the firmware of the device, and the
//! guest has its own kernel. So nothing that the twin said decides: the gain comes from trials on
//! the device, and the search learns from them how far the twin holds ([`agreement`]).

pub mod agreement;

use std::collections::BTreeMap;

use flashfit_bench::MeasurementLength;
use flashfit_filesystem::Setup;
use flashfit_run_format::{Budget, Likeness, PriorResult, PriorSource, RunPrior};
use flashfit_search::TrialOutcome;
use flashfit_testbed::{TestBedSpec, VmChoice};

use crate::objective::Objective;
use crate::record::TrialRecord;
use crate::spec::RunSpec;

pub use agreement::{TwinAgreement, WorkloadAgreement};

const MILLION: f64 = 1e6;

/// The run on a twin, `target`, that precedes the run of `spec`: the same setups, workloads and
/// measuring, in a virtual machine. Its processor does `speed_mips` million instructions a second.
pub fn spec_of(spec: &RunSpec, target: &str, speed_mips: u32) -> RunSpec {
    let kernel = match &spec.on {
        TestBedSpec::Vm(choice) => choice.kernel.clone(),
        _ => None,
    };
    let choice = VmChoice { kernel, speed_mips: Some(speed_mips), ..VmChoice::default() };
    RunSpec {
        on: TestBedSpec::Vm(choice),
        target: target.to_owned(),
        // The time that it may take is that of this machine, not the time in its trials.
        limits: Budget { budget_ns: None, max_write_bytes: None, ..spec.limits.clone() },
        mount_dir: None,
        prior: None,
        // What is known of the life of setups is about the device.
        life: None,
        crash_states: None,
        ..spec.clone()
    }
}

/// What trials of a twin say before the first trial on the device; `None` without a measured trial.
pub fn prior_of(trials: &[TrialRecord], objective: &Objective, twin: &str) -> Option<RunPrior> {
    type Cell<'a> = (&'a Setup, &'a str, bool);
    let mut cells: BTreeMap<Cell<'_>, Vec<f64>> = BTreeMap::new();
    for trial in trials {
        if let TrialOutcome::Measured { log_merit, .. } = objective.outcome(trial) {
            let key = &trial.key;
            let cell = (&key.setup, key.workload.as_str(), key.length.is_full());
            cells.entry(cell).or_default().push(log_merit);
        }
    }
    let result = |((setup, workload, is_full), logs): (Cell<'_>, Vec<f64>)| {
        let count = logs.len() as f64;
        let mean = logs.iter().sum::<f64>() / count;
        let squares: f64 = logs.iter().map(|log| (log - mean).powi(2)).sum();
        let sd = if logs.len() > 1 { (squares / (count - 1.0)).sqrt() } else { 0.0 };
        PriorResult {
            setup: setup.clone(),
            workload: workload.to_owned(),
            length: if is_full { MeasurementLength::Full } else { MeasurementLength::Short },
            log_merit_millionths: (MILLION * mean).round() as i64,
            repeats: u32::try_from(logs.len()).unwrap_or(u32::MAX),
            sd_millionths: (MILLION * sd).round() as u32,
        }
    };
    let results: Vec<PriorResult> = cells.into_iter().map(result).collect();
    let source = PriorSource { device: twin.to_owned(), likeness: Likeness::Twin, results };
    (!source.results.is_empty()).then(|| RunPrior { sources: vec![source] })
}
