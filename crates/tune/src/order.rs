//! Order and seeds of trials: random, and a function of the seed alone, so that a resumed run makes
//! the same trials in the same order.

use flashfit_device::random::Random;
use flashfit_numbers::fnv1a;

use crate::record::TrialKey;

/// Items in a random order that belongs to the seed and the round.
pub fn shuffled<T>(mut items: Vec<T>, seed: u64, round: u32) -> Vec<T> {
    let stream = fnv1a(format!("confirm/{round}").as_bytes());
    Random::new(seed ^ stream).shuffle(&mut items);
    items
}

/// The seed of a trial's own randomness. Setups share it within a repeat, so that they are given
/// the same accesses to make.
pub fn trial_seed(seed: u64, key: &TrialKey) -> u64 {
    let text = format!("{:?}/{}/{}", key.purpose, key.workload, key.repeat);
    // fio takes 63 bits at the most.
    Random::new(seed ^ fnv1a(text.as_bytes())).next_u64() >> 1
}
