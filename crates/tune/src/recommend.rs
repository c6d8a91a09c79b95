//! The answer of a run: which setup, how much it gains, and how sure that is.
//!
//! The gain is taken from the confirming trials alone: those of the search chose the winner, so
//! they flatter it. A winner whose interval touches no gain is not called better.
//!
//! The search ranks by the methodology's merits, which add up over reads, writes, stages and
//! workloads; a gain is a ratio, with every workload counting alike. The two can disagree, and then
//! the gain decides.

use flashfit_filesystem::Setup;

use crate::record::Purpose;
use crate::results::{Results, Standing};
use crate::space::Space;
use crate::stats::{Estimate, paired_difference};
use crate::strategy::best;

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
    /// Where the winner is another file system than the reference: its gain over its own untuned
    /// setup.
    pub gain_within: Option<(Setup, Estimate)>,
    /// A setup that scored higher but is less safe than the user allows.
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

    /// Of the results so far; `None` when no allowed setup was measured under all workloads.
    pub fn of(space: &Space, results: &Results) -> Option<Self> {
        let (winner, score) = best(space, results)?;
        let untuned = space.reference()?;
        let less_safe = less_safe(space, results, score);
        if *winner != untuned && results.failure(Purpose::Confirm, winner).is_some() {
            return Some(Self::of_failed(winner, untuned, less_safe));
        }
        let per_workload = |workload: &String| {
            let logs = |setup| results.logs(Purpose::Confirm, setup, workload, results.by());
            paired_difference(&logs(winner), &logs(&untuned))
        };
        let gain_by_workload: Vec<(String, Estimate)> = results
            .workloads()
            .iter()
            .filter_map(|workload| Some((workload.clone(), per_workload(workload)?)))
            .collect();
        // A comparison that broke off is none.
        let compared = results.failure(Purpose::Confirm, &untuned).is_none();
        let gain = overall_gain(results, winner, &untuned).filter(|_| compared);
        let gain_within = space
            .untuned(&winner.filesystem)
            .filter(|own| *own != untuned && own != winner)
            .and_then(|own| overall_gain(results, winner, &own).map(|gain| (own, gain)));
        Some(Self {
            winner: winner.clone(),
            verdict: if *winner == untuned { Verdict::NothingBeatsUntuned } else { verdict(gain) },
            better_but_less_safe: less_safe,
            untuned,
            gain,
            gain_by_workload,
            gain_within,
        })
    }

    /// A winner that did not work when it was tried again has no gain, whatever it did before.
    fn of_failed(winner: &Setup, untuned: Setup, less_safe: Option<Setup>) -> Self {
        Self {
            winner: winner.clone(),
            untuned,
            verdict: Verdict::Worse,
            gain: None,
            gain_by_workload: Vec::new(),
            gain_within: None,
            better_but_less_safe: less_safe,
        }
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

/// Round by round the mean over the workloads, so that a round's common drift cancels.
#[expect(clippy::cast_precision_loss, reason = "a run has few workloads")]
fn overall_gain(results: &Results, winner: &Setup, untuned: &Setup) -> Option<Estimate> {
    let rounds = |setup: &Setup| {
        let series: Vec<Vec<f64>> = results
            .workloads()
            .iter()
            .map(|workload| results.logs(Purpose::Confirm, setup, workload, results.by()))
            .collect();
        let complete = series.iter().map(Vec::len).min().unwrap_or(0);
        (0..complete)
            .map(|round| series.iter().map(|s| s[round]).sum::<f64>() / series.len() as f64)
            .collect::<Vec<f64>>()
    };
    paired_difference(&rounds(winner), &rounds(untuned))
}

fn less_safe(space: &Space, results: &Results, score: f64) -> Option<Setup> {
    let mut better: Option<(&Setup, f64)> = None;
    for setup in results.setups(Purpose::Search).filter(|setup| !space.allows(setup)) {
        if let Standing::Score(found) = results.standing(setup) {
            if found > better.map_or(score, |(_, known)| known) {
                better = Some((setup, found));
            }
        }
    }
    better.map(|(setup, _)| setup.clone())
}
