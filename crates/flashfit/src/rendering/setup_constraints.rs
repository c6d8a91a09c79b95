//! Whether a setup meets each constraint of its run, as JSON and as text.

use flashfit_report::FigureUnit;
use flashfit_search::CandidateIndex;
use flashfit_tune::constraint_status::{self, ConstraintKind, ConstraintStatus};
use schemars::JsonSchema;
use serde::Serialize;

use super::RunView;

/// One constraint with its status for a setup.
#[derive(Debug, JsonSchema, Serialize)]
pub struct SetupConstraint {
    /// `require` (what a power cut may do), `p99-write-max` or `min-years`.
    constraint: &'static str,
    /// `met`, `not-met`, `undecided` (within the noise, or too few trials) or
    /// `not-measured`.
    status: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    limit_durability: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    limit_ns: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    limit_years: Option<f64>,
}

/// All constraints of the run for this setup.
pub fn of(view: &RunView<'_>, candidate: CandidateIndex) -> Vec<SetupConstraint> {
    statuses(view, candidate)
        .into_iter()
        .map(|(kind, status)| {
            let (min_years, spec) = (min_years(view), &view.header.spec);
            let is = |other: ConstraintKind| kind == other;
            SetupConstraint {
                constraint: match kind {
                    ConstraintKind::Safety => "require",
                    ConstraintKind::WriteLatency => "p99-write-max",
                    ConstraintKind::Life => "min-years",
                },
                status: match status {
                    ConstraintStatus::Met => "met",
                    ConstraintStatus::NotMet => "not-met",
                    ConstraintStatus::Undecided => "undecided",
                    ConstraintStatus::NotMeasured => "not-measured",
                },
                limit_durability: is(ConstraintKind::Safety).then(|| view.space.allow.name()),
                limit_ns: spec.p99_write_max_ns.filter(|_| is(ConstraintKind::WriteLatency)),
                limit_years: min_years.filter(|_| is(ConstraintKind::Life)),
            }
        })
        .collect()
}

/// The same in words, without those that are met.
pub fn lines(view: &RunView<'_>, candidate: CandidateIndex) -> Vec<String> {
    let label = view.conclusion.problem.setups[candidate].label();
    let unmet = statuses(view, candidate);
    let unmet = unmet.into_iter().filter_map(|(kind, status)| {
        let status = match status {
            ConstraintStatus::Met => return None,
            ConstraintStatus::NotMet => "not met",
            ConstraintStatus::Undecided => "not decided, within the noise or too few trials",
            ConstraintStatus::NotMeasured => "not measured",
        };
        let limit = match kind {
            ConstraintKind::Safety => format!("--allow {}", view.space.allow.name()),
            ConstraintKind::WriteLatency => {
                let limit_ns = view.header.spec.p99_write_max_ns.unwrap_or_default();
                let limit = FigureUnit::Nanoseconds.show(limit_ns as f64);
                format!("99 of 100 writes within {limit}")
            }
            ConstraintKind::Life => {
                format!("at least {} years", super::wear::years(min_years(view).unwrap_or(0.0)))
            }
        };
        Some(format!("{label}: {limit}: {status}."))
    });
    unmet.collect()
}

fn statuses(
    view: &RunView<'_>,
    candidate: CandidateIndex,
) -> Vec<(ConstraintKind, ConstraintStatus)> {
    constraint_status::of_setup(&view.conclusion, view.space, &view.header.spec, candidate)
}

fn min_years(view: &RunView<'_>) -> Option<f64> {
    view.conclusion.lives.as_ref()?.min_years()
}
