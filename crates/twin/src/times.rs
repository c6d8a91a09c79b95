//! Fits the operation times of a twin to the duration of each cell, given its operation counts.
//!
//! A cell's duration is the sum of counts times operation times, so no simulation is needed. The
//! fit minimizes a robust loss of the log ratios, because single rates can be outliers, with the
//! Levenberg-Marquardt method from several starts. The parameters are the logarithms of the times,
//! which keeps the times positive. A weak prior keeps times that the data do not determine near
//! typical values.

use crate::counts::CountedWork;

/// Number of [`Times`].
pub const TIMES: usize = 10;

/// Operation times in seconds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Times {
    /// Overhead of a request.
    pub command_s: f64,
    /// Programming a write unit.
    pub program_s: f64,
    /// Reading a write unit.
    pub read_s: f64,
    /// Transferring a copied write unit through the controller.
    pub copy_s: f64,
    /// Erasing an erase block.
    pub erase_s: f64,
    /// Overhead of a write to the log.
    pub log_s: f64,
    /// Overhead of a write that does not continue where the last one in its erase block ended.
    pub jump_s: f64,
    /// Overhead of a write to a different erase block than the last one.
    pub switch_s: f64,
    /// Flushing the volatile cache, besides the writes and the command.
    pub flush_s: f64,
    /// Closing an open erase block for another, besides copies.
    pub close_s: f64,
}

impl Times {
    /// Operations that take no time.
    pub const NONE: Self = Self {
        command_s: 0.0,
        program_s: 0.0,
        read_s: 0.0,
        copy_s: 0.0,
        erase_s: 0.0,
        log_s: 0.0,
        jump_s: 0.0,
        switch_s: 0.0,
        flush_s: 0.0,
        close_s: 0.0,
    };

    fn from_logs(logs: &[f64; TIMES]) -> Self {
        let [
            command_s,
            program_s,
            read_s,
            copy_s,
            erase_s,
            log_s,
            jump_s,
            switch_s,
            flush_s,
            close_s,
        ] = logs.map(f64::exp);
        Self {
            command_s,
            program_s,
            read_s,
            copy_s,
            erase_s,
            log_s,
            jump_s,
            switch_s,
            flush_s,
            close_s,
        }
    }

    fn to_logs(self) -> [f64; TIMES] {
        self.in_order().map(f64::ln)
    }

    /// In the order of the counts.
    fn in_order(&self) -> [f64; TIMES] {
        [
            self.command_s,
            self.program_s,
            self.read_s,
            self.copy_s,
            self.erase_s,
            self.log_s,
            self.jump_s,
            self.switch_s,
            self.flush_s,
            self.close_s,
        ]
    }

    /// Duration of a cell in seconds.
    pub fn duration_s(&self, work: &CountedWork) -> f64 {
        let times = self.in_order();
        work.fixed_s + times.iter().zip(&work.counts).map(|(time, count)| time * count).sum::<f64>()
    }
}

/// Typical logarithmic times for a write unit in bytes: MLC NAND, and commands of an SD card.
fn typical(page: u64) -> [f64; TIMES] {
    let program = 1.5e-3 * (page as f64 / 16384.0).sqrt();
    [3e-4, program, 1e-4, 2e-4, 3e-3, 5e-4, 5e-5, 5e-5, 5e-4, 5e-5].map(f64::ln)
}

/// Log ratio from which the loss grows linearly.
const ROBUST: f64 = 0.25;
/// Weight of the prior, in squared log ratios.
const PRIOR_WEIGHT: f64 = 0.004;
/// Bounds of each time, in seconds.
const MAX_TIME: f64 = 30.0;
const MIN_TIME: f64 = 1e-9;
const MAX_STEPS: usize = 40;

/// Fitted times and their error.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct FittedTimes {
    pub times: Times,
    /// Mean absolute log ratio of the durations, each at most `MAX_ERROR`.
    pub error: f64,
}

/// A factor of ten; larger errors of a cell count as this.
const MAX_ERROR: f64 = 2.303;

/// Durations that times are fitted to.
#[derive(Debug, Clone, PartialEq)]
pub struct Durations {
    pub seconds: Vec<f64>,
    /// One for each; their mean is 1.
    pub weights: Vec<f64>,
}

