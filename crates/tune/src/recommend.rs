//! The recommendation of a run: the setup, its gain and the confidence in it.
//!
//! The gain is computed from confirming trials only; search trials selected the winner and would
//! overstate it. A winner whose interval includes 0 is not called better.

use std::collections::BTreeMap;

use flashfit_filesystem::Setup;
use flashfit_search::{Answer, CandidateIndex, Gain, Observation, Purpose, TrialOutcome};

use crate::constraint;
use crate::problem::Problem;
use crate::stats::{Estimate, paired_difference};

/// The verdict on the winner.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GainVerdict {
    /// Significantly better than the baseline.
    Better,
    /// Tied with the baseline.
    CannotTell,
    /// Significantly worse in confirming trials, or failed in one: the search was misled by noise.
    Worse,
    /// The baseline itself is the winner.
    NothingBeatsUntuned,
    /// No confirming trials yet.
    NotConfirmed,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Recommendation {
    pub winner: Setup,
    /// The safest of the setups tied with it, then the one with the least wear, then the closest to
    /// the defaults.
    pub best_of_ties: Setup,
    /// The baseline: the first file system without options, under the default scheduler.
    pub untuned: Setup,
    /// Whether the baseline meets the user's constraints: it has every required option and does not
    /// significantly violate the latency constraint.
    pub untuned_will_do: bool,
    pub verdict: GainVerdict,
    /// The probability that the winner is within the requested distance of the best, 0 to 1.
    pub within: f64,
    /// Log ratio to the baseline over all workloads.
    pub gain: Option<Estimate>,
    /// The same for each workload.
    pub gain_by_workload: Vec<(String, Estimate)>,
    /// The best other setup with confirming trials, and the winner's gain over it.
    pub runner_up: Option<(Setup, Estimate)>,
    /// If the winner is another file system than the baseline: its gain over its own default setup.
    pub gain_within: Option<(Setup, Estimate)>,
    /// A better setup that is less safe than the user allows.
    pub better_but_less_safe: Option<Setup>,
}

impl Recommendation {
    /// The setup to use. If the winner is significantly better, it is the preferred one of the
    /// setups tied with it. Otherwise it is the baseline, unless that does not meet the
    /// constraints.
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
        let own = problem.own_baseline(winner).filter(|own| *own != untuned && *own != winner);
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
        for Observation { proposal, outcome, .. } in history {
            if proposal.purpose != Purpose::Confirm {
                continue;
            }
            match outcome {
                TrialOutcome::Measured { log_merit, .. } => {
                    let rounds = merits.entry(proposal.candidate).or_default();
                    rounds
                        .entry(proposal.repeat)
                        .or_default()
                        .insert(proposal.workload, *log_merit);
                }
                TrialOutcome::Failed => failed.push(proposal.candidate),
                TrialOutcome::Missing => {}
            }
        }
        Self { merits, failed, weights: problem.space.weights() }
    }

    /// Differences of the weighted means over the workloads by round, so that common drift cancels.
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

/// Converts a difference of logarithms to a change in percent.
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
