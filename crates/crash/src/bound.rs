//! How frequent a failure may be that was seen so often: the upper end of the one-sided 95 %
//! interval of Clopper and Pearson (1934). Without a failure it is about 3/n, the rule of three.
//!
//! States of one log resemble each other, so there are two limits. Of the states of the recorded
//! logs, each trial is a state: the share may differ between logs, which only makes the limit too
//! high (Hoeffding, "On the distribution of the number of successes in independent trials", 1956).
//! Of other runs of the work, each trial is a whole log, which fails if one of the states does that
//! were drawn from it: no assumption on how alike states of a log are. So the limit is of the share
//! of runs in which a check of as many random states finds one that fails; of a run, more states
//! would find more. A state that is drawn at random from another run fails with no higher
//! probability than that.

const CONFIDENCE: f64 = 0.95;

/// The bound for `failures` of `trials`, as a share from 0 to 1.
pub fn upper_bound(failures: u64, trials: u64) -> f64 {
    if failures >= trials {
        return 1.0;
    }
    let (mut low, mut high) = (failures as f64 / trials as f64, 1.0);
    for _ in 0..60 {
        let middle = f64::midpoint(low, high);
        if at_most(failures, trials, middle) > 1.0 - CONFIDENCE {
            low = middle;
        } else {
            high = middle;
        }
    }
    high
}

/// The probability of at most `failures` of `trials` if each fails with `share`.
fn at_most(failures: u64, trials: u64, share: f64) -> f64 {
    let (log_yes, log_no) = (share.ln(), (-share).ln_1p());
    let mut log_term = trials as f64 * log_no;
    let mut sum = log_term.exp();
    for count in 1..=failures {
        let ways = (trials - count + 1) as f64 / count as f64;
        log_term += ways.ln() + log_yes - log_no;
        sum += log_term.exp();
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn is_near(found: f64, expected: f64) {
        assert!((found / expected - 1.0).abs() < 2e-3, "{found} is not {expected}");
    }

    #[test]
    fn bounds_are_those_of_tables() {
        is_near(upper_bound(0, 100), 0.029_513);
        is_near(upper_bound(0, 100_000), 2.995_7e-5);
        // qbeta(0.95, 4, 97).
        is_near(upper_bound(3, 100), 0.075_71);
        is_near(upper_bound(50, 100), 0.586_5);
        assert_eq!(upper_bound(7, 7), 1.0);
        assert_eq!(upper_bound(0, 0), 1.0);
    }
}
