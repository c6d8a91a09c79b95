//! Random numbers of the search, the same on every machine. A seed and a number select a stream, so
//! each batch has its own stream.

use flashfit_numbers::SplitMix64;

/// A stream of random numbers.
#[derive(Debug, Clone)]
pub struct RandomStream(SplitMix64);

impl RandomStream {
    pub fn new(seed: u64) -> Self {
        let mut random = Self(SplitMix64::new(seed));
        random.next_u64();
        random
    }

    /// A numbered stream of a seed; different numbers give independent streams.
    pub fn stream(seed: u64, number: u64) -> Self {
        let mut random = SplitMix64::new(seed ^ number.wrapping_mul(0xd134_2543_de82_ef95));
        let state = random.next_u64() ^ number;
        Self::new(state)
    }

    /// The stream for what is decided after this many trials.
    pub fn of_history(seed: u64, trials: usize) -> Self {
        Self::stream(seed, trials as u64 + 1)
    }

    pub fn next_u64(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// Uniform in [0, 1).
    pub fn unit(&mut self) -> f64 {
        (self.next_u64() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Uniform in [0, `bound`); `bound` is above 0.
    pub fn below(&mut self, bound: usize) -> usize {
        ((u128::from(self.next_u64()) * bound as u128) >> 64) as usize
    }

    /// Standard normal (Box-Muller).
    pub fn normal(&mut self) -> f64 {
        let radius = (-2.0 * (1.0 - self.unit()).ln()).sqrt();
        radius * (std::f64::consts::TAU * self.unit()).cos()
    }

    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            let other = self.below(last + 1);
            items.swap(last, other);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_and_normals_have_their_moments() {
        let mut random = RandomStream::new(1);
        let units: Vec<f64> = (0..20_000).map(|_| random.unit()).collect();
        let normals: Vec<f64> = (0..20_000).map(|_| random.normal()).collect();
        let mean = |values: &[f64]| values.iter().sum::<f64>() / 20_000.0;
        let square = |values: &[f64]| values.iter().map(|v| v * v).sum::<f64>() / 20_000.0;
        assert!((mean(&units) - 0.5).abs() < 0.01);
        assert!((square(&units) - 1.0 / 3.0).abs() < 0.01);
        assert!(mean(&normals).abs() < 0.03);
        assert!((square(&normals) - 1.0).abs() < 0.04);
    }

    #[test]
    fn streams_differ_and_repeat() {
        let draw = |seed, number| RandomStream::stream(seed, number).next_u64();
        assert_eq!(draw(1, 2), draw(1, 2));
        assert_ne!(draw(1, 2), draw(2, 1));
        assert_ne!(draw(1, 2), draw(1, 3));
    }

    #[test]
    fn below_reaches_all_and_no_more() {
        let mut random = RandomStream::new(3);
        let mut seen = [false; 7];
        for _ in 0..200 {
            seen[random.below(7)] = true;
        }
        assert_eq!(seen, [true; 7]);
    }
}
