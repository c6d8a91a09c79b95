//! How much two sessions of the same setup on the same device differ.
//!
//! A run is one session. Its trials share what the device and the machine were like on that day, so
//! their scatter does not show how far another session lies from it. A slowdown is sure only if it
//! exceeds what two sessions without any change differ by.

use super::{RunDifference, StandardError};

/// Degrees of freedom beyond which Student's distribution is the normal one.
const MOST_FREEDOM: f64 = 1e6;

/// The standard deviation of the difference between two sessions without any change, as a
/// logarithm.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SessionSpread(f64);

impl SessionSpread {
    /// The figure that is used without another one, in percent. The recorded grids of three
    /// simulated cards (`examples/grids`, the real kernel, three sessions each, over 100 setups)
    /// differ between sessions, by workload and beyond their noise, by 1.0, 1.1 and 2.9 %.
    pub const DEFAULT_PERCENT: u32 = 3;

    /// Sessions differ by nothing but the noise of their trials.
    pub const NONE: Self = Self(0.0);

    /// From a share, 0.03 for 3 %.
    pub fn of_share(share: f64) -> Self {
        Self(share.max(0.0).ln_1p())
    }

    /// As a logarithm.
    pub fn log(self) -> f64 {
        self.0
    }

    /// The error of a difference as that of what changed between the sessions, not only between
    /// these two runs. The spread counts as known.
    pub(super) fn widened(self, difference: &RunDifference) -> Option<StandardError> {
        let own = difference.error?;
        let log = own.log.hypot(self.0);
        // Satterthwaite: only the own part is estimated.
        let factor = if own.log > 0.0 { (log / own.log).powi(4) } else { 1.0 };
        let freedom = (own.freedom * factor).min(own.freedom.max(MOST_FREEDOM));
        Some(StandardError { log, freedom, ..own })
    }
}

impl Default for SessionSpread {
    fn default() -> Self {
        Self::of_share(f64::from(Self::DEFAULT_PERCENT) / 100.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(error: Option<(f64, f64)>) -> RunDifference {
        RunDifference {
            log: -0.1,
            error: error.map(|(log, freedom)| StandardError {
                log,
                freedom,
                is_between_setups: false,
            }),
            trials: [4, 4],
            rounds: [4, 4],
            setups: 1,
        }
    }

    #[test]
    fn the_variances_add_up() {
        let spread = SessionSpread(0.04);
        let wide = spread.widened(&found(Some((0.03, 5.0)))).unwrap();
        assert!((wide.log - 0.05).abs() < 1e-12, "{wide:?}");
        assert!((wide.freedom - 5.0 * (5.0_f64 / 3.0).powi(4)).abs() < 1e-9, "{wide:?}");
        let exact = spread.widened(&found(Some((0.0, 5.0)))).unwrap();
        assert_eq!((exact.log, exact.freedom), (0.04, 5.0));
        assert_eq!(spread.widened(&found(None)), None);
        let none = SessionSpread::of_share(0.0).widened(&found(Some((0.03, 5.0)))).unwrap();
        assert_eq!((none.log, none.freedom), (0.03, 5.0));
    }
}
