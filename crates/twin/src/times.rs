//! The times of a twin: given how often its card does what in each cell, how long each takes.
//!
//! A cell's time is a sum of counts and times, so no simulation is needed to try others. What is
//! least is the distance of the logarithms, robustly, because single rates of a table can be far
//! off; by Levenberg's and Marquardt's method from several starts, over the logarithms of the
//! times, which keeps them positive. Where nothing speaks for a time it stays near what is usual.

use crate::counts::CountedWork;

/// How many times there are.
pub const TIMES: usize = 8;

/// What each thing takes, in seconds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Times {
    /// A request.
    pub command: f64,
    /// Programming a write unit.
    pub program: f64,
    /// Reading a write unit.
    pub read: f64,
    /// The way of a copied write unit through the controller.
    pub copy: f64,
    /// Erasing an erase block.
    pub erase: f64,
    /// A write to the log, beyond its programming.
    pub log: f64,
    /// A write that does not go on where the last one to its erase block ended.
    pub jump: f64,
    /// A write to another erase block than the last.
    pub switch: f64,
}

impl Times {
    fn from_logs(logs: &[f64; TIMES]) -> Self {
        let [command, program, read, copy, erase, log, jump, switch] = logs.map(f64::exp);
        Self { command, program, read, copy, erase, log, jump, switch }
    }

    /// The time of a cell, in seconds.
    pub fn of(&self, count: &CountedWork) -> f64 {
        let times = [
            self.command,
            self.program,
            self.read,
            self.copy,
            self.erase,
            self.log,
            self.jump,
            self.switch,
        ];
        count.fixed + times.iter().zip(&count.of).map(|(time, of)| time * of).sum::<f64>()
    }
}

/// What is usual, by the size of a write unit in bytes: MLC, and an SD card's command.
fn usual(page: u64) -> [f64; TIMES] {
    let program = 1.5e-3 * (page as f64 / 16384.0).sqrt();
    [3e-4, program, 1e-4, 2e-4, 3e-3, 5e-4, 5e-5, 5e-5].map(f64::ln)
}

/// Residuals beyond this count linearly.
const ROBUST: f64 = 0.25;
/// How much a time is drawn to what is usual, for a factor of e, in squared residuals of a cell.
const DRAWN: f64 = 0.004;
/// No time is more.
const MOST: f64 = 30.0;
/// No time is less: a nanosecond.
const LEAST: f64 = 1e-9;
const STEPS: usize = 40;

/// Times and how far the rates lie off with them.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct FittedTimes {
    /// The times.
    pub times: Times,
    /// The mean of the residuals' amounts, each at most `MOST_OFF`.
    pub off: f64,
}

/// A rate that is off by more counts no more: ten times.
const MOST_OFF: f64 = 2.303;

/// Fits the times to what the cells took, in seconds.
pub fn fit(counts: &[CountedWork], took: &[f64], page: u64) -> FittedTimes {
    let usual = usual(page);
    let starts = [
        [0.0; TIMES],
        [0.0, 0.5, 0.0, 2.0, 0.0, 2.5, 2.0, 2.0],
        [1.0, -0.7, 0.0, -2.0, 0.0, -2.0, 0.0, 3.0],
    ];
    let fitted = starts.into_iter().map(|offset| {
        let start = std::array::from_fn(|at| usual[at] + offset[at]);
        descend(counts, took, start, &usual)
    });
    let (logs, _) =
        fitted.min_by(|one, other| one.1.total_cmp(&other.1)).expect("there are several starts");
    let times = Times::from_logs(&logs);
    FittedTimes { times, off: off(&times, counts, took) }
}

/// How far the times lie off.
pub fn off(times: &Times, counts: &[CountedWork], took: &[f64]) -> f64 {
    let offs = counts
        .iter()
        .zip(took)
        .map(|(count, took)| (times.of(count) / took).ln().abs().min(MOST_OFF));
    offs.sum::<f64>() / counts.len().max(1) as f64
}

