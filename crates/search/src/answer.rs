//! What a search has found: the winner and what it gains, which candidates is tied with it,
//! which of them is recommended, and what each factor did.
//!
//! Gains come from the confirming trials alone ([`crate::ConfirmingTrials`]); ties and effects from the
//! model of all trials, whose intervals are widened by [`WIDEN`] because the doubt about the
//! model's own variances is not in them.

use crate::confirm::{ConfirmingTrials, Gain};
use crate::history::{Observation, TrialOutcome, TrialTable};
use crate::limits::Limits;
use crate::model::{Belief, Coding, Model, Term, Variances};
use crate::random::RandomStream;
use crate::space::{CandidateIndex, SearchSpace};

/// By how much intervals from the model are widened.
const WIDEN: f64 = 1.25;
/// Half a 95 % interval of a normal distribution, in standard deviations.
const HALF_95: f64 = 1.96;
/// A candidate that is better than the winner with at least this probability is not told from it.
const TIE: f64 = 0.1;
/// What is recommended is within the asked distance of the winner with at least this probability.
const RECOMMENDED: f64 = 0.5;
/// How many factors' interactions are told at the most.
const INTERACTIONS: usize = 12;

/// A candidate that is tied with the winner.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Tie {
    /// Which.
    pub candidate: CandidateIndex,
    /// Its merit less the winner's as the model believes it, in natural logarithm.
    pub difference: f64,
    /// The probability that it is within the asked distance of the winner, 0 to 1.
    pub within: f64,
    /// Whether any trial of it was made.
    pub measured: bool,
}

/// What a level of a factor does, against the factor's default level, averaged over the rest.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Effect {
    /// The factor.
    pub factor: usize,
    /// The level.
    pub level: u16,
    /// The effect, in natural logarithm.
    pub mean: f64,
    /// Its 95 % interval.
    pub interval: (f64, f64),
}

/// What two levels do together beyond what each does.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Interaction {
    /// The two factors.
    pub factors: (usize, usize),
    /// The two levels at which it is greatest.
    pub levels: (u16, u16),
    /// What is added there, in natural logarithm.
    pub mean: f64,
    /// Its 95 % interval.
    pub interval: (f64, f64),
}

/// What a search has found.
#[derive(Debug, Clone, PartialEq)]
pub struct Answer {
    /// The best, as far as is known.
    pub winner: CandidateIndex,
    /// The probability that the winner is within the asked distance of the best, 0 to 1.
    pub within: f64,
    /// The next best of the finalists.
    pub runner_up: Option<CandidateIndex>,
    /// What the winner gains over the reference, from confirming trials alone.
    pub gain: Option<Gain>,
    /// What it gains over the runner-up, likewise.
    pub gain_over_runner_up: Option<Gain>,
    /// All that is tied with the winner, the winner among them, best first.
    pub ties: Vec<Tie>,
    /// The one of them to take: the safest, then the least wearing, then the nearest to the
    /// defaults, then the best.
    pub recommended: CandidateIndex,
    /// What each factor did, by factor and level.
    pub effects: Vec<Effect>,
    /// The interactions that surely are there, strongest first.
    pub interactions: Vec<Interaction>,
    /// Which candidates are out, and why.
    pub out: Vec<(CandidateIndex, TrialOutcome)>,
}

impl Answer {
    /// Whether nothing surely beats the untuned reference.
    pub fn nothing_gained(&self, space: &SearchSpace) -> bool {
        self.winner == space.reference || !self.gain.is_some_and(|gain| gain.is_sure())
    }
}

/// The answer after a history, whichever strategy made it, for what it chose; `wear` is the wear of
/// each candidate where it is known (less is better), or empty.
pub fn answer(
    space: &SearchSpace,
    history: &[Observation],
    limits: &Limits,
    winner: CandidateIndex,
    wear: &[Option<f64>],
) -> Answer {
    let table = TrialTable::of(history, |_| true);
    let eligible: Vec<CandidateIndex> = (0..space.candidates.len())
        .filter(|&index| space.candidates[index].allowed && table.out(index).is_none())
        .collect();
    let mut interest = eligible.clone();
    interest.push(space.reference);
    let coding = Coding::of(space, &interest);
    let model = Model::fit(space, &coding, history, Variances::Learned);
    let mut random = RandomStream::stream(limits.seed, u64::MAX);
    let belief = Belief::of(&model, &eligible, limits.goal.within, &mut random);
    let confirmed = ConfirmingTrials::of(space, history);
    let mut ties = ties(&belief, winner, &table, limits.goal.within);
    // What fresh trials tell from the winner is told from it, whatever the model believes.
    ties.retain(|tie| {
        let told = confirmed.gain(winner, tie.candidate).is_some_and(|gain| gain.is_sure());
        tie.candidate == winner || !told
    });
    let at = belief.candidates.iter().position(|&index| index == winner);
    let runner_up = belief
        .candidates
        .iter()
        .copied()
        .find(|index| *index != winner && confirmed.rounds(*index) > 0);
    Answer {
        winner,
        within: at.map_or(0.0, |at| belief.within[at]),
        runner_up,
        gain: confirmed.gain(winner, space.reference).filter(|_| winner != space.reference),
        gain_over_runner_up: runner_up.and_then(|other| confirmed.gain(winner, other)),
        recommended: recommended(space, &ties, winner, wear),
        ties,
        effects: effects(space, &coding, &model),
        interactions: interactions(space, &coding, &model),
        out: table.all_out().collect(),
    }
}

