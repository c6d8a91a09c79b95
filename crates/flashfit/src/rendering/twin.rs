//! What a simulated twin of the device said before the first trial, and whether the device agrees.

use std::time::Duration;

use flashfit_tune::twin::{TwinAgreement, WorkloadAgreement};
use flashfit_tune::{RunHeader, RunPrior, RunSpec, TrialRecord};
use schemars::JsonSchema;
use serde::Serialize;

use super::duration;

/// What the trials on a twin take, before anybody agrees to anything.
pub fn plan_text(spec: &RunSpec, time: Duration, guests: usize) -> String {
    let trials = spec.limits.trials.unwrap_or(u32::MAX);
    let trials = format!("up to {trials} trials (a short one counts as a fraction)");
    let machines = if guests == 1 { "a virtual machine" } else { "virtual machines" };
    format!(
        "before the trials on the device, those on its twin {}, simulated: {trials} in {machines} with counted \
         instructions ({guests} at once), {} at the longest, 0 bytes written to the device",
        spec.target,
        duration(time)
    )
}

/// What the trials on the twin gave.
pub fn finished_text(trials: &[TrialRecord], prior: Option<&RunPrior>) -> String {
    let is_empty = trials.is_empty();
    let short = trials.iter().filter(|trial| !trial.key.length.is_full()).count();
    let trials = match short {
        0 => format!("{} simulated trials", trials.len()),
        _ => format!("{} simulated trials ({short} of them short)", trials.len()),
    };
    match prior {
        Some(prior) => format!(
            "twin: {trials} gave {} results, with which the search on the device \
             begins; gains come from trials on the device only",
            prior.results()
        ),
        None if is_empty => {
            "twin: no simulated trial was made in its time; the search is the usual one".to_owned()
        }
        None => format!("twin: {trials} gave no result; the search is the usual one"),
    }
}

/// Whether the device agrees with the twin, for a reader of the answer.
pub fn agreement_text(found: &TwinAgreement) -> String {
    let TwinAgreement { finalists, pairs, agreeing_pairs, .. } = found;
    let mut text = match (*pairs, found.holds()) {
        _ if *finalists < 2 => {
            "The ranking of the twin (simulated) was not compared with the device: fewer than two \
             setups were confirmed there that it had measured."
                .to_owned()
        }
        (0, _) => format!(
            "The {finalists} finalists that the twin (simulated) had measured are tied on the \
             device, so its ranking of them is not confirmed."
        ),
        (_, true) => format!(
            "The twin (simulated) ranked the finalists as the device did: {agreeing_pairs} of \
             {pairs} pairs."
        ),
        _ => format!(
            "The twin (simulated) and the device disagree: {agreeing_pairs} of {pairs} pairs of \
             finalists are ranked alike. The device decides."
        ),
    };
    let unranked: Vec<String> = found
        .unranked()
        .map(|of| format!("{} ({:.2} over {} setups)", of.workload, of.rank_correlation, of.setups))
        .collect();
    if !unranked.is_empty() {
        text.push_str(&format!(
            " It does not rank setups under {} (rank correlation with the device).",
            unranked.join(", ")
        ));
    }
    text
}

/// The agreement in a document.
#[derive(Debug, JsonSchema, Serialize)]
pub struct TwinParts {
    /// Results of the twin with which the search began; simulated.
    results: usize,
    /// Pairs of finalists that differ on the device, and those of them that the twin ranks alike.
    pairs: usize,
    agreeing_pairs: usize,
    workloads: Vec<TwinWorkloadParts>,
    text: String,
}

/// The rank correlation under a workload, of the setups that both measured.
#[derive(Debug, JsonSchema, Serialize)]
pub struct TwinWorkloadParts {
    workload: String,
    setups: usize,
    rank_correlation_thousandths: i64,
}

impl From<&WorkloadAgreement> for TwinWorkloadParts {
    fn from(of: &WorkloadAgreement) -> Self {
        let rank_correlation_thousandths = (1000.0 * of.rank_correlation).round() as i64;
        Self { workload: of.workload.clone(), setups: of.setups, rank_correlation_thousandths }
    }
}

/// The agreement of a run's trials with its twin; `None` without one.
pub fn agreement(header: &RunHeader, trials: &[TrialRecord]) -> Option<TwinAgreement> {
    TwinAgreement::of(header.spec.prior.as_ref()?, &header.spec, trials)
}

/// The same for a document.
pub fn parts(header: &RunHeader, trials: &[TrialRecord]) -> Option<TwinParts> {
    let found = agreement(header, trials)?;
    Some(TwinParts {
        results: header.spec.prior.as_ref().map_or(0, RunPrior::results),
        pairs: found.pairs,
        agreeing_pairs: found.agreeing_pairs,
        workloads: found.workloads.iter().map(TwinWorkloadParts::from).collect(),
        text: agreement_text(&found),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tie_is_not_stated_of_setups_that_were_not_compared() {
        let text = |finalists, pairs, agreeing_pairs| {
            let workloads = Vec::new();
            agreement_text(&TwinAgreement { finalists, pairs, agreeing_pairs, workloads })
        };
        for finalists in [0, 1] {
            assert!(text(finalists, 0, 0).contains("was not compared with the device"));
        }
        assert!(text(3, 0, 0).contains("The 3 finalists"));
        assert!(text(3, 3, 3).contains("ranked the finalists as the device did: 3 of 3 pairs"));
        assert!(text(3, 3, 1).contains("disagree: 1 of 3"));
    }
}
