//! Random order and seeds of trials. Both are functions of the run's seed, so a resumed run makes
//! the same trials in the same order.

use flashfit_device::random::Random;
use flashfit_numbers::fnv1a;

use crate::record::{TrialKey, TrialPurpose};

pub fn shuffled<T>(mut items: Vec<T>, seed: u64, round: u32) -> Vec<T> {
    let stream = fnv1a(format!("confirm/{round}").as_bytes());
    Random::new(seed ^ stream).shuffle(&mut items);
    items
}

/// The seed of a trial. Setups share it within a repeat, so they get the same access pattern.
pub fn trial_seed(seed: u64, key: &TrialKey) -> u64 {
    // The names are part of the seed: changing one changes the trials of recorded seeds.
    let purpose = match key.purpose {
        TrialPurpose::Search => "Search",
        TrialPurpose::Baseline => "Sentinel",
        TrialPurpose::Confirm => "Confirm",
        TrialPurpose::Overlap => "Overlap",
    };
    let text = format!("{purpose}/{}/{}", key.workload, key.repeat);
    // fio accepts at most 63 bits.
    Random::new(seed ^ fnv1a(text.as_bytes())).next_u64() >> 1
}
