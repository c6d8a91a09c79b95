//! The input of the renderers: verdict, rankings, figures and facts of one run.
//!
//! The scores and the tables by workload and file system follow the CELF methodology for tuning
//! file systems on flash (sections 3.3 and 6). Intervals and repeats are added, because scores
//! cannot be compared without them.

use crate::figure::FigureGroup;
use crate::finding::ReportFinding;
use crate::quantity::{FigureUnit, significant, whole};

/// Everything that is rendered for one run.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Report {
    /// Device and usage, as a heading: `SanDisk SC16G for a file server`.
    pub title: String,
    /// Whether the device was a simulated card; a banner and every caption then say so.
    pub simulated: bool,
    pub verdict: ReportVerdict,
    /// Ties, effects of options, Pareto front.
    pub findings: Vec<ReportFinding>,
    /// Names and values: device, kernel, versions, seed, number of trials.
    pub facts: Vec<(String, String)>,
    /// Workloads by file systems, in the HTML report only.
    pub matrix: Option<ReportFinding>,
    /// The charts that a reader with two minutes needs; always visible.
    pub highlights: Vec<FigureGroup>,
    /// The setups by score: for the device, then by workload or file system. Folded.
    pub rankings: Vec<RankingTable>,
    /// The charts of each workload. Folded.
    pub figures: Vec<FigureGroup>,
    pub setups: Vec<SetupDetail>,
    /// What weakens the result, one sentence each.
    pub warnings: Vec<String>,
    pub failures: Vec<FailedTrials>,
    /// The command that repeats the run.
    pub reproduce: String,
}

/// What is rendered for a comparison of runs.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ComparisonPage {
    pub title: String,
    /// Whether a run used a simulated card.
    pub simulated: bool,
    /// The result in a few sentences.
    pub summary: Vec<String>,
    pub findings: Vec<ReportFinding>,
    pub figures: Vec<FigureGroup>,
    /// What to know about the intervals.
    pub note: String,
}

/// The result of a run in one word.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum RunOutcome {
    /// A setup was found that is better than the baseline.
    Better,
    /// A setup is likely better than the baseline, which is not shown.
    Likely,
    /// No setup is better than the baseline.
    NoGain,
    /// The differences are within the noise of this device.
    #[default]
    CannotTell,
    /// There are too few measurements for any statement.
    NoResult,
}

impl RunOutcome {
    pub fn label(self) -> &'static str {
        match self {
            Self::Better => "Better",
            Self::Likely => "Likely better",
            Self::NoGain => "No gain",
            Self::CannotTell => "Cannot tell",
            Self::NoResult => "No result",
        }
    }
}

/// The recommendation and the evidence for it.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ReportVerdict {
    /// The outcome before the check of [`ReportVerdict::supported_outcome`].
    pub outcome: RunOutcome,
    /// The verdict in one sentence.
    pub headline: String,
    /// The measured gain over the baseline.
    pub gain: Option<ReportedGain>,
    /// The evidence, or what is missing for a decision; one paragraph each.
    pub detail: Vec<String>,
    /// The commands that create the recommended setup, in order.
    pub commands: Vec<ReportCommand>,
    /// What a power cut can cost with this setup; may be empty.
    pub risk: String,
    /// What simulated power cuts of this setup showed; may be empty.
    pub power_cuts: String,
}

impl ReportVerdict {
    /// Explains why an outcome of "better" is not shown.
    pub(crate) const DOWNGRADED: &str = "The interval of the gain includes zero, so this setup is \
        not shown to be better than the baseline.";

    /// The outcome that the gain supports: "better" requires an interval entirely above zero, and
    /// becomes "cannot tell" otherwise.
    pub fn supported_outcome(&self) -> RunOutcome {
        match (self.outcome, self.gain) {
            (RunOutcome::Better, Some(gain)) if gain.percent_low > 0.0 => RunOutcome::Better,
            (RunOutcome::Better, _) => RunOutcome::CannotTell,
            (other, _) => other,
        }
    }

    /// Whether the gain does not support the given outcome.
    pub fn is_downgraded(&self) -> bool {
        self.supported_outcome() != self.outcome
    }
}

/// A gain over the baseline, in percent, with the interval of the mean.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ReportedGain {
    /// The lower end of the interval.
    pub percent_low: f64,
    pub percent_mid: f64,
    /// The upper end of the interval.
    pub percent_high: f64,
    pub confidence_percent: u8,
    /// Where a single measurement from any starting state lies with the same confidence.
    pub percent_seen: Option<(f64, f64)>,
    /// How often each of the two setups was measured.
    pub repeats: u32,
}

/// An interval whose ends differ by more is given in times, and is too wide for a figure.
const WIDEST_RATIO: f64 = 4.0;

