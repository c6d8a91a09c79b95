//! When a run begins no further trial: by its budget, which counts the time in trials, or by the
//! time of this machine, which for trials with a simulated clock is another one.

use std::time::Instant;

use crate::budget::{BudgetReached, Spent};
use crate::record::TrialPurpose;
use crate::session::TuneSession;

impl TuneSession<'_> {
    /// Begins no trial after this time, on top of the budget.
    pub fn end_by(&mut self, until: Option<Instant>) {
        self.until = until;
    }

    /// The limit that another trial would exceed.
    pub(crate) fn limit_reached(&self, spent: &Spent) -> Option<BudgetReached> {
        self.limit_reached_with(spent, 0)
    }

    /// The same while other trials are under way, which cost the average.
    pub(crate) fn limit_reached_with(
        &self,
        spent: &Spent,
        under_way: usize,
    ) -> Option<BudgetReached> {
        // Before the first trial of the search, only those that compared devices show the cost.
        if spent.trials == 0 {
            return self.whole_limit_reached(under_way);
        }
        self.rules.limits.reached(&spent.with_average(under_way)).or(self.lateness())
    }

    /// The same by all trials, including those that compare devices.
    pub(crate) fn whole_limit_reached(&self, under_way: usize) -> Option<BudgetReached> {
        let spent = self.spent_in_all().with_average(under_way);
        self.spec.limits.reached(&spent).or(self.lateness())
    }

    /// What the trials of the search and those that compared devices cost.
    pub(crate) fn spent_in_all(&self) -> Spent {
        let mut spent = self.spent();
        let overlap = self.trials.iter().filter(|trial| trial.key.purpose == TrialPurpose::Overlap);
        overlap.for_each(|trial| spent.add(trial.cost()));
        spent
    }

    fn lateness(&self) -> Option<BudgetReached> {
        let is_late = self.until.is_some_and(|until| Instant::now() >= until);
        is_late.then_some(BudgetReached::Budget)
    }
}
