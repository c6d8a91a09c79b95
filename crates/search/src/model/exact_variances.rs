//! Learns the variances of [`super::exact`] in the same way as [`super::variances`]: a column's
//! variance lies between its own square and that of its group. A group's variance is the mean
//! square of its effects, each weighted by how well the data determine it. Workload-specific
//! variances are learned from all workloads together.

use super::exact::ExactPosterior;
use super::linear::Matrix;
use super::surface::{MIN_MAIN_SD, MIN_OWN_SD, MIN_PAIR_SD};
use super::variances::{ratio, step};

/// Weight of a column's group relative to the column's own squares. Shared effects have one square,
/// specific effects one per workload.
const NU: f64 = 1.0;
/// Iterations when starting from a guess, from variances learned from fewer points, and from those
/// with so many points that an iteration takes long.
const ROUNDS: usize = 6;
const ROUNDS_AGAIN: usize = 4;
const ROUNDS_OF_MANY: usize = 2;
const MANY: usize = 700;

/// The sum of squares of a group's effects and the number of effects that the data determine.
#[derive(Debug, Default)]
struct Group {
    squares: f64,
    determined: f64,
}

impl Group {
    /// Adds an effect with this mean and prior variance; returns its expected square.
    fn add(&mut self, mean: f64, scale: f64, determined: f64) -> f64 {
        self.squares += mean * mean;
        self.determined += determined;
        mean * mean + scale * (1.0 - determined)
    }
}

impl ExactPosterior<'_> {
    /// Learns the variances, starting from a guess.
    pub fn learned(self) -> Self {
        self.improved(ROUNDS)
    }

    /// Learns the variances, starting from those of fewer points.
    pub fn learned_again(self) -> Self {
        let rounds = if self.points.len() > MANY { ROUNDS_OF_MANY } else { ROUNDS_AGAIN };
        self.improved(rounds)
    }

    fn improved(mut self, rounds: usize) -> Self {
        for _ in 0..rounds {
            let inverse = self.factor.inverse();
            self.improve_columns(&inverse);
            self.improve_rest(&inverse);
            self.solve();
        }
        self
    }

    fn improve_columns(&mut self, inverse: &Matrix) {
        let mains = self.coding.mains();
        let workloads = self.workloads();
        let mut common: [Group; 2] = Default::default();
        let mut own: [Group; 2] = Default::default();
        let mut order: Vec<usize> = (0..self.points.len()).collect();
        order.sort_by_key(|&at| self.points[at].workload);
        let mut squares = Vec::with_capacity(self.coding.columns());
        for column in 0..self.coding.columns() {
            let group = usize::from(column >= mains);
            let (sums, forms, form) = self.forms(column, inverse, &order);
            let scale = self.scales.common[column];
            let mean = scale * sums.iter().sum::<f64>();
            let of_common = common[group].add(mean, scale, scale * form);
            let scale = self.scales.own[column];
            let each = sums.iter().zip(&forms);
            let of_own: f64 =
                each.map(|(sum, form)| own[group].add(scale * sum, scale, scale * form)).sum();
            squares.push((of_common, of_own));
        }
        let least = [MIN_MAIN_SD, MIN_PAIR_SD];
        let scales = &mut self.scales;
        for (groups, found) in
            [(&mut scales.common_groups, &common), (&mut scales.own_groups, &own)]
        {
            for ((group, found), least) in groups.iter_mut().zip(found).zip(least) {
                *group = step(*group, ratio(found.squares, found.determined, *group), least);
            }
        }
        for (column, (of_common, of_own)) in squares.into_iter().enumerate() {
            let group = usize::from(column >= mains);
            scales.common[column] = NU.mul_add(scales.common_groups[group], of_common) / (NU + 1.0);
            scales.own[column] =
                NU.mul_add(scales.own_groups[group], of_own) / (NU + workloads as f64);
        }
    }

    /// For a column: by workload, the sum of its codes weighted by `alpha` and the quadratic form
    /// of its codes in the inverse; and the quadratic form of all its codes. `order` sorts points
    /// by workload.
    pub(super) fn forms(
        &self,
        column: usize,
        inverse: &Matrix,
        order: &[usize],
    ) -> (Vec<f64>, Vec<f64>, f64) {
        let mut sums = vec![0.0; self.workloads()];
        let mut forms = vec![0.0; self.workloads()];
        let mut across = 0.0;
        let coded: Vec<(usize, f64)> = (order.iter())
            .map(|&at| (at, self.rows.row(at)[column]))
            .filter(|(_, code)| *code != 0.0)
            .collect();
        let workload = |place: usize| self.points[coded[place].0].workload;
        let mut first = 0;
        for (place, &(at, code)) in coded.iter().enumerate() {
            if workload(place) != workload(first) {
                first = place;
            }
            let row = inverse.row(at);
            let of = |part: &[(usize, f64)]| -> f64 {
                part.iter().map(|&(other, code)| code * row[other]).sum()
            };
            sums[workload(place)] += code * self.alpha[at];
            // The matrix is symmetric: count off-diagonal products twice.
            forms[workload(place)] += code * (code * row[at] + 2.0 * of(&coded[first..place]));
            across += 2.0 * code * of(&coded[..first]);
        }
        let form = across + forms.iter().sum::<f64>();
        (sums, forms, form)
    }

    /// Learns the variances of the parts that are not columns.
    fn improve_rest(&mut self, inverse: &Matrix) {
        let (mut candidate, mut cell, mut near) = ((0.0, 0.0), (0.0, 0.0), (0.0, 0.0));
        let mut decays = vec![1.0; 256];
        for at in 1..256 {
            decays[at] = decays[at - 1] * self.scales.decay;
        }
        for (row, one) in self.points.iter().enumerate() {
            for (column, of) in self.differences[row].iter().enumerate() {
                // The matrix is symmetric: count off-diagonal products twice.
                let times = if row == column { 1.0 } else { 2.0 };
                let decay = times * decays[usize::from(*of)];
                near.0 += decay * self.alpha[row] * self.alpha[column];
                near.1 += decay * inverse.row(row)[column];
            }
            for (column, other) in self.points.iter().enumerate() {
                if one.candidate == other.candidate {
                    let product = self.alpha[row] * self.alpha[column];
                    let common = inverse.row(row)[column];
                    candidate.0 += product;
                    candidate.1 += common;
                    if one.workload == other.workload {
                        cell.0 += product;
                        cell.1 += common;
                    }
                }
            }
        }
        let scales = &mut self.scales;
        for (scale, of) in
            [(&mut scales.candidate, candidate), (&mut scales.cell, cell), (&mut scales.near, near)]
        {
            *scale = step(*scale, *scale * ratio(of.0, of.1, 1.0), MIN_OWN_SD);
        }
    }
}
