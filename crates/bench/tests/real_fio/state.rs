//! Tests filling and aging of file systems, and the check of the steady state.

use flashfit_bench::plan::Points;
use flashfit_bench::state::{self, StateTools};
use flashfit_bench::{PointProfile, StartingState, StateReached, WorkloadTarget};
use flashfit_host::SystemRunner;

use crate::Test;
use crate::bed::Bed;

pub const TESTS: &[Test] = &[
    ("a_file_system_is_filled_to_its_share", a_file_system_is_filled_to_its_share),
    ("aging_keeps_the_share_and_changes_files", aging_keeps_the_share_and_changes_files),
    ("a_workload_runs_next_to_the_files_of_a_state", a_workload_runs_next_to_the_files_of_a_state),
    ("the_steady_state_is_checked_in_the_standard_profile", steady_state_is_checked),
];

fn prepare(bed: &Bed, fill_hundredths: u32, age_rounds: u32) -> StateReached {
    let runner = SystemRunner::default();
    let tools =
        StateTools { runner: &runner, scratch: &bed.plan.scratch, memory_limit: None, seed: 3 };
    let target = WorkloadTarget::Mounted(&bed.mounted, bed.node());
    state::prepare(StartingState { fill_hundredths, age_rounds, varied: false }, target, tools)
        .unwrap()
}

fn a_file_system_is_filled_to_its_share() {
    for share in [2_000, 6_000] {
        let bed = Bed::new(128);
        let reached = prepare(&bed, share, 0);
        assert!(reached.used_hundredths.abs_diff(share) < 400, "{share}: {reached:?}");
        assert!(reached.files > 100 && reached.written_bytes > 10 << 20, "{reached:?}");
    }
}

fn aging_keeps_the_share_and_changes_files() {
    let bed = Bed::new(128);
    let names = |bed: &Bed| {
        let folder = bed.mounted.point().join("flashfit-state");
        let mut folders: Vec<_> =
            std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        folders.sort();
        folders
    };
    let reached = prepare(&bed, 5_000, 2);
    assert_eq!(reached.age_rounds, 2);
    assert!(reached.used_hundredths.abs_diff(5_000) < 600, "{reached:?}");
    // The initial files and those of two rounds.
    assert_eq!(names(&bed).len(), 3);
    // Two rounds rewrite half of the files each and overwrite blocks.
    let young = prepare(&Bed::new(128), 5_000, 0);
    assert!(reached.written_bytes > young.written_bytes * 3 / 2, "{reached:?} {young:?}");
}

fn a_workload_runs_next_to_the_files_of_a_state() {
    let bed = Bed::new(128);
    let before = prepare(&bed, 4_000, 0);
    let result = bed.run("sync-files").unwrap();
    assert!(result.points[0].stages[0].write.unwrap().bytes > 0);
    assert!(bed.mounted.point().join("flashfit-state").exists() && before.files > 0);
}

fn steady_state_is_checked() {
    let mut bed = Bed::new(320);
    bed.plan.data_size_bytes = 200 << 20;
    let quick = bed.run("sync-files").unwrap();
    assert_eq!(quick.points[0].stages[0].steady, None);
    bed.plan.points = Points::Profile(PointProfile::Standard);
    bed.plan.runtime_ns = 6_000_000_000;
    let standard = bed.run("sync-files").unwrap();
    let stage = &standard.points[0].stages[0];
    let steady = stage.steady.unwrap();
    let write = stage.write.unwrap();
    // A stage of less than five seconds is not evaluated.
    assert!(steady.snia.is_some() || write.runtime_ns < 6_000_000_000, "{steady:?} {write:?}");
    assert_eq!(steady.snia.is_some(), steady.range_thousandths.is_some());
}
