//! How the times of a card vary: jitter on every request, and rare stalls.
//!
//! A generator of its own, so that nothing but times depends on it. Limits: every delay is drawn
//! by itself (stalls of real cards come in clusters, after much writing), and jitter is spread
//! evenly.

use flashfit_device::random::Random;
use serde::{Deserialize, Serialize};

use crate::model::NoiseModel;

/// The noise of a card.
#[derive(Debug, Serialize, Deserialize)]
pub struct CardNoise {
    model: NoiseModel,
    random: Random,
}

/// What a request takes longer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Delay {
    /// By how much, in nanoseconds.
    pub delay_ns: u64,
    /// Whether a stall is part of it.
    pub stalled: bool,
}

impl CardNoise {
    /// From its seed.
    pub fn new(model: &NoiseModel) -> Self {
        Self { model: model.clone(), random: Random::new(model.seed) }
    }

    /// The delay of a request that takes `time_ns` without it.
    pub fn delay(&mut self, time_ns: u64) -> Delay {
        let most_ns = u128::from(time_ns) * u128::from(self.model.jitter_thousandths) / 1000;
        let most_ns = u64::try_from(most_ns).unwrap_or(u64::MAX - 1).min(u64::MAX - 1);
        let jitter_ns = if most_ns == 0 { 0 } else { self.random.below(most_ns + 1) };
        let every = u64::from(self.model.stall_every);
        let stalled = every > 0 && self.random.below(every) == 0;
        let stall_ns = if stalled { self.model.stall_ns } else { 0 };
        Delay { delay_ns: jitter_ns.saturating_add(stall_ns), stalled }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_stay_within_what_the_model_says_and_repeat_by_seed() {
        let model =
            NoiseModel { seed: 7, jitter_thousandths: 100, stall_every: 50, stall_ns: 9000 };
        let draw = || {
            let mut noise = CardNoise::new(&model);
            (0..5000).map(|_| noise.delay(1000)).collect::<Vec<_>>()
        };
        let delays = draw();
        assert_eq!(delays, draw());
        let (stalls, calm): (Vec<Delay>, Vec<Delay>) = delays.iter().partition(|d| d.stalled);
        assert!((60..=140).contains(&stalls.len()), "{}", stalls.len());
        assert!(calm.iter().all(|delay| delay.delay_ns <= 100));
        assert_eq!(calm.iter().map(|delay| delay.delay_ns).max(), Some(100));
        assert!(stalls.iter().all(|delay| (9000..=9100).contains(&delay.delay_ns)));
    }

    #[test]
    fn no_jitter_is_no_delay() {
        let model = NoiseModel { seed: 7, jitter_thousandths: 0, stall_every: 0, stall_ns: 9000 };
        assert_eq!(CardNoise::new(&model).delay(1000), Delay { delay_ns: 0, stalled: false });
    }
}
