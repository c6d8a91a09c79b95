//! What a run shows of its constraints, in words.

use flashfit_report::FigureUnit;
use flashfit_search::CandidateIndex;
use flashfit_tune::constraint::WorstWorkload;
use flashfit_tune::{Conclusion, RunSpec};

/// The setup that comes nearest to the constraint of those that may be recommended, if none of them
/// was shown to meet it.
pub fn nearest(conclusion: &Conclusion) -> Option<(CandidateIndex, WorstWorkload)> {
    let evidence = conclusion.choosable_evidence()?;
    if evidence.iter().any(|found| found.is_shown) {
        return None;
    }
    evidence.iter().find_map(|found| Some((found.candidate, found.worst?)))
}

/// `no setup was shown to meet 50 ms; the nearest is ext4 base none: 5.2 s under sync-files (3
/// trials)`. `None` if there is no constraint, or some setup that may be recommended meets it.
pub fn not_shown(conclusion: &Conclusion, limit_ns: Option<u64>) -> Option<String> {
    let evidence = conclusion.choosable_evidence()?;
    if evidence.iter().any(|found| found.is_shown) {
        return None;
    }
    let shown = |ns: f64| FigureUnit::Nanoseconds.show(ns);
    let limit_ns = limit_ns? as f64;
    let start = format!("no setup was shown to meet {}", shown(limit_ns));
    let Some((candidate, found)) = nearest(conclusion) else {
        return Some(format!("{start}: none was measured at full length under every workload yet"));
    };
    let problem = &conclusion.problem;
    let trials = match found.trials {
        1 => "1 trial".to_owned(),
        count => format!("{count} trials"),
    };
    Some(format!(
        "{start}; the nearest is {}: {} under {} ({trials})",
        problem.setups[candidate].label(),
        shown(limit_ns * found.excess.exp()),
        problem.workloads[found.workload]
    ))
}

/// The same for a run.
pub fn of_run(conclusion: &Conclusion, spec: &RunSpec) -> Option<String> {
    not_shown(conclusion, spec.p99_write_max_ns).or_else(|| super::life::not_shown(conclusion))
}
