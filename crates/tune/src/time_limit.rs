//! When a run begins no further trial: by its budget, which counts the time in trials, or by the
//! time of this machine, which for trials with a simulated clock is another one.

use std::time::Instant;

use crate::budget::{BudgetReached, Spent};
use crate::session::TuneSession;

impl TuneSession<'_> {
    /// Begins no trial after this time, on top of the budget.
    pub fn end_by(&mut self, until: Option<Instant>) {
        self.until = until;
    }

    /// The limit that another trial would exceed.
    pub(crate) fn limit_reached(&self, spent: &Spent) -> Option<BudgetReached> {
        let is_late = self.until.is_some_and(|until| Instant::now() >= until);
        self.rules.limits.reached(spent).or(is_late.then_some(BudgetReached::Budget))
    }
}