impl Durations {
    /// With weights in any unit.
    pub fn weighted(all: Vec<(f64, f64)>) -> Self {
        let mean = all.iter().map(|(_, weight)| weight).sum::<f64>() / all.len().max(1) as f64;
        let (seconds, weights) =
            all.into_iter().map(|(seconds, weight)| (seconds, weight / mean)).unzip();
        Self { seconds, weights }
    }

    fn iter(&self) -> impl Iterator<Item = (f64, f64)> {
        self.seconds.iter().copied().zip(self.weights.iter().copied())
    }
}

/// Fits the times to the durations of the cells.
pub fn fit(counts: &[CountedWork], durations: &Durations, page: u64) -> FittedTimes {
    let typical = typical(page);
    let starts = [
        [0.0; TIMES],
        [0.0, 0.5, 0.0, 2.0, 0.0, 2.5, 2.0, 2.0, 1.0, 6.0],
        [1.0, -0.7, 0.0, -2.0, 0.0, -2.0, 0.0, 3.0, -1.0, 0.0],
    ];
    let fitted = starts.into_iter().map(|offset| {
        let start = std::array::from_fn(|at| typical[at] + offset[at]);
        minimize(counts, durations, start, &typical)
    });
    let (logs, _) =
        fitted.min_by(|one, other| one.1.total_cmp(&other.1)).expect("there are several starts");
    let times = Times::from_logs(&logs);
    FittedTimes { times, error: error(&times, counts, durations) }
}

/// Like [`fit`], but only from times that suit similar counts.
pub fn refit(
    counts: &[CountedWork],
    durations: &Durations,
    page: u64,
    from: &Times,
) -> FittedTimes {
    let (logs, _) = minimize(counts, durations, from.to_logs(), &typical(page));
    let times = Times::from_logs(&logs);
    FittedTimes { times, error: error(&times, counts, durations) }
}

/// Weighted mean of the absolute log ratios of the durations, each at most `MAX_ERROR`.
fn error(times: &Times, counts: &[CountedWork], durations: &Durations) -> f64 {
    mean_error(counts.iter().map(|count| times.duration_s(count)), durations)
}

/// Weighted mean of the absolute log ratios of `seconds` to the durations, each at most a factor
/// of ten.
pub fn mean_error(seconds: impl Iterator<Item = f64>, durations: &Durations) -> f64 {
    let errors = seconds
        .zip(durations.iter())
        .map(|(seconds, (of, weight))| weight * (seconds / of).ln().abs().min(MAX_ERROR));
    errors.sum::<f64>() / durations.seconds.len().max(1) as f64
}

/// A robust loss: quadratic for small residuals, linear for large ones.
fn loss(residual: f64) -> f64 {
    2.0 * ROBUST * ROBUST * ((1.0 + (residual / ROBUST).powi(2)).sqrt() - 1.0)
}

fn total(
    logs: &[f64; TIMES],
    counts: &[CountedWork],
    durations: &Durations,
    typical: &[f64; TIMES],
) -> f64 {
    let times = Times::from_logs(logs);
    let cells: f64 = counts
        .iter()
        .zip(durations.iter())
        .map(|(count, (seconds, weight))| weight * loss((times.duration_s(count) / seconds).ln()))
        .sum();
    let prior: f64 =
        logs.iter().zip(typical).map(|(log, typical)| PRIOR_WEIGHT * (log - typical).powi(2)).sum();
    cells + prior
}

fn minimize(
    counts: &[CountedWork],
    durations: &Durations,
    start: [f64; TIMES],
    typical: &[f64; TIMES],
) -> ([f64; TIMES], f64) {
    let mut logs = start;
    let mut loss_now = total(&logs, counts, durations, typical);
    let mut damping = 0.1;
    for _ in 0..MAX_STEPS {
        let (gradient, hessian) = derivatives(&logs, counts, durations, typical);
        let mut damped = hessian;
        for (at, row) in damped.iter_mut().enumerate() {
            row[at] += damping * row[at].max(1e-6);
        }
        let Some(step) = solve(damped, gradient) else { break };
        let next: [f64; TIMES] = std::array::from_fn(|at| {
            (logs[at] - step[at].clamp(-2.0, 2.0)).clamp(MIN_TIME.ln(), MAX_TIME.ln())
        });
        let next_loss = total(&next, counts, durations, typical);
        if next_loss < loss_now {
            let gained = loss_now - next_loss;
            (logs, loss_now) = (next, next_loss);
            damping = (damping / 5.0).max(1e-6);
            if gained < 1e-6 {
                break;
            }
        } else {
            damping *= 8.0;
            if damping > 1e6 {
                break;
            }
        }
    }
    (logs, loss_now)
}

