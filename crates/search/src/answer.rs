//! Analysis of a finished search: the winner and its gain, the candidates tied with it, the
//! recommended one of these, and the effect of each factor.
//!
//! Gains come from the confirming trials only ([`crate::ConfirmingTrials`]). Ties and effects come
//! from the model of all trials. Its intervals are widened by [`INTERVAL_WIDENING`] because the
//! model treats its estimated variances as exact. With fewer than [`MIN_TRIALS_PER_WORKLOAD`] these
//! are too uncertain for any effect (`tests/effects.rs`).

use crate::confirm::{ConfirmingTrials, Gain, MIN_ROUNDS};
use crate::history::{Observation, TrialOutcome, TrialTable};
use crate::level_pairs::PairsTried;
use crate::likely::{LikelyGain, likely_gain};
use crate::model::{Belief, Coding, Model, Term, highest};
use crate::preference::Preference;
use crate::random::RandomStream;
use crate::settings::{Goal, SearchSettings};
use crate::space::{CandidateIndex, SearchSpace};
use crate::strategy::{Learned, MIN_TRIALS_PER_WORKLOAD};

/// Factor on the width of intervals from the model, with which about 95 % of them contain the true
/// effect on simulated landscapes.
const INTERVAL_WIDENING: f64 = 1.5;
/// Half the width of a 95 % interval of a normal distribution, in standard deviations.
const HALF_95: f64 = 1.96;
/// A candidate that beats the winner with at least this probability is tied with it.
const TIE: f64 = 0.1;
/// The most interactions to report.
const INTERACTIONS: usize = 12;

/// A candidate that may well be better than the winner.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Tie {
    pub candidate: CandidateIndex,
    /// Its merit minus the winner's according to the model, in natural logarithm.
    pub difference: f64,
    /// The probability that it is within the goal's distance of the best, 0 to 1.
    pub within: f64,
    /// The number of its trials.
    pub trials: usize,
}

/// The effect of a factor's level relative to its default level, averaged over the other factors.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Effect {
    pub factor: usize,
    pub level: u16,
    /// The effect, in natural logarithm.
    pub mean: f64,
    /// Its 95 % interval.
    pub interval: (f64, f64),
    /// How many trials had the level.
    pub trials: usize,
}

impl Effect {
    /// With fewer trials of either level, the interval is that of the model's assumptions on
    /// effects, which are near 0, more than that of the trials.
    pub const MIN_TRIALS: usize = 3;
}

/// The effect of two levels together beyond the sum of their separate effects.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Interaction {
    pub factors: (usize, usize),
    /// The pair of levels with the largest interaction.
    pub levels: (u16, u16),
    /// The size of the interaction at these levels, in natural logarithm.
    pub mean: f64,
    /// Its 95 % interval.
    pub interval: (f64, f64),
}

/// How much better the best candidate may be than a given one, according to the model of all
/// trials.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LeftToGain {
    /// The mean, in natural logarithm.
    pub mean: f64,
    /// What it does not exceed with a probability of 90 %.
    pub most: f64,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Answer {
    /// The best candidate according to the strategy.
    pub winner: CandidateIndex,
    /// The probability that the winner is within the goal's distance of the best, 0 to 1.
    pub within: f64,
    /// The second-best finalist.
    pub runner_up: Option<CandidateIndex>,
    /// The gain of the recommended candidate over the baseline, from its confirming trials only.
    pub gain: Option<Gain>,
    /// The same of the winner.
    pub winner_gain: Option<Gain>,
    /// The winner's gain over the runner-up, from confirming trials only.
    pub gain_over_runner_up: Option<Gain>,
    /// The measured candidates tied with the winner, including the winner, best first.
    pub ties: Vec<Tie>,
    /// How many candidates without a trial the model cannot distinguish from the winner.
    pub untried_ties: usize,
    /// The tie to prefer (`Preference::preferred`).
    pub recommended: CandidateIndex,
    /// The probability that the recommended candidate is within the goal's distance of the best, 0
    /// to 1.
    pub recommended_within: f64,
    /// The same of the baseline.
    pub baseline_within: f64,
    /// The distance from the best that was asked for, and with which probability.
    pub goal: Goal,
    /// The gain of the recommended candidate over the baseline, if it is likely and not shown.
    pub likely_gain: Option<LikelyGain>,
    /// What the best candidate may gain over the recommended one, and over the baseline; `None` if
    /// that cannot be chosen.
    pub left_to_gain: Option<LeftToGain>,
    pub left_to_gain_over_baseline: Option<LeftToGain>,
    /// The levels with enough trials ([`Effect::MIN_TRIALS`], some under every workload), by
    /// factor, then level; none where too little was measured.
    pub effects: Vec<Effect>,
    /// The interactions whose interval excludes 0, strongest first.
    pub interactions: Vec<Interaction>,
    /// Levels that were tried together. The probabilities assume that others do together what each
    /// does alone, as far as interactions that were seen allow.
    pub pairs: PairsTried,
    /// Candidates that failed or have no data.
    pub excluded: Vec<(CandidateIndex, TrialOutcome)>,
}

