//! Waiting until a moment, more exactly than sleeping does.

use std::time::{Duration, Instant};

/// What a sleep may oversleep by: the timer slack (50 us by default, prctl(2)) and the wake-up.
const SPIN: Duration = Duration::from_micros(80);

/// Waits until `moment`: sleeps for most of the time, and spins for the last of it.
pub fn until(moment: Instant) {
    loop {
        let left = moment.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return;
        }
        if left > SPIN {
            std::thread::sleep(left - SPIN);
        } else {
            std::hint::spin_loop();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_never_ends_early() {
        for wait in [0, 30, 300] {
            let moment = Instant::now() + Duration::from_micros(wait);
            until(moment);
            assert!(Instant::now() >= moment);
        }
        until(Instant::now() - Duration::from_millis(1));
    }
}
