//! Whether longer trials agree with what a run recommends: a sentence, a table, and JSON.

use std::path::Path;
use std::time::Duration;

use flashfit_filesystem::Setup;
use flashfit_report::quantity::{whole, whole_change};
use flashfit_report::{ColumnKind, ReportFinding};
use flashfit_tune::recommend::percent;
use flashfit_tune::run_dir::read_sustained;
use flashfit_tune::sustained::SustainedGain;
use flashfit_tune::{Criterion, RecordedOutcome, TrialKey, TrialRecord};
use schemars::JsonSchema;
use serde::Serialize;

use super::answer::hundredths;
use super::headline::{better, worse};
use super::{RunView, duration};

const TERMINAL_ROWS: usize = 12;

/// What longer trials say, next to what is recommended.
#[derive(Debug)]
pub struct SustainedAnswer {
    gain: SustainedGain,
    by: Criterion,
    baseline: Setup,
    /// The time limit of a stage of the other trials.
    usual: Duration,
    is_recommended: bool,
    contradicts: bool,
}

/// Longer trials in a document: `setup` against the baseline.
#[derive(Debug, JsonSchema, Serialize)]
pub struct SustainedParts {
    setup: Setup,
    /// When a stage ended although not all its data was moved; `spec.runtime_ms` of the run is that
    /// of the other trials.
    runtime_ms: u64,
    /// The mean over workloads and comparisons.
    percent_hundredths: i64,
    workloads: Vec<SustainedWorkloadParts>,
    /// Whether each comparison over all workloads says the opposite of the recommendation.
    contradicts: bool,
    text: String,
}

#[derive(Debug, JsonSchema, Serialize)]
struct SustainedWorkloadParts {
    workload: String,
    /// Of each comparison.
    percent_hundredths: Vec<i64>,
}

/// Longer trials that failed, of the run in this directory: the setup may not stand longer work.
pub fn failures(dir: &Path) -> Vec<String> {
    let trials = read_sustained(dir).ok().flatten().map_or_else(Vec::new, |found| found.trials);
    let failure = |trial: &TrialRecord| {
        let RecordedOutcome::Failed { message } = &trial.outcome else { return None };
        let TrialKey { setup, workload, .. } = &trial.key;
        Some(format!("longer work failed: {} under {workload}: {message}", setup.label()))
    };
    trials.iter().filter_map(failure).collect()
}

impl SustainedAnswer {
    /// Of the run in this directory; `None` without whole comparisons.
    pub fn of(view: &RunView<'_>, dir: &Path) -> Option<Self> {
        let found = view.recommendation()?;
        let trials = read_sustained(dir).ok()??;
        let spec = &view.header.spec;
        let gain = SustainedGain::of(spec, &trials, &found.baseline)?;
        let is_recommended = says(&gain.setup, found.recommended(), &found.baseline)?;
        let expected = if is_recommended { 1.0 } else { -1.0 };
        let within = f64::from(spec.limits.within_hundredths) / 10_000.0;
        let contradicts = gain.contradicts(expected, within);
        let usual = Duration::from_nanos(spec.runtime_ns());
        let (by, baseline) = (spec.by, found.baseline.clone());
        Some(Self { gain, by, baseline, usual, is_recommended, contradicts })
    }

    /// For a reader of the answer.
    pub fn text(&self) -> String {
        let runtime = Duration::from_millis(self.gain.runtime_ms);
        let mean = self.gain.mean();
        let faster = if mean < 0.0 { worse(self.by) } else { better(self.by) };
        let ends = ends(&self.gain.rounds);
        let mut text = format!(
            "In work of {} at a time (trials above: {}), {} was {} % {faster} than {} ({ends}): ",
            duration(runtime),
            duration(self.usual),
            self.gain.setup.label(),
            whole(percent(mean).abs()),
            self.baseline.label()
        );
        let each = |(workload, ratios): &(String, Vec<f64>)| {
            let mean = ratios.iter().sum::<f64>() / ratios.len() as f64;
            format!("{workload} {} %", whole_change(percent(mean)))
        };
        let each: Vec<String> = self.gain.by_workload.iter().map(each).collect();
        text.push_str(&each.join(", "));
        text.push('.');
        if self.contradicts {
            text.push_str(match self.is_recommended {
                true => {
                    " This contradicts the gain above, which then holds for short bursts of work \
                     only."
                }
                false => {
                    " So the baseline is the better one in short bursts of work only, if at all."
                }
            });
            text.push_str(" If your work lasts longer, tune with --profile standard.");
        }
        text
    }

    /// What a reader of the report must not miss.
    pub fn warning(&self) -> Option<String> {
        self.contradicts.then(|| self.text())
    }

