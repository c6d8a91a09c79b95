//! How much of the budget is spent, in words.

use std::time::Duration;

use flashfit_device::Bytes;
use flashfit_tune::{RunProgress, TimeSpan};

use crate::rendering::duration;

/// What was spent of the limits of time and writing, where there are any.
pub fn of_limits(so_far: &RunProgress<'_>) -> Option<String> {
    let (spent, limits) = (&so_far.spent, so_far.limits);
    let time = limits.budget_ns.map(|budget| {
        format!("{} of {}", duration(Duration::from_nanos(spent.time_ns)), TimeSpan(budget))
    });
    let written = limits
        .max_write_bytes
        .map(|most| format!("{} of {} written", Bytes(spent.written_bytes), Bytes(most)));
    let parts: Vec<String> = time.into_iter().chain(written).collect();
    (!parts.is_empty()).then(|| parts.join(", "))
}
