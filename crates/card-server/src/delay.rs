//! Waiting until a moment, more exactly than sleeping does by default.

use std::sync::LazyLock;
use std::time::{Duration, Instant};

/// How long before a moment sleeping turns into spinning: what a sleep with the least timer slack
/// oversleeps by at most, most of the time. A machine with one processor does not spin: whoever
/// waits for the card computes meanwhile, and would be kept from it.
static SPIN: LazyLock<Duration> = LazyLock::new(|| {
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    if processors > 1 { Duration::from_micros(60) } else { Duration::ZERO }
});

/// How much of `left` to sleep; spin where there is nothing.
pub fn to_sleep(left: Duration) -> Option<Duration> {
    left.checked_sub(*SPIN).filter(|sleep| !sleep.is_zero())
}

/// Lets the kernel wake this thread when asked, not up to 50 us later (`PR_SET_TIMERSLACK`). Best
/// effort: it only makes delays more exact.
#[expect(unsafe_code, reason = "prctl has no safe interface here")]
pub fn wake_exactly() {
    const ONE_NANOSECOND: libc::c_ulong = 1;
    const NONE: libc::c_ulong = 0;
    // SAFETY: the call takes no pointer; a refusal changes nothing.
    unsafe {
        libc::prctl(libc::PR_SET_TIMERSLACK, ONE_NANOSECOND, NONE, NONE, NONE);
    }
}

/// Waits until `moment`, sleeping for most of the time and spinning for the last of it, or until
/// `given_up`, which is asked now and then. Returns whether `moment` came.
pub fn until(moment: Instant, given_up: impl Fn() -> bool) -> bool {
    /// How late it may be seen that the wait is given up.
    const LONGEST_SLEEP: Duration = Duration::from_millis(10);
    loop {
        if given_up() {
            return false;
        }
        let left = moment.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return true;
        }
        match to_sleep(left) {
            Some(sleep) => std::thread::sleep(sleep.min(LONGEST_SLEEP)),
            None => std::hint::spin_loop(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_never_ends_early() {
        wake_exactly();
        for wait in [0, 30, 300, 20_000] {
            let moment = Instant::now() + Duration::from_micros(wait);
            assert!(until(moment, || false));
            assert!(Instant::now() >= moment);
        }
        assert!(until(Instant::now() - Duration::from_millis(1), || false));
    }

    #[test]
    fn it_can_be_given_up() {
        assert!(!until(Instant::now() + Duration::from_secs(3600), || true));
    }
}
