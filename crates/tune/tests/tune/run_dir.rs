//! Run directories: locking, recovery after interruptions, and rejection of foreign ones.

use std::io::Write;
use std::path::{Path, PathBuf};

use flashfit_host::dir::{DirError, DirObstacle};
use flashfit_host::mount;
use flashfit_test_support::{AttemptKind, TestNeed, attempted, block_devices, skip};
use flashfit_tune::run_dir::RunDirError;
use flashfit_tune::{RunDir, RunDirLock, RunHeader, Space, StoredRun, TrialPurpose, TrialRecord};
use flashfit_user_error::{ExitClass, UserError};
use rustix::mount::MountFlags;

use crate::support::{SpaceOf, header, measured, opt, setup, spec};

fn space() -> Space {
    SpaceOf::filesystem("x", &[opt("a")]).build()
}

fn a_header() -> RunHeader {
    header(&space(), &spec(&space(), &["w"]))
}

fn a_record(number: u32) -> TrialRecord {
    let setup = setup(&space(), "x a none");
    TrialRecord { number, ..measured(TrialPurpose::Search, &setup, "w", number - 1, 1000) }
}

/// An unlocked run of three trials.
fn finished() -> (tempfile::TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let mut run = RunDir::create(dir.path(), &a_header()).unwrap();
    for number in 1..=3 {
        run.append(&a_record(number), &[], &[]).unwrap();
    }
    let trials = dir.path().join("trials.jsonl");
    (dir, trials)
}

fn numbers(run: &StoredRun) -> Vec<u32> {
    run.trials.iter().map(|trial| trial.number).collect()
}

fn append_to(file: &Path, bytes: &[u8]) {
    std::fs::OpenOptions::new().append(true).open(file).unwrap().write_all(bytes).unwrap();
}

#[test]
fn written_runs_can_be_read() {
    let (dir, _) = finished();
    let run = StoredRun::read(dir.path()).unwrap();
    assert_eq!(numbers(&run), [1, 2, 3]);
    let expected = RunHeader { created_unix_s: run.header.created_unix_s, ..a_header() };
    assert_eq!(run.header, expected);
    let (mut resumed, run) = RunDir::resume(dir.path()).unwrap();
    assert_eq!(numbers(&run), [1, 2, 3]);
    assert_eq!(resumed.path(), dir.path());
    resumed.append(&a_record(4), &[], &[]).unwrap();
    assert_eq!(numbers(&StoredRun::read(dir.path()).unwrap()), [1, 2, 3, 4]);
}

#[test]
fn the_configuration_file_matches_the_run() {
    let (dir, _) = finished();
    let config = flashfit_tune::Config::read(&dir.path().join("config.toml")).unwrap();
    assert_eq!(config, flashfit_tune::Config::from(&a_header().spec));
}

#[test]
fn a_run_does_not_overwrite_another() {
    let (dir, trials) = finished();
    let error = RunDir::create(dir.path(), &a_header()).unwrap_err();
    assert!(matches!(&error, RunDirError::Exists { path } if path == dir.path()), "{error}");
    // Trials without a header would be mixed with those of the new run.
    std::fs::remove_file(dir.path().join("run.json")).unwrap();
    let error = RunDir::create(dir.path(), &a_header()).unwrap_err();
    assert!(matches!(error, RunDirError::Occupied { .. }), "{error}");
    assert_eq!(std::fs::read_to_string(trials).unwrap().lines().count(), 3);
}

#[test]
fn other_files_are_not_overwritten() {
    let dir = tempfile::tempdir().unwrap();
    let mine = dir.path().join("config.toml");
    std::fs::write(&mine, "mine").unwrap();
    let error = RunDir::create(dir.path(), &a_header()).unwrap_err();
    assert!(matches!(error, RunDirError::Occupied { file: "config.toml", .. }), "{error}");
    assert_eq!(std::fs::read_to_string(mine).unwrap(), "mine");
}

#[test]
fn a_claim_without_a_run_leaves_no_files() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("notes.txt"), "mine").unwrap();
    let claimed = RunDirLock::new(dir.path(), &a_header().spec).unwrap();
    let second = RunDirLock::new(dir.path(), &a_header().spec).unwrap_err();
    assert!(matches!(second, RunDirError::Locked { .. } | RunDirError::Occupied { .. }));
    drop(claimed);
    let left: Vec<_> = std::fs::read_dir(dir.path()).unwrap().flatten().collect();
    assert_eq!(left.len(), 1);
    assert_eq!(left[0].file_name(), "notes.txt");
}

