//! What the Pandora seed found on a real card, on a simulated one of its class, as far as it can be
//! counted: on a partition that starts off the erase block, small synced files cost more flash than
//! on one that starts on it.
//!
//! The card is block-mapped with pages of 16 KiB. From sector 63 on, where partitioning tools once
//! began, every fourth block of 4 KiB lies across two pages, and both are written for it. What it
//! costs in time is for `make findings`.

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

/// The write amplification of the untuned ext4 on a partition that starts there, in thousandths,
/// trial by trial.
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

/// The first number of that name, wherever it is.
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
fn a_start_off_the_erase_unit_costs_more_flash_at_small_synced_files() {
    if skip(simulated_cards()) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let on = amplifications(folder.path(), "4MiB");
    let off = amplifications(folder.path(), "63s");
    println!("write amplification in thousandths: on the erase unit {on:?}, at sector 63 {off:?}");
    assert!(off.iter().min() > on.iter().max(), "on the erase unit {on:?}, at sector 63 {off:?}");
}
