//! How much time and writing is spent, in words.

use std::time::Duration;

use flashfit_device::Bytes;
use flashfit_tune::{RunProgress, TimeSpan};

use super::wear_so_far::WearSoFar;
use crate::rendering::duration;

/// What was spent: of the time, where it is limited, how much was written, and of the device's
/// life.
pub fn so_far(so_far: &RunProgress<'_>, wear: Option<&WearSoFar>) -> String {
    let (spent, limits) = (&so_far.spent, so_far.budget);
    let time = limits.budget_ns.map(|budget| {
        format!("{} of {}", duration(Duration::from_nanos(spent.time_ns)), TimeSpan(budget))
    });
    let written = match limits.max_write_bytes {
        Some(most) => format!("{} of {} written", Bytes(spent.written_bytes), Bytes(most)),
        None => format!("{} written", Bytes(spent.written_bytes)),
    };
    let life = wear.map(WearSoFar::text);
    time.into_iter().chain([written]).chain(life).collect::<Vec<_>>().join(", ")
}
