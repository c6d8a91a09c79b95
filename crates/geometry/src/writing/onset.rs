//! Finds the request from which on slow requests occur, in a series of times.
//!
//! If slow requests were equally likely everywhere, hardly all of them would come late. For several
//! numbers of slowest requests and every possible beginning, the probability of so few before it is
//! computed (binomial); the smallest one gives the beginning. Stalls for other reasons count as
//! slow requests before it. Limits: slow requests are treated as independent, although periodic
//! ones are not, which makes the probability too large; the smallest of many probabilities is
//! taken, so only values that are much smaller than the number of requests allow are evidence.

/// The fewest slow requests.
const LEAST_SLOW: usize = 4;
/// Factor from one number of slow requests to the next.
const GROWTH: f64 = 1.5;
/// The largest share of slow requests, as a divisor.
const MOST_SLOW: usize = 2;

/// The first slow request, and the negative logarithm of the probability that so few of them come
/// earlier by chance. Only times of at least `least` are slow. `None` if there are too few.
pub fn onset(times: &[f32], least: f32) -> Option<(usize, f64)> {
    let count = times.len();
    let mut order: Vec<usize> = (0..count).collect();
    order.sort_by(|&one, &other| times[other].total_cmp(&times[one]));
    let mut best: Option<(usize, f64)> = None;
    let mut slow = LEAST_SLOW;
    while slow <= count / MOST_SLOW {
        // Equal times are all slow or not.
        let border = times[order[slow - 1]];
        let fastest = order.iter().take_while(|&&at| times[at] >= border).count();
        if border >= least && fastest <= count / MOST_SLOW {
            let mut places = order[..fastest].to_vec();
            places.sort_unstable();
            for (before, &at) in places.iter().enumerate() {
                let log = -log_at_most(before, fastest, at as f64 / count as f64);
                if best.is_none_or(|(_, other)| log > other) {
                    best = Some((at, log));
                }
            }
        }
        slow = (slow as f64 * GROWTH) as usize;
    }
    best
}

/// The logarithm of the probability of at most `few` of `all` events that each have this
/// probability.
fn log_at_most(few: usize, all: usize, each: f64) -> f64 {
    if each <= 0.0 {
        return 0.0;
    }
    let (yes, no) = (each.ln(), (1.0 - each).max(1e-300).ln());
    let mut choices = 0.0;
    let logs: Vec<f64> = (0..=few)
        .map(|events| {
            if events > 0 {
                choices += ((all - events + 1) as f64).ln() - (events as f64).ln();
            }
            choices + events as f64 * yes + (all - events) as f64 * no
        })
        .collect();
    crate::belief::log_sum_exp(logs.into_iter()).min(0.0)
}

#[cfg(test)]
mod tests {
    use flashfit_device::random::Random;

    use super::*;

    fn noisy(slow: impl Fn(usize) -> bool) -> Vec<f32> {
        let mut random = Random::new(5);
        let time = |at| {
            let stall = if random.below(40) == 0 { 4.0 } else { 0.0 };
            let slow = if slow(at) { 9.0 } else { 0.0 };
            1.0 + random.below(300) as f32 / 1000.0 + stall + slow
        };
        (0..400).map(time).collect()
    }

    #[test]
    fn slow_requests_begin_where_they_become_frequent() {
        let (at, log) = onset(&noisy(|at| at >= 200 && at % 16 == 0), 1.2).unwrap();
        assert!(at == 208 && log > 7.0, "{at} {log}");
        let (at, log) = onset(&noisy(|at| at >= 100), 1.2).unwrap();
        assert!(at == 100 && log > 20.0, "{at} {log}");
    }

    #[test]
    fn stalls_all_over_have_no_beginning() {
        for slow in [|_| false, |at: usize| at % 16 == 3, |at: usize| at % 3 == 0] {
            let (at, log) = onset(&noisy(slow), 1.2).unwrap_or((0, 0.0));
            assert!(log < 7.0, "{at} {log}");
        }
        assert_eq!(onset(&[1.0; 5], 0.0), None);
    }

    #[test]
    fn the_binomial_tail_is_right() {
        let close = |log: f64, of: f64| assert!((log.exp() - of).abs() < 1e-12, "{log}");
        close(log_at_most(0, 4, 0.5), 1.0 / 16.0);
        close(log_at_most(1, 4, 0.5), 5.0 / 16.0);
        close(log_at_most(4, 4, 0.3), 1.0);
    }
}
