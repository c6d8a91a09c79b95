//! The order of trials, and their seeds: random, interleaved, and a function of the seed alone, so
//! that a resumed run makes the same trials in the same order.

use flashfit_medium::random::Random;

use crate::record::TrialKey;

/// Orders trials by repeat, and at random within a repeat: drift then touches all setups alike.
pub fn interleave(keys: &mut [TrialKey], seed: u64) {
    keys.sort_by_cached_key(|key| (key.repeat, rank(seed, key)));
}

/// The seed of a trial's own randomness. Setups share it within a repeat, so that they are given
/// the same accesses to make.
pub fn trial_seed(seed: u64, key: &TrialKey) -> u64 {
    let text = format!("{:?}/{}/{}", key.purpose, key.workload, key.repeat);
    // fio takes 63 bits at the most.
    Random::new(seed ^ hash(text.as_bytes())).next_u64() >> 1
}

fn rank(seed: u64, key: &TrialKey) -> u64 {
    let text = serde_json::to_string(key).expect("a key is plain data");
    Random::new(seed ^ hash(text.as_bytes())).next_u64()
}

/// FNV-1a, 64 bits.
fn hash(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    })
}
