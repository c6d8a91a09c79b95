//! The little linear algebra that the model needs: Cholesky's factor of a symmetric positive
//! matrix, and forward and backward substitution, on rows that lie together in memory.
//!
//! Limits: dense matrices of some hundred rows; no pivoting, which covariances with noise on their
//! diagonal do not need.

/// A matrix, row after row.
#[derive(Debug, Clone, Default)]
pub struct Matrix {
    columns: usize,
    values: Vec<f64>,
}

impl Matrix {
    /// Of zeros.
    pub fn zeros(rows: usize, columns: usize) -> Self {
        Self { columns, values: vec![0.0; rows * columns] }
    }

    /// How many rows it has.
    pub fn rows(&self) -> usize {
        self.values.len().checked_div(self.columns).unwrap_or(0)
    }

    /// A row.
    pub fn row(&self, row: usize) -> &[f64] {
        &self.values[row * self.columns..(row + 1) * self.columns]
    }

    /// A row to write to.
    pub fn row_mut(&mut self, row: usize) -> &mut [f64] {
        &mut self.values[row * self.columns..(row + 1) * self.columns]
    }

    /// With rows and columns exchanged.
    pub fn transposed(&self) -> Self {
        let mut other = Self::zeros(self.columns, self.rows());
        for row in 0..self.rows() {
            for (column, value) in self.row(row).iter().enumerate() {
                other.values[column * other.columns + row] = *value;
            }
        }
        other
    }
}

/// The sum of products. Eight sums side by side let the compiler use wide registers.
pub fn dot(a: &[f64], b: &[f64]) -> f64 {
    let mut sums = [0.0; 8];
    let (a_whole, b_whole) = (a.chunks_exact(8), b.chunks_exact(8));
    let rest: f64 = a_whole.remainder().iter().zip(b_whole.remainder()).map(|(x, y)| x * y).sum();
    for (x, y) in a_whole.zip(b_whole) {
        for lane in 0..8 {
            sums[lane] += x[lane] * y[lane];
        }
    }
    rest + ((sums[0] + sums[4]) + (sums[1] + sums[5])) + ((sums[2] + sums[6]) + (sums[3] + sums[7]))
}

/// Adds a multiple of `b` to `a`.
pub fn add_scaled(a: &mut [f64], factor: f64, b: &[f64]) {
    for (x, y) in a.iter_mut().zip(b) {
        *x += factor * y;
    }
}

/// The lower triangle `L` with `L Lᵀ` = a symmetric positive matrix.
#[derive(Debug, Clone)]
pub struct Cholesky {
    lower: Matrix,
}

impl Cholesky {
    /// Of a matrix of which the lower triangle is read. What rounding has made not positive is
    /// taken for a little above 0.
    pub fn of(mut matrix: Matrix) -> Self {
        let size = matrix.rows();
        for row in 0..size {
            let (above, from_row) = matrix.values.split_at_mut(row * size);
            let current = &mut from_row[..size];
            let least = current[row].abs().max(1e-300) * 1e-12;
            for column in 0..row {
                let other = &above[column * size..column * size + column + 1];
                let product = dot(&current[..column], &other[..column]);
                current[column] = (current[column] - product) / other[column];
            }
            let rest = current[row] - dot(&current[..row], &current[..row]);
            current[row] = rest.max(least).sqrt();
            current[row + 1..].fill(0.0);
        }
        Self { lower: matrix }
    }

    /// Solves `L x = b` in place.
    pub fn forward(&self, b: &mut [f64]) {
        self.forward_from(b, 0);
    }

    /// Solves `L x = b` in place, where `b` is 0 before `first`.
    pub fn forward_from(&self, b: &mut [f64], first: usize) {
        for row in first..b.len() {
            let lower = self.lower.row(row);
            b[row] = (b[row] - dot(&lower[first..row], &b[first..row])) / lower[row];
        }
    }

