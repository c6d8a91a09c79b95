//! Random variation of a card's times: jitter on every request, and rare stalls.
//!
//! It has its own generator, so that it affects nothing but times. Limits: delays are independent,
//! while stalls of real cards cluster after much writing; jitter is uniform.

use flashfit_device::random::Random;
use serde::{Deserialize, Serialize};

use crate::model::NoiseModel;

#[derive(Debug, Serialize, Deserialize)]
pub struct CardNoise {
    model: NoiseModel,
    random: Random,
}

/// The additional time of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Delay {
    pub delay_ns: u64,
    /// Whether it includes a stall.
    pub stalled: bool,
}

impl CardNoise {
    pub fn new(model: &NoiseModel) -> Self {
        Self { model: model.clone(), random: Random::new(model.seed) }
    }

    /// The delay of a request that takes `time_ns` without noise.
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
    fn delays_stay_within_the_model_and_repeat_by_seed() {
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
    fn without_jitter_there_is_no_delay() {
        let model = NoiseModel { seed: 7, jitter_thousandths: 0, stall_every: 0, stall_ns: 9000 };
        assert_eq!(CardNoise::new(&model).delay(1000), Delay { delay_ns: 0, stalled: false });
    }
}
