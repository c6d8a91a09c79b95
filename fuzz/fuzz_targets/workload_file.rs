//! Workload files: what is accepted has points for both profiles, and its time can be estimated
//! for any plan that is not refused.

#![no_main]

use flashfit_bench::plan::Points;
use flashfit_bench::{PointProfile, RunPlan, Workload, estimate_ns};
use flashfit_catalog::{CatalogEntry, Origin};
use libfuzzer_sys::{fuzz_mutator, fuzz_target};

fuzz_mutator!(|data: &mut [u8], size: usize, max_size: usize, seed: u32| {
    flashfit_fuzz::mutate(&mut data[..max_size], size, seed)
});

fuzz_target!(|text: &str| {
    let origin = Origin::File("workload.fio".into());
    let entry = CatalogEntry { name: "workload".into(), text: text.to_owned(), origin };
    let Ok(workload) = Workload::parse(&entry) else { return };
    for profile in [PointProfile::Quick, PointProfile::Standard] {
        assert!(!workload.points(profile).is_empty());
        for bytes in [16 << 20, 1 << 40, u64::MAX] {
            let plan = RunPlan {
                points: Points::Profile(profile),
                data_size_bytes: bytes,
                memory_bytes: bytes,
                runtime_ns: bytes,
                seed: 1,
                scratch: "scratch".into(),
            };
            assert_eq!(plan.points(&workload).is_ok(), estimate_ns(&workload, &plan).is_ok());
        }
    }
});
