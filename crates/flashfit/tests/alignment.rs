//! Reproduces the Pandora recipe's finding on a simulated card: on a partition that is not aligned
//! to an erase block, small synced files write more flash than on an aligned one.
//!
//! The card is block-mapped with pages of 16 KiB. On a partition at sector 63, the default of old
//! partitioning tools, every fourth block of 4 KiB spans two pages, and both are written. The cost
//! in time is measured by `make findings`.

use std::path::Path;
use std::process::Command;

use flashfit_test_support::{simulated_cards, skip};

const CONFIG: &str = r#"
device = "sim:sd-c4-block"
filesystems = ["ext4"]
workloads = ["sync-files"]
schedulers = ["none"]
strategy = "exhaustive"
repeats = 3
confirm_rounds = 0
fresh = true
[options.ext4]
exclude = ["noatime", "discard", "nojournal", "fast_commit", "writeback", "geometry"]
"#;

/// Write amplification of default ext4 on a partition at this start, in thousandths, per trial.
fn amplifications(folder: &Path, start: &str) -> Vec<u64> {
    let config = folder.join("config.toml");
    std::fs::write(&config, CONFIG).expect("the folder is writable");
    let dir = folder.join(start);
    let output = Command::new(env!("CARGO_BIN_EXE_flashfit"))
        .args(["tune", "--config"])
        .arg(&config)
        .args(["--start", start, "--dir"])
        .arg(&dir)
        .output()
        .expect("the binary was built");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let trials = std::fs::read_to_string(dir.join("trials.jsonl")).expect("the run's trials");
    let found: Vec<u64> = trials
        .lines()
        .map(|line| serde_json::from_str::<serde_json::Value>(line).expect("a record a line"))
        .filter_map(|trial| find(&trial, "write_amplification_thousandths"))
        .collect();
    assert_eq!(found.len(), 3, "{trials}");
    found
}

/// The first number with that key, at any depth.
fn find(value: &serde_json::Value, name: &str) -> Option<u64> {
    match value {
        serde_json::Value::Object(fields) => fields
            .get(name)
            .and_then(serde_json::Value::as_u64)
            .or_else(|| fields.values().find_map(|inner| find(inner, name))),
        serde_json::Value::Array(items) => items.iter().find_map(|inner| find(inner, name)),
        _ => None,
    }
}

#[test]
fn an_unaligned_partition_writes_more_flash_for_small_synced_files() {
    if skip(simulated_cards()) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let on = amplifications(folder.path(), "4MiB");
    let off = amplifications(folder.path(), "63s");
    println!("write amplification in thousandths: on the erase block {on:?}, at sector 63 {off:?}");
    assert!(off.iter().min() > on.iter().max(), "on the erase block {on:?}, at sector 63 {off:?}");
}