fn ties(belief: &Belief, winner: CandidateIndex, table: &TrialTable, within: f64) -> Vec<Tie> {
    let measured = table.candidates();
    let is_measured = |index: &CandidateIndex| measured.binary_search(index).is_ok();
    let Some(of_winner) = belief.candidates.iter().position(|&index| index == winner) else {
        let measured = is_measured(&winner);
        return vec![Tie { candidate: winner, difference: 0.0, within: 1.0, measured }];
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
                within: share(&|draw| draw[at] >= draw[of_winner] - within),
                measured: is_measured(&candidate),
            });
        }
    }
    found
}

fn recommended(
    space: &SearchSpace,
    ties: &[Tie],
    winner: CandidateIndex,
    wear: &[Option<f64>],
) -> CandidateIndex {
    let wear = |index: CandidateIndex| wear.get(index).copied().flatten().unwrap_or(0.0);
    let near = ties.iter().filter(|tie| tie.measured && tie.within >= RECOMMENDED);
    let best = near.min_by(|a, b| {
        let (one, other) = (&space.candidates[a.candidate], &space.candidates[b.candidate]);
        (one.safety.cmp(&other.safety))
            .then(wear(a.candidate).total_cmp(&wear(b.candidate)))
            .then(one.distance.cmp(&other.distance))
            .then(b.difference.total_cmp(&a.difference))
    });
    best.map_or(winner, |tie| tie.candidate)
}

/// The levels of a factor that candidates have, with a candidate for each.
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

fn effects(space: &SearchSpace, coding: &Coding, model: &Model) -> Vec<Effect> {
    let mut found = Vec::new();
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
        for &(level, index) in levels.iter().filter(|(level, _)| *level != base) {
            let contrast: Vec<f64> =
                code(index).iter().zip(&of_base).map(|(one, other)| one - other).collect();
            let (mean, interval) = estimate(model, term, &contrast);
            found.push(Effect { factor, level, mean, interval });
        }
    }
    found
}

fn interactions(space: &SearchSpace, coding: &Coding, model: &Model) -> Vec<Interaction> {
    let mut found: Vec<Interaction> = Vec::new();
    let mut row = vec![0.0; coding.columns()];
    for term in coding.pairs() {
        let Term::Pair(one, other) = term else { continue };
        let columns = coding.columns_of(term);
        let mut strongest: Option<Interaction> = None;
        let mut seen: Vec<(u16, u16)> = Vec::new();
        for (index, candidate) in space.candidates.iter().enumerate() {
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
        let is_sure = |of: &Interaction| of.interval.0 > 0.0 || of.interval.1 < 0.0;
        found.extend(strongest.filter(is_sure));
    }
    found.sort_by(|a, b| b.mean.abs().total_cmp(&a.mean.abs()));
    found.truncate(INTERACTIONS);
    found
}

/// A combination of a term's coefficients, with its interval.
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
    let half = WIDEN * HALF_95 * variance.max(0.0).sqrt();
    (mean, (mean - half, mean + half))
}

/// Those of some items that no other is at least as good as in everything and better in something,
/// where more is better in every figure: the front.
pub fn front(figures: &[Vec<f64>]) -> Vec<usize> {
    let beats = |one: &[f64], other: &[f64]| {
        one.iter().zip(other).all(|(a, b)| a >= b) && one.iter().zip(other).any(|(a, b)| a > b)
    };
    let is_beaten = |of: &Vec<f64>| figures.iter().any(|other| beats(other, of));
    (0..figures.len()).filter(|&index| !is_beaten(&figures[index])).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_front_has_what_nothing_beats() {
        let figures =
            [vec![1.0, 5.0], vec![2.0, 4.0], vec![1.5, 4.0], vec![2.0, 4.0], vec![0.0, 6.0]];
        assert_eq!(front(&figures), vec![0, 1, 3, 4]);
        assert_eq!(front(&[]), Vec::<usize>::new());
    }
}
