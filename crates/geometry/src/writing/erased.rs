//! Infers from erasures how many bits the cells have into which single-bit units are folded.
//!
//! A unit with `b` bits per cell takes `b` folds. If nothing else has to be copied, the fold that
//! starts a new unit waits for an erasure and takes longer: one fold in `b`, at a fixed position.
//! Rare stalls are ignored, and more folds are used as the noise requires. Limits: erasures that
//! are long relative to a fold are taken for copying, which [`super::folding`] evaluates, and so
//! are erasures that change their position.

use crate::belief::median;

/// The number of latest folds evaluated first; it doubles until the result is clear.
const FEWEST: usize = 36;
/// The shortest erasure in nanoseconds, and the longest as a share of a fold; longer ones are
/// copying or stalls.
const MIN_ERASURE_NS: f64 = 5e5;
const MAX_FOLD_SHARE: f64 = 0.6;
/// How much more likely one number of bits must be than any other and than none, as a logarithm.
const CLEAR: f64 = 12.0;
/// The smallest spread as a share of a fold.
const MIN_SPREAD: f64 = 1e-4;

/// The log-likelihood of 2, 3 and 4 bits; `None` if none is clear.
pub fn of_bits(folds_ns: &[f64]) -> Option<[f64; 3]> {
    let counts = std::iter::successors(Some(FEWEST), |count| Some(2 * count));
    counts.take_while(|count| *count <= folds_ns.len()).find_map(|count| {
        let last = &folds_ns[folds_ns.len() - count..];
        of_these(last)
    })
}

fn of_these(folds_ns: &[f64]) -> Option<[f64; 3]> {
    let usual_ns = median(folds_ns);
    let reach_ns = MAX_FOLD_SHARE * usual_ns;
    let times = folds_ns.iter().copied().enumerate();
    let times: Vec<(usize, f64)> =
        times.filter(|(_, ns)| (ns - usual_ns).abs() < reach_ns).collect();
    let (_, none) = log_likelihood(&times, |_| false, usual_ns);
    let each = [2, 3, 4].map(|bits| {
        let places =
            (0..bits).map(|place| log_likelihood(&times, |at| at % bits == place, usual_ns));
        places.max_by(|one, other| one.1.total_cmp(&other.1)).expect("there are places")
    });
    let best = each.into_iter().max_by(|one, other| one.1.total_cmp(&other.1))?;
    let rivals = each.iter().filter(|(_, log)| *log > best.1 - CLEAR).count();
    let is_clear = best.1 > none + CLEAR && rivals == 1;
    (is_clear && (MIN_ERASURE_NS..reach_ns).contains(&best.0)).then(|| each.map(|(_, log)| log))
}

/// The extra time of the folds that wait for an erasure, and the log-likelihood of the times.
fn log_likelihood(
    times: &[(usize, f64)],
    waits: impl Fn(usize) -> bool,
    usual_ns: f64,
) -> (f64, f64) {
    let (with, without): (Vec<_>, Vec<_>) = times.iter().partition(|(at, _)| waits(*at));
    let mean = |of: &[(usize, f64)]| of.iter().map(|(_, ns)| ns).sum::<f64>() / of.len() as f64;
    let squares =
        |of: &[(usize, f64)], mean: f64| of.iter().map(|(_, ns)| (ns - mean).powi(2)).sum::<f64>();
    let (with_ns, without_ns) = (mean(&with), mean(&without));
    let variance = (squares(&with, with_ns) + squares(&without, without_ns)) / times.len() as f64;
    let variance = variance.max((MIN_SPREAD * usual_ns).powi(2));
    (with_ns - without_ns, -0.5 * times.len() as f64 * variance.ln())
}

#[cfg(test)]
mod tests {
    use flashfit_device::random::Random;

    use super::*;

    /// Folds of 100 ms with up to `jitter` thousandths of variation, one in `bits` longer by 5 ms.
    fn folds(bits: usize, jitter: u64, count: usize) -> Vec<f64> {
        let mut random = Random::new(3);
        let fold = |at: usize| {
            let erasure = if bits > 0 && at % bits == 1 { 5e6 } else { 0.0 };
            let rare = if random.below(60) == 0 { 9e8 } else { 0.0 };
            1e8 + 1e5 * random.below(jitter.max(1)) as f64 + erasure + rare
        };
        (0..count).map(fold).collect()
    }

    #[test]
    fn periodic_waits_for_erasures_give_the_number_of_bits() {
        for (jitter, count) in [(0, 48), (100, 1200)] {
            for bits in [2, 3, 4] {
                let logs = of_bits(&folds(bits, jitter, count)).expect("it is clear");
                let best = (2..5).max_by(|&one, &other| logs[one - 2].total_cmp(&logs[other - 2]));
                assert_eq!(best, Some(bits), "{jitter}: {logs:?}");
            }
        }
    }

    #[test]
    fn without_a_pattern_there_is_no_result() {
        for jitter in [0, 100] {
            assert_eq!(of_bits(&folds(0, jitter, 600)), None);
        }
        assert_eq!(of_bits(&folds(2, 0, 12)), None);
    }

    #[test]
    fn delays_as_long_as_a_fold_are_not_erasures() {
        let copying: Vec<f64> = (0..96).map(|at| if at % 2 == 0 { 1e8 } else { 2e8 }).collect();
        assert_eq!(of_bits(&copying), None);
    }
}
