//! Candidates that might be the best if the effects differ from their estimates: the best
//! candidates of posterior draws of all effects. A family with few trials has low and equal means,
//! although one of its many members may be the best; a ranking by means would never reach it.
//!
//! Limit: only the effects of levels and pairs are drawn, not the parts of [`super::surface`] that
//! belong to a candidate or its neighborhood.

use crate::random::RandomStream;
use crate::space::CandidateIndex;

use super::linear::{Cholesky, Matrix, dot};
use super::surface::{MeritSurface, dot_of_runs, runs};

const DRAWS: usize = 64;

/// The best of `eligible` in each draw, sorted and deduplicated. `offset` is added to the
/// merit of each; `doubt` is a factor on the posterior variances.
pub fn of(
    surface: &MeritSurface<'_>,
    offset: &dyn Fn(CandidateIndex) -> f64,
    eligible: &[CandidateIndex],
    doubt: f64,
    random: &mut RandomStream,
) -> Vec<CandidateIndex> {
    let drawn = draws(surface, doubt, random);
    let mut row = vec![0.0; surface.coding.columns()];
    let mut best: Vec<Option<(f64, CandidateIndex)>> = vec![None; drawn.len()];
    for &candidate in eligible {
        surface.coding.write(candidate, &mut row);
        let runs = runs(&row);
        let offset = offset(candidate);
        for (best, coefficients) in best.iter_mut().zip(&drawn) {
            let value = dot_of_runs(&runs, &row, coefficients) + offset;
            if best.is_none_or(|(known, _)| value > known) {
                *best = Some((value, candidate));
            }
        }
    }
    let mut found: Vec<CandidateIndex> =
        best.into_iter().flatten().map(|(_, candidate)| candidate).collect();
    found.sort_unstable();
    found.dedup();
    found
}

/// Draws all coefficients from their joint posterior.
fn draws(surface: &MeritSurface<'_>, doubt: f64, random: &mut RandomStream) -> Vec<Vec<f64>> {
    let reduced = surface.reduced_columns();
    let size = reduced.rows();
    let mut covariance = Matrix::zeros(size, size);
    for row in 0..size {
        for column in 0..=row {
            let prior = if row == column { surface.scales.columns[row] } else { 0.0 };
            let left = prior - dot(reduced.row(row), reduced.row(column));
            covariance.row_mut(row)[column] = doubt * left;
        }
    }
    let factor = Cholesky::of(covariance);
    let draw = |random: &mut RandomStream| {
        let z: Vec<f64> = (0..size).map(|_| random.normal()).collect();
        let off = factor.correlate(&z);
        off.iter().zip(&surface.coefficients).map(|(off, mean)| mean + off).collect()
    };
    (0..DRAWS).map(|_| draw(random)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::landscape::LandscapeKind;
    use crate::model::{Coding, MeritEstimate, Scales};

    #[test]
    fn a_family_with_few_trials_is_included_despite_low_means() {
        let space = LandscapeKind::Small.make(1).space;
        let all: Vec<usize> = (0..space.candidates.len()).collect();
        let coding = Coding::of(&space, &all);
        let family = |candidate: usize| space.candidates[candidate].levels[0];
        let well_known = family(0);
        let points: Vec<MeritEstimate> = all
            .iter()
            .filter(|&&candidate| family(candidate) == well_known)
            .map(|&candidate| (candidate, 0.0))
            .chain(all.iter().rev().take(1).map(|&candidate| (candidate, -0.05)))
            .map(|(candidate, value)| MeritEstimate {
                candidate,
                short: false,
                value,
                variance: 1e-4,
            })
            .collect();
        let surface = MeritSurface::of(&coding, points, Scales::guess(&coding, 0.1));
        let found = of(&surface, &|_| 0.0, &all, 1.0, &mut RandomStream::new(3));
        assert!(found.windows(2).all(|pair| pair[0] < pair[1]), "{found:?}");
        let others = found.iter().filter(|&&candidate| family(candidate) != well_known);
        assert!(others.count() > 3, "{found:?}");
    }
}