#[test]
fn only_one_process_can_write_and_any_can_read() {
    let dir = tempfile::tempdir().unwrap();
    let mut first = RunDir::create(dir.path(), &a_header()).unwrap();
    first.append(&a_record(1), &[], &[]).unwrap();
    let error = RunDir::resume(dir.path()).unwrap_err();
    assert!(matches!(error, RunDirError::Locked { .. }), "{error}");
    assert_eq!(error.class(), ExitClass::Usage);
    assert_eq!(numbers(&StoredRun::read(dir.path()).unwrap()), [1]);
    drop(first);
    RunDir::resume(dir.path()).unwrap();
}

#[test]
fn an_incomplete_line_is_ignored_and_then_truncated() {
    let (dir, trials) = finished();
    let whole = std::fs::read(&trials).unwrap();
    // Also if it ends within a character.
    for torn in [&b"{\"version\":1,\"num"[..], b"{\"version\":1}", b"\"\xc3"] {
        append_to(&trials, torn);
        assert_eq!(numbers(&StoredRun::read(dir.path()).unwrap()), [1, 2, 3]);
        let (_, run) = RunDir::resume(dir.path()).unwrap();
        assert_eq!(numbers(&run), [1, 2, 3]);
        assert_eq!(std::fs::read(&trials).unwrap(), whole);
    }
    append_to(&trials, b"torn");
    let (mut resumed, _) = RunDir::resume(dir.path()).unwrap();
    resumed.append(&a_record(4), &[], &[]).unwrap();
    assert_eq!(numbers(&StoredRun::read(dir.path()).unwrap()), [1, 2, 3, 4]);
}

#[test]
fn a_last_line_with_zeros_is_ignored_and_then_truncated() {
    let (dir, trials) = finished();
    let whole = std::fs::read(&trials).unwrap();
    // Like after a power cut: the file has grown, but only the second of two blocks was written.
    append_to(&trials, &[&[0; 300][..], b"\"cost\":7}\n"].concat());
    assert_eq!(numbers(&StoredRun::read(dir.path()).unwrap()), [1, 2, 3]);
    let (mut resumed, run) = RunDir::resume(dir.path()).unwrap();
    assert_eq!(numbers(&run), [1, 2, 3]);
    assert_eq!(std::fs::read(&trials).unwrap(), whole);
    resumed.append(&a_record(4), &[], &[]).unwrap();
    assert_eq!(numbers(&StoredRun::read(dir.path()).unwrap()), [1, 2, 3, 4]);
}

#[test]
fn a_run_without_a_trial_can_be_read_and_resumed() {
    let dir = tempfile::tempdir().unwrap();
    drop(RunDir::create(dir.path(), &a_header()).unwrap());
    std::fs::remove_file(dir.path().join("trials.jsonl")).unwrap();
    assert!(StoredRun::read(dir.path()).unwrap().trials.is_empty());
    assert!(RunDir::resume(dir.path()).unwrap().1.trials.is_empty());
}

#[test]
fn a_damaged_line_is_reported_with_its_number() {
    let (dir, trials) = finished();
    let text = std::fs::read_to_string(&trials).unwrap();
    for damage in ["nonsense", "", "{\"version\":1", "\u{0}\u{0}\u{0}"] {
        let mut lines: Vec<&str> = text.lines().collect();
        lines[1] = damage;
        std::fs::write(&trials, lines.join("\n") + "\n").unwrap();
        for error in
            [StoredRun::read(dir.path()).unwrap_err(), RunDir::resume(dir.path()).unwrap_err()]
        {
            assert!(matches!(error, RunDirError::Damaged { line: 2, .. }), "{error}");
            assert!(error.to_string().contains("trials.jsonl:2: "), "{error}");
            let hint = error.hint().unwrap();
            assert!(hint.contains(&format!("sed -i 2d {}", trials.display())), "{hint:?}");
        }
    }
}

