//! The answer of a run: which setup, how much it gains, and how sure that is.
//!
//! The gain is taken from the confirming trials alone: those of the search chose the winner, so
//! they flatter it. A winner whose interval touches no gain is not called better.

use std::collections::BTreeMap;

use flashfit_filesystem::Setup;
use flashfit_search::{Answer, CandidateIndex, Gain, Observation, Purpose, TrialOutcome};

use crate::constraint;
use crate::problem::Problem;
use crate::stats::{Estimate, paired_difference};

/// What can be said of the winner.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GainVerdict {
    /// It is better than the untuned file system.
    Better,
    /// The trials do not tell the two apart.
    CannotTell,
    /// The confirming trials show that it is worse: the search believed noise, or it failed in one.
    Worse,
    /// The untuned file system itself came first.
    NothingBeatsUntuned,
    /// There are no confirming trials yet.
    NotConfirmed,
}

/// A recommended setup and what is known of it.
#[derive(Debug, Clone, PartialEq)]
pub struct Recommendation {
    /// The setup that came first.
    pub winner: Setup,
    /// Of those that is tied with it the safest, then the least wearing, then the nearest to
    /// the defaults.
    pub best_of_ties: Setup,
    /// What it is compared with: the first file system without options, under the kernel's own
    /// scheduler.
    pub untuned: Setup,
    /// Whether the baseline meets the user's demands: it does not where it lacks an option
    /// that every setup is to have, or breaks a demand beyond noise.
    pub untuned_will_do: bool,
    /// What can be said.
    pub verdict: GainVerdict,
    /// The chance that the winner is within the asked distance of the best, 0 to 1, as the search
    /// believes it.
    pub within: f64,
    /// The logarithm of the ratio to the baseline, over all workloads.
    pub gain: Option<Estimate>,
    /// The same for each workload.
    pub gain_by_workload: Vec<(String, Estimate)>,
    /// The best other setup that has confirming trials, and the winner's gain over it.
    pub runner_up: Option<(Setup, Estimate)>,
    /// Where the winner is another file system than the reference: its gain over its own untuned
    /// setup.
    pub gain_within: Option<(Setup, Estimate)>,
    /// A setup that came out higher but is less safe than the user allows.
    pub better_but_less_safe: Option<Setup>,
}

impl Recommendation {
    /// What to use: where fresh trials show the winner better, the safest of those that cannot be
    /// told from it, then the least wearing, then the nearest to the defaults; else what it is
    /// compared with, unless that is not what the user asked for.
    pub fn recommended(&self) -> &Setup {
        match self.verdict {
            GainVerdict::Better => &self.best_of_ties,
            _ if !self.untuned_will_do => &self.best_of_ties,
            GainVerdict::CannotTell
            | GainVerdict::Worse
            | GainVerdict::NothingBeatsUntuned
            | GainVerdict::NotConfirmed => &self.untuned,
        }
    }

    /// Of the trials so far and what the search says of them. Where the winner was `chosen_before`
    /// the confirming trials, its interval need not allow for the other finalists.
    pub fn of(
        problem: &Problem,
        history: &[Observation],
        answer: &Answer,
        chosen_before: bool,
    ) -> Self {
        let (winner, untuned) = (answer.winner, problem.space.baseline);
        let confirmed = Confirmed::of(problem, history);
        let failed = |candidate| confirmed.failed.contains(&candidate);
        let gain = match chosen_before {
            true => confirmed.gain(winner, untuned),
            false => answer.gain.map(Estimate::from),
        };
        let gain = gain.filter(|_| !failed(untuned));
        let verdict = if winner == untuned {
            GainVerdict::NothingBeatsUntuned
        } else if failed(winner) {
            GainVerdict::Worse
        } else {
            verdict(gain)
        };
        let gain = gain.filter(|_| verdict != GainVerdict::NothingBeatsUntuned && !failed(winner));
        let gain_by_workload = match gain {
            // Of a single workload the gain says all.
            Some(_) if problem.workloads.len() == 1 => Vec::new(),
            None => Vec::new(),
            Some(_) => (0..problem.workloads.len())
                .filter_map(|workload| {
                    let gain = confirmed.gain_under(winner, untuned, workload)?;
                    Some((problem.workloads[workload].clone(), gain))
                })
                .collect(),
        };
        let own = problem.own_untuned(winner).filter(|own| *own != untuned && *own != winner);
        let gain_within = own
            .filter(|own| !failed(*own))
            .and_then(|own| Some((problem.setups[own].clone(), confirmed.gain(winner, own)?)));
        let runner_up = answer
            .runner_up
            .filter(|other| *other != untuned && Some(*other) != own && !failed(*other))
            .zip(answer.gain_over_runner_up)
            .map(|(other, gain)| (problem.setups[other].clone(), Estimate::from(gain)));
        Self {
            winner: problem.setups[winner].clone(),
            best_of_ties: problem.setups[answer.recommended].clone(),
            untuned: problem.setups[untuned].clone(),
            untuned_will_do: problem.space.candidates[untuned].allowed
                && !constraint::broken(history).contains_key(&untuned),
            verdict,
            within: answer.within,
            gain,
            gain_by_workload,
            runner_up,
            gain_within,
            better_but_less_safe: None,
        }
    }
}

