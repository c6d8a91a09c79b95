//! Shares of trials with their 95 % interval.

use std::fmt;

/// So many of so many.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Share {
    /// How many were.
    pub count: usize,
    /// How many could have been.
    pub of: usize,
}

/// The normal distribution's quantile of a two-sided interval of 95 %.
const Z: f64 = 1.959_964;

impl Share {
    /// Of trials of which each was or was not.
    pub fn of(trials: impl IntoIterator<Item = bool>) -> Self {
        trials.into_iter().fold(Self::default(), |share, was| Self {
            count: share.count + usize::from(was),
            of: share.of + 1,
        })
    }

    /// All trials of several shares.
    pub fn sum(shares: impl IntoIterator<Item = Self>) -> Self {
        shares.into_iter().fold(Self::default(), |all, share| Self {
            count: all.count + share.count,
            of: all.of + share.of,
        })
    }

    /// The share, 0 to 1; 0 of none.
    pub fn value(self) -> f64 {
        if self.of == 0 { 0.0 } else { self.count as f64 / self.of as f64 }
    }

    /// Wilson's score interval of 95 %.
    pub fn interval(self) -> (f64, f64) {
        if self.of == 0 {
            return (0.0, 1.0);
        }
        let (n, p) = (self.of as f64, self.value());
        let middle = p + Z * Z / (2.0 * n);
        let half = Z * (p * (1.0 - p) / n + Z * Z / (4.0 * n * n)).sqrt();
        let scale = 1.0 + Z * Z / n;
        (((middle - half) / scale).max(0.0), ((middle + half) / scale).min(1.0))
    }
}

impl fmt::Display for Share {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.of == 0 {
            return f.write_str("none");
        }
        let (low, high) = self.interval();
        let percent = |share: f64| share * 100.0;
        write!(
            f,
            "{} of {}: {:.1} % ({:.1} to {:.1})",
            self.count,
            self.of,
            percent(self.value()),
            percent(low),
            percent(high)
        )
    }
}
