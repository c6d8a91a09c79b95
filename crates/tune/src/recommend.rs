//! The recommendation of a run: the setup, its own gain and the confidence in it.
//!
//! The gain is computed from confirming trials only; search trials selected the winner and would
//! overstate it. A setup is called better only if its interval excludes 0 in enough rounds. One
//! whose gain is likely is recommended without that. Otherwise the baseline is kept, or where the
//! user does not choose from it, nothing is recommended before the winner was in enough rounds or
//! is probably the best.

use flashfit_filesystem::Setup;
use flashfit_search::{
    Answer, CandidateIndex, ConfirmingTrials, Gain, LeftToGain, LikelyGain, MIN_ROUNDS,
    Observation, Purpose, TrialOutcome,
};

use crate::constraint;
use crate::problem::Problem;
use crate::stats::Estimate;

/// The verdict on the winner.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GainVerdict {
    /// Significantly better than the baseline.
    Better,
    /// Better than the baseline according to the model of all trials, and not shown to be.
    Likely,
    /// Tied with the baseline.
    CannotTell,
    /// Significantly worse in confirming trials, or failed in one: the search was misled by noise.
    Worse,
    /// The baseline itself is the winner, with the confidence that was asked for.
    NothingBeatsUntuned,
    /// The baseline is tied with the winner, and nearer to the defaults, safer or less wearing.
    BaselineTied,
    /// Too few confirming trials yet, or of any kind to be confident that the baseline is best.
    NotConfirmed,
}

impl GainVerdict {
    /// The same where it is not known that no other setup is better than the baseline.
    fn without_certainty(self) -> Self {
        match self {
            Self::NothingBeatsUntuned | Self::BaselineTied => Self::NotConfirmed,
            other => other,
        }
    }
}

#[derive(Debug, Clone, PartialEq)]
pub struct Recommendation {
    pub winner: Setup,
    /// The safest of the setups tied with it, then the one with the least wear, then the closest to
    /// the defaults.
    pub best_of_ties: Setup,
    /// The baseline: the first file system without options, under the default scheduler.
    pub baseline: Setup,
    /// Whether the baseline is one of the setups to choose from. If not, it is only compared with.
    pub baseline_is_listed: bool,
    /// Whether the baseline may be kept: it is shown to meet the user's constraints.
    pub baseline_is_allowed: bool,
    /// Whether it is shown to violate one of them. If neither is shown, its trials do not decide.
    pub baseline_violates: bool,
    pub verdict: GainVerdict,
    /// Whether the baseline and another setup were measured, or the baseline failed. Otherwise
    /// nothing is known of how they differ.
    pub is_compared: bool,
    /// The probability that the recommended setup is within the requested distance of the best, 0
    /// to 1.
    pub within: f64,
    /// What the best setup may gain over the recommended one.
    pub left_to_gain: Option<LeftToGain>,
    /// Of [`GainVerdict::Likely`].
    pub likely: Option<LikelyGain>,
    /// The setup that the gains below belong to: the recommended one, or the winner if the baseline
    /// is recommended.
    pub subject: Setup,
    /// Its log ratio to the baseline over all workloads.
    pub gain: Option<Estimate>,
    /// The same for each workload.
    pub gain_by_workload: Vec<(String, Estimate)>,
    /// The winner's gain, if the winner is neither recommended nor the subject.
    pub winner_gain: Option<Estimate>,
    /// The best other setup with confirming trials, and the winner's gain over it.
    pub runner_up: Option<(Setup, Estimate)>,
    /// If the subject is another file system than the baseline: its gain over its own default
    /// setup.
    pub gain_within: Option<(Setup, Estimate)>,
    /// A better setup that is less safe than the user allows.
    pub better_but_less_safe: Option<Setup>,
    /// The best setup in the search, if it is neither shown to meet the user's constraints nor to
    /// violate one.
    pub better_but_undecided: Option<Setup>,
}

