//! The budget of a run and its precision goal.
//!
//! Everything is a function of the recorded trials, so a resumed run has spent the same as before:
//! time is the sum of trial times, not wall-clock time.

use serde::{Deserialize, Serialize};

use crate::quantity::{Percent, TimeSpan};
use flashfit_device::Bytes;

/// The default distance from the best.
const DEFAULT_WITHIN: Percent = Percent(200);

/// The budget of a run; `None` means unlimited.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Budget {
    /// Time in trials, in nanoseconds.
    pub budget_ns: Option<u64>,
    /// Bytes written to the device.
    pub max_write_bytes: Option<u64>,
    /// Number of trials; short ones count by their share of a full-length trial's time.
    pub trials: Option<u32>,
    /// Accepted distance from the best, in hundredths of a percent.
    pub within_hundredths: u32,
}

impl Default for Budget {
    fn default() -> Self {
        Self {
            budget_ns: None,
            max_write_bytes: None,
            trials: None,
            within_hundredths: DEFAULT_WITHIN.0,
        }
    }
}

/// The cost of a trial; zeros if unknown.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TrialCost {
    /// Its time in nanoseconds.
    pub time_ns: u64,
    /// The bytes it wrote to the device.
    pub written_bytes: u64,
}

/// The cost of the trials so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Spent {
    pub trials: u64,
    /// Their time in nanoseconds.
    pub time_ns: u64,
    /// Bytes they wrote to the device, if known.
    pub written_bytes: u64,
}

impl Spent {
    pub fn add(&mut self, cost: TrialCost) {
        self.trials += 1;
        self.time_ns = self.time_ns.saturating_add(cost.time_ns);
        self.written_bytes = self.written_bytes.saturating_add(cost.written_bytes);
    }

    /// The mean time of a trial in nanoseconds; 0 before the first.
    pub fn mean_ns(&self) -> u64 {
        self.time_ns.checked_div(self.trials).unwrap_or(0)
    }

    /// The mean number of bytes written by a trial; 0 before the first.
    pub fn mean_written_bytes(&self) -> u64 {
        self.written_bytes.checked_div(self.trials).unwrap_or(0)
    }

    /// The cost with as many further trials of average cost.
    #[must_use]
    pub fn with_average(self, trials: usize) -> Self {
        let mean = TrialCost { time_ns: self.mean_ns(), written_bytes: self.mean_written_bytes() };
        let mut spent = self;
        (0..trials).for_each(|_| spent.add(mean));
        spent
    }
}

/// The budget that a run used up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BudgetReached {
    Budget,
    MaxWrite,
}

impl std::fmt::Display for BudgetReached {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Budget => "the time budget is spent",
            Self::MaxWrite => "the write budget is spent",
        })
    }
}

impl Budget {
    /// Whether a limit was lifted, or is half as much again or more: enough to search again and to
    /// confirm what that finds.
    pub fn is_much_more_than(&self, before: &Self) -> bool {
        let trials = |limits: &Self| limits.trials.map(u64::from);
        let is_more = |(before, now): (Option<u64>, Option<u64>)| {
            let Some(before) = before else { return false };
            now.is_none_or(|now| now >= before.saturating_add(before / 2))
        };
        [
            (trials(before), trials(self)),
            (before.budget_ns, self.budget_ns),
            (before.max_write_bytes, self.max_write_bytes),
        ]
        .into_iter()
        .any(is_more)
    }

    /// The budget that another trial of average cost would exceed; `None` before the first trial.
    pub fn reached(&self, spent: &Spent) -> Option<BudgetReached> {
        if spent.trials == 0 {
            return None;
        }
        let over = |limit: Option<u64>, used: u64, next: u64| {
            limit.is_some_and(|limit| used.saturating_add(next) > limit)
        };
        if over(self.budget_ns, spent.time_ns, spent.mean_ns()) {
            Some(BudgetReached::Budget)
        } else if over(self.max_write_bytes, spent.written_bytes, spent.mean_written_bytes()) {
            Some(BudgetReached::MaxWrite)
        } else {
            None
        }
    }