/// With fewer repeats, nothing is said to be known.
const FEWEST_REPEATS: u32 = 4;

impl ReportedGain {
    /// `+12.4 % (95 % interval +2.0 % to +23.9 %, of the mean +8.1 % to +16.9 %, 8 repeats)`.
    /// No figure, if the interval of the mean is too wide for one.
    pub fn describe(&self) -> String {
        let repeats = match self.repeats {
            1 => "1 repeat".to_owned(),
            many => format!("{many} repeats"),
        };
        if let Some(times) = self.no_figure() {
            let excludes_zero = self.percent_low > 0.0 || self.percent_high < 0.0;
            let known = excludes_zero && self.repeats >= FEWEST_REPEATS;
            return match known {
                true => format!("{times} on average (after {repeats})"),
                false => format!("unknown (after {repeats}, on average anything from {times})"),
            };
        }
        let unit = FigureUnit::PercentChange;
        let interval =
            self.interval(|low, high| format!("{} to {}", unit.show(low), unit.show(high)));
        let middle = unit.show(self.percent_mid);
        format!("{middle} ({} % interval {interval}, {repeats})", self.confidence_percent)
    }

    /// `5 to 41 %, of the mean 17 to 29 %`: the interval of a single measurement, if it is known,
    /// and that of the mean.
    pub fn intervals(&self) -> String {
        self.interval(|low, high| format!("{} to {} %", whole(low), whole(high)))
    }

    /// `1.1 to 10 times`: the interval of the mean, if it is too wide for a figure.
    pub fn no_figure(&self) -> Option<String> {
        let (low, high) = (self.percent_low, self.percent_high);
        is_wide(low, high).then(|| times(low, high))
    }

    fn interval(&self, percent: impl Fn(f64, f64) -> String) -> String {
        // Each in its own unit: the mean belongs to the figure, which is in percent.
        let shown = |low: f64, high: f64| match is_wide(low, high) {
            true => times(low, high),
            false => percent(low, high),
        };
        let mean = shown(self.percent_low, self.percent_high);
        match self.percent_seen {
            Some((low, high)) => format!("{}, of the mean {mean}", shown(low, high)),
            None => mean,
        }
    }
}

fn is_wide(percent_low: f64, percent_high: f64) -> bool {
    100.0 + percent_high > WIDEST_RATIO * (100.0 + percent_low)
}

/// Two changes as ratios: `0.18 to 5.3 times`.
fn times(percent_low: f64, percent_high: f64) -> String {
    format!("{} to {} times", ratio(percent_low), ratio(percent_high))
}

/// With two digits, or as many more as show on which side of 1 it is.
fn ratio(percent: f64) -> String {
    let ratio = (1.0 + percent / 100.0).max(0.0);
    let shown = (2..=4).map(|digits| significant(ratio, digits));
    let is_one = |text: &String| text.parse() == Ok(1.0);
    shown.clone().find(|text| !is_one(text)).or_else(|| shown.clone().next()).unwrap_or_default()
}

/// A command to type and its purpose.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ReportCommand {
    pub caption: String,
    pub line: String,
}

/// The role of a setup in a comparison.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum SetupRole {
    /// The setup that the others are compared with.
    Baseline,
    /// The default setup of a file system other than the baseline's.
    Defaults,
    Recommended,
    #[default]
    Candidate,
}

impl SetupRole {
    /// The mark after the name of a setup.
    pub fn mark(self) -> Option<&'static str> {
        match self {
            Self::Baseline => Some("baseline"),
            Self::Defaults => Some("defaults"),
            Self::Recommended => Some("recommended"),
            Self::Candidate => None,
        }
    }

    pub(crate) fn marked(self, name: &str) -> String {
        self.mark().map_or_else(|| name.to_owned(), |mark| format!("{name} ({mark})"))
    }
}

/// What `low` and `high` of a value mean.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum RangeMeaning {
    /// The ends of a confidence interval at this level, in percent.
    Interval(u8),
    /// The smallest and the largest measurement.
    #[default]
    MinMax,
}

impl RangeMeaning {
    /// A table heading: `95 % interval`.
    pub fn heading(self) -> String {
        match self {
            Self::Interval(percent) => format!("{percent} % interval"),
            Self::MinMax => "min to max".to_owned(),
        }
    }
}

#[derive(Debug, Clone, PartialEq, Default)]
pub struct RankingTable {
    /// Workload and file system: `All workloads`, `Untar, ext4`.
    pub title: String,
    /// How to read the score: `higher is better; mean of log throughput`.
    pub scale_note: String,
    pub unit: FigureUnit,
    pub spread: RangeMeaning,
    /// The rows, best first.
    pub rows: Vec<RankRow>,
}

