//! How long retries and checks wait, which tests shorten.
//!
//! `FLASHFIT_TEST_WAIT_DIVISOR=N` divides these times by N, from 1 to 100. It is for flashfit's own
//! tests: a board that answers late is then given up. Any other value is ignored.

use std::time::Duration;

/// The environment variable that tests set.
const VARIABLE: &str = "FLASHFIT_TEST_WAIT_DIVISOR";
const DIVISORS: std::ops::RangeInclusive<u32> = 1..=100;

/// This time, or the part of it that a test asks for.
pub fn shortened(usual: Duration) -> Duration {
    divided(usual, std::env::var(VARIABLE).ok().as_deref())
}

fn divided(usual: Duration, divisor: Option<&str>) -> Duration {
    let divisor = divisor.and_then(|text| text.parse().ok()).filter(|n| DIVISORS.contains(n));
    usual / divisor.unwrap_or(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_sensible_divisor_shortens_a_wait() {
        let usual = Duration::from_secs(60);
        assert_eq!(divided(usual, Some("10")), Duration::from_secs(6));
        for ignored in [None, Some(""), Some("0"), Some("-1"), Some("101"), Some("fast")] {
            assert_eq!(divided(usual, ignored), usual, "{ignored:?}");
        }
    }
}