#[test]
fn a_trial_that_is_there_twice_is_reported() {
    attempted(AttemptKind::ForeignRunDir, 2);
    let (dir, trials) = finished();
    let text = std::fs::read_to_string(&trials).unwrap();
    let read = |text: &str| {
        std::fs::write(&trials, text).unwrap();
        let error = StoredRun::read(dir.path()).unwrap_err();
        let hint = error.hint().and_then(|hint| hint.text().map(str::to_owned)).unwrap();
        (error.to_string(), hint)
    };
    let second = text.lines().nth(1).unwrap();
    let (error, hint) = read(&format!("{text}{second}\n"));
    assert!(error.ends_with("trials.jsonl:4: the same trial as line 2"), "{error}");
    assert!(hint.ends_with(&format!("sed -i 4d {}", trials.display())), "{hint}");
    // Other figures under the same key: only the user knows whether both were measured.
    let measured_later = second.replacen("\"number\":2", "\"number\":9", 1);
    assert_ne!(measured_later, second);
    let (error, hint) = read(&format!("{text}{measured_later}\n"));
    assert!(error.ends_with("trials.jsonl:4: the same `key` as line 2"), "{error}");
    assert!(!hint.contains("sed") && hint.contains("`repeat`"), "{hint}");
    let error = RunDir::resume(dir.path()).unwrap_err();
    assert!(matches!(error, RunDirError::SameKey { line: 4, first: 2, .. }), "{error}");
}

/// The error of reading the run with another second line, and its hint.
fn with_second_line(change: impl Fn(&str) -> String) -> (RunDirError, String) {
    attempted(AttemptKind::ForeignRunDir, 1);
    let (dir, trials) = finished();
    let text = std::fs::read_to_string(&trials).unwrap();
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    lines[1] = change(&lines[1]);
    std::fs::write(&trials, lines.join("\n") + "\n").unwrap();
    let error = StoredRun::read(dir.path()).unwrap_err();
    let hint = error.hint().and_then(|hint| hint.text().map(str::to_owned)).unwrap();
    (error, hint)
}

#[test]
fn deleting_a_valid_json_line_is_never_suggested() {
    for (from, to, key) in [
        ("\"purpose\":\"search\"", "\"purpose\":\"polish\"", "`key.purpose`"),
        ("\"repeat\":1", "\"repeat\":-1", "`key.repeat`"),
        ("\"kind\":\"throughput\"", "\"kind\":7", "`outcome.completed.points[0].stages[0].kind`"),
        ("\"workload\":\"w\",", "", "`key`: missing field `workload`"),
    ] {
        let (error, hint) = with_second_line(|line| {
            assert!(line.contains(from), "{from} in {line}");
            line.replacen(from, to, 1)
        });
        assert!(matches!(error, RunDirError::NotUnderstood { line: 2, .. }), "{error}");
        let text = error.to_string();
        assert!(text.contains("trials.jsonl:2: ") && text.contains(key), "{text}");
        assert!(!hint.contains("sed") && hint.contains("newer version of flashfit"), "{hint}");
    }
    for line in ["{}", "[]", "17", "null", "{\"version\":1}"] {
        let (error, hint) = with_second_line(|_| line.to_owned());
        assert!(matches!(error, RunDirError::NotUnderstood { line: 2, .. }), "{line}: {error}");
        assert!(!hint.contains("sed"), "{hint}");
    }
}

#[test]
fn a_record_of_another_version_is_reported() {
    let (dir, trials) = finished();
    let text = std::fs::read_to_string(&trials).unwrap();
    std::fs::write(&trials, text.replacen("\"version\":1", "\"version\":2", 1)).unwrap();
    let error = StoredRun::read(dir.path()).unwrap_err();
    assert!(error.to_string().contains(":1: a record of version 2"), "{error}");
    // It may have other keys.
    std::fs::write(&trials, "{\"version\":3,\"trial\":{}}\n").unwrap();
    let error = StoredRun::read(dir.path()).unwrap_err();
    assert!(error.to_string().contains(":1: a record of version 3"), "{error}");
    assert!(!error.hint().unwrap().contains("sed"), "{error:?}");
}

#[test]
fn a_run_of_another_format_is_rejected() {
    let (dir, _) = finished();
    let file = dir.path().join("run.json");
    let text = std::fs::read_to_string(&file).unwrap();
    for (from, to, found) in [
        ("\"schema_version\": 1", "\"schema_version\": 2", 2),
        ("\"flashfit.run\"", "\"another.run\"", 1),
    ] {
        assert!(text.contains(from));
        std::fs::write(&file, text.replace(from, to)).unwrap();
        for error in
            [StoredRun::read(dir.path()).unwrap_err(), RunDir::resume(dir.path()).unwrap_err()]
        {
            let RunDirError::OtherVersion { found: said, .. } = error else { panic!("{error}") };
            assert_eq!(said, found);
        }
    }
}

