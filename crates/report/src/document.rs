//! What a run found, as the renderers take it: the verdict, the rankings, the facts around them.
//!
//! The merit and the tables by workload and file system are those of the CELF methodology for
//! tuning file systems on flash (its sections 3.3 and 6); the intervals and repeats are added here,
//! since a merit without them can't be compared.

use crate::figure::FigureGroup;
use crate::finding::ReportFinding;
use crate::quantity::FigureUnit;

/// All that is rendered of one run.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Report {
    /// What was tuned, as a heading: `SanDisk SC16G for a file server`.
    pub title: String,
    /// Whether the device was a simulated card; a banner and every caption then say so.
    pub simulated: bool,
    /// What to do, and how sure that is.
    pub verdict: ReportVerdict,
    /// What else was found: ties, effects, the front.
    pub findings: Vec<ReportFinding>,
    /// Names and values: device, kernel, versions, seed, number of trials.
    pub facts: Vec<(String, String)>,
    /// The setups in order of merit: for the device, then by workload or file system.
    pub rankings: Vec<RankingTable>,
    /// The figures, by workload or subject.
    pub figures: Vec<FigureGroup>,
    /// What the names of the setups stand for.
    pub setups: Vec<SetupDetail>,
    /// What weakens the result, a sentence each.
    pub warnings: Vec<String>,
    /// The trials that gave no figure.
    pub failures: Vec<FailedTrials>,
    /// The command that does the run again.
    pub reproduce: String,
}

/// How a run ended, in one word.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum RunOutcome {
    /// A setup was found that is better than the untuned one.
    Better,
    /// The baseline is as good as any: keep it.
    NoGain,
    /// The differences are within the noise of this device.
    #[default]
    CannotTell,
    /// There are too few figures for any statement.
    NoResult,
}

impl RunOutcome {
    /// The outcome as a label.
    pub fn label(self) -> &'static str {
        match self {
            Self::Better => "Better",
            Self::NoGain => "No gain",
            Self::CannotTell => "Cannot tell",
            Self::NoResult => "No result",
        }
    }
}

/// What to do, and how sure that is.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ReportVerdict {
    /// How the run ended. See [`ReportVerdict::outcome_shown`].
    pub outcome: RunOutcome,
    /// The verdict in one sentence.
    pub headline: String,
    /// The measured gain over the baseline.
    pub gain: Option<ReportedGain>,
    /// What led to the verdict, or what would be needed to tell; a paragraph each.
    pub detail: Vec<String>,
    /// The commands that put the verdict into effect, in order.
    pub commands: Vec<ReportCommand>,
    /// What the setup costs in safety; empty when there is nothing to say.
    pub risk: String,
}

impl ReportVerdict {
    /// What is said when the figures don't bear out a "better".
    pub(crate) const DOWNGRADED: &str = "The interval of the gain does not lie above zero, so this \
        setup cannot be called better than the untuned one.";

    /// The outcome that the figures bear out: "better" needs a gain whose whole interval lies above
    /// zero, and becomes "cannot tell" without one.
    pub fn outcome_shown(&self) -> RunOutcome {
        match (self.outcome, self.gain) {
            (RunOutcome::Better, Some(gain)) if gain.percent_low > 0.0 => RunOutcome::Better,
            (RunOutcome::Better, _) => RunOutcome::CannotTell,
            (other, _) => other,
        }
    }

    /// Whether the figures don't bear out the outcome that was given.
    pub fn is_downgraded(&self) -> bool {
        self.outcome_shown() != self.outcome
    }
}

/// A gain over the baseline, in percent, with its interval.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ReportedGain {
    /// The lower end of the interval.
    pub percent_low: f64,
    /// The estimate.
    pub percent_mid: f64,
    /// The upper end of the interval.
    pub percent_high: f64,
    /// What share of such intervals hold the true gain, in percent (95).
    pub confidence_percent: u8,
    /// How often both setups were measured for it.
    pub repeats: u32,
}

impl ReportedGain {
    /// `+12.4 % (95 % interval +8.1 % to +16.9 %, 8 repeats)`.
    pub fn describe(&self) -> String {
        let unit = FigureUnit::PercentChange;
        format!(
            "{} ({} % interval {} to {}, {} {})",
            unit.show(self.percent_mid),
            self.confidence_percent,
            unit.show(self.percent_low),
            unit.show(self.percent_high),
            self.repeats,
            if self.repeats == 1 { "repeat" } else { "repeats" },
        )
    }
}

