//! Setups compared with each other, as JSON and as text.

use flashfit_report::{Column, FigureUnit, Shorten, TextTable, quantity, text};
use flashfit_search::{CandidateIndex, Difference};
use flashfit_tune::Conclusion;
use flashfit_tune::head_to_head::{HeadToHead, PairBasis, PairVerdict, SetupComparisons};
use flashfit_tune::recommend::percent;
use flashfit_tune::stats::Estimate;
use schemars::JsonSchema;
use serde::Serialize;

use super::RunView;
use super::answer::Change;
use super::setup_constraints::{self, SetupConstraint};

/// Two setups; a positive change says that `setup` is better than `other`.
#[derive(Debug, JsonSchema, Serialize)]
pub struct HeadToHeadParts {
    setup: String,
    other: String,
    /// `confirming-rounds`, `all-trials` or `not-measured`.
    basis: &'static str,
    #[serde(flatten)]
    overall: DifferenceParts,
    /// Rounds of confirming trials with both under every workload.
    paired_rounds: usize,
    workloads: Vec<WorkloadParts>,
}

#[derive(Debug, JsonSchema, Serialize)]
struct WorkloadParts {
    workload: String,
    #[serde(flatten)]
    found: DifferenceParts,
}

#[derive(Debug, JsonSchema, Serialize)]
struct DifferenceParts {
    /// `better`, `worse`, `tied`, `not-confirmed` or `failed`.
    verdict: &'static str,
    difference: Option<Change>,
    /// The probability that `setup` is better, 0 to 1, without regard to how it was chosen.
    better_probability: Option<f64>,
}

/// Two setups with what each shows of the constraints.
#[derive(Debug, JsonSchema, Serialize)]
pub struct VersusDocument {
    #[serde(flatten)]
    pair: HeadToHeadParts,
    setup_constraints: Vec<SetupConstraint>,
    other_constraints: Vec<SetupConstraint>,
}

impl VersusDocument {
    pub fn new(view: &RunView<'_>, pair: &HeadToHead) -> Self {
        Self {
            pair: HeadToHeadParts::of(&view.conclusion, pair),
            setup_constraints: setup_constraints::of(view, pair.one),
            other_constraints: setup_constraints::of(view, pair.other),
        }
    }
}

/// The finalists and the baseline, each with each.
pub fn of_finalists(conclusion: &Conclusion) -> Vec<HeadToHeadParts> {
    let pairs = SetupComparisons::of(conclusion).of_finalists();
    pairs.iter().map(|pair| HeadToHeadParts::of(conclusion, pair)).collect()
}

impl HeadToHeadParts {
    fn of(conclusion: &Conclusion, pair: &HeadToHead) -> Self {
        let problem = &conclusion.problem;
        let workloads = pair.by_workload.iter().map(|found| WorkloadParts {
            workload: problem.workloads[found.workload].clone(),
            found: DifferenceParts::of(found.difference.as_ref(), found.verdict),
        });
        Self {
            setup: problem.setups[pair.one].label(),
            other: problem.setups[pair.other].label(),
            basis: match pair.basis {
                PairBasis::ConfirmingRounds => "confirming-rounds",
                PairBasis::AllTrials => "all-trials",
                PairBasis::NotMeasured => "not-measured",
            },
            overall: DifferenceParts::of(pair.overall.as_ref(), pair.verdict),
            paired_rounds: pair.paired_rounds,
            workloads: workloads.collect(),
        }
    }
}

impl DifferenceParts {
    fn of(difference: Option<&Difference>, verdict: PairVerdict) -> Self {
        let change = |found: &Difference| {
            Change::from(&Estimate {
                middle: found.mean,
                interval: found.interval,
                seen: found.seen,
                count: found.count,
            })
        };
        Self {
            verdict: name(verdict),
            difference: difference.map(change),
            better_probability: difference.and_then(|found| found.better_probability),
        }
    }
}

fn name(verdict: PairVerdict) -> &'static str {
    match verdict {
        PairVerdict::Better => "better",
        PairVerdict::Worse => "worse",
        PairVerdict::Tied => "tied",
        PairVerdict::NotConfirmed => "not-confirmed",
        PairVerdict::Failed => "failed",
    }
}

/// The comparison of two setups, for the terminal.
pub fn versus_text(view: &RunView<'_>, pair: &HeadToHead, width: usize) -> String {
    let problem = &view.conclusion.problem;
    let label = |candidate: CandidateIndex| problem.setups[candidate].label();
    let mut out = format!("{} versus {}\n\n", label(pair.one), label(pair.other));
    let mut table = TextTable::new([
        Column::text("WORKLOAD").shorten(Shorten::Middle),
        Column::number("DIFFERENCE"),
        Column::text("95 % INTERVAL"),
        Column::number("BETTER"),
        Column::text("VERDICT"),
    ]);
    let mut row = |name: &str, found: Option<&Difference>, verdict| {
        let [change, interval, probability] = cells(found);
        table.row([name, &change, &interval, &probability, name_of(verdict)]);
    };
    for found in &pair.by_workload {
        let workload = &problem.workloads[found.workload];
        row(workload, found.difference.as_ref(), found.verdict);
    }
    row("all, by weight", pair.overall.as_ref(), pair.verdict);
    out += &table.render(width);
    out += "\n";
    out += &text::wrap(&basis(pair), width).join("\n");
    out += "\n";
    for candidate in [pair.one, pair.other] {
        for line in setup_constraints::lines(view, candidate) {
            out += &text::wrap(&line, width).join("\n");
            out += "\n";
        }
    }
    out
}

fn cells(found: Option<&Difference>) -> [String; 3] {
    let dash = || "-".to_owned();
    let change = |log: f64| FigureUnit::PercentChange.show(percent(log));
    let Some(found) = found else { return [dash(), dash(), dash()] };
    let interval = found.interval.map(|(low, high)| format!("{} to {}", change(low), change(high)));
    let probability = found.better_probability.map(quantity::probability);
    [change(found.mean), interval.unwrap_or_else(dash), probability.unwrap_or_else(dash)]
}

fn name_of(verdict: PairVerdict) -> &'static str {
    match verdict {
        PairVerdict::NotConfirmed => "not confirmed",
        other => name(other),
    }
}

fn basis(pair: &HeadToHead) -> String {
    let meaning = "BETTER: the probability that the first setup is better.";
    match pair.basis {
        PairBasis::ConfirmingRounds => {
            let rounds = match pair.paired_rounds {
                1 => "1 round".to_owned(),
                count => format!("{count} rounds"),
            };
            format!("Compared within {rounds} of confirming trials. {meaning}")
        }
        PairBasis::AllTrials => format!(
            "These setups have no common confirming trials: the differences are those of all their \
             full-length trials, which the search chose by their results. {meaning}"
        ),
        PairBasis::NotMeasured => "At least one of them lacks a full-length trial under some \
                                   workload."
            .to_owned(),
    }
}
