//! Dense linear algebra for the model: Cholesky factorization of a symmetric positive definite
//! matrix, forward and backward substitution.
//!
//! Rows are processed in blocks of four to reuse the row they are multiplied with. Limits: matrices
//! up to a few thousand rows; no pivoting, which covariances with noise on their diagonal do not
//! need.

const BLOCK_ROWS: usize = 4;
/// Independent sums per row, which lets the compiler use wide registers.
const LANES: usize = 4;

/// A dense row-major matrix.
#[derive(Debug, Clone, Default)]
pub struct Matrix {
    columns: usize,
    values: Vec<f64>,
}

impl Matrix {
    pub fn zeros(rows: usize, columns: usize) -> Self {
        Self { columns, values: vec![0.0; rows * columns] }
    }

    pub fn rows(&self) -> usize {
        self.values.len().checked_div(self.columns).unwrap_or(0)
    }

    pub fn row(&self, row: usize) -> &[f64] {
        &self.values[row * self.columns..(row + 1) * self.columns]
    }

    /// A row to write to.
    pub fn row_mut(&mut self, row: usize) -> &mut [f64] {
        &mut self.values[row * self.columns..(row + 1) * self.columns]
    }

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

/// The dot products of several rows with a common one, which is at most as long.
fn dots(rows: [&[f64]; BLOCK_ROWS], other: &[f64]) -> [f64; BLOCK_ROWS] {
    let mut sums = [[0.0; LANES]; BLOCK_ROWS];
    let whole = other.len() / LANES * LANES;
    let rows = rows.map(|row| &row[..other.len()]);
    for at in (0..whole).step_by(LANES) {
        let part: &[f64; LANES] = other[at..at + LANES].try_into().expect("as many");
        for (sums, row) in sums.iter_mut().zip(rows) {
            let row: &[f64; LANES] = row[at..at + LANES].try_into().expect("as many");
            for lane in 0..LANES {
                sums[lane] += row[lane] * part[lane];
            }
        }
    }
    let mut found = [0.0; BLOCK_ROWS];
    for ((found, sums), row) in found.iter_mut().zip(sums).zip(rows) {
        let rest: f64 = row[whole..].iter().zip(&other[whole..]).map(|(x, y)| x * y).sum();
        *found = rest + (sums[0] + sums[2]) + (sums[1] + sums[3]);
    }
    found
}

/// Adds a multiple of `b` to `a`.
pub fn add_scaled(a: &mut [f64], factor: f64, b: &[f64]) {
    for (x, y) in a.iter_mut().zip(b) {
        *x += factor * y;
    }
}

/// The lower triangular factor `L` with `L Lᵀ` equal to a symmetric positive definite matrix.
#[derive(Debug, Clone)]
pub struct Cholesky {
    lower: Matrix,
}

impl Cholesky {
    /// Factors a matrix, reading only its lower triangle. Pivots that rounding made negative are
    /// replaced by a small positive value.
    pub fn of(mut matrix: Matrix) -> Self {
        let size = matrix.rows();
        for first in (0..size).step_by(BLOCK_ROWS) {
            let (above, below) = matrix.values.split_at_mut(first * size);
            let count = BLOCK_ROWS.min(size - first);
            let block = &mut below[..count * size];
            let done = if count == BLOCK_ROWS { first } else { 0 };
            for column in 0..done {
                let other = &above[column * size..=column * size + column];
                let rows = std::array::from_fn(|row| &block[row * size..row * size + column]);
                let products = dots(rows, &other[..column]);
                for (row, product) in products.into_iter().enumerate() {
                    let value = &mut block[row * size + column];
                    *value = (*value - product) / other[column];
                }
            }
            for row in first..first + count {
                let (above, from_row) = matrix.values.split_at_mut(row * size);
                let current = &mut from_row[..size];
                let least = current[row].abs().max(1e-300) * 1e-12;
                for column in done..row {
                    let other = &above[column * size..=column * size + column];
                    let product = dot(&current[..column], &other[..column]);
                    current[column] = (current[column] - product) / other[column];
                }
                let rest = current[row] - dot(&current[..row], &current[..row]);
                current[row] = rest.max(least).sqrt();
                current[row + 1..].fill(0.0);
            }
        }
        Self { lower: matrix }
    }

    /// Solves `L x = b` in place for every row `b` of a matrix. Row `k` is 0 before `first(k)`,
    /// which must not decrease with `k`.
    fn forward_rows(&self, rows: &mut Matrix, first: impl Fn(usize) -> usize) {
        let size = rows.columns;
        let count = rows.rows();
        for from in (0..count).step_by(BLOCK_ROWS) {
            let until = count.min(from + BLOCK_ROWS);
            let start = first(from);
            if until - from < BLOCK_ROWS {
                for row in from..until {
                    self.forward_from(rows.row_mut(row), start);
                }
                continue;
            }
            let block = &mut rows.values[from * size..until * size];
            for at in start..size {
                let lower = self.lower.row(at);
                let known = std::array::from_fn(|row| &block[row * size + start..row * size + at]);
                let products = dots(known, &lower[start..at]);
                for (row, product) in products.into_iter().enumerate() {
                    let value = &mut block[row * size + at];
                    *value = (*value - product) / lower[at];
                }
            }
        }
    }

    /// Solves `L x = b` in place for every row `b` of a matrix.
    pub fn forward_all(&self, rows: &mut Matrix) {
        self.forward_rows(rows, |_| 0);
    }