impl RankingTable {
    /// Whether it has a column of years.
    pub fn has_years(&self) -> bool {
        self.rows.iter().any(|row| !row.years.is_empty())
    }

    /// Whether it has a column of growth.
    pub fn has_growth(&self) -> bool {
        self.rows.iter().any(|row| !row.growth.is_empty())
    }
}

/// One setup in a ranking.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct RankRow {
    /// From 1; setups that tie share a rank.
    pub rank: u32,
    pub setup: String,
    pub role: SetupRole,
    pub score: f64,
    pub low: f64,
    pub high: f64,
    /// How much better than the baseline; empty if either was not measured.
    pub growth: String,
    pub trials: u32,
    /// Years of life with their interval; empty without a usage model.
    pub years: String,
    /// A remark such as `tied with #1`; may be empty.
    pub note: String,
}

/// The options behind the name of a setup.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SetupDetail {
    /// The name in rankings and figures.
    pub name: String,
    pub role: SetupRole,
    /// Names and values: mkfs options, mount options, scheduler.
    pub choices: Vec<(String, String)>,
}

/// Trials without a result, grouped by cause.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct FailedTrials {
    pub setup: String,
    pub workload: String,
    /// The first line of the error.
    pub reason: String,
    pub trials: u32,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gain(low: f64, high: f64) -> ReportedGain {
        ReportedGain {
            percent_low: low,
            percent_mid: f64::midpoint(low, high),
            percent_high: high,
            confidence_percent: 95,
            percent_seen: None,
            repeats: 8,
        }
    }

    #[test]
    fn better_needs_an_interval_above_zero() {
        let mut verdict = ReportVerdict { outcome: RunOutcome::Better, ..ReportVerdict::default() };
        assert_eq!(verdict.supported_outcome(), RunOutcome::CannotTell);
        verdict.gain = Some(gain(-1.0, 20.0));
        assert!(verdict.is_downgraded());
        verdict.gain = Some(gain(f64::NAN, 20.0));
        assert!(verdict.is_downgraded());
        verdict.gain = Some(gain(0.5, 20.0));
        assert_eq!(verdict.supported_outcome(), RunOutcome::Better);
        verdict.outcome = RunOutcome::NoGain;
        assert_eq!(verdict.supported_outcome(), RunOutcome::NoGain);
    }

    #[test]
    fn a_gain_is_described_with_interval_and_repeats() {
        assert_eq!(
            gain(8.0, 16.0).describe(),
            "+12.0 % (95 % interval +8.0 % to +16.0 %, 8 repeats)"
        );
        let with_states = ReportedGain { percent_seen: Some((-1.0, 25.0)), ..gain(8.0, 16.0) };
        assert_eq!(
            with_states.describe(),
            "+12.0 % (95 % interval -1.0 % to +25.0 %, of the mean +8.0 % to +16.0 %, 8 repeats)"
        );
        assert_eq!(with_states.intervals(), "-1 to 25 %, of the mean 8 to 16 %");
    }

    #[test]
    fn an_interval_that_says_little_gives_no_figure() {
        let single = ReportedGain { percent_seen: Some((-82.0, 430.0)), ..gain(8.0, 16.0) };
        assert_eq!(
            single.describe(),
            "+12.0 % (95 % interval 0.18 to 5.3 times, of the mean +8.0 % to +16.0 %, 8 repeats)"
        );
        assert_eq!(single.intervals(), "0.18 to 5.3 times, of the mean 8 to 16 %");
        let shown = |low| ReportedGain { percent_low: low, ..single }.describe();
        assert!(shown(-0.4).contains("of the mean -0.4 % to +16.0 %"), "{}", shown(-0.4));
        assert!(shown(0.6).contains("of the mean +0.6 % to +16.0 %"), "{}", shown(0.6));
        let mean = ReportedGain { percent_seen: Some((-99.9, 332_720.7)), ..gain(-97.1, 6921.9) };
        assert_eq!(
            mean.describe(),
            "unknown (after 8 repeats, on average anything from 0.029 to 70 times)"
        );
        let better = gain(10.0, 900.0);
        assert_eq!(better.describe(), "1.1 to 10 times on average (after 8 repeats)");
        let from = |low| gain(low, 900.0).no_figure();
        assert_eq!(from(-0.4).as_deref(), Some("0.996 to 10 times"));
        assert_eq!(from(0.6).as_deref(), Some("1.01 to 10 times"));
        assert_eq!(from(0.0).as_deref(), Some("1.0 to 10 times"));
        let few = ReportedGain { repeats: 3, ..better };
        assert_eq!(
            few.describe(),
            "unknown (after 3 repeats, on average anything from 1.1 to 10 times)"
        );
    }
}
