//! Sessions without any change are not slowdowns: the recorded grids, three sessions for each card.

use std::path::{Path, PathBuf};

use flashfit_host::{Program, Runner as _, SystemRunner};
use flashfit_tune::Criterion;
use flashfit_tune::compare::{
    CompareRequest, ComparedRun, RunComparison, SessionSpread, SlowdownCheck,
};

/// The cards, and whether their grids are large enough for their noise to be small.
const CARDS: [(&str, bool); 4] =
    [("emmc-5.1", true), ("sd-c4-block", false), ("usd-a2-cq", true), ("usd-a2-cq-unsafe", true)];

fn sessions(folder: &Path, card: &str) -> [PathBuf; 3] {
    let grids = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/grids");
    let tar = Program::new("tar").arg("-xzf").arg(grids.join(format!("{card}.tar.gz")));
    SystemRunner::default().run_checked(&tar.arg("-C").arg(folder)).unwrap();
    [1, 2, 3].map(|number| folder.join(format!("{card}-{number}")))
}

fn compared(runs: Vec<ComparedRun>, wants_workload: &dyn Fn(&str) -> bool) -> RunComparison {
    let by = Criterion::Throughput;
    let request = CompareRequest { by, wants_setup: &|_| true, wants_workload };
    RunComparison::of(runs, &request).unwrap()
}

fn read(dir: &Path) -> ComparedRun {
    ComparedRun::read(dir).unwrap()
}

#[test]
fn the_sessions_that_differ_most_are_not_a_slowdown() {
    let folder = tempfile::tempdir().unwrap();
    for (card, first, other) in [("usd-a2-cq", 1, 0), ("usd-a2-cq-unsafe", 0, 2)] {
        let dirs = sessions(folder.path(), card);
        let runs = vec![read(&dirs[first]), read(&dirs[other])];
        let wants = |name: &str| ["database", "sync-files"].contains(&name);
        let comparison = compared(runs, &wants);
        let check = |spread| SlowdownCheck::of(&comparison, -(0.98_f64.ln()), spread);
        assert!(!check(SessionSpread::NONE).slowdowns.is_empty(), "{card}: the runs differ");
        let check = check(SessionSpread::default());
        assert!(check.untested.is_empty(), "{card}: {check:?}");
        assert!(check.slowdowns.is_empty(), "{card}: {check:?}");
    }
}

#[test]
#[ignore = "full: compares twelve large grids"]
fn sessions_of_one_card_are_not_slowdowns() {
    let folder = tempfile::tempdir().unwrap();
    let mut largest = 0.0_f64;
    for (card, is_large) in CARDS {
        let runs = sessions(folder.path(), card).map(|dir| read(&dir));
        let (mut squares, mut count) = (0.0, 0.0);
        for first in 0..3 {
            let order = [first, (first + 1) % 3, (first + 2) % 3];
            let comparison = compared(order.map(|index| runs[index].clone()).to_vec(), &|_| true);
            let check = SlowdownCheck::of(&comparison, 0.0, SessionSpread::default());
            assert!(check.untested.is_empty(), "{card}: {:?}", check.untested);
            assert!(check.slowdowns.is_empty(), "{card}: {:?}", check.slowdowns);
            let workloads = comparison.pairs.iter().flat_map(|pair| &pair.workloads);
            for found in workloads.filter_map(|workload| workload.difference.as_ref()) {
                squares += found.log.powi(2) - found.error.unwrap().log.powi(2);
                count += 1.0;
            }
        }
        if is_large {
            largest = largest.max((squares.max(0.0) / count).sqrt());
        }
    }
    let default = SessionSpread::default().log();
    assert!(0.8 * default < largest && largest <= default, "{largest}, default {default}");
}

#[test]
fn a_slowdown_of_20_percent_between_sessions_is_found() {
    let folder = tempfile::tempdir().unwrap();
    let [first, other, _] = sessions(folder.path(), "usd-a2-cq");
    let text = std::fs::read_to_string(other.join("trials.jsonl")).unwrap();
    let slower = text.lines().fold(String::new(), |text, line| {
        let mut trial: serde_json::Value = serde_json::from_str(line).unwrap();
        slow_down(&mut trial);
        format!("{text}{trial}\n")
    });
    std::fs::write(other.join("trials.jsonl"), slower).unwrap();
    let wants = |name: &str| ["database", "sync-files"].contains(&name);
    let comparison = compared(vec![read(&first), read(&other)], &wants);
    let limit = -(0.95_f64.ln());
    let found = |spread| SlowdownCheck::of(&comparison, limit, spread).slowdowns;
    let slowdowns = found(SessionSpread::default());
    assert!(slowdowns.iter().any(|slower| slower.workload.is_none()), "{slowdowns:?}");
    let unsteady = found(SessionSpread::of_share(0.3));
    assert!(unsteady.is_empty(), "sessions differ by more: {unsteady:?}");
}

/// Takes a fifth of the speed.
fn slow_down(value: &mut serde_json::Value) {
    match value {
        serde_json::Value::Object(map) => {
            for (key, value) in map {
                let is_speed = key == "bytes_per_second" || key.starts_with("operations_per_s");
                match value.as_u64() {
                    Some(speed) if is_speed => *value = (speed * 8 / 10).into(),
                    _ => slow_down(value),
                }
            }
        }
        serde_json::Value::Array(list) => list.iter_mut().for_each(slow_down),
        _ => {}
    }
}