/// A command to type, with what it does.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ReportCommand {
    /// What it does, in a few words.
    pub caption: String,
    /// The line to type, on one line.
    pub line: String,
}

/// The part a setup plays in a comparison.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum SetupRole {
    /// What one gets without tuning; the others are compared with it.
    Untuned,
    /// What the verdict recommends.
    Recommended,
    /// Any other.
    #[default]
    Candidate,
}

impl SetupRole {
    /// The mark beside a setup's name, where it has one.
    pub fn mark(self) -> Option<&'static str> {
        match self {
            Self::Untuned => Some("untuned"),
            Self::Recommended => Some("recommended"),
            Self::Candidate => None,
        }
    }

    /// A setup's name with its mark.
    pub(crate) fn marked(self, name: &str) -> String {
        self.mark().map_or_else(|| name.to_owned(), |mark| format!("{name} ({mark})"))
    }
}

/// What the low and high of a figure are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum RangeMeaning {
    /// The ends of an interval of this confidence in percent (95).
    Interval(u8),
    /// The smallest and the largest figure seen.
    #[default]
    MinMax,
}

impl RangeMeaning {
    /// As a table's heading: `95 % interval`.
    pub fn heading(self) -> String {
        match self {
            Self::Interval(percent) => format!("{percent} % interval"),
            Self::MinMax => "min to max".to_owned(),
        }
    }
}

/// Setups in order of merit.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct RankingTable {
    /// What they are ranked for: `All workloads`, `Untar, ext4`.
    pub title: String,
    /// How to read the merit: `higher is better; mean of log throughput`.
    pub scale_note: String,
    /// What the merit is counted in.
    pub unit: FigureUnit,
    /// What low and high are.
    pub spread: RangeMeaning,
    /// The rows, best first.
    pub rows: Vec<RankRow>,
}

/// One setup in a ranking.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct RankRow {
    /// Its place from 1; setups that can't be told apart share one.
    pub place: u32,
    /// Its name.
    pub setup: String,
    /// Whether it is the untuned or the recommended one.
    pub role: SetupRole,
    /// Its merit in the ranking's unit.
    pub merit: f64,
    /// The lower end of the spread.
    pub low: f64,
    /// The upper end of the spread.
    pub high: f64,
    /// How many trials the merit is made of.
    pub trials: u32,
    /// A remark: `tied with 1`, `may lose data at a power cut`. May be empty.
    pub note: String,
}

/// What a setup's name test beds for.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SetupDetail {
    /// Its name in the rankings and figures.
    pub name: String,
    /// Whether it is the untuned or the recommended one.
    pub role: SetupRole,
    /// Names and values of its choices: mkfs options, mount options, scheduler.
    pub choices: Vec<(String, String)>,
}

/// Trials that gave no figure.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct FailedTrials {
    /// The setup's name.
    pub setup: String,
    /// The workload.
    pub workload: String,
    /// What happened, with the first line of the error.
    pub reason: String,
    /// How many trials ended so.
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
            repeats: 8,
        }
    }

    #[test]
    fn better_needs_an_interval_above_zero() {
        let mut verdict = ReportVerdict { outcome: RunOutcome::Better, ..ReportVerdict::default() };
        assert_eq!(verdict.outcome_shown(), RunOutcome::CannotTell);
        verdict.gain = Some(gain(-1.0, 20.0));
        assert!(verdict.is_downgraded());
        verdict.gain = Some(gain(f64::NAN, 20.0));
        assert!(verdict.is_downgraded());
        verdict.gain = Some(gain(0.5, 20.0));
        assert_eq!(verdict.outcome_shown(), RunOutcome::Better);
        verdict.outcome = RunOutcome::NoGain;
        assert_eq!(verdict.outcome_shown(), RunOutcome::NoGain);
    }

    #[test]
    fn a_gain_tells_its_interval_and_repeats() {
        assert_eq!(
            gain(8.0, 16.0).describe(),
            "+12.0 % (95 % interval +8.0 % to +16.0 %, 8 repeats)"
        );
    }
}