impl From<Gain> for Estimate {
    fn from(gain: Gain) -> Self {
        Self { middle: gain.mean, interval: gain.interval, count: gain.rounds }
    }
}

/// The confirming trials.
struct Confirmed {
    /// By candidate, round and workload.
    merits: BTreeMap<CandidateIndex, BTreeMap<u32, BTreeMap<usize, f64>>>,
    failed: Vec<CandidateIndex>,
    weights: Vec<f64>,
}

impl Confirmed {
    fn of(problem: &Problem, history: &[Observation]) -> Self {
        let mut merits: BTreeMap<usize, BTreeMap<u32, BTreeMap<usize, f64>>> = BTreeMap::new();
        let mut failed = Vec::new();
        for Observation { proposal: ask, outcome, .. } in history {
            if ask.purpose != Purpose::Confirm {
                continue;
            }
            match outcome {
                TrialOutcome::Measured { log_merit, .. } => {
                    let rounds = merits.entry(ask.candidate).or_default();
                    rounds.entry(ask.repeat).or_default().insert(ask.workload, *log_merit);
                }
                TrialOutcome::Failed => failed.push(ask.candidate),
                TrialOutcome::Missing => {}
            }
        }
        Self { merits, failed, weights: problem.space.weights() }
    }

    /// Round by round the weighted mean over the workloads, so that a round's common drift cancels.
    fn gain(&self, ours: CandidateIndex, theirs: CandidateIndex) -> Option<Estimate> {
        let mean = |round: &BTreeMap<usize, f64>| {
            (round.len() == self.weights.len()).then(|| {
                round.iter().map(|(workload, merit)| self.weights[*workload] * merit).sum()
            })
        };
        self.paired(ours, theirs, mean)
    }

    fn gain_under(
        &self,
        ours: CandidateIndex,
        theirs: CandidateIndex,
        workload: usize,
    ) -> Option<Estimate> {
        self.paired(ours, theirs, |round| round.get(&workload).copied())
    }

    fn paired(
        &self,
        ours: CandidateIndex,
        theirs: CandidateIndex,
        value: impl Fn(&BTreeMap<usize, f64>) -> Option<f64>,
    ) -> Option<Estimate> {
        let (ours, theirs) = (self.merits.get(&ours)?, self.merits.get(&theirs)?);
        let pairs: (Vec<f64>, Vec<f64>) = ours
            .iter()
            .filter_map(|(round, own)| Some((value(own)?, value(theirs.get(round)?)?)))
            .unzip();
        paired_difference(&pairs.0, &pairs.1)
    }
}

/// A difference of logarithms as a change in percent.
pub fn percent(log_ratio: f64) -> f64 {
    100.0 * (log_ratio.exp() - 1.0)
}

fn verdict(gain: Option<Estimate>) -> GainVerdict {
    match gain {
        None => GainVerdict::NotConfirmed,
        Some(gain) if gain.is_above(0.0) => GainVerdict::Better,
        Some(gain) if gain.is_below(0.0) => GainVerdict::Worse,
        Some(_) => GainVerdict::CannotTell,
    }
}
