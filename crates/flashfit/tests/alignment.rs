//! What the Pandora seed found on a real card, on a simulated one of its class: a partition that
//! starts off the erase unit makes small synced files slower than one that starts on it.
//!
//! The card is block-mapped with pages of 16 KiB. From sector 63 on, where partitioning tools once
//! began, every fourth block of 4 KiB lies across two pages, and both are written for it.

use std::path::Path;
use std::process::Command;

use flashfit_host::capability;

const CONFIG: &str = r#"
device = "sim:sd-c4-block"
filesystems = ["ext4"]
workloads = ["sync-files"]
schedulers = ["none"]
repeats = 3
confirm_rounds = 0
[options.ext4]
exclude = ["noatime", "discard", "nojournal", "fast_commit", "writeback", "geometry"]
"#;

/// The interval of the untuned ext4's merit, in thousandths, on a partition that starts there.
fn merit(folder: &Path, start: &str) -> (i64, i64) {
    let config = folder.join("config.toml");
    std::fs::write(&config, CONFIG).expect("the folder is writable");
    let dir = folder.join(start);
    let flashfit = |args: &[&str]| {
        let output = Command::new(env!("CARGO_BIN_EXE_flashfit")).args(args).output();
        let output = output.expect("the binary was built");
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{args:?}: {errors}");
        String::from_utf8(output.stdout).expect("text")
    };
    let (config, dir) = (config.display().to_string(), dir.display().to_string());
    flashfit(&["tune", "--config", &config, "--start", start, "--dir", &dir]);
    let rankings: serde_json::Value =
        serde_json::from_str(&flashfit(&["analyze", &dir, "--json"])).expect("one JSON document");
    let row = &rankings["data"][0]["rows"][0];
    assert_eq!(row["trials"], 3);
    let thousandths = |key: &str| row[key].as_i64().expect("three trials have an interval");
    (thousandths("low_thousandths"), thousandths("high_thousandths"))
}

#[test]
fn a_start_off_the_erase_unit_is_slower_at_small_synced_files() {
    if let Some(reason) = capability::missing_for_simulated_cards() {
        println!("skipped: {reason}");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let (on_low, on_high) = merit(folder.path(), "4MiB");
    let (off_low, off_high) = merit(folder.path(), "63s");
    println!("on the erase unit {on_low}..{on_high}, at sector 63 {off_low}..{off_high}");
    assert!(off_high < on_low, "at sector 63 {off_low}..{off_high}, on it {on_low}..{on_high}");
}