    /// The inverse of `L Lᵀ`.
    pub fn inverse(&self) -> Matrix {
        let columns = self.inverse_columns();
        let size = columns.rows();
        let mut inverse = Matrix::zeros(size, size);
        for row in 0..size {
            let of_row = &columns.row(row)[row..];
            let mut column = 0;
            while column + BLOCK_ROWS <= row {
                let others = std::array::from_fn(|at| &columns.row(column + at)[row..]);
                for (at, value) in dots(others, of_row).into_iter().enumerate() {
                    inverse.row_mut(row)[column + at] = value;
                }
                column += BLOCK_ROWS;
            }
            for column in column..=row {
                inverse.row_mut(row)[column] = dot(of_row, &columns.row(column)[row..]);
            }
        }
        for row in 0..size {
            for column in 0..row {
                let value = inverse.row(row)[column];
                inverse.row_mut(column)[row] = value;
            }
        }
        inverse
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

    /// The columns of `L⁻¹` as rows, each 0 before its own index. Their dot products form the
    /// inverse of `L Lᵀ`.
    pub fn inverse_columns(&self) -> Matrix {
        let size = self.lower.rows();
        let mut columns = Matrix::zeros(size, size);
        for column in 0..size {
            columns.row_mut(column)[column] = 1.0;
        }
        self.forward_rows(&mut columns, |column| column);
        columns
    }

    /// `L z`: turns independent standard normal values `z` into normal values with the matrix as
    /// covariance.
    pub fn correlate(&self, z: &[f64]) -> Vec<f64> {
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

    fn positive(size: usize, random: &mut crate::RandomStream) -> Matrix {
        let mut root = Matrix::zeros(size, size);
        for row in 0..size {
            root.row_mut(row).iter_mut().for_each(|value| *value = random.normal());
        }
        product(&root)
    }

    proptest! {
        #[test]
        fn solve_satisfies_the_equations(
            size in 1usize..20,
            seed in any::<u64>(),
        ) {
            let mut random = crate::RandomStream::new(seed);
            let matrix = positive(size, &mut random);
            let wanted: Vec<f64> = (0..size).map(|_| random.normal()).collect();
            let mut found: Vec<f64> = (0..size).map(|row| dot(matrix.row(row), &wanted)).collect();
            Cholesky::of(matrix).solve(&mut found);
            for (found, wanted) in found.iter().zip(&wanted) {
                prop_assert!((found - wanted).abs() < 1e-6, "{} {}", found, wanted);
            }
        }

        #[test]
        fn solving_rows_in_blocks_matches_solving_them_one_by_one(
            size in 1usize..20,
            count in 1usize..10,
            seed in any::<u64>(),
        ) {
            let mut random = crate::RandomStream::new(seed);
            let factor = Cholesky::of(positive(size, &mut random));
            let mut rows = Matrix::zeros(count, size);
            for row in 0..count {
                rows.row_mut(row).iter_mut().for_each(|value| *value = random.normal());
            }
            let mut alone = rows.clone();
            factor.forward_all(&mut rows);
            for row in 0..count {
                factor.forward(alone.row_mut(row));
                for (one, other) in rows.row(row).iter().zip(alone.row(row)) {
                    prop_assert!((one - other).abs() < 1e-9 * (1.0 + other.abs()));
                }
            }
        }

        #[test]
        fn a_matrix_times_its_inverse_is_the_identity(
            size in 1usize..20,
            seed in any::<u64>(),
        ) {
            let matrix = positive(size, &mut crate::RandomStream::new(seed));
            let inverse = Cholesky::of(matrix.clone()).inverse();
            for row in 0..size {
                for column in 0..size {
                    let wanted = if row == column { 1.0 } else { 0.0 };
                    let found = dot(matrix.row(row), inverse.row(column));
                    prop_assert!((found - wanted).abs() < 1e-6, "{} {}", found, wanted);
                }
            }
        }
    }

    #[test]
    fn a_known_matrix_has_the_known_factor() {
        let mut matrix = Matrix::zeros(3, 3);
        matrix.row_mut(0).copy_from_slice(&[4.0, 12.0, -16.0]);
        matrix.row_mut(1).copy_from_slice(&[12.0, 37.0, -43.0]);
        matrix.row_mut(2).copy_from_slice(&[-16.0, -43.0, 98.0]);
        let cholesky = Cholesky::of(matrix);
        assert_eq!(cholesky.lower.row(0), &[2.0, 0.0, 0.0]);
        assert_eq!(cholesky.lower.row(1), &[6.0, 1.0, 0.0]);
        assert_eq!(cholesky.lower.row(2), &[-8.0, 5.0, 3.0]);
        assert!((cholesky.log_determinant() - 36f64.ln()).abs() < 1e-12);
        assert_eq!(cholesky.correlate(&[1.0, 1.0, 1.0]), vec![2.0, 7.0, 0.0]);
        assert_eq!(cholesky.inverse_columns().row(0), &[0.5, -3.0, 19.0 / 3.0]);
    }

    #[test]
    fn transposing_turns_rows_into_columns() {
        let mut matrix = Matrix::zeros(2, 3);
        matrix.row_mut(0).copy_from_slice(&[1.0, 2.0, 3.0]);
        matrix.row_mut(1).copy_from_slice(&[4.0, 5.0, 6.0]);
        assert_eq!(matrix.transposed().row(2), &[3.0, 6.0]);
    }
}