    /// Solves `Lᵀ x = b` in place.
    pub fn backward(&self, b: &mut [f64]) {
        for row in (0..b.len()).rev() {
            let lower = self.lower.row(row);
            b[row] /= lower[row];
            let (rest, known) = b.split_at_mut(row);
            add_scaled(rest, -known[0], &lower[..row]);
        }
    }

    /// Solves `L Lᵀ x = b` in place.
    pub fn solve(&self, b: &mut [f64]) {
        self.forward(b);
        self.backward(b);
    }

    /// Row by row, the columns of `L⁻¹`, each 0 before the place of its own number. What two of
    /// them have in common makes the inverse of `L Lᵀ`.
    pub fn inverse_columns(&self) -> Matrix {
        let size = self.lower.rows();
        let mut columns = Matrix::zeros(size, size);
        for column in 0..size {
            let values = columns.row_mut(column);
            values[column] = 1.0;
            self.forward_from(values, column);
        }
        columns
    }

    /// `L z`: of independent standard normal `z` it makes normals with the matrix as covariance.
    pub fn colour(&self, z: &[f64]) -> Vec<f64> {
        (0..z.len()).map(|row| dot(&self.lower.row(row)[..=row], &z[..=row])).collect()
    }

    /// The logarithm of the determinant of `L Lᵀ`.
    pub fn log_determinant(&self) -> f64 {
        (0..self.lower.rows()).map(|row| 2.0 * self.lower.row(row)[row].ln()).sum()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn product(a: &Matrix) -> Matrix {
        let mut square = Matrix::zeros(a.rows(), a.rows());
        for row in 0..a.rows() {
            for column in 0..a.rows() {
                square.row_mut(row)[column] = dot(a.row(row), a.row(column));
            }
            square.row_mut(row)[row] += 0.5;
        }
        square
    }

    proptest! {
        #[test]
        fn a_solution_solves(
            size in 1usize..20,
            seed in any::<u64>(),
        ) {
            let mut random = crate::Random::new(seed);
            let mut root = Matrix::zeros(size, size);
            for row in 0..size {
                root.row_mut(row).iter_mut().for_each(|value| *value = random.normal());
            }
            let matrix = product(&root);
            let wanted: Vec<f64> = (0..size).map(|_| random.normal()).collect();
            let mut found: Vec<f64> = (0..size).map(|row| dot(matrix.row(row), &wanted)).collect();
            Cholesky::of(matrix).solve(&mut found);
            for (found, wanted) in found.iter().zip(&wanted) {
                prop_assert!((found - wanted).abs() < 1e-6, "{} {}", found, wanted);
            }
        }
    }

    #[test]
    fn the_factor_of_a_known_matrix() {
        let mut matrix = Matrix::zeros(3, 3);
        matrix.row_mut(0).copy_from_slice(&[4.0, 12.0, -16.0]);
        matrix.row_mut(1).copy_from_slice(&[12.0, 37.0, -43.0]);
        matrix.row_mut(2).copy_from_slice(&[-16.0, -43.0, 98.0]);
        let cholesky = Cholesky::of(matrix);
        assert_eq!(cholesky.lower.row(0), &[2.0, 0.0, 0.0]);
        assert_eq!(cholesky.lower.row(1), &[6.0, 1.0, 0.0]);
        assert_eq!(cholesky.lower.row(2), &[-8.0, 5.0, 3.0]);
        assert!((cholesky.log_determinant() - 36f64.ln()).abs() < 1e-12);
        assert_eq!(cholesky.colour(&[1.0, 1.0, 1.0]), vec![2.0, 7.0, 0.0]);
        assert_eq!(cholesky.inverse_columns().row(0), &[0.5, -3.0, 19.0 / 3.0]);
    }

    #[test]
    fn rows_become_columns() {
        let mut matrix = Matrix::zeros(2, 3);
        matrix.row_mut(0).copy_from_slice(&[1.0, 2.0, 3.0]);
        matrix.row_mut(1).copy_from_slice(&[4.0, 5.0, 6.0]);
        assert_eq!(matrix.transposed().row(2), &[3.0, 6.0]);
    }
}
