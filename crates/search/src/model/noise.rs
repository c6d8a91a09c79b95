//! How much trials of the same thing differ, by workload and length, without letting a few strange
//! ones decide: a scale of Student's distribution.
//!
//! A candidate's repeats tell noise from what is the candidate's own. Before there are any, the
//! misfit of the model is the guess, which is too high rather than too low.

/// Degrees of freedom of trials' noise: tails heavy enough for stalls.
pub const NU: f64 = 4.0;
/// What the first guess weighs, in repeats.
const PRIOR_REPEATS: f64 = 3.0;
/// The least noise that is believed.
const LEAST_SD: f64 = 0.002;
const ROUNDS: usize = 8;

/// The squared scale of some deviations, each of mean 0, with `guess` (a squared scale) as prior.
pub fn scale(deviations: &[f64], guess: f64) -> f64 {
    let mut scale = guess.max(LEAST_SD.powi(2));
    let count = deviations.len() as f64;
    for _ in 0..ROUNDS {
        let squares: f64 =
            deviations.iter().map(|deviation| weight(*deviation, scale) * deviation.powi(2)).sum();
        scale = (squares + PRIOR_REPEATS * guess) / (count + PRIOR_REPEATS);
        scale = scale.max(LEAST_SD.powi(2));
    }
    scale
}

/// What the variance of a weighted mean is of: Fisher's information of the distribution's middle
/// makes it larger than the squared scale.
pub const SPREAD: f64 = (NU + 3.0) / (NU + 1.0);

/// What a trial counts that is off by this much, where the squared scale is `scale`.
pub fn weight(deviation: f64, scale: f64) -> f64 {
    (NU + 1.0) / (NU + deviation.powi(2) / scale)
}

/// The squared scale of deviations by their median size, which half of them may spoil; `None` of
/// fewer than three.
pub fn median_scale(deviations: &[f64]) -> Option<f64> {
    if deviations.len() < 3 {
        return None;
    }
    let mut sizes: Vec<f64> = deviations.iter().map(|deviation| deviation.abs()).collect();
    sizes.sort_by(f64::total_cmp);
    // The median size of a normal deviation is 0.6745 of its standard deviation.
    Some((sizes[sizes.len() / 2] / 0.6745).powi(2))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::RandomStream;

    #[test]
    fn the_scale_of_normal_deviations_is_found_and_outliers_hardly_move_it() {
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
    fn without_deviations_the_guess_stands() {
        assert!((scale(&[], 0.04) - 0.04).abs() < 1e-12);
        assert_eq!(median_scale(&[0.1]), None);
    }
}