#[test]
fn a_damaged_header_is_reported_without_suggesting_deletion() {
    let (dir, _) = finished();
    let file = dir.path().join("run.json");
    let text = std::fs::read_to_string(&file).unwrap();
    std::fs::write(&file, text.replace("\"spec\"", "\"speck\"")).unwrap();
    let error = StoredRun::read(dir.path()).unwrap_err();
    assert!(error.to_string().contains("run.json:"), "{error}");
    assert!(!error.hint().is_some_and(|hint| hint.contains("sed")), "{error:?}");
}

#[test]
fn a_missing_run_is_reported() {
    let dir = tempfile::tempdir().unwrap();
    for path in [dir.path().to_owned(), dir.path().join("nowhere")] {
        for error in [StoredRun::read(&path).unwrap_err(), RunDir::resume(&path).unwrap_err()] {
            assert!(matches!(error, RunDirError::NoRun { .. }), "{error}");
        }
        assert!(!path.join(".flashfit-lock").exists());
    }
}

#[test]
fn every_seed_can_be_stored() {
    let dir = tempfile::tempdir().unwrap();
    let mut header = a_header();
    header.spec.seed = u64::MAX;
    drop(RunDir::create(dir.path(), &header).unwrap());
    assert_eq!(StoredRun::read(dir.path()).unwrap().header.spec.seed, u64::MAX);
    let config = flashfit_tune::Config::read(&dir.path().join("config.toml")).unwrap();
    assert_eq!(config.seed, Some(u64::MAX));
}

/// A file system of 256 KiB at `point`, for this thread alone; gone with it.
fn small_disk(point: &Path) -> Result<(), String> {
    mount::enter_private_namespace().map_err(|error| error.to_string())?;
    rustix::mount::mount("tmpfs", point, "tmpfs", MountFlags::empty(), Some(c"size=256k"))
        .map_err(|error| error.to_string())
}

/// Appends records with `raw` until the disk is full; returns how many were kept.
fn fill(run: &mut RunDir, raw: &[(String, String)], log: &[String]) -> u32 {
    for number in 1.. {
        match run.append(&a_record(number), raw, log) {
            Ok(()) => assert!(number < 10_000, "the disk does not get full"),
            Err(error) => {
                assert!(matches!(error, RunDirError::Dir(DirError::Full { .. })), "{error}");
                assert_eq!(error.class(), ExitClass::Environment);
                return number - 1;
            }
        }
    }
    unreachable!("there are enough numbers")
}

#[test]
fn a_full_disk_leaves_complete_lines() {
    let dir = tempfile::tempdir().unwrap();
    if let Err(reason) = small_disk(dir.path()) {
        let reason = format!("no small disk can be mounted: {reason}");
        assert!(skip(block_devices().or(Some(TestNeed::Isolation.missing(reason)))));
        return;
    }
    let raw = ("only".to_owned(), "x".repeat(6000));
    // The disk becomes full while writing a raw output, a log or a line.
    let log = "y".repeat(6000);
    let cases = [("raw", vec![raw], vec![]), ("log", vec![], vec![log]), ("line", vec![], vec![])];
    for (name, raw, log) in cases {
        let path = dir.path().join(name);
        let mut run = RunDir::create(&path, &a_header()).unwrap();
        let kept = fill(&mut run, &raw, &log);
        assert!(kept > 5, "{name}: {kept}");
        let text = std::fs::read_to_string(path.join("trials.jsonl")).unwrap();
        assert!(text.ends_with('\n'));
        assert_eq!(StoredRun::read(&path).unwrap().trials.len(), kept as usize);
        for folder in ["fio", "kernel"] {
            let mut files = std::fs::read_dir(path.join(folder)).unwrap().map(Result::unwrap);
            assert!(files.all(|file| file.path().extension().unwrap() != "part"), "{name}");
            std::fs::remove_dir_all(path.join(folder)).unwrap();
            std::fs::create_dir(path.join(folder)).unwrap();
        }
        std::fs::write(path.join("trials.jsonl"), &text[..=text.find('\n').unwrap()]).unwrap();
        drop(run);
        // It continues once there is space.
        let (mut run, before) = RunDir::resume(&path).unwrap();
        assert_eq!(before.trials.len(), 1);
        run.append(&a_record(2), &[], &[]).unwrap();
        assert_eq!(numbers(&StoredRun::read(&path).unwrap()), [1, 2]);
        drop(run);
        std::fs::remove_dir_all(path).unwrap();
    }
}

