//! Numeric coding of candidates. A factor with k levels becomes k-1 columns: the corners of a
//! simplex, so that no level is special (±1 for two levels), and 0 where the factor does not apply.
//! Each pair of factors that occur together adds the products of their columns.
//!
//! Only the levels of candidates of interest are coded. Limit: interactions of three or more
//! factors have no columns; the model covers them by a kernel over the number of differences.

use crate::space::{CandidateIndex, SearchSpace};

use super::linear::dot;

/// The columns of one factor.
#[derive(Debug, Clone)]
struct Columns {
    factor: usize,
    first: usize,
    count: usize,
}

/// The effect that a column represents.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Term {
    /// The effect of a factor's levels.
    Main(usize),
    /// The interaction of two factors.
    Pair(usize, usize),
}

/// The coding of a space.
#[derive(Debug, Clone)]
pub struct Coding {
    mains: usize,
    /// Main columns of every candidate, row by row.
    codes: Vec<f64>,
    /// The two main columns that each pair column multiplies.
    products: Vec<(usize, usize)>,
    terms: Vec<Term>,
    /// Each candidate's level of each varying factor, row by row; `u16::MAX` where it does not
    /// apply.
    levels: Vec<u16>,
    factors: usize,
}

/// The factor does not apply.
const NONE: u16 = u16::MAX;

impl Coding {
    /// Codes all candidates, with columns for what varies among those in `interest`.
    pub fn of(space: &SearchSpace, interest: &[CandidateIndex]) -> Self {
        let level =
            |candidate: CandidateIndex, factor: usize| space.candidates[candidate].levels[factor];
        let mut all: Vec<Columns> = Vec::new();
        let mut used: Vec<Vec<u16>> = Vec::new();
        let mut mains = 0;
        for factor in 0..space.factors.len() {
            let mut found: Vec<u16> = interest.iter().filter_map(|&c| level(c, factor)).collect();
            found.sort_unstable();
            found.dedup();
            if found.len() > 1 {
                all.push(Columns { factor, first: mains, count: found.len() - 1 });
                mains += found.len() - 1;
                used.push(found);
            }
        }
        let mut codes = vec![0.0; space.candidates.len() * mains];
        let mut levels = Vec::with_capacity(space.candidates.len() * all.len());
        for candidate in 0..space.candidates.len() {
            for (columns, used) in all.iter().zip(&used) {
                let level = level(candidate, columns.factor);
                levels.push(level.unwrap_or(NONE));
                let at = level.and_then(|level| used.iter().position(|&known| known == level));
                if let Some(at) = at {
                    let start = candidate * mains + columns.first;
                    corner(at, &mut codes[start..start + columns.count]);
                }
            }
        }
        let mut terms = Vec::new();
        for columns in &all {
            terms.extend(vec![Term::Main(columns.factor); columns.count]);
        }
        let mut products = Vec::new();
        for (index, a) in all.iter().enumerate() {
            for b in &all[index + 1..] {
                if varies_together(space, interest, a.factor, b.factor) {
                    for one in 0..a.count {
                        for other in 0..b.count {
                            products.push((a.first + one, b.first + other));
                            terms.push(Term::Pair(a.factor, b.factor));
                        }
                    }
                }
            }
        }
        Self { mains, codes, products, terms, levels, factors: all.len() }
    }

    /// The number of main columns.
    pub fn mains(&self) -> usize {
        self.mains
    }

    /// The number of columns: first the mains, then the pairs.
    pub fn columns(&self) -> usize {
        self.terms.len()
    }

    pub fn terms(&self) -> &[Term] {
        &self.terms
    }

    pub fn columns_of(&self, term: Term) -> Vec<usize> {
        (0..self.columns()).filter(|&column| self.terms[column] == term).collect()
    }

    /// The pairs of factors that have columns.
    pub fn pairs(&self) -> Vec<Term> {
        let mut pairs = self.terms[self.mains..].to_vec();
        pairs.dedup();
        pairs
    }

    /// The main columns of a candidate.
    pub fn mains_of(&self, candidate: CandidateIndex) -> &[f64] {
        &self.codes[candidate * self.mains..(candidate + 1) * self.mains]
    }