impl Recommendation {
    /// The setup to use. If the winner is significantly or likely better, it is the preferred one
    /// of the setups tied with it. Otherwise it is the baseline, unless that does not meet the
    /// constraints.
    pub fn recommended(&self) -> &Setup {
        if self.keeps_baseline() { &self.baseline } else { &self.best_of_ties }
    }

    /// Whether the baseline is recommended.
    pub fn keeps_baseline(&self) -> bool {
        let is_better = matches!(self.verdict, GainVerdict::Better | GainVerdict::Likely);
        self.baseline_is_allowed && !is_better
    }

    /// From the trials so far and what the search says of them. Where the winner was
    /// `chosen_before` the confirming trials, its interval need not allow for the other finalists.
    /// `is_a_guess` says that a setup that is not confirmed is probably not the best.
    /// `None` if the baseline is not among the setups to choose from, and the other one is a guess
    /// and not confirmed.
    pub fn of(
        problem: &Problem,
        history: &[Observation],
        answer: &Answer,
        chosen_before: bool,
        is_a_guess: bool,
    ) -> Option<Self> {
        let baseline = problem.space.baseline;
        let confirmed = ConfirmingTrials::of(&problem.space, history);
        let failed = |candidate: CandidateIndex| {
            history.iter().any(|observation| {
                observation.proposal.candidate == candidate
                    && observation.proposal.purpose == Purpose::Confirm
                    && observation.outcome == TrialOutcome::Failed
            })
        };
        let finalists = if chosen_before { 1 } else { confirmed.finalists().len().max(1) };
        let over = |one: CandidateIndex, other: CandidateIndex| {
            confirmed.gain_among(one, other, finalists).filter(|_| !failed(one) && !failed(other))
        };
        let (winner, preferred) = (answer.winner, answer.recommended);
        let shows = |candidate| over(candidate, baseline).is_some_and(|gain| gain.is_significant());
        let is_shown = shows(preferred) || shows(winner);
        // A gain that is claimed is that of the recommended setup. The search knows only intervals
        // that allow for a choice among finalists.
        let passes_on = shows(winner) && !shows(preferred) && preferred != baseline;
        let preferred = if passes_on { winner } else { preferred };
        let likely = answer.likely_gain.filter(|_| !is_shown && !failed(preferred));
        // The baseline may be tied with a winner, and is then the subject of no gain.
        let is_subject = preferred != baseline && (shows(preferred) || likely.is_some());
        let subject = if is_subject { preferred } else { winner };
        let gain = over(subject, baseline);
        // That there is no gain takes the confidence that was asked for.
        let is_sure = answer.baseline_within >= answer.goal.probability;
        let verdict = if winner == baseline && !is_sure {
            GainVerdict::NotConfirmed
        } else if winner == baseline {
            GainVerdict::NothingBeatsUntuned
        } else if preferred == baseline && (is_sure || shows(winner)) {
            GainVerdict::BaselineTied
        } else if likely.is_some() {
            GainVerdict::Likely
        } else if failed(winner) {
            GainVerdict::Worse
        } else {
            verdict(gain)
        };
        let is_unconfirmed =
            verdict == GainVerdict::NotConfirmed && confirmed.rounds(preferred) < MIN_ROUNDS;
        if is_unconfirmed && !problem.baseline_is_listed && is_a_guess {
            return None;
        }
        let gain = gain.filter(|_| subject != baseline);
        let workloads = 0..problem.workloads.len();
        let gain_by_workload = match gain {
            // With a single workload, the gain says everything.
            Some(_) if problem.workloads.len() > 1 => workloads
                .filter_map(|workload| {
                    let gain = confirmed.gain_under(subject, baseline, workload, finalists)?;
                    Some((problem.workloads[workload].clone(), Estimate::from(gain)))
                })
                .collect(),
            _ => Vec::new(),
        };
        let own = problem.own_baseline(subject).filter(|own| *own != baseline && *own != subject);
        let gain_within =
            own.and_then(|own| Some((problem.setups[own].clone(), over(subject, own)?.into())));
        let runner_up = answer
            .runner_up
            .filter(|other| *other != baseline && Some(*other) != own && !failed(*other))
            .zip(answer.gain_over_runner_up)
            .map(|(other, gain)| (problem.setups[other].clone(), Estimate::from(gain)));
        let breaks_limit = constraint::broken(history).contains_key(&baseline);
        let is_compared = is_compared(history, baseline);
        let mut found = Self {
            winner: problem.setups[winner].clone(),
            best_of_ties: problem.setups[preferred].clone(),
            baseline: problem.setups[baseline].clone(),
            baseline_is_listed: problem.baseline_is_listed,
            baseline_is_allowed: problem.space.candidates[baseline].allowed && !breaks_limit,
            baseline_violates: breaks_limit,
            verdict,
            within: if passes_on { answer.within } else { answer.recommended_within },
            is_compared,
            left_to_gain: answer.left_to_gain.filter(|_| !passes_on && is_compared),
            likely: likely.filter(|_| verdict == GainVerdict::Likely),
            subject: problem.setups[subject].clone(),
            gain: gain.map(Estimate::from),
            gain_by_workload,
            winner_gain: over(winner, baseline).filter(|_| winner != subject).map(Estimate::from),
            runner_up,
            gain_within,
            better_but_less_safe: None,
            better_but_undecided: None,
        };
        if found.keeps_baseline() {
            found.within = answer.baseline_within;
            found.left_to_gain = answer.left_to_gain_over_baseline.filter(|_| is_compared);
        }
        Some(found)
    }

