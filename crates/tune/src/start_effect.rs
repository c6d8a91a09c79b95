//! How much the state in which a workload starts changes its result, by file system.
//!
//! Under a workload, the logarithm of a full trial is the sum of its setup, the kind of its start
//! and noise; the kinds are compared within setups, so it does not matter which setups had which
//! kind. A dependence is reported if a kind differs from the mean of all by more than chance
//! (Student's t with Bonferroni's correction, 1 %), and kinds differ by at least `LEAST_RATIO`.
//!
//! Limit: a file system needs setups that were measured in several kinds of states, and enough of
//! them; what is not listed was not shown, which does not mean that it does not matter.

use std::collections::{BTreeMap, BTreeSet};

use flashfit_search::{CandidateIndex, student};

use crate::objective::Objective;
use crate::problem::Problem;
use crate::record::TrialRecord;
use crate::starts;

/// The least ratio of the best to the worst kind, as a logarithm: 10 %.
const LEAST_RATIO: f64 = 0.095;
/// The chance of a false report by workload and file system.
const FALSE_REPORT: f64 = 0.01;
const LEAST_FREEDOM: usize = 6;
const ITERATIONS: usize = 30;

/// The dependence of a workload's result on the kind of start.
#[derive(Debug, Clone, PartialEq)]
pub struct StartEffect {
    pub workload: String,
    pub filesystem: String,
    /// The kinds by name with the logarithm of the result relative to the mean of all kinds, the
    /// worst first.
    pub kinds: Vec<KindEffect>,
    /// The mean logarithm of the file system's trials.
    pub level: f64,
    pub trials: usize,
}

#[derive(Debug, Clone, PartialEq)]
pub struct KindEffect {
    pub kind: String,
    pub log: f64,
    pub trials: usize,
}

impl StartEffect {
    /// The ratio of the best to the worst kind, as a logarithm.
    pub fn ratio(&self) -> f64 {
        let (first, last) = (self.kinds.first(), self.kinds.last());
        first.zip(last).map_or(0.0, |(worst, best)| best.log - worst.log)
    }
}

/// A setup, the kind of start by name, and the logarithm of the result.
type KindTrial<'a> = (CandidateIndex, &'a str, f64);

/// A trial of a file system under a workload.
#[derive(Debug, Clone, Copy)]
struct Measured {
    candidate: CandidateIndex,
    kind: usize,
    log: f64,
}

/// All dependences that are shown, the strongest first.
pub fn of_run(problem: &Problem, objective: Objective, trials: &[TrialRecord]) -> Vec<StartEffect> {
    let mut cells: BTreeMap<(&str, &str), Vec<KindTrial<'_>>> = BTreeMap::new();
    for trial in trials.iter().filter(|trial| trial.key.length.is_full()) {
        let Some(candidate) = problem.candidate(&trial.key.setup) else { continue };
        let Some(kind) = starts::kind_of(trial) else { continue };
        let outcome = objective.outcome(trial);
        if let flashfit_search::TrialOutcome::Measured { log_merit, .. } = outcome {
            let cell = (trial.key.workload.as_str(), trial.key.setup.filesystem.as_str());
            cells.entry(cell).or_default().push((candidate, kind, log_merit));
        }
    }
    let mut found: Vec<StartEffect> = cells
        .into_iter()
        .filter_map(|((workload, filesystem), trials)| shown(workload, filesystem, &trials))
        .collect();
    found.sort_by(|a, b| b.ratio().total_cmp(&a.ratio()));
    found
}