#[test]
fn runs_without_budgets_and_batches_can_be_read() {
    let dir = tempfile::tempdir().unwrap();
    let mut run = RunDir::create(dir.path(), &a_header()).unwrap();
    run.append(&a_record(1), &[], &[]).unwrap();
    drop(run);
    let header = dir.path().join("run.json");
    let mut json: serde_json::Value =
        serde_json::from_str(&std::fs::read_to_string(&header).unwrap()).unwrap();
    let spec = json["spec"].as_object_mut().unwrap();
    for key in ["limits", "state"] {
        spec.remove(key).unwrap();
    }
    std::fs::write(&header, json.to_string()).unwrap();
    let line = std::fs::read_to_string(dir.path().join("trials.jsonl")).unwrap();
    for key in ["batch", "length", "written", "state_ns", "fill_bytes"] {
        assert!(!line.contains(&format!("\"{key}\"")), "{key} in {line}");
    }
    let run = StoredRun::read(dir.path()).unwrap();
    assert_eq!(run.header.spec.limits, flashfit_tune::Budget::default());
    assert_eq!((run.trials.len(), run.trials[0].batch), (1, None));
}

fn obstacle<T: std::fmt::Debug>(result: Result<T, RunDirError>) -> DirObstacle {
    attempted(AttemptKind::ForeignRunDir, 1);
    match result.unwrap_err() {
        RunDirError::Dir(error @ DirError::Invalid { obstacle, .. }) => {
            let class = RunDirError::Dir(error).class();
            let is_folder = obstacle == DirObstacle::NotAFolder;
            assert_eq!(class, if is_folder { ExitClass::Usage } else { ExitClass::Refused });
            obstacle
        }
        other => panic!("{other}"),
    }
}

#[test]
fn links_in_a_run_are_not_followed() {
    let outside = tempfile::tempdir().unwrap();
    let theirs = outside.path().join("theirs");
    let there = outside.path().join("folder");
    std::fs::create_dir(&there).unwrap();
    for name in ["trials.jsonl", "run.json", "fio", "kernel", ".flashfit-lock"] {
        let (dir, _) = finished();
        std::fs::write(&theirs, "theirs").unwrap();
        let path = dir.path().join(name);
        if path.is_dir() {
            std::fs::remove_dir_all(&path).unwrap();
            std::os::unix::fs::symlink(&there, &path).unwrap();
        } else {
            std::fs::remove_file(&path).unwrap();
            std::os::unix::fs::symlink(&theirs, &path).unwrap();
        }
        let found = obstacle(RunDir::resume(dir.path()));
        assert!(matches!(found, DirObstacle::NotAFile | DirObstacle::NotAFolder), "{name}");
        assert_eq!(std::fs::read(&theirs).unwrap(), b"theirs", "{name}");
        assert_eq!(std::fs::read_dir(&there).unwrap().count(), 0, "{name}");
    }
}

#[test]
fn a_report_is_not_written_through_a_link() {
    let (dir, _) = finished();
    let outside = tempfile::tempdir().unwrap();
    let theirs = outside.path().join("theirs");
    std::fs::write(&theirs, "theirs").unwrap();
    for name in ["report.html", "report.html.part"] {
        std::os::unix::fs::symlink(&theirs, dir.path().join(name)).unwrap();
    }
    let written = flashfit_tune::run_dir::write_report(dir.path(), "<html>").unwrap();
    assert_eq!(std::fs::read(&theirs).unwrap(), b"theirs");
    assert!(std::fs::symlink_metadata(&written).unwrap().is_file());
    assert_eq!(std::fs::read(&written).unwrap(), b"<html>");
}

#[test]
fn a_run_that_is_a_link_or_of_another_user_is_rejected() {
    let (dir, _) = finished();
    let outside = tempfile::tempdir().unwrap();
    let link = outside.path().join("run");
    std::os::unix::fs::symlink(dir.path(), &link).unwrap();
    assert_eq!(obstacle(StoredRun::read(&link)), DirObstacle::NotAFolder);
    assert_eq!(obstacle(RunDir::create(&link, &a_header())), DirObstacle::NotAFolder);
    if std::os::unix::fs::chown(dir.path(), Some(12_345), None).is_err() {
        assert!(skip(Some(TestNeed::Root.missing("only root can give a directory away"))));
        return;
    }
    for result in [StoredRun::read(dir.path()).map(drop), RunDir::resume(dir.path()).map(drop)] {
        assert_eq!(obstacle(result), DirObstacle::Owner(12_345));
    }
    let report = flashfit_tune::run_dir::write_report(dir.path(), "<html>");
    assert_eq!(obstacle(report), DirObstacle::Owner(12_345));
}
