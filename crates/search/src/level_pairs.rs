//! Pairs of levels of two factors, and which of them were never tried together.

use crate::space::{CandidateIndex, SearchSpace};

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
}

/// The pairs of levels that candidates have.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PairsTried {
    /// Those that no measured candidate has.
    pub untested: usize,
    pub all: usize,
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
        let untested =
            possible.iter().zip(&tried).filter(|(possible, tried)| **possible && !**tried);
        Self {
            untested: untested.count(),
            all: possible.iter().filter(|possible| **possible).count(),
        }
    }
}