impl Answer {
    /// Whether the search found no significant gain over the baseline.
    pub fn shows_no_gain(&self, space: &SearchSpace) -> bool {
        self.recommended == space.baseline || !self.gain.is_some_and(|gain| gain.is_significant())
    }
}

/// Analyzes a history from any strategy, given the winner that the strategy chose. `wear` is the
/// wear of each candidate where it is known (less is better), or empty.
pub fn answer(
    space: &SearchSpace,
    history: &[Observation],
    settings: &SearchSettings,
    winner: CandidateIndex,
    wear: &[Option<f64>],
) -> Answer {
    let table = TrialTable::of(history, |_| true);
    let eligible: Vec<CandidateIndex> = (0..space.candidates.len())
        .filter(|&index| space.candidates[index].allowed && table.excluded(index).is_none())
        .collect();
    let mut interest = eligible.clone();
    interest.push(space.baseline);
    let coding = Coding::of(space, &interest);
    // The same fit and draws as when the search decided to stop.
    let variances = Learned::default().from(space, &coding, history, None);
    let model = Model::fit(space, &coding, history, variances);
    let mut random = RandomStream::of_history(settings.seed, history.len());
    let belief = Belief::of(&model, &eligible, settings.goal.within, &mut random);
    let confirmed = ConfirmingTrials::of(space, history);
    let mut ties = ties(&belief, winner, &table);
    // A significant difference in confirming trials overrides the model.
    ties.retain(|tie| {
        let differs =
            confirmed.gain(winner, tie.candidate).is_some_and(|gain| gain.is_significant());
        tie.candidate == winner || !differs
    });
    let untried_ties = ties.iter().filter(|tie| tie.trials == 0).count();
    ties.retain(|tie| tie.trials > 0 || tie.candidate == winner);
    let preference =
        Preference { space, belief: &belief, confirmed: &confirmed, goal: settings.goal, wear };
    let raced = confirmed.rounds(winner) >= MIN_ROUNDS;
    let recommended = preference.preferred(winner, |candidate| {
        let measured = ties.iter().any(|tie| tie.candidate == candidate);
        if raced { preference.is_confirmed(candidate) } else { measured }
    });
    let at = belief.candidates.iter().position(|&index| index == winner);
    let runner_up = belief
        .candidates
        .iter()
        .copied()
        .find(|index| *index != winner && confirmed.rounds(*index) > 0);
    let gain = confirmed.gain(recommended, space.baseline);
    let gain = gain.filter(|_| recommended != space.baseline);
    let is_shown = gain.is_some_and(|gain| gain.is_significant());
    let has_effects = history.len() >= MIN_TRIALS_PER_WORKLOAD * space.workloads.len();
    let likely_gain = likely_gain(&preference, &model, &table, recommended, &mut random);
    Answer {
        winner,
        within: at.map_or(0.0, |at| belief.within[at]),
        runner_up,
        gain,
        winner_gain: confirmed.gain(winner, space.baseline).filter(|_| winner != space.baseline),
        gain_over_runner_up: runner_up.and_then(|other| confirmed.gain(winner, other)),
        recommended,
        recommended_within: preference.probability(recommended),
        baseline_within: preference.probability(space.baseline),
        goal: settings.goal,
        likely_gain: likely_gain.filter(|_| !is_shown),
        left_to_gain: left_to_gain(&belief, recommended),
        left_to_gain_over_baseline: left_to_gain(&belief, space.baseline),
        ties,
        untried_ties,
        effects: if has_effects { effects(space, &coding, &model, &table) } else { Vec::new() },
        interactions: if has_effects {
            interactions(space, &coding, &model, &table)
        } else {
            Vec::new()
        },
        pairs: PairsTried::of(space, &eligible, table.candidates()),
        excluded: table.all_excluded().collect(),
    }
}