    /// The same where `best` is the best in the search, and may meet the constraints: that no other
    /// setup is better than the baseline is then not known.
    #[must_use]
    pub fn with_better_but_undecided(self, best: &Setup) -> Self {
        let verdict = self.verdict.without_certainty();
        Self { verdict, better_but_undecided: Some(best.clone()), ..self }
    }

    /// The same where more setups may meet the constraints than those that are shown to: whether
    /// the baseline is good enough is what `answer` says of all of them.
    #[must_use]
    pub fn among(self, answer: &Answer) -> Self {
        let is_sure = answer.baseline_within >= answer.goal.probability;
        let verdict = if is_sure { self.verdict } else { self.verdict.without_certainty() };
        let is_compared = self.is_compared;
        Self {
            verdict,
            within: answer.baseline_within,
            left_to_gain: answer.left_to_gain_over_baseline.filter(|_| is_compared),
            ..self
        }
    }
}

impl From<Gain> for Estimate {
    fn from(gain: Gain) -> Self {
        Self { middle: gain.mean, interval: gain.interval, seen: gain.seen, count: gain.rounds }
    }
}

/// Converts a difference of logarithms to a change in percent.
pub fn percent(log_ratio: f64) -> f64 {
    100.0 * (log_ratio.exp() - 1.0)
}

fn verdict(gain: Option<Gain>) -> GainVerdict {
    match gain {
        None => GainVerdict::NotConfirmed,
        Some(gain) if gain.is_significant() => GainVerdict::Better,
        Some(gain) if gain.is_significant_loss() => GainVerdict::Worse,
        Some(gain) if gain.rounds < MIN_ROUNDS => GainVerdict::NotConfirmed,
        Some(_) => GainVerdict::CannotTell,
    }
}

/// Whether there is a trial of the baseline, and a measured one of another setup.
fn is_compared(history: &[Observation], baseline: CandidateIndex) -> bool {
    let is_baseline = |trial: &&Observation| trial.proposal.candidate == baseline;
    let is_other = |trial: &Observation| !is_baseline(&trial) && trial.log_merit().is_some();
    history.iter().any(|trial| is_baseline(&trial)) && history.iter().any(is_other)
}
