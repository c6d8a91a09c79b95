//! A skip is recorded, or fails the test if the need is required. Each case reruns this program in
//! another environment.

use std::path::Path;
use std::process::{Command, Output};

use flashfit_test_support::{REQUIRE, SKIP_LOG, TestNeed, skip, skip_part};

const CASE: &str = "FLASHFIT_TEST_CASE";

/// Does nothing unless another test sets `CASE`.
#[test]
fn a_case() {
    match std::env::var(CASE).as_deref() {
        Ok("whole") => assert!(skip(Some(TestNeed::Qemu.missing("no QEMU\nhere")))),
        Ok("part") => assert!(skip_part(Some(TestNeed::Tool.missing("no mkfs.x")))),
        Ok("none") => assert!(!skip(None)),
        _ => {}
    }
}

fn run(case: &str, require: &str, log: &Path) -> Output {
    Command::new(std::env::current_exe().expect("a running program"))
        .args(["--exact", "a_case", "--nocapture"])
        .env(CASE, case)
        .env(REQUIRE, require)
        .env(SKIP_LOG, log)
        .output()
        .expect("the test program starts")
}

#[test]
fn a_skip_is_recorded_with_the_name_of_its_test() {
    let folder = tempfile::tempdir().expect("a folder");
    let log = folder.path().join("log");
    for case in ["none", "whole", "part"] {
        assert!(run(case, "root,loop", &log).status.success(), "{case}");
    }
    let text = std::fs::read_to_string(&log).expect("it was written");
    assert_eq!(text, "a_case\tno QEMU here\na_case\tin part: no mkfs.x\n");
}

#[test]
fn a_skip_of_a_required_need_is_a_failure() {
    let folder = tempfile::tempdir().expect("a folder");
    let log = folder.path().join("log");
    for (case, require) in [("whole", "root,qemu"), ("part", "tool")] {
        let output = run(case, require, &log);
        assert!(!output.status.success(), "{case}");
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(stderr.contains("FLASHFIT_REQUIRE lists"), "{stderr}");
    }
    assert!(!log.exists());
}

#[test]
fn an_unknown_need_is_a_failure_even_if_nothing_is_missing() {
    let folder = tempfile::tempdir().expect("a folder");
    let output = run("none", "qemo", &folder.path().join("log"));
    assert!(!output.status.success());
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(stderr.contains("unknown need `qemo`"), "{stderr}");
}
