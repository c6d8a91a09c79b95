//! The answer of a run: which setup, how much it gains, and how sure that is.
//!
//! The gain is taken from the confirming trials alone: those of the search chose the winner, so
//! they flatter it. A winner whose interval touches no gain is not called better.

use std::collections::BTreeMap;

use flashfit_filesystem::Setup;
use flashfit_search::{CandidateIndex, Outcome, Purpose, Told};

use crate::problem::Problem;
use crate::stats::{Estimate, paired_difference};

/// What can be said of the winner.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
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
    /// What it is compared with: the first file system without options, under the kernel's own
    /// scheduler.
    pub untuned: Setup,
    /// What can be said.
    pub verdict: Verdict,
    /// The logarithm of the ratio to the untuned setup, over all workloads.
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
    /// What to use: the winner where fresh trials show it better, else what it is compared with.
    pub fn recommended(&self) -> &Setup {
        match self.verdict {
            Verdict::Better => &self.winner,
            Verdict::CannotTell
            | Verdict::Worse
            | Verdict::NothingBeatsUntuned
            | Verdict::NotConfirmed => &self.untuned,
        }
    }

    /// Of the trials so far, of which the search chose `winner`.
    pub fn of(problem: &Problem, history: &[Told], winner: CandidateIndex) -> Self {
        let untuned = problem.space.reference;
        let confirmed = Confirmed::of(problem, history);
        let failed = |candidate| confirmed.failed.contains(&candidate);
        let gain = confirmed.gain(winner, untuned).filter(|_| !failed(untuned));
        let verdict = if winner == untuned {
            Verdict::NothingBeatsUntuned
        } else if failed(winner) {
            Verdict::Worse
        } else {
            verdict(gain)
        };
        let shown = gain.filter(|_| verdict != Verdict::NothingBeatsUntuned && !failed(winner));
        let gain_by_workload = match shown {
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
        let runner_up = confirmed
            .candidates()
            .into_iter()
            .filter(|&other| other != winner && other != untuned && !failed(other))
            .filter(|&other| Some(other) != own)
            .filter_map(|other| Some((other, confirmed.gain(winner, other)?)))
            .min_by(|a, b| a.1.middle.total_cmp(&b.1.middle))
            .map(|(other, gain)| (problem.setups[other].clone(), gain));
        Self {
            winner: problem.setups[winner].clone(),
            untuned: problem.setups[untuned].clone(),
            verdict,
            gain: shown,
            gain_by_workload,
            runner_up,
            gain_within,
            better_but_less_safe: None,
        }
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
    fn of(problem: &Problem, history: &[Told]) -> Self {
        let mut merits: BTreeMap<usize, BTreeMap<u32, BTreeMap<usize, f64>>> = BTreeMap::new();
        let mut failed = Vec::new();
        for Told { ask, outcome, .. } in history {
            if ask.purpose != Purpose::Confirm {
                continue;
            }
            match outcome {
                Outcome::Measured { log_merit, .. } => {
                    let rounds = merits.entry(ask.candidate).or_default();
                    rounds.entry(ask.repeat).or_default().insert(ask.workload, *log_merit);
                }
                Outcome::Failed => failed.push(ask.candidate),
                Outcome::Missing => {}
            }
        }
        Self { merits, failed, weights: problem.space.weights() }
    }

    fn candidates(&self) -> Vec<CandidateIndex> {
        self.merits.keys().copied().collect()
    }

    /// Round by round the weighted mean over the workloads, so that a round's common drift cancels.
    fn gain(&self, ours: CandidateIndex, theirs: CandidateIndex) -> Option<Estimate> {
        let mean = |round: &BTreeMap<usize, f64>| {
            (round.len() == self.weights.len())
                .then(|| round.iter().map(|(workload, merit)| self.weights[*workload] * merit).sum())
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

fn verdict(gain: Option<Estimate>) -> Verdict {
    match gain {
        None => Verdict::NotConfirmed,
        Some(gain) if gain.is_above(0.0) => Verdict::Better,
        Some(gain) if gain.is_below(0.0) => Verdict::Worse,
        Some(_) => Verdict::CannotTell,
    }
}
