//! What a request takes from a program to the card and back by itself: the median of some.
//!
//! Limit: that the first request of a burst waits longer for a sleeping processor is not known.

use std::io::Result;
use std::time::{Duration, Instant};

/// What a host reads at least.
pub const PAGE_BYTES: usize = 4096;
/// More than this is another program's doing, not the way's.
pub const MOST: Duration = Duration::from_micros(100);
const EXCHANGES: usize = 200;

/// The median duration of `exchange`, while the card answers at once.
///
/// # Errors
/// Those of `exchange`.
pub fn median(mut exchange: impl FnMut() -> Result<()>) -> Result<Duration> {
    let mut times = Vec::with_capacity(EXCHANGES);
    for _ in 0..EXCHANGES {
        let begun = Instant::now();
        exchange()?;
        times.push(begun.elapsed());
    }
    times.sort_unstable();
    Ok(times[EXCHANGES / 2].min(MOST))
}