/// Half the gradient and half the Gauss-Newton approximation of the Hessian.
fn derivatives(
    logs: &[f64; TIMES],
    counts: &[CountedWork],
    durations: &Durations,
    typical: &[f64; TIMES],
) -> ([f64; TIMES], [[f64; TIMES]; TIMES]) {
    let times = logs.map(f64::exp);
    let mut gradient: [f64; TIMES] =
        std::array::from_fn(|at| PRIOR_WEIGHT * (logs[at] - typical[at]));
    let mut hessian = [[0.0; TIMES]; TIMES];
    for (at, row) in hessian.iter_mut().enumerate() {
        row[at] = PRIOR_WEIGHT;
    }
    for (count, (seconds, weight)) in counts.iter().zip(durations.iter()) {
        let parts: [f64; TIMES] = std::array::from_fn(|at| times[at] * count.counts[at]);
        let time = count.fixed_s + parts.iter().sum::<f64>();
        let residual = (time / seconds).ln();
        let weight = weight / (1.0 + (residual / ROBUST).powi(2)).sqrt();
        for one in 0..TIMES {
            let share = parts[one] / time;
            gradient[one] += weight * residual * share;
            for other in 0..TIMES {
                hessian[one][other] += weight * share * parts[other] / time;
            }
        }
    }
    (gradient, hessian)
}

/// Solves a linear system by Gaussian elimination with pivoting; `None` if it is singular.
fn solve(mut rows: [[f64; TIMES]; TIMES], mut right: [f64; TIMES]) -> Option<[f64; TIMES]> {
    for column in 0..TIMES {
        let pivot = (column..TIMES)
            .max_by(|&one, &other| rows[one][column].abs().total_cmp(&rows[other][column].abs()))?;
        if rows[pivot][column].abs() < 1e-300 {
            return None;
        }
        rows.swap(column, pivot);
        right.swap(column, pivot);
        let (above, below) = rows.split_at_mut(column + 1);
        let (pivot, right_of_pivot) = (above[column], right[column]);
        for (row, right) in below.iter_mut().zip(&mut right[column + 1..]) {
            let factor = row[column] / pivot[column];
            for (value, pivot) in row.iter_mut().zip(pivot).skip(column) {
                *value -= factor * pivot;
            }
            *right -= factor * right_of_pivot;
        }
    }
    let mut solution = [0.0; TIMES];
    for row in (0..TIMES).rev() {
        let known: f64 = (row + 1..TIMES).map(|at| rows[row][at] * solution[at]).sum();
        solution[row] = (right[row] - known) / rows[row][row];
    }
    Some(solution)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_recovered_despite_outliers() {
        let truth = Times {
            command_s: 5e-4,
            program_s: 2e-3,
            read_s: 1e-4,
            copy_s: 5e-4,
            erase_s: 3e-3,
            log_s: 4e-3,
            jump_s: 1e-4,
            switch_s: 1e-3,
            flush_s: 2e-4,
            close_s: 1e-2,
        };
        let counts: Vec<CountedWork> = (0..60_u32)
            .map(|cell| CountedWork {
                fixed_s: 0.01,
                counts: std::array::from_fn(|at| {
                    f64::from((cell * 7 + 3) % (11 + 2 * at as u32)) * 10.0
                }),
            })
            .collect();
        let mut durations: Vec<f64> = counts.iter().map(|count| truth.duration_s(count)).collect();
        durations[5] *= 8.0;
        durations[17] /= 5.0;
        let known = Durations::weighted(durations.iter().map(|&of| (of, 1.0)).collect());
        let fitted = fit(&counts, &known, 16384);
        let wrong = counts.iter().zip(&durations).filter(|(count, durations)| {
            (fitted.times.duration_s(count) / **durations).ln().abs() > 0.1
        });
        assert!(wrong.count() <= 4, "{fitted:?}");
    }
}
