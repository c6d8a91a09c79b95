//! How long the rest of a run may take, and what is believed after its first minute, in words.
//!
//! The time is a range: from a search that becomes confident as soon as it can, to one that spends
//! its budget. Trials count for as long as the mean of those so far, and a budget in time ends a
//! run within one trial of it.

use std::time::{Duration, Instant};

use flashfit_search::Answer;
use flashfit_tune::{Percent, RunProgress};
use schemars::JsonSchema;
use serde::Serialize;

use crate::rendering::{duration, more_time};

/// How long the rest of a run may take.
#[derive(Debug, Clone, Copy, PartialEq, JsonSchema, Serialize)]
pub struct RemainingTime {
    pub least_ns: u64,
    /// `None` without a budget that ends it.
    pub most_ns: Option<u64>,
}

/// Unknown before the first trial. `spent` is the time of some trials, and their number.
pub fn of_run(so_far: &RunProgress<'_>, spent: (Duration, u32)) -> Option<RemainingTime> {
    let (total, count) = spent;
    if count == 0 {
        return None;
    }
    let of =
        |trials: u64| (total / count).saturating_mul(u32::try_from(trials).unwrap_or(u32::MAX));
    let by_budget = so_far.limits.budget_ns.map(|budget| {
        Duration::from_nanos(budget.saturating_sub(so_far.spent.time_ns)) + total / count
    });
    let least = of(so_far.least_left);
    let most = so_far.left.map(of).into_iter().chain(by_budget).min();
    let least = most.map_or(least, |most| least.min(most));
    let ns = |span: Duration| u64::try_from(span.as_nanos()).unwrap_or(u64::MAX);
    Some(RemainingTime { least_ns: ns(least), most_ns: most.map(ns) })
}

/// The same in words, for a run that ends at `until`.
pub fn in_words(
    so_far: &RunProgress<'_>,
    spent: (Duration, u32),
    until: Option<Instant>,
) -> String {
    let limit = until.map(|until| until.saturating_duration_since(Instant::now()));
    of_run(so_far, spent).map_or("no estimate yet".to_owned(), |left| {
        let (least, most) = (left.least_ns, left.most_ns.map(Duration::from_nanos));
        within(Duration::from_nanos(least), most, limit)
    })
}

fn within(least: Duration, most: Option<Duration>, limit: Option<Duration>) -> String {
    let most = most.into_iter().chain(limit).min();
    range(most.map_or(least, |most| least.min(most)), most)
}

/// `3 min to 21 min left`.
fn range(least: Duration, most: Option<Duration>) -> String {
    match most.map(|most| (duration(least), duration(most))) {
        None => format!("at least {} left", duration(least)),
        Some((least, most)) if least == most => format!("about {most} left"),
        Some((least, most)) => format!("{least} to {most} left"),
    }
}

/// The leader after the first minute of trials, and what more time would buy.
pub fn first_belief(so_far: &RunProgress<'_>, belief: &Answer, leader: &str) -> String {
    let within = Percent(so_far.limits.within_hundredths);
    let text = format!(
        "after {} {leader} leads; the probability that it is within {within} of the best is {}",
        flashfit_report::text::count_of(so_far.history.len(), "trial"),
        flashfit_report::probability(belief.recommended_within),
    );
    match &belief.left_to_gain {
        Some(left) => format!("{text}. {}", more_time::sentence(left)),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_left_is_a_range() {
        let (short, long) = (Duration::from_secs(45), Duration::from_secs(7500));
        assert_eq!(range(short, Some(long)), "45 s to 2 h 5 min left");
        assert_eq!(range(short, Some(short)), "about 45 s left");
        let limit = Duration::from_secs(300);
        assert_eq!(within(short, Some(long), Some(limit)), "45 s to 5 min 0 s left");
        assert_eq!(within(long, None, Some(limit)), "about 5 min 0 s left");
    }
}
