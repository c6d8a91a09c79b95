//! Evaluates how well combinations of steps explain the cost of reads.
//!
//! A read across a place costs an additional step for every level (page, write unit, erase block,
//! piece of the mapping table) whose boundary it is: cost(x) = base + sum of the steps of the
//! levels that divide x. A *model* is a set of levels with steps. Its evidence is the Bayes factor
//! against "no steps" of a linear model of the normal scores, with Zellner's g-prior at unit
//! information (g = n) and a separate base for each group. Limits: at most three levels per model;
//! steps are additive. Source: Liang et al., "Mixtures of g priors for Bayesian variable selection"
//! (JASA 2008), eq. 6.

use super::scores::{BoundaryRead, groups, scores};

/// Indices into a list of levels.
pub type StepModel = Vec<usize>;

/// The most steps per model.
const MOST: usize = 3;
/// Iterations to find the most likely model; usually the first one finds it.
const ROUNDS: usize = 3;
/// Negligible relative to a unit variance per reading.
const TINY: f64 = 1e-9;

/// Sums shared by all models.
#[derive(Debug)]
pub struct Sums {
    /// Number of readings minus the bases of the groups.
    freedom: f64,
    /// Products of two levels' columns, centered in each group.
    products: Vec<Vec<f64>>,
    /// Products of a level's column with the scores.
    with_scores: Vec<f64>,
    /// Sum of squares of the scores.
    scores: f64,
}

impl Sums {
    /// Sums for levels in bytes. `model` is the most likely model so far; it helps to distinguish
    /// slow reads from slow groups.
    pub fn new(crossings: &[BoundaryRead], levels: &[u64], model: &[usize]) -> Self {
        let kind = |crossing: &BoundaryRead| {
            let crosses = |&level: &usize| usize::from(crossing.center % levels[level] == 0);
            model.iter().fold(0, |kind, level| 2 * kind + crosses(level))
        };
        let kinds: Vec<usize> = crossings.iter().map(kind).collect();
        let scores = scores(crossings, &kinds);
        let mut products = vec![vec![0.0; levels.len()]; levels.len()];
        let mut with_scores = vec![0.0; levels.len()];
        let (mut own, mut freedom) = (0.0, 1.0);
        for members in groups(crossings).values() {
            freedom += members.len() as f64 - 1.0;
            let mut columns = vec![0.0; levels.len()];
            let mean = members.iter().map(|&at| scores[at]).sum::<f64>() / members.len() as f64;
            for &at in members {
                let (center, score) = (crossings[at].center, scores[at] - mean);
                let crossed: Vec<usize> =
                    (0..levels.len()).filter(|&level| center % levels[level] == 0).collect();
                own += score * score;
                for &level in &crossed {
                    columns[level] += 1.0;
                    with_scores[level] += score;
                    for &other in &crossed {
                        products[level][other] += 1.0;
                    }
                }
            }
            let crossed: Vec<usize> =
                (0..levels.len()).filter(|&level| columns[level] > 0.0).collect();
            for &level in &crossed {
                for &other in &crossed {
                    products[level][other] -=
                        columns[level] * columns[other] / members.len() as f64;
                }
            }
        }
        Self { freedom, products, with_scores, scores: own }
    }

    /// The [evidence](Sums::evidence) of each model for these readings.
    pub fn weigh(
        crossings: &[BoundaryRead],
        levels: &[u64],
        models: &[StepModel],
        must_be_positive: impl Fn(&StepModel, usize) -> bool,
    ) -> Vec<f64> {
        let mut best: &[usize] = &[];
        let mut evidence = Vec::new();
        for _ in 0..ROUNDS {
            let sums = Self::new(crossings, levels, best);
            let of = |model: &StepModel| sums.evidence(model, |at| must_be_positive(model, at));
            evidence = models.iter().map(of).collect();
            let likelier = |&a: &usize, &b: &usize| evidence[a].total_cmp(&evidence[b]);
            let likeliest = (0..models.len()).max_by(likelier).map_or(best, |at| &models[at]);
            if likeliest == best {
                break;
            }
            best = likeliest;
        }
        evidence
    }

    /// The log Bayes factor of a model against no steps; negative infinity if a step that must be
    /// positive is not. A level that was never or always crossed is unknown: alone it is as likely
    /// as no steps, and it adds nothing to others.
    pub fn evidence(&self, model: &[usize], must_be_positive: impl Fn(usize) -> bool) -> f64 {
        let seen: Vec<usize> =
            model.iter().copied().filter(|&at| self.products[at][at] > TINY).collect();
        if seen.len() < model.len() && model.len() > 1 {
            return f64::NEG_INFINITY;
        }
        if seen.is_empty() || self.scores < TINY {
            return 0.0;
        }
        let Some(steps) = self.solve(&seen) else { return f64::NEG_INFINITY };
        if seen.iter().zip(&steps).any(|(&at, &step)| step <= 0.0 && must_be_positive(at)) {
            return f64::NEG_INFINITY;
        }
        let explained: f64 =
            seen.iter().zip(&steps).map(|(&at, step)| step * self.with_scores[at]).sum();
        let share = (explained / self.scores).clamp(0.0, 1.0);
        let (freedom, steps) = (self.freedom, seen.len() as f64);
        let g = freedom.max(2.0);
        ((freedom - 1.0 - steps) * (1.0 + g).ln()
            - (freedom - 1.0) * (1.0 + g * (1.0 - share)).ln())
            / 2.0
    }

