//! Pairs of levels of two factors, and which of them were never tried together.

use crate::space::{CandidateIndex, FactorRole, SearchSpace};

/// Numbers the pairs of levels of two factors.
pub(crate) struct LevelPairs<'a> {
    space: &'a SearchSpace,
    /// The first number of each pair of factors, row by row.
    first: Vec<usize>,
    count: usize,
}

impl<'a> LevelPairs<'a> {
    pub fn of(space: &'a SearchSpace) -> Self {
        let factors = &space.factors;
        let (mut first, mut count) = (Vec::new(), 0);
        for one in factors {
            for other in factors {
                first.push(count);
                count += one.levels.len() * other.levels.len();
            }
        }
        Self { space, first, count }
    }

    /// The pairs of a candidate.
    pub fn each(&self, candidate: CandidateIndex) -> impl Iterator<Item = usize> {
        let (levels, factors) = (&self.space.candidates[candidate].levels, &self.space.factors);
        (0..factors.len()).flat_map(move |one| {
            (one + 1..factors.len()).filter_map(move |other| {
                let (a, b) = (usize::from(levels[one]?), usize::from(levels[other]?));
                Some(self.first[one * factors.len() + other] + a * factors[other].levels.len() + b)
            })
        })
    }

    /// Which pairs some of these candidates have.
    pub fn any_of(&self, candidates: impl IntoIterator<Item = CandidateIndex>) -> Vec<bool> {
        let mut found = vec![false; self.count];
        for candidate in candidates {
            self.each(candidate).for_each(|pair| found[pair] = true);
        }
        found
    }

    /// Which pairs are of two choices that differ from the default: two options, or an option and a
    /// companion. Those of a family are not, because most of its levels exist only in it.
    fn of_changes(&self) -> Vec<bool> {
        let factors = &self.space.factors;
        let mut found = vec![false; self.count];
        for (one, first) in factors.iter().enumerate() {
            for (other, second) in factors.iter().enumerate().skip(one + 1) {
                if [first.role, second.role].contains(&FactorRole::Family) {
                    continue;
                }
                let start = self.first[one * factors.len() + other];
                for a in (0..first.levels.len()).filter(|a| *a != usize::from(first.default)) {
                    for b in (0..second.levels.len()).filter(|b| *b != usize::from(second.default))
                    {
                        found[start + a * second.levels.len() + b] = true;
                    }
                }
            }
        }
        found
    }
}

/// The pairs of levels that candidates have.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PairsTried {
    /// Those that no measured candidate has.
    pub untested: usize,
    pub all: usize,
    /// The same of pairs of changes: two options that are on, or one that is and a scheduler that
    /// is not the default, rather than one that is off and another.
    pub changes_untested: usize,
    pub all_changes: usize,
}

impl PairsTried {
    pub(crate) fn of(
        space: &SearchSpace,
        eligible: &[CandidateIndex],
        measured: Vec<CandidateIndex>,
    ) -> Self {
        let pairs = LevelPairs::of(space);
        let tried = pairs.any_of(measured);
        let possible = pairs.any_of(eligible.iter().copied());
        let of_changes = pairs.of_changes();
        let mut found = Self::default();
        for pair in (0..possible.len()).filter(|pair| possible[*pair]) {
            let (untested, change) = (usize::from(!tried[pair]), usize::from(of_changes[pair]));
            found.untested += untested;
            found.all += 1;
            found.changes_untested += change * untested;
            found.all_changes += change;
        }
        found
    }
}
