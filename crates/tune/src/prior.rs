//! The results of similar devices, as the search takes them.

use flashfit_run_format::{PriorResult, RunPrior};
use flashfit_search::{SearchPrior, SimilarResult};

use crate::objective;
use crate::problem::Problem;

const MILLION: f64 = 1e6;

/// Without setups and workloads that the problem lacks; `None` if nothing is left.
pub fn of(problem: &Problem, prior: &RunPrior) -> Option<SearchPrior> {
    let similar = |result: &PriorResult| {
        Some(SimilarResult {
            candidate: problem.candidate(&result.setup)?,
            workload: problem.workload(&result.workload)?,
            length: objective::length(result.length),
            log_merit: result.log_merit_millionths as f64 / MILLION,
            repeats: result.repeats,
            sd: f64::from(result.sd_millionths) / MILLION,
        })
    };
    let sources = prior.sources.iter();
    let mut devices: Vec<Vec<SimilarResult>> =
        sources.map(|source| source.results.iter().filter_map(similar).collect()).collect();
    devices.retain(|device| !device.is_empty());
    let known = (!devices.is_empty()).then(|| SearchPrior::new(devices))?;
    Some(if prior.is_of_twin() { known.of_twin() } else { known })
}
