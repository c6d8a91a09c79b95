//! What a run shows of its constraints, in words.

use flashfit_report::{ColumnKind, FigureUnit, ReportFinding};
use flashfit_search::CandidateIndex;
use flashfit_tune::Conclusion;
use flashfit_tune::constraint::WorstWorkload;
use flashfit_tune::recommend::percent;

/// The setup that comes nearest to the constraint of those that may be recommended, if none of them
/// was shown to meet it.
pub fn nearest(conclusion: &Conclusion) -> Option<(CandidateIndex, WorstWorkload)> {
    let evidence = conclusion.choosable_evidence()?;
    if evidence.iter().any(|found| found.is_shown) {
        return None;
    }
    evidence.iter().find_map(|found| Some((found.candidate, found.worst?)))
}

/// Why no setup is shown to meet all constraints; `None` if there are none, or one is shown to meet
/// each. A constraint on latencies is not the reason where no setup can last as long as it must:
/// the search has ended before it measured any at full length.
pub fn not_shown(conclusion: &Conclusion, limit_ns: Option<u64>) -> Option<String> {
    let life = super::life::not_shown(conclusion);
    let Some(latency) = latency_not_shown(conclusion, limit_ns) else { return life };
    if conclusion.is_any_shown_to_last() {
        return Some(latency);
    }
    match life {
        Some(life) if nearest(conclusion).is_some() => Some(format!("{life}; {latency}")),
        Some(life) if !conclusion.can_any_be_shown_to_last() => Some(life),
        _ => Some(latency),
    }
}

/// `no setup was shown to meet 50 ms; the nearest is ext4 base none: 5.2 s under sync-files (3
/// trials)`. `None` if there is no constraint, or some setup that may be recommended meets it.
fn latency_not_shown(conclusion: &Conclusion, limit_ns: Option<u64>) -> Option<String> {
    let evidence = conclusion.choosable_evidence()?;
    if evidence.iter().any(|found| found.is_shown) {
        return None;
    }
    let shown = |ns: f64| FigureUnit::Nanoseconds.show(ns);
    let limit_ns = limit_ns? as f64;
    let start = format!("no setup was shown to meet {}", shown(limit_ns));
    let Some((candidate, found)) = nearest(conclusion) else {
        return Some(format!("{start}: none was measured at full length under every workload"));
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

/// Setups that violate the constraint on latencies.
pub fn violations(conclusion: &Conclusion, limit_ns: Option<u64>) -> ReportFinding {
    let mut finding = ReportFinding::new(
        "Violates the constraint",
        "The 99th percentile of write latency under this workload exceeds the constraint by more \
         than the noise. It is the geometric mean over the full-length trials, or over the short \
         ones where there are no others.",
        [
            ("setup", ColumnKind::Name),
            ("99th percentile", ColumnKind::Number),
            ("excess", ColumnKind::Number),
            ("trials", ColumnKind::Number),
            ("workload", ColumnKind::Remark),
            ("note", ColumnKind::Remark),
        ],
        3,
    );
    for (candidate, found) in &conclusion.broken {
        let at = found.worst;
        let limit_ns = limit_ns.map(|limit_ns| limit_ns as f64 * at.excess.exp());
        finding.rows.push(vec![
            conclusion.problem.setups[*candidate].label(),
            limit_ns.map_or_else(String::new, |ns| FigureUnit::Nanoseconds.show(ns)),
            FigureUnit::PercentChange.show(percent(at.excess)),
            at.trials.to_string(),
            conclusion.problem.workloads[at.workload].clone(),
            if found.is_of_short { "short trials" } else { "" }.to_owned(),
        ]);
    }
    finding
}