/// A robust loss that is square for small residuals and linear for large ones.
fn loss(residual: f64) -> f64 {
    2.0 * ROBUST * ROBUST * ((1.0 + (residual / ROBUST).powi(2)).sqrt() - 1.0)
}

fn total(logs: &[f64; TIMES], counts: &[CountedWork], took: &[f64], usual: &[f64; TIMES]) -> f64 {
    let times = Times::from_logs(logs);
    let cells: f64 =
        counts.iter().zip(took).map(|(count, took)| loss((times.of(count) / took).ln())).sum();
    let drawn: f64 = logs.iter().zip(usual).map(|(log, usual)| DRAWN * (log - usual).powi(2)).sum();
    cells + drawn
}

fn descend(
    counts: &[CountedWork],
    took: &[f64],
    start: [f64; TIMES],
    usual: &[f64; TIMES],
) -> ([f64; TIMES], f64) {
    let mut logs = start;
    let mut now = total(&logs, counts, took, usual);
    let mut damping = 0.1;
    for _ in 0..STEPS {
        let (slope, curve) = derivatives(&logs, counts, took, usual);
        let mut damped = curve;
        for (at, row) in damped.iter_mut().enumerate() {
            row[at] += damping * row[at].max(1e-6);
        }
        let Some(step) = solve(damped, slope) else { break };
        let next: [f64; TIMES] = std::array::from_fn(|at| {
            (logs[at] - step[at].clamp(-2.0, 2.0)).clamp(LEAST.ln(), MOST.ln())
        });
        let then = total(&next, counts, took, usual);
        if then < now {
            let gained = now - then;
            (logs, now) = (next, then);
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
    (logs, now)
}

/// Half the gradient, and Gauss and Newton's half curvature.
fn derivatives(
    logs: &[f64; TIMES],
    counts: &[CountedWork],
    took: &[f64],
    usual: &[f64; TIMES],
) -> ([f64; TIMES], [[f64; TIMES]; TIMES]) {
    let times = logs.map(f64::exp);
    let mut slope: [f64; TIMES] = std::array::from_fn(|at| DRAWN * (logs[at] - usual[at]));
    let mut curve = [[0.0; TIMES]; TIMES];
    for (at, row) in curve.iter_mut().enumerate() {
        row[at] = DRAWN;
    }
    for (count, took) in counts.iter().zip(took) {
        let parts: [f64; TIMES] = std::array::from_fn(|at| times[at] * count.of[at]);
        let time = count.fixed + parts.iter().sum::<f64>();
        let residual = (time / took).ln();
        let weight = 1.0 / (1.0 + (residual / ROBUST).powi(2)).sqrt();
        for one in 0..TIMES {
            let share = parts[one] / time;
            slope[one] += weight * residual * share;
            for other in 0..TIMES {
                curve[one][other] += weight * share * parts[other] / time;
            }
        }
    }
    (slope, curve)
}

/// Solves a system of linear equations by elimination with pivots; `None` where it is singular.
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
    fn times_that_explain_every_cell_are_found_despite_some_that_are_off() {
        let truth = Times {
            command: 5e-4,
            program: 2e-3,
            read: 1e-4,
            copy: 5e-4,
            erase: 3e-3,
            log: 4e-3,
            jump: 1e-4,
            switch: 1e-3,
        };
        let counts: Vec<CountedWork> = (0..60_u32)
            .map(|cell| CountedWork {
                fixed: 0.01,
                of: std::array::from_fn(|at| {
                    f64::from((cell * 7 + 3) % (11 + 2 * at as u32)) * 10.0
                }),
            })
            .collect();
        let mut took: Vec<f64> = counts.iter().map(|count| truth.of(count)).collect();
        took[5] *= 8.0;
        took[17] /= 5.0;
        let fitted = fit(&counts, &took, 16384);
        let wrong = counts
            .iter()
            .zip(&took)
            .filter(|(count, took)| (fitted.times.of(count) / **took).ln().abs() > 0.1);
        assert!(wrong.count() <= 4, "{fitted:?}");
    }
}
