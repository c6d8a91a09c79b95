//! Robust estimation of trial noise by workload and length, as the scale of Student's t
//! distribution, so that a few outliers do not dominate.
//!
//! Repeats separate noise from a candidate's own effect. Before there are any, the residuals of the
//! model serve as a guess, which is an upper bound.

/// Degrees of freedom of trial noise; the tails are heavy enough for stalls.
pub const NU: f64 = 4.0;
/// Weight of the prior guess, in repeats.
const PRIOR_REPEATS: f64 = 3.0;
const MIN_SD: f64 = 0.002;
const ROUNDS: usize = 8;

/// The squared scale of deviations around 0, with the prior `guess` (a squared scale).
pub fn scale(deviations: &[f64], guess: f64) -> f64 {
    let mut scale = guess.max(MIN_SD.powi(2));
    let count = deviations.len() as f64;
    for _ in 0..ROUNDS {
        let squares: f64 =
            deviations.iter().map(|deviation| weight(*deviation, scale) * deviation.powi(2)).sum();
        scale = (squares + PRIOR_REPEATS * guess) / (count + PRIOR_REPEATS);
        scale = scale.max(MIN_SD.powi(2));
    }
    scale
}

/// Ratio of a weighted mean's variance to the squared scale over the sum of weights, from the
/// Fisher information of the distribution's location.
pub const SPREAD: f64 = (NU + 3.0) / (NU + 1.0);

/// The weight of a trial with this deviation, for a squared scale `scale`.
pub fn weight(deviation: f64, scale: f64) -> f64 {
    (NU + 1.0) / (NU + deviation.powi(2) / scale)
}

/// The squared scale from the median absolute deviation, which tolerates up to half outliers;
/// `None` for fewer than three deviations.
pub fn median_scale(deviations: &[f64]) -> Option<f64> {
    if deviations.len() < 3 {
        return None;
    }
    let mut sizes: Vec<f64> = deviations.iter().map(|deviation| deviation.abs()).collect();
    sizes.sort_by(f64::total_cmp);
    // The median absolute value of a standard normal variable is 0.6745.
    Some((sizes[sizes.len() / 2] / 0.6745).powi(2))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::RandomStream;

    #[test]
    fn the_scale_of_normal_deviations_is_robust_to_outliers() {
        let mut random = RandomStream::new(5);
        let mut deviations: Vec<f64> = (0..400).map(|_| 0.1 * random.normal()).collect();
        let clean = scale(&deviations, 0.01).sqrt();
        assert!((0.08..0.105).contains(&clean), "{clean}");
        deviations[..12].fill(-1.0);
        let spoiled = scale(&deviations, 0.01).sqrt();
        assert!(spoiled < 1.2 * clean, "{spoiled}");
        let median = median_scale(&deviations).expect("enough").sqrt();
        assert!((0.085..0.115).contains(&median), "{median}");
    }

    #[test]
    fn without_deviations_the_scale_is_the_guess() {
        assert!((scale(&[], 0.04) - 0.04).abs() < 1e-12);
        assert_eq!(median_scale(&[0.1]), None);
    }
}
