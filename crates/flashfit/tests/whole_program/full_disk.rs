//! A run directory on a full disk: the run stops with an error, keeps all complete records, and can
//! be resumed when there is space.

use flashfit_host::{Program, ProgramOutcome, Runner, SystemRunner};
use serde_json::Value;

use crate::fixture::{FLASHFIT, Place, skip_without_cards};
use crate::machine::wait_for_no_traces;

/// Starts a run in a file system of `kib` KiB, frees space, and resumes it. Copies the run
/// directory before and after. Prints both exit codes.
const SCRIPT: &str = r#"
mkdir disk && mount -t tmpfs -o size=$KIB"k" tmpfs disk || exit 99
"$FLASHFIT" tune "sim:$PWD/card.toml" --config short.toml --dir disk/run --repeats $REPEATS \
    --progress never
echo "first $?"
rm -rf before after
[ ! -e disk/run ] || cp -a disk/run before
mount -o remount,size=16m disk
if [ -e disk/run/run.json ]; then
    "$FLASHFIT" tune --resume disk/run --progress never > resumed 2>&1
    echo "second $?"
    cp -a disk/run after
fi
"#;

fn run_on_a_disk_of(place: &Place, kib: u32, repeats: u32) -> ProgramOutcome {
    let script = format!("cd {} && {SCRIPT}", place.folder().display());
    let program = Program::new("unshare")
        .args(["--mount", "sh", "-c", &script])
        .env("KIB", kib.to_string())
        .env("REPEATS", repeats.to_string())
        .env("FLASHFIT", FLASHFIT);
    SystemRunner::default().run(&program).unwrap()
}

fn trials(place: &Place, folder: &str) -> Vec<String> {
    let text = std::fs::read_to_string(place.path(folder).join("trials.jsonl")).unwrap();
    assert!(text.is_empty() || text.ends_with('\n'), "the last line is torn");
    text.lines().map(str::to_owned).collect()
}

#[test]
fn a_disk_that_fills_up_during_a_run_is_reported() {
    if skip_without_cards() {
        return;
    }
    // Enough for the header and some trials; the exact moment differs.
    for kib in [60, 80] {
        let place = Place::new();
        let outcome = run_on_a_disk_of(&place, kib, 4);
        assert!(outcome.stdout.contains("first 4\n"), "{kib} KiB: {outcome:#?}");
        assert!(outcome.stderr.contains("no space left"), "{kib} KiB: {outcome:#?}");
        assert!(
            outcome.stderr.contains("make room, then: flashfit tune --resume disk/run"),
            "{outcome:#?}"
        );
        let before = trials(&place, "before");
        for line in &before {
            let record: Value = serde_json::from_str(line).unwrap();
            assert!(record["outcome"]["completed"].is_object(), "blamed on the setup: {line}");
        }
        let resumed = std::fs::read_to_string(place.path("resumed")).unwrap();
        assert!(outcome.stdout.contains("second 0\n"), "{kib} KiB: {outcome:#?}\n{resumed}");
        let after = trials(&place, "after");
        assert!(after.starts_with(&before) && after.len() > before.len());
        assert!(place.path("after/report.html").exists());
        let raw = std::fs::read_dir(place.path("after/fio")).unwrap().flatten();
        let parts = raw.filter(|entry| entry.path().extension().is_some_and(|part| part == "part"));
        assert_eq!(parts.count(), 0, "a draft is left");
        wait_for_no_traces(&place, None);
    }
}

#[test]
fn a_disk_that_is_full_at_the_start_is_reported() {
    if skip_without_cards() {
        return;
    }
    let place = Place::new();
    let outcome = run_on_a_disk_of(&place, 4, 1);
    assert!(outcome.stdout.contains("first 4\n"), "{outcome:#?}");
    assert!(outcome.stderr.to_lowercase().contains("no space left"), "{outcome:#?}");
    assert!(outcome.stderr.contains("hint: make room"), "{outcome:#?}");
    wait_for_no_traces(&place, None);
}

/// A sparse image in a file system that is too small for it.
const PROBE: &str = r#"
mkdir disk && mount -t tmpfs -o size=5m tmpfs disk && truncate -s 64M disk/image || exit 99
"$FLASHFIT" probe disk/image --write --confirm image
"#;

#[test]
fn a_full_disk_under_a_probed_image_is_reported() {
    if skip_without_cards() {
        return;
    }
    let place = Place::new();
    let script = format!("cd {} && {PROBE}", place.folder().display());
    let program =
        Program::new("unshare").args(["--mount", "sh", "-c", &script]).env("FLASHFIT", FLASHFIT);
    let outcome = SystemRunner::default().run(&program).unwrap();
    assert_eq!(outcome.code, Some(4), "as a run: {outcome:#?}");
    assert!(outcome.stderr.contains("hint: "), "{outcome:#?}");
    assert!(outcome.stderr.contains("free space there"), "{outcome:#?}");
}

#[test]
fn an_answer_whose_report_cannot_be_written_is_shown() {
    if skip_without_cards() {
        return;
    }
    let place = Place::new();
    let ended = place.tune(&place.card(), &[]);
    assert_eq!(ended.code, Some(0), "{ended:#?}");
    std::fs::remove_file(place.path("run/report.html")).unwrap();
    std::fs::create_dir(place.path("run/report.html")).unwrap();
    let text = place.flashfit(&["tune", "--resume", "run"]);
    assert_ne!(text.code, Some(0), "{text:#?}");
    assert!(text.stdout.contains("The search ended"), "{text:#?}");
    assert!(!text.stdout.contains("Report: "), "{text:#?}");
    assert!(text.stderr.contains("report.html") && text.stderr.contains("hint: "), "{text:#?}");
    let json = place.flashfit(&["tune", "--resume", "run", "--json"]);
    assert_eq!(json.code, text.code, "{json:#?}");
    let document: Value = serde_json::from_str(&json.stdout).unwrap();
    assert_eq!(document["data"]["report"], Value::Null, "{document}");
    assert!(document["data"]["verdict"].is_string(), "{document}");
}

#[test]
fn a_run_directory_without_write_permission_is_reported() {
    if skip_without_cards() {
        return;
    }
    let place = Place::new();
    place.file("run", "not a directory");
    let ended = place.tune(&place.card(), &[]);
    assert!(matches!(ended.code, Some(2 | 4)), "{ended:#?}");
    assert!(ended.stderr.contains("run"), "{ended:#?}");
    assert!(!ended.stderr.contains("run it as root"), "it runs as root: {ended:#?}");
    wait_for_no_traces(&place, None);
}

#[test]
fn a_full_disk_under_an_aged_card_is_reported_with_a_hint() {
    if skip_without_cards() {
        return;
    }
    let place = Place::new();
    let script = format!(
        "cd {} && mkdir disk && mount -t tmpfs -o size=64k tmpfs disk || exit 99\n\
         \"$FLASHFIT\" wear age usd-a1-pagemap --fs ext4 --usage kiosk --years 0.01 --save disk/x",
        place.folder().display()
    );
    let program =
        Program::new("unshare").args(["--mount", "sh", "-c", &script]).env("FLASHFIT", FLASHFIT);
    let outcome = SystemRunner::default().run(&program).unwrap();
    assert_eq!(outcome.code, Some(4), "{outcome:#?}");
    assert!(outcome.stdout.contains("Simulated aging"), "{outcome:#?}");
    assert!(outcome.stderr.contains("hint: make room there (df -h disk)"), "{outcome:#?}");
}