fn shown(workload: &str, filesystem: &str, trials: &[KindTrial<'_>]) -> Option<StartEffect> {
    let names: BTreeSet<&str> = trials.iter().map(|(_, kind, _)| *kind).collect();
    let names: Vec<&str> = names.into_iter().collect();
    let measured: Vec<Measured> = trials
        .iter()
        .map(|&(candidate, kind, log)| {
            let kind = names.binary_search(&kind).expect("it is one of them");
            Measured { candidate, kind, log }
        })
        .collect();
    let (effects, errors, freedom) = fit(&measured, names.len())?;
    let chance = FALSE_REPORT / 2.0 / names.len() as f64;
    let limit = student::quantile(1.0 - chance, freedom);
    let differs = effects.iter().zip(&errors).any(|(effect, error)| effect.abs() > limit * error);
    let mut kinds: Vec<KindEffect> = names
        .iter()
        .zip(&effects)
        .enumerate()
        .map(|(at, (name, log))| KindEffect {
            kind: (*name).to_owned(),
            log: *log,
            trials: measured.iter().filter(|trial| trial.kind == at).count(),
        })
        .collect();
    kinds.sort_by(|a, b| a.log.total_cmp(&b.log));
    let level = measured.iter().map(|trial| trial.log - effects[trial.kind]).sum::<f64>()
        / measured.len() as f64;
    let found = StartEffect {
        workload: workload.to_owned(),
        filesystem: filesystem.to_owned(),
        kinds,
        level,
        trials: measured.len(),
    };
    (differs && found.ratio() >= LEAST_RATIO).then_some(found)
}

/// The effects of the kinds with mean 0, their errors, and the degrees of freedom of the noise.
fn fit(trials: &[Measured], kinds: usize) -> Option<(Vec<f64>, Vec<f64>, f64)> {
    let setups: BTreeSet<CandidateIndex> = trials.iter().map(|trial| trial.candidate).collect();
    let freedom = (trials.len() + 1).checked_sub(setups.len() + kinds)?;
    if kinds < 2 || freedom < LEAST_FREEDOM {
        return None;
    }
    let mut levels: BTreeMap<CandidateIndex, f64> = BTreeMap::new();
    let mut effects = vec![0.0; kinds];
    for _ in 0..ITERATIONS {
        for setup in &setups {
            let of = trials.iter().filter(|trial| trial.candidate == *setup);
            levels.insert(*setup, mean(of.map(|trial| trial.log - effects[trial.kind]))?);
        }
        for (kind, effect) in effects.iter_mut().enumerate() {
            let of = trials.iter().filter(|trial| trial.kind == kind);
            *effect = mean(of.map(|trial| trial.log - levels[&trial.candidate]))?;
        }
        let middle = effects.iter().sum::<f64>() / kinds as f64;
        effects.iter_mut().for_each(|effect| *effect -= middle);
    }
    let rest = |trial: &Measured| trial.log - levels[&trial.candidate] - effects[trial.kind];
    let variance = trials.iter().map(|t| rest(t).powi(2)).sum::<f64>() / freedom as f64;
    // Information on a kind: its trials that are compared with other kinds of the same setup.
    let informative = |kind: usize| {
        setups.iter().fold(0.0, |sum, setup| {
            let of: Vec<&Measured> =
                trials.iter().filter(|trial| trial.candidate == *setup).collect();
            let own = of.iter().filter(|trial| trial.kind == kind).count() as f64;
            let others = of.len() as f64 - own;
            sum + if own + others > 0.0 { own * others / (own + others) } else { 0.0 }
        })
    };
    let error = |kind: usize| (variance / informative(kind).max(1e-9)).sqrt();
    Some((effects, (0..kinds).map(error).collect(), freedom as f64))
}

fn mean(values: impl Iterator<Item = f64>) -> Option<f64> {
    let (sum, count) = values.fold((0.0, 0.0), |(sum, count), value| (sum + value, count + 1.0));
    (count > 0.0).then(|| sum / count)
}

#[cfg(test)]
mod tests {
    use flashfit_search::RandomStream;

    use super::*;

    const KINDS: [&str; 4] = ["1-new", "2-remounted", "3-synced", "4-written"];

    /// Trials of three setups, each in some kinds, with noise of 10 %.
    fn trials(effects: [f64; 4], random: &mut RandomStream) -> Vec<KindTrial<'static>> {
        let mut trials = Vec::new();
        for (setup, count) in [(0, 12), (1, 6), (2, 3)] {
            for number in 0..count {
                let kind = (number + setup) % 4;
                let noise = 0.1 * random.normal();
                trials.push((setup, KINDS[kind], setup as f64 + effects[kind] + noise));
            }
        }
        trials
    }

    #[test]
    fn a_state_that_halves_the_speed_is_found_with_its_size() {
        let mut random = RandomStream::new(3);
        for _ in 0..50 {
            let trials = trials([0.6, 0.0, 0.0, 0.0], &mut random);
            let found = shown("sync-files", "ext4", &trials).expect("it is large");
            assert_eq!(found.kinds.last().map(|kind| kind.kind.as_str()), Some("1-new"));
            assert!((0.3..1.0).contains(&found.ratio()), "{found:?}");
        }
    }

    #[test]
    fn noise_is_not_a_dependence_on_the_state() {
        let mut random = RandomStream::new(4);
        let reports = (0..1000)
            .filter(|_| shown("sync-files", "ext4", &trials([0.0; 4], &mut random)).is_some())
            .count();
        assert!(reports <= 20, "{reports} of 1000");
    }

    #[test]
    fn setups_that_were_measured_once_say_nothing() {
        let trials: Vec<_> = (0..20).map(|setup| (setup, KINDS[setup % 4], 0.0)).collect();
        assert_eq!(shown("sync-files", "ext4", &trials), None);
    }
}