    /// The number of further trials of average cost that the time and write budgets allow; `None`
    /// without these budgets or before the first trial.
    pub fn trials_left(&self, spent: &Spent) -> Option<u64> {
        let left = |limit: Option<u64>, used: u64| {
            let mean = used.checked_div(spent.trials).filter(|mean| *mean > 0)?;
            Some(limit?.saturating_sub(used) / mean)
        };
        let by_time = left(self.budget_ns, spent.time_ns);
        let by_writing = left(self.max_write_bytes, spent.written_bytes);
        by_time.into_iter().chain(by_writing).min()
    }

    /// The budget in words, for the announcement of the run.
    pub fn describe(&self) -> String {
        let parts = [
            self.budget_ns.map(|ns| format!("{} in trials", TimeSpan(ns))),
            self.max_write_bytes.map(|bytes| format!("{} written", Bytes(bytes))),
            self.trials.map(|count| match count {
                1 => "1 trial".to_owned(),
                count => format!("{count} trials"),
            }),
        ];
        let parts: Vec<String> = parts.into_iter().flatten().collect();
        if parts.is_empty() { "no limit".to_owned() } else { parts.join(", ") }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spent(trials: u64, time_ns: u64, written_bytes: u64) -> Spent {
        Spent { trials, time_ns, written_bytes }
    }

    #[test]
    fn a_budget_is_reached_before_the_trial_that_would_exceed_it() {
        let limits = Budget { budget_ns: Some(100), ..Budget::default() };
        assert_eq!(limits.reached(&spent(0, 0, 0)), None);
        assert_eq!(limits.reached(&spent(9, 90, 0)), None);
        assert_eq!(limits.reached(&spent(9, 91, 0)), Some(BudgetReached::Budget));
        let limits = Budget { max_write_bytes: Some(10), ..Budget::default() };
        assert_eq!(limits.reached(&spent(2, 1 << 40, 8)), Some(BudgetReached::MaxWrite));
        assert_eq!(Budget::default().reached(&spent(9, u64::MAX, u64::MAX)), None);
    }

    #[test]
    fn further_trials_cost_the_average() {
        assert_eq!(spent(2, 40, 10).with_average(3), spent(5, 100, 25));
        assert_eq!(spent(0, 0, 0).with_average(1), spent(1, 0, 0));
    }

    #[test]
    fn the_tighter_of_two_budgets_determines_the_trials_left() {
        let limits =
            Budget { budget_ns: Some(100), max_write_bytes: Some(1000), ..Budget::default() };
        assert_eq!(limits.trials_left(&spent(0, 0, 0)), None);
        assert_eq!(limits.trials_left(&spent(5, 50, 100)), Some(5));
        assert_eq!(limits.trials_left(&spent(5, 10, 900)), Some(0));
        // Without counted writes only time limits the run.
        assert_eq!(limits.trials_left(&spent(5, 50, 0)), Some(5));
    }

    #[test]
    fn half_as_much_again_is_much_more_and_so_is_no_limit() {
        let of = |trials, budget_ns, max_write_bytes| Budget {
            trials,
            budget_ns,
            max_write_bytes,
            ..Budget::default()
        };
        let before = of(None, Some(60), Some(1000));
        assert!(!before.is_much_more_than(&before));
        assert!(!of(None, Some(80), Some(1000)).is_much_more_than(&before));
        assert!(of(None, Some(90), Some(1000)).is_much_more_than(&before));
        assert!(of(None, Some(60), Some(1500)).is_much_more_than(&before));
        assert!(of(None, None, Some(1000)).is_much_more_than(&before));
        assert!(!of(Some(12), None, None).is_much_more_than(&of(Some(10), None, None)));
    }
}
