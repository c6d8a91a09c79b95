//! Unit tests of what extends a run.

use std::path::Path;

use clap::Parser;
use flashfit_tune::StoredRun;

use super::*;

#[derive(Parser)]
struct Given {
    #[command(flatten)]
    tune: TuneArgs,
}

/// The limits of a recorded run with so many trials, extended by these arguments.
fn limits(before: &Budget, more: &[&str]) -> Result<(Budget, bool), CommandError> {
    let run = concat!(env!("CARGO_MANIFEST_DIR"), "/../tune/tests/runs/v1-sim-adaptive");
    let StoredRun { header, trials } = StoredRun::read(Path::new(run)).unwrap();
    let spec = RunSpec { limits: before.clone(), ..header.spec };
    let given = Given::parse_from([&["tune", "--resume", "run"], more].concat());
    let phase = spec.phase;
    let extended = extended(&given.tune, spec, &trials)?;
    Ok((extended.limits, extended.phase != phase))
}

#[test]
fn what_was_spent_cannot_be_taken_away() {
    let timed = Budget { budget_ns: Some(1_800_000_000_000), ..Budget::default() };
    for less in [["--trials", "5"], ["--max-write", "1MiB"], ["--budget", "1s"]] {
        let error = limits(&timed, &less).unwrap_err();
        assert!(error.message().contains("is less than the "), "{less:?}: {error:?}");
    }
    // 15 trials were made: a few more are not enough to search again and to confirm.
    for (trials, searches_again) in [("16", false), ("40", true)] {
        let (limits, again) = limits(&timed, &["--trials", trials]).unwrap();
        assert_eq!((limits.budget_ns, again), (None, searches_again), "{trials}");
    }
}