fn left_to_gain(belief: &Belief, candidate: CandidateIndex) -> Option<LeftToGain> {
    let at = belief.candidates.iter().position(|&index| index == candidate)?;
    let gain = |draw: &Vec<f64>| Some(highest(draw)?.1 - draw[at]);
    let mut gains: Vec<f64> = belief.draws.iter().filter_map(gain).collect();
    gains.sort_by(f64::total_cmp);
    let most = *gains.get(gains.len() * 9 / 10)?;
    Some(LeftToGain { mean: gains.iter().sum::<f64>() / gains.len() as f64, most })
}

fn ties(belief: &Belief, winner: CandidateIndex, table: &TrialTable) -> Vec<Tie> {
    let trials = table.trials();
    let trials = |index: CandidateIndex| trials.get(&index).copied().unwrap_or(0);
    let Some(of_winner) = belief.candidates.iter().position(|&index| index == winner) else {
        let trials = trials(winner);
        return vec![Tie { candidate: winner, difference: 0.0, within: 0.0, trials }];
    };
    let draws = belief.draws.len().max(1) as f64;
    let share = |holds: &dyn Fn(&Vec<f64>) -> bool| {
        belief.draws.iter().filter(|draw| holds(draw)).count() as f64 / draws
    };
    let mut found = Vec::new();
    for (at, &candidate) in belief.candidates.iter().enumerate() {
        let better = share(&|draw| draw[at] > draw[of_winner]);
        if candidate == winner || better >= TIE {
            found.push(Tie {
                candidate,
                difference: belief.means[at] - belief.means[of_winner],
                within: belief.within[at],
                trials: trials(candidate),
            });
        }
    }
    found
}

/// The levels of a factor that occur, each with one candidate that has it.
fn levels_of(space: &SearchSpace, factor: usize) -> Vec<(u16, CandidateIndex)> {
    let mut found: Vec<(u16, CandidateIndex)> = Vec::new();
    for (index, candidate) in space.candidates.iter().enumerate() {
        if let Some(level) = candidate.levels[factor] {
            if !found.iter().any(|(known, _)| *known == level) {
                found.push((level, index));
            }
        }
    }
    found.sort_unstable();
    found
}

fn effects(space: &SearchSpace, coding: &Coding, model: &Model, table: &TrialTable) -> Vec<Effect> {
    let mut found = Vec::new();
    // Of a level, under each workload.
    let trials = |factor: usize, level: u16| -> Vec<usize> {
        let mut counts = vec![0; space.workloads.len()];
        for (candidate, workload, cell) in table.cells() {
            if space.candidates[candidate].levels[factor] == Some(level) {
                counts[workload] += cell.len();
            }
        }
        counts
    };
    let count = |factor: usize, level: u16| -> usize { trials(factor, level).iter().sum() };
    for factor in 0..space.factors.len() {
        let term = Term::Main(factor);
        let columns = coding.columns_of(term);
        let levels = levels_of(space, factor);
        let default = space.factors[factor].default;
        let base = levels.iter().find(|(level, _)| *level == default).or(levels.first());
        let Some(&(base, of_base)) = base.filter(|_| !columns.is_empty()) else { continue };
        let code = |candidate: CandidateIndex| -> Vec<f64> {
            columns.iter().map(|&column| coding.mains_of(candidate)[column]).collect()
        };
        let of_base = code(of_base);
        let has_few = |level: u16| count(factor, level) < Effect::MIN_TRIALS;
        let is_known = |&&(level, _): &&(u16, CandidateIndex)| {
            let is_under_all = !trials(factor, level).contains(&0);
            level != base && is_under_all && !has_few(level) && !has_few(base)
        };
        for &(level, index) in levels.iter().filter(is_known) {
            let contrast: Vec<f64> =
                code(index).iter().zip(&of_base).map(|(one, other)| one - other).collect();
            let (mean, interval) = estimate(model, term, &contrast);
            let trials = count(factor, level);
            found.push(Effect { factor, level, mean, interval, trials });
        }
    }
    found
}

