//! How far a search may go and how good it is to be.

use crate::space::SpaceError;

/// What short trials are, where they can be made.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ShortRun {
    /// What one costs, as a share of a full-length trial; above 0 and below 1.
    pub cost: f64,
}

/// When a search has found enough.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Goal {
    /// How far from the best the choice may be, in natural logarithm (0.02 is 2 %).
    pub within: f64,
    /// With what probability, 0 to 1.
    pub probability: f64,
}

impl Default for Goal {
    fn default() -> Self {
        Self { within: 0.02, probability: 0.9 }
    }
}

/// How far a search may go.
#[derive(Debug, Clone, PartialEq)]
pub struct Limits {
    /// How many full-length trials' worth may be spent in all; `None` for no limit.
    pub trials: Option<f64>,
    /// Short trials, where they can be made; `None` where there are only full-length ones.
    pub short: Option<ShortRun>,
    /// When it has found enough (`adaptive` alone stops before its trials are spent).
    pub goal: Goal,
    /// Trials of each candidate under each workload, of the strategies that fix it; at least 1.
    pub repeats: u32,
    /// What every random choice comes from.
    pub seed: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self { trials: None, short: None, goal: Goal::default(), repeats: 1, seed: 0 }
    }
}

/// Why a search cannot begin.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum SearchError {
    /// The space cannot be searched.
    #[error(transparent)]
    Space(#[from] SpaceError),
    /// Not even one trial of each family can be made.
    #[error("{trials} trials are too few: one of each family takes {least}")]
    TooFewTrials {
        /// What was given, in full-length trials.
        trials: f64,
        /// What is needed.
        least: f64,
    },
    /// A limit that means nothing.
    #[error("{what}")]
    Limit {
        /// What is wrong.
        what: String,
    },
}

impl Limits {
    /// Looks whether the limits mean something.
    ///
    /// # Errors
    /// With the first that does not.
    pub fn check(&self) -> Result<(), SearchError> {
        let limit = |what: &str| Err(SearchError::Limit { what: what.to_owned() });
        if self.trials.is_some_and(|trials| trials.is_nan() || trials < 0.0) {
            return limit("the number of trials is not a number that is 0 or more");
        }
        if self.short.is_some_and(|short| !(short.cost > 0.0 && short.cost < 1.0)) {
            return limit("the cost of a short trial is not between 0 and 1");
        }
        if !(self.goal.within > 0.0 && self.goal.within.is_finite()) {
            return limit("the distance from the best is not above 0");
        }
        if !(self.goal.probability > 0.0 && self.goal.probability < 1.0) {
            return limit("the probability is not between 0 and 1");
        }
        if self.repeats == 0 {
            return limit("there are no repeats");
        }
        Ok(())
    }
}
