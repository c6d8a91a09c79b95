//! Settings of a search: its budget, its goal and its seed.

use crate::space::SpaceError;

/// Short trials, where the workload supports them.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ShortRun {
    /// The cost as a share of a full-length trial; above 0 and below 1.
    pub cost: f64,
}

/// When a search may stop before its budget is spent.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Goal {
    /// The acceptable distance from the best, in natural logarithm (0.02 is 2 %).
    pub within: f64,
    /// The required probability of being within that distance, 0 to 1.
    pub probability: f64,
}

impl Default for Goal {
    fn default() -> Self {
        Self { within: 0.02, probability: 0.9 }
    }
}

/// Budget, goal and seed of a search.
#[derive(Debug, Clone, PartialEq)]
pub struct SearchSettings {
    /// The budget in full-length trials; `None` for no limit.
    pub trials: Option<f64>,
    /// `None` if only full-length trials are possible.
    pub short: Option<ShortRun>,
    /// Only `adaptive` stops before its budget is spent.
    pub goal: Goal,
    /// Trials of each candidate under each workload, for strategies with a fixed number; at least
    /// 1.
    pub repeats: u32,
    /// The seed of every random choice.
    pub seed: u64,
}

impl Default for SearchSettings {
    fn default() -> Self {
        Self { trials: None, short: None, goal: Goal::default(), repeats: 1, seed: 0 }
    }
}

/// Why a search cannot start.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum SearchError {
    #[error(transparent)]
    Space(#[from] SpaceError),
    /// The budget is below one trial of each family.
    #[error("{trials} trials are too few: one trial of each family takes {least}")]
    TooFewTrials {
        /// The budget in full-length trials.
        trials: f64,
        least: f64,
    },
    /// A setting outside its range.
    #[error("{what}")]
    InvalidSetting { what: String },
}

impl SearchSettings {
    /// Checks that every setting is in its range.
    ///
    /// # Errors
    /// The first setting that is not.
    pub fn check(&self) -> Result<(), SearchError> {
        let invalid = |what: &str| Err(SearchError::InvalidSetting { what: what.to_owned() });
        if self.trials.is_some_and(|trials| trials.is_nan() || trials < 0.0) {
            return invalid("the number of trials must be at least 0");
        }
        if self.short.is_some_and(|short| !(short.cost > 0.0 && short.cost < 1.0)) {
            return invalid("the cost of a short trial must be between 0 and 1");
        }
        if !(self.goal.within > 0.0 && self.goal.within.is_finite()) {
            return invalid("the distance from the best must be above 0");
        }
        if !(self.goal.probability > 0.0 && self.goal.probability < 1.0) {
            return invalid("the probability must be between 0 and 1");
        }
        if self.repeats == 0 {
            return invalid("the number of repeats must be at least 1");
        }
        Ok(())
    }
}