fn interactions(
    space: &SearchSpace,
    coding: &Coding,
    model: &Model,
    table: &TrialTable,
) -> Vec<Interaction> {
    let mut found: Vec<Interaction> = Vec::new();
    let measured = table.candidates();
    let mut row = vec![0.0; coding.columns()];
    for term in coding.pairs() {
        let Term::Pair(one, other) = term else { continue };
        let columns = coding.columns_of(term);
        let mut strongest: Option<Interaction> = None;
        let mut seen: Vec<(u16, u16)> = Vec::new();
        for &index in &measured {
            let candidate = &space.candidates[index];
            let both = candidate.levels[one].zip(candidate.levels[other]);
            let Some(levels) = both.filter(|levels| !seen.contains(levels)) else { continue };
            seen.push(levels);
            coding.write(index, &mut row);
            let contrast: Vec<f64> = columns.iter().map(|&column| row[column]).collect();
            let (mean, interval) = estimate(model, term, &contrast);
            if strongest.is_none_or(|known| mean.abs() > known.mean.abs()) {
                strongest = Some(Interaction { factors: (one, other), levels, mean, interval });
            }
        }
        let is_significant = |of: &Interaction| of.interval.0 > 0.0 || of.interval.1 < 0.0;
        found.extend(strongest.filter(is_significant));
    }
    found.sort_by(|a, b| b.mean.abs().total_cmp(&a.mean.abs()));
    found.truncate(INTERACTIONS);
    found
}

/// A linear combination of a term's coefficients, with its interval.
fn estimate(model: &Model, term: Term, contrast: &[f64]) -> (f64, (f64, f64)) {
    let (means, covariance) = model.surface().coefficients_of(term);
    let mean: f64 = means.iter().zip(contrast).map(|(mean, of)| mean * of).sum();
    let mut variance = 0.0;
    for (row, one) in contrast.iter().enumerate() {
        for (column, other) in contrast.iter().enumerate().take(row + 1) {
            let twice = if row == column { 1.0 } else { 2.0 };
            variance += twice * one * other * covariance.row(row)[column];
        }
    }
    let half = INTERVAL_WIDENING * HALF_95 * variance.max(0.0).sqrt();
    (mean, (mean - half, mean + half))
}

/// The indices of the items that no other item dominates. More is better in every figure.
pub fn pareto_front(figures: &[Vec<f64>]) -> Vec<usize> {
    let dominates = |one: &[f64], other: &[f64]| {
        one.iter().zip(other).all(|(a, b)| a >= b) && one.iter().zip(other).any(|(a, b)| a > b)
    };
    let is_dominated = |of: &Vec<f64>| figures.iter().any(|other| dominates(other, of));
    (0..figures.len()).filter(|&index| !is_dominated(&figures[index])).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pareto_front_contains_the_items_that_nothing_dominates() {
        let figures =
            [vec![1.0, 5.0], vec![2.0, 4.0], vec![1.5, 4.0], vec![2.0, 4.0], vec![0.0, 6.0]];
        assert_eq!(pareto_front(&figures), vec![0, 1, 3, 4]);
        assert_eq!(pareto_front(&[]), Vec::<usize>::new());
    }
}