    /// The least-squares steps of a model by Gaussian elimination of the normal equations; `None`
    /// if its levels are collinear.
    fn solve(&self, model: &[usize]) -> Option<Vec<f64>> {
        let count = model.len();
        let mut rows = [[0.0; MOST + 1]; MOST];
        for (row, &at) in model.iter().enumerate() {
            for (column, &other) in model.iter().enumerate() {
                rows[row][column] = self.products[at][other];
            }
            rows[row][MOST] = self.with_scores[at];
        }
        for pivot in 0..count {
            // The matrix is positive semidefinite, so diagonal pivots suffice.
            if rows[pivot][pivot] < 1e-6 * (1.0 + self.products[model[pivot]][model[pivot]]) {
                return None;
            }
            for row in pivot + 1..count {
                let factor = rows[row][pivot] / rows[pivot][pivot];
                let above = rows[pivot];
                for (entry, upper) in rows[row].iter_mut().zip(above) {
                    *entry -= factor * upper;
                }
            }
        }
        let mut steps = vec![0.0; count];
        for row in (0..count).rev() {
            let known: f64 = (row + 1..count).map(|at| rows[row][at] * steps[at]).sum();
            steps[row] = (rows[row][MOST] - known) / rows[row][row];
        }
        Some(steps)
    }
}

/// All subsets of up to `most` items, the empty one first.
pub fn subsets(items: &[usize], most: usize) -> Vec<StepModel> {
    let mut found = vec![Vec::new()];
    let mut begin = 0;
    for _ in 0..most {
        let end = found.len();
        for at in begin..end {
            let after = found[at].last().map_or(0, |last| {
                items.iter().position(|item| item == last).map_or(0, |place| place + 1)
            });
            for &item in &items[after..] {
                let mut larger = found[at].clone();
                larger.push(item);
                found.push(larger);
            }
        }
        begin = end;
    }
    found
}

#[cfg(test)]
mod tests {
    use flashfit_device::random::Random;

    use super::*;

    /// Reads with this cost and noise up to `noise_ns`.
    fn readings(cost: impl Fn(u64) -> u64, noise_ns: u64) -> Vec<BoundaryRead> {
        let mut random = Random::new(5);
        (0..200)
            .map(|number| {
                let center = (1 + random.below(1000)) << random.below(8);
                let elapsed_ns = 1000 + cost(center) + random.below(noise_ns + 1);
                BoundaryRead { center, group: number / 20, elapsed_ns }
            })
            .collect()
    }

    #[test]
    fn the_true_steps_have_the_most_evidence() {
        let cost = |x: u64| 100 * u64::from(x % 4 == 0) + 200 * u64::from(x % 48 == 0);
        let levels = [2, 4, 8, 16, 32, 64, 12, 24, 48, 96];
        let all: Vec<usize> = (0..levels.len()).collect();
        for noise_ns in [0, 150] {
            let models = subsets(&all, 3);
            let evidence = Sums::weigh(&readings(cost, noise_ns), &levels, &models, |_, _| true);
            let best = (0..models.len()).max_by(|&a, &b| evidence[a].total_cmp(&evidence[b]));
            assert_eq!(models[best.unwrap()], [1, 8], "{noise_ns}");
        }
    }

    #[test]
    fn without_steps_there_is_no_evidence_for_any() {
        let levels = [2, 4, 8, 16];
        let sums = Sums::new(&readings(|_| 0, 500), &levels, &[]);
        assert!((0..4).all(|at| sums.evidence(&[at], |_| true) < 1.0));
        let constant = Sums::new(&readings(|_| 0, 0), &levels, &[]);
        assert!((0..4).all(|at| constant.evidence(&[at], |_| true) == 0.0));
    }

    #[test]
    fn a_negative_step_is_rejected_if_it_must_be_positive() {
        let sums = Sums::new(&readings(|x| 300 * u64::from(x % 8 != 0), 100), &[2, 8], &[]);
        assert!(sums.evidence(&[1], |_| false) > 20.0);
        assert_eq!(sums.evidence(&[1], |_| true), f64::NEG_INFINITY);
    }

    #[test]
    fn every_subset_occurs_once() {
        assert_eq!(
            subsets(&[3, 5, 8], 2),
            [vec![], vec![3], vec![5], vec![8], vec![3, 5], vec![3, 8], vec![5, 8]]
        );
        assert_eq!(subsets(&[1, 2, 3, 4], 3).len(), 1 + 4 + 6 + 4);
    }
}
