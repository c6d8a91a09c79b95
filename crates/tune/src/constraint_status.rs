//! Whether a setup meets each constraint of a run.
//!
//! Only what was measured counts: a setup without a full-length trial under every workload neither
//! meets a measured constraint nor, unless some trials exceed it beyond noise, fails it.

use flashfit_search::CandidateIndex;

use crate::conclusion::Conclusion;
use crate::space::Space;
use crate::spec::RunSpec;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConstraintKind {
    /// What a power cut may do (`--allow`).
    Safety,
    /// The longest that 99 of 100 writes may take.
    WriteLatency,
    /// The years that a setup must last.
    Life,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConstraintStatus {
    /// Met by more than the noise.
    Met,
    /// Missed by more than the noise.
    NotMet,
    /// Measured, but in too few trials, or the noise is larger than the distance to the limit.
    Undecided,
    NotMeasured,
}

/// The constraints of a run, each with the status of this setup.
pub fn of_setup(
    conclusion: &Conclusion,
    space: &Space,
    spec: &RunSpec,
    candidate: CandidateIndex,
) -> Vec<(ConstraintKind, ConstraintStatus)> {
    let mut found = vec![(ConstraintKind::Safety, safety(conclusion, space, candidate))];
    if spec.p99_write_max_ns.is_some() {
        found.push((ConstraintKind::WriteLatency, write_latency(conclusion, candidate)));
    }
    if let Some(status) = life(conclusion, candidate) {
        found.push((ConstraintKind::Life, status));
    }
    found
}

fn safety(conclusion: &Conclusion, space: &Space, candidate: CandidateIndex) -> ConstraintStatus {
    // The catalog decides, not a measurement.
    match conclusion.problem.space.candidates[candidate].safety <= space.allow as u8 {
        true => ConstraintStatus::Met,
        false => ConstraintStatus::NotMet,
    }
}

fn write_latency(conclusion: &Conclusion, candidate: CandidateIndex) -> ConstraintStatus {
    if conclusion.broken.contains_key(&candidate) {
        return ConstraintStatus::NotMet;
    }
    let evidence = conclusion.constraint.iter().flatten();
    match evidence.into_iter().find(|found| found.candidate == candidate) {
        Some(found) if found.is_shown => ConstraintStatus::Met,
        Some(_) => ConstraintStatus::Undecided,
        None => ConstraintStatus::NotMeasured,
    }
}

fn life(conclusion: &Conclusion, candidate: CandidateIndex) -> Option<ConstraintStatus> {
    let lives = conclusion.lives.as_ref()?;
    lives.min_years()?;
    Some(match lives.life(candidate).years() {
        _ if lives.is_shown_to_last(candidate) => ConstraintStatus::Met,
        Some(_) if !lives.is_measured(candidate) => ConstraintStatus::NotMeasured,
        Some(_) if lives.is_shown_to_be_short(candidate) => ConstraintStatus::NotMet,
        Some(_) => ConstraintStatus::Undecided,
        None => ConstraintStatus::NotMeasured,
    })
}
