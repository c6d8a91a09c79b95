//! A device that disappears or fails during a run: exit code 5, nothing left behind, and the run
//! can be resumed when the device is back.

use std::time::Duration;

use flashfit_host::error_trace::ErrorTrace;
use flashfit_host::{Program, ProgramOutcome, Runner, SystemRunner};
use rustix::process::Signal;
use serde_json::Value;

use crate::fixture::{
    Ended, FLASHFIT, Place, skip_without_block_devices, skip_without_cards, wait_until,
};
use crate::machine::{Server, is_mounted, signal, wait_for_no_traces};

#[track_caller]
fn all_completed(recorded: &[String]) {
    for line in recorded {
        let record: Value = serde_json::from_str(line).unwrap();
        assert!(record["outcome"]["completed"].is_object(), "blamed on the setup: {line}");
    }
}

#[test]
fn a_card_that_disappears_while_mounted_is_reported() {
    vanishes(true);
}

#[test]
fn a_card_that_disappears_between_mounts_is_reported() {
    vanishes(false);
}

fn vanishes(while_mounted: bool) {
    if skip_without_cards() {
        return;
    }
    let place = Place::new();
    let child = place.start_long_run();
    let server = Server::of(&place);
    place.wait_for_trials(2);
    let point = place.path("run/mnt");
    wait_until("its file system is mounted or not", || {
        is_mounted(child.id(), &point) == while_mounted
    });
    signal(server.process, Signal::KILL);
    let ended = Ended::of(child);
    ended.said(5, &["the device disappeared", "flashfit tune --resume run"]);
    wait_for_no_traces(&place, Some(&server));
    let before = place.recorded();
    all_completed(&before);
    place.shorten_run(2);
    place.flashfit(&["tune", "--resume", "run", "--progress", "never"]).said(0, &[]);
    let after = place.recorded();
    assert!(after.starts_with(&before) && after.len() >= before.len());
    all_completed(&after);
    wait_for_no_traces(&place, None);
}

/// A device over a sparse file on a full disk, so that writes fail.
const SCRIPT: &str = r#"
mkdir disk && mount -t tmpfs -o size=12m tmpfs disk && truncate -s 64M disk/file || exit 99
device=$(losetup --find --show disk/file) || exit 99
trap 'losetup --detach "$device"' EXIT
name=${device##*/}
"$FLASHFIT" tune "$device" --confirm "$name" --config short.toml --dir run --progress never
echo "first $?"
mount -o remount,size=80m disk
"$FLASHFIT" tune --resume run --confirm "$name" --progress never > resumed 2>&1
echo "second $?"
"#;

/// Without the tracepoint, errors are read from the kernel log, which is limited to ten lines in
/// five seconds for all devices, and other tests cause many. A missing error is blamed on the
/// setup; in that case, the test tries again.
const LOG_ATTEMPTS: usize = 3;
const LOG_IS_SILENT: Duration = Duration::from_secs(6);

#[test]
fn a_device_that_returns_errors_is_reported() {
    if skip_without_block_devices() {
        return;
    }
    let is_traced = ErrorTrace::of_disk((7, 0)).is_ok();
    let attempts = if is_traced { 1 } else { LOG_ATTEMPTS };
    for attempt in 1..=attempts {
        let (place, outcome) = run_on_a_full_disk();
        let is_missing = outcome.stderr.contains("no setup worked")
            && outcome.stderr.contains("Input/output error");
        if is_missing && attempt < attempts {
            std::thread::sleep(LOG_IS_SILENT);
            continue;
        }
        assert!(outcome.stdout.contains("first 5\n"), "{outcome:#?}");
        assert!(outcome.stderr.contains("the device returned an error"), "{outcome:#?}");
        assert!(outcome.stderr.contains("flashfit tune --resume run"), "{outcome:#?}");
        let resumed = std::fs::read_to_string(place.path("resumed")).unwrap();
        assert!(outcome.stdout.contains("second 0\n"), "{outcome:#?}\n{resumed}");
        all_completed(&place.recorded());
        let source = if is_traced { "tracepoint" } else { "kernel-log" };
        for line in place.recorded() {
            let record: Value = serde_json::from_str(&line).unwrap();
            assert_eq!(record["device_errors"]["source"], source, "{line}");
        }
        wait_for_no_traces(&place, None);
        return;
    }
}

fn run_on_a_full_disk() -> (Place, ProgramOutcome) {
    let place = Place::new();
    let short = std::fs::read_to_string(place.path("short.toml")).unwrap();
    place.file(
        "short.toml",
        &short
            .replace("data_size = \"4MiB\"", "data_size = \"32MiB\"")
            .replace("runtime_ms = 200", "runtime_ms = 5000"),
    );
    let script = format!("cd {} && {SCRIPT}", place.folder().display());
    let program =
        Program::new("unshare").args(["--mount", "sh", "-c", &script]).env("FLASHFIT", FLASHFIT);
    let outcome = SystemRunner::default().run(&program).unwrap();
    (place, outcome)
}

/// The kernel counted errors in a trial that was completed all the same.
#[test]
fn errors_in_a_completed_trial_are_shown() {
    if skip_without_block_devices() {
        return;
    }
    let place = Place::new();
    place.image("image", 64);
    let resume = ["tune", "--resume", "run", "--confirm", "image", "--progress", "never"];
    let clean = place.tune("image", &["--confirm", "image"]);
    clean.said(0, &[]);
    assert!(!clean.stdout.contains("I/O errors"), "{}", clean.stdout);
    let mut recorded = place.recorded();
    let mut record: Value = serde_json::from_str(&recorded[0]).unwrap();
    assert_eq!(record["device_errors"]["count"], 0);
    record["device_errors"] = serde_json::json!({ "source": "tracepoint", "count": 7 });
    recorded[0] = record.to_string();
    place.file("run/trials.jsonl", &(recorded.join("\n") + "\n"));
    let expected = format!(
        "The device returned I/O errors in 1 of {} completed trials (7 failed requests",
        recorded.len()
    );
    let resumed = place.flashfit(&resume);
    resumed.said(0, &[]);
    // The text is wrapped.
    let shown = resumed.stdout.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(shown.contains(&expected), "{shown}");
    let report = std::fs::read_to_string(place.path("run/report.html")).unwrap();
    assert!(report.contains(&expected), "the report does not show it");
    let document = place.flashfit(&[&resume[..], &["--json"]].concat());
    let document = document.document("flashfit.recommendation");
    assert_eq!(document["device_errors"]["trials"], 1);
    assert_eq!(document["device_errors"]["requests"], 7);
}
