//! The lines of a run that somebody else made: they can be ranked and written again.

#![no_main]

use flashfit_tune::{Criterion, MeritResults, TrialRecord, analysis};
use libfuzzer_sys::{fuzz_mutator, fuzz_target};

fuzz_mutator!(|data: &mut [u8], size: usize, max_size: usize, seed: u32| {
    flashfit_fuzz::mutate(&mut data[..max_size], size, seed)
});

fuzz_target!(|text: &str| {
    let trials: Vec<TrialRecord> =
        text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    let Some(first) = trials.first() else { return };
    let workloads = [first.key.workload.clone()];
    let filesystems = [first.key.setup.filesystem.clone()];
    let results = MeritResults::of(&trials, &workloads);
    for by in [Criterion::Throughput, Criterion::Latency] {
        assert_eq!(analysis::rankings(&results, &filesystems, by).len(), 2);
    }
    let line = serde_json::to_string(first).expect("a record is plain data");
    serde_json::from_str::<TrialRecord>(&line).expect("a record that was written");
});