    /// All columns of a candidate.
    pub fn write(&self, candidate: CandidateIndex, row: &mut [f64]) {
        let mains = self.mains_of(candidate);
        row[..self.mains].copy_from_slice(mains);
        for (value, &(a, b)) in row[self.mains..].iter_mut().zip(&self.products) {
            *value = mains[a] * mains[b];
        }
    }

    /// The dot product of a candidate's columns and the coefficients.
    pub fn sum(&self, candidate: CandidateIndex, coefficients: &[f64]) -> f64 {
        let mains = self.mains_of(candidate);
        let pairs = self.products.iter().zip(&coefficients[self.mains..]);
        let of_pairs: f64 = pairs.map(|(&(a, b), of)| mains[a] * mains[b] * of).sum();
        dot(mains, &coefficients[..self.mains]) + of_pairs
    }

    /// The number of factors in which two candidates differ.
    pub fn differences(&self, one: CandidateIndex, other: CandidateIndex) -> usize {
        let of = |candidate: usize| {
            &self.levels[candidate * self.factors..(candidate + 1) * self.factors]
        };
        of(one).iter().zip(of(other)).filter(|(a, b)| a != b).count()
    }
}

/// Whether the levels of two factors are combined in more than one way on both sides, so that their
/// interaction is not equivalent to an effect of one of them.
fn varies_together(
    space: &SearchSpace,
    interest: &[CandidateIndex],
    one: usize,
    other: usize,
) -> bool {
    let levels = |c: &CandidateIndex| {
        let levels = &space.candidates[*c].levels;
        levels[one].zip(levels[other])
    };
    let mut met: Vec<(u16, u16)> = interest.iter().filter_map(levels).collect();
    met.sort_unstable();
    met.dedup();
    let mut firsts: Vec<u16> = met.iter().map(|&(first, _)| first).collect();
    firsts.dedup();
    let mut seconds: Vec<u16> = met.iter().map(|&(_, second)| second).collect();
    seconds.sort_unstable();
    seconds.dedup();
    firsts.len() > 1 && seconds.len() > 1
}

/// A corner of the regular simplex around 0 with `code.len() + 1` corners at distance 1.
fn corner(at: usize, code: &mut [f64]) {
    let dimensions = code.len();
    // Corner k only has values at column k and, determined by the norm, in the columns before.
    let mut rest: f64 = 1.0;
    for (column, value) in code.iter_mut().enumerate() {
        let left = (dimensions - column) as f64;
        *value = match at.cmp(&column) {
            std::cmp::Ordering::Less => 0.0,
            std::cmp::Ordering::Equal => rest.sqrt(),
            std::cmp::Ordering::Greater => -rest.sqrt() / left,
        };
        rest *= 1.0 - 1.0 / (left * left);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::landscape::LandscapeKind;

    #[test]
    fn simplex_corners_are_equidistant() {
        for levels in 2..6usize {
            let corners: Vec<Vec<f64>> = (0..levels)
                .map(|at| {
                    let mut code = vec![0.0; levels - 1];
                    corner(at, &mut code);
                    code
                })
                .collect();
            let apart = -1.0 / (levels - 1) as f64;
            for (at, one) in corners.iter().enumerate() {
                for (other_at, other) in corners.iter().enumerate() {
                    let wanted = if at == other_at { 1.0 } else { apart };
                    assert!(
                        (dot(one, other) - wanted).abs() < 1e-12,
                        "{levels}: {one:?} {other:?}"
                    );
                }
            }
        }
    }

    #[test]
    fn options_of_different_families_have_no_interaction() {
        let space = LandscapeKind::Tiny.make(1).space;
        let all: Vec<usize> = (0..space.candidates.len()).collect();
        let coding = Coding::of(&space, &all);
        // The family factor, three options of one family and two of the other.
        assert_eq!(coding.mains(), 6);
        assert_eq!(coding.columns(), 6 + 3 + 1);
        let mut row = vec![0.0; coding.columns()];
        coding.write(3, &mut row);
        let coefficients: Vec<f64> = (0..coding.columns()).map(|c| c as f64).collect();
        assert!((coding.sum(3, &coefficients) - dot(&row, &coefficients)).abs() < 1e-12);
        assert_eq!(coding.differences(0, 0), 0);
        assert_eq!(coding.differences(0, 1), 1);
    }
}