    pub fn parts(&self) -> SustainedParts {
        let workload = |(workload, ratios): &(String, Vec<f64>)| SustainedWorkloadParts {
            workload: workload.clone(),
            percent_hundredths: ratios.iter().map(|ratio| hundredths(*ratio)).collect(),
        };
        SustainedParts {
            setup: self.gain.setup.clone(),
            runtime_ms: self.gain.runtime_ms,
            percent_hundredths: hundredths(self.gain.mean()),
            workloads: self.gain.by_workload.iter().map(workload).collect(),
            contradicts: self.contradicts,
            text: self.text(),
        }
    }

    /// A table for the report.
    pub fn finding(&self) -> ReportFinding {
        let title =
            format!("Longer work: {} against {}", self.gain.setup.label(), self.baseline.label());
        let explanation = format!(
            "Trials with a time limit of {} instead of {}, made after the search: the difference \
             in each comparison. A card may buffer a few seconds of work and tidy up later.",
            duration(Duration::from_millis(self.gain.runtime_ms)),
            duration(self.usual)
        );
        let columns = [
            ("workload", ColumnKind::Name),
            ("mean", ColumnKind::Number),
            ("from", ColumnKind::Number),
            ("to", ColumnKind::Number),
            ("n", ColumnKind::Number),
        ];
        let mut finding = ReportFinding::new(&title, &explanation, columns, TERMINAL_ROWS);
        let all = [("all".to_owned(), self.gain.rounds.clone())];
        for (name, ratios) in all.iter().chain(&self.gain.by_workload) {
            let pick = |pick: fn(f64, f64) -> f64| {
                let found = ratios.iter().copied().reduce(pick);
                found.map_or_else(String::new, |ratio| format!("{:+.1} %", percent(ratio)))
            };
            let mean = ratios.iter().sum::<f64>() / ratios.len() as f64;
            finding.rows.push(vec![
                name.clone(),
                format!("{:+.1} %", percent(mean)),
                pick(f64::min),
                pick(f64::max),
                ratios.len().to_string(),
            ]);
        }
        finding
    }
}

/// Whether longer trials of `setup` against the baseline are about a setup that is recommended, or
/// about one that the recommended baseline is better than. `None` if they are about neither: after
/// them, the run was extended and recommends another setup.
fn says(setup: &Setup, recommended: &Setup, baseline: &Setup) -> Option<bool> {
    let is_recommended = recommended == setup;
    (is_recommended || recommended == baseline).then_some(is_recommended)
}

/// `+3 % to +9 % in 2 comparisons`.
fn ends(rounds: &[f64]) -> String {
    let pick = |pick: fn(f64, f64) -> f64| rounds.iter().copied().reduce(pick).unwrap_or(0.0);
    match rounds.len() {
        1 => "one comparison".to_owned(),
        count => format!(
            "{:+.0} to {:+.0} % in {count} comparisons",
            percent(pick(f64::min)),
            percent(pick(f64::max))
        ),
    }
}

#[cfg(test)]
mod tests {
    use flashfit_filesystem::Scheduler;

    use super::*;

    fn setup(filesystem: &str) -> Setup {
        Setup {
            filesystem: filesystem.to_owned(),
            options: Vec::new(),
            scheduler: Scheduler::new("none"),
        }
    }

    #[test]
    fn nothing_is_said_of_a_third_setup() {
        let (ext4, btrfs, f2fs) = (setup("ext4"), setup("btrfs"), setup("f2fs"));
        assert_eq!(says(&btrfs, &btrfs, &ext4), Some(true));
        assert_eq!(says(&btrfs, &ext4, &ext4), Some(false));
        assert_eq!(says(&btrfs, &f2fs, &ext4), None);
    }

    fn answer(rounds: Vec<f64>, is_recommended: bool, contradicts: bool) -> SustainedAnswer {
        SustainedAnswer {
            gain: SustainedGain {
                setup: setup("btrfs"),
                runtime_ms: 16_000,
                by_workload: vec![("sync-files".to_owned(), rounds.clone())],
                rounds,
            },
            by: Criterion::Throughput,
            baseline: setup("ext4"),
            usual: Duration::from_secs(2),
            is_recommended,
            contradicts,
        }
    }

    #[test]
    fn the_sentence_says_how_long_how_often_and_what_it_means() {
        let agrees = answer(vec![0.3, 0.5], true, false);
        assert_eq!(
            agrees.text(),
            "In work of 16 s at a time (trials above: 2 s), btrfs base none was 49 % faster than \
             ext4 base none (+35 to +65 % in 2 comparisons): sync-files +49 %."
        );
        assert_eq!(agrees.warning(), None);
        let slower = answer(vec![-0.3, -0.5], true, true);
        let text = slower.warning().expect("it contradicts");
        assert!(text.contains("was 33 % slower than"), "{text}");
        assert!(text.contains("contradicts the gain above"), "{text}");
        let other = answer(vec![0.3, 0.5], false, true).warning().expect("it contradicts");
        assert!(other.contains("the baseline is the better one in short bursts"), "{other}");
        let once = answer(vec![0.3], true, false).text();
        assert!(once.contains("(one comparison)"), "{once}");
    }
}
