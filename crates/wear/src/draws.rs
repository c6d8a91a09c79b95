//! Random draws for the Monte Carlo simulation, equal on every machine: only sums, products and
//! divisions, which IEEE 754 defines exactly.

use flashfit_device::random::Random;

/// Terms of the exponential series; enough for |x| <= 3.
const TERMS: u32 = 40;
/// The 95 % quantile of the standard normal distribution.
pub const Q95: f64 = 1.644_853_626_951;

/// Uniform in [0, 1).
pub fn uniform(random: &mut Random) -> f64 {
    (random.next_u64() >> 11) as f64 / (1_u64 << 53) as f64
}

/// Approximately standard normal: the sum of twelve uniform numbers (Irwin and Hall), within -6
/// to 6.
pub fn normal(random: &mut Random) -> f64 {
    (0..12).map(|_| uniform(random)).sum::<f64>() - 6.0
}

/// e^x for |x| of a few units.
pub fn exp(x: f64) -> f64 {
    let mut term = 1.0;
    let mut sum = 1.0;
    for number in 1..TERMS {
        term *= x / f64::from(number);
        sum += term;
    }
    sum
}

/// The quantile of sorted values, between the two nearest.
pub fn quantile(sorted: &[f64], share: f64) -> f64 {
    let place = share * (sorted.len() - 1) as f64;
    let below = place as usize;
    let above = (below + 1).min(sorted.len() - 1);
    sorted[below] + (sorted[above] - sorted[below]) * (place - below as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn normal_numbers_have_mean_0_variance_1_and_the_usual_quantiles() {
        let mut random = Random::new(3);
        let mut drawn: Vec<f64> = (0..40_000).map(|_| normal(&mut random)).collect();
        let mean = drawn.iter().sum::<f64>() / 40_000.0;
        let variance = drawn.iter().map(|x| (x - mean) * (x - mean)).sum::<f64>() / 40_000.0;
        assert!(mean.abs() < 0.02 && (variance - 1.0).abs() < 0.03, "{mean} {variance}");
        drawn.sort_by(f64::total_cmp);
        assert!((quantile(&drawn, 0.95) - Q95).abs() < 0.05);
    }

    #[test]
    fn the_exponential_matches_the_library() {
        for x in [-3.0_f64, -0.5, 0.0, 0.1, 2.5] {
            assert!((exp(x) / x.exp() - 1.0).abs() < 1e-12);
        }
    }
}
