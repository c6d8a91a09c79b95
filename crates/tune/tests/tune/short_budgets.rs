//! Searches with short budgets of time, replayed from a recorded grid: trials of its setups differ
//! in time, so what a budget allows changes while the search goes on.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use flashfit_filesystem::{Durability, FileSystemCatalog, Setup};
use flashfit_search::{Purpose, SearchEnd};
use flashfit_tune::replay::{Recording, ReplayRequest, Replayed, replay};
use flashfit_tune::{Budget, DriverRules, RunEnd, StrategyKind};

const BUDGET_NS: u64 = 60_000_000_000;
const WORKLOADS: [&str; 2] = ["sync-files", "create-read-delete"];

fn grid(into: &Path) -> Recording {
    let archive =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/grids/usd-a2-cq.tar.gz");
    let tar = Command::new("tar").arg("-xzf").arg(&archive).arg("-C").arg(into).status();
    assert!(tar.unwrap().success(), "{} does not unpack", archive.display());
    let entries = std::fs::read_dir(into).unwrap();
    let mut runs: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    runs.sort();
    Recording::read(&runs).unwrap()
}

fn searched(recording: &Recording, catalog: &FileSystemCatalog, seed: u64) -> Replayed {
    let limits = Budget { budget_ns: Some(BUDGET_NS), ..Budget::default() };
    let strategy = StrategyKind::Adaptive;
    let request = ReplayRequest {
        rules: DriverRules { strategy, repeats: 1, confirm_rounds: 0, limits, seed, short: true },
        judge: recording.judge,
        workloads: WORKLOADS.map(str::to_owned).to_vec(),
        weight: &|_: &str| 1.0,
        allow: Durability::Safe,
        wanted: &|_: &Setup| true,
        life: None,
        prior: None,
    };
    replay(recording, &request, catalog).unwrap()
}

#[test]
fn a_budget_is_spent_but_for_a_trial_or_a_round() {
    let folder = tempfile::tempdir().unwrap();
    let recording = grid(folder.path());
    let catalog = FileSystemCatalog::load(None).unwrap();
    let mut without_a_round = 0;
    for seed in 1..=20 {
        let found = searched(&recording, &catalog, seed);
        if matches!(found.ended, RunEnd::Search(SearchEnd::Confident { .. })) {
            continue;
        }
        let times = || found.costs.iter().map(|cost| cost.time_ns);
        let left = BUDGET_NS.saturating_sub(times().sum());
        let confirming = found.history.iter().map(|trial| trial.proposal);
        let confirming = confirming.filter(|made| made.purpose == Purpose::Confirm);
        let raced: BTreeSet<usize> = confirming.map(|made| made.candidate).collect();
        without_a_round += u32::from(raced.is_empty());
        let most = (raced.len() * WORKLOADS.len()).max(1) as u64;
        let longest = times().max().unwrap();
        assert!(left < most * longest, "seed {seed}: {left} ns left, {longest} ns a trial");
    }
    assert!(without_a_round > 0, "every search had time for a round");
}
