//! `scripts/run-tests.sh`, run on shell scripts in place of test programs and cargo.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output};
use std::time::{Duration, Instant};

/// Passes one test, skips one, ignores one, and then fails, dies or hangs as `HOW` says.
const PROGRAM: &str = r#"#!/bin/sh
case "$*" in
*"--list --ignored"*)
    printf 'slow: test\n'
    sleep 0.2
    printf '\n1 test, 0 benchmarks\n'
    exit
    ;;
*--list*) printf 'a: test\nb: test\nslow: test\n'; exit ;;
esac
echo "at most 1 at a time"
case "$*" in
--ignored*) echo "running 1 test" ;;
*)
    echo "running 3 tests"
    sleep 0.1
    echo "test a    ... ok"
    printf 'b\tno QEMU\n' >>"$FLASHFIT_SKIP_LOG"
    printf 'a\tin part: no mkfs.x\n' >>"$FLASHFIT_SKIP_LOG"
    echo "test b - should panic ... ok"
    ;;
esac
case "$*" in
*ignored*) sleep 0.2; echo "test slow ... ok" ;;
*) echo "test slow ... ignored, full: long" ;;
esac
case "$HOW" in
fail) echo "test c ... FAILED"; echo "test c ... FAILED"; echo "the reason of c"; exit 101 ;;
die) kill -9 $$ ;;
hang) echo $$ >"$PID_FILE.part"; mv "$PID_FILE.part" "$PID_FILE"; sleep 600 ;;
esac
"#;

const CARGO: &str = r#"#!/bin/sh
cat FOLDER/messages
"#;

struct Suite {
    folder: tempfile::TempDir,
}

impl Suite {
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let root = folder.path().display().to_string();
        std::fs::create_dir_all(folder.path().join("crates/x")).expect("a folder");
        let program = |kind: &str, name: &str, is_test: bool, file: &str| {
            format!(
                "{{\"reason\":\"compiler-artifact\",\"manifest_path\":\"{root}/crates/x/Cargo.toml\",\
                 \"target\":{{\"kind\":[\"{kind}\"],\"name\":\"{name}\",\"src_path\":\"y\",\
                 \"test\":true}},\"profile\":{{\"opt_level\":\"0\",\"test\":{is_test}}},\
                 \"features\":[],\"executable\":\"{root}/{file}\",\"fresh\":true}}\n"
            )
        };
        let messages = [
            program("lib", "flashfit_x", true, "program"),
            program("test", "whole", true, "program"),
            program("test", "empty", true, "empty"),
            program("bin", "x", false, "not-a-test"),
        ];
        let suite = Self { folder };
        suite.file("messages", &messages.concat());
        suite.file("program", PROGRAM);
        suite.file("empty", "#!/bin/sh\n");
        suite.file("cargo", &CARGO.replace("FOLDER", &root));
        suite
    }

    fn file(&self, name: &str, text: &str) {
        let path = self.folder.path().join(name);
        std::fs::write(&path, text).expect("the folder is writable");
        std::fs::set_permissions(path, PermissionsExt::from_mode(0o755))
            .expect("our own file or process");
    }

    fn command(&self, mode: &str, how: &str) -> Command {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/run-tests.sh");
        let mut command = Command::new(script);
        command
            .arg(mode)
            .env("CARGO", self.folder.path().join("cargo"))
            .env("CARGO_TARGET_DIR", self.folder.path().join("target"))
            .env("PID_FILE", self.folder.path().join("pid"))
            .env("HOW", how);
        command
    }

    fn run(&self, mode: &str, how: &str) -> (Option<i32>, String) {
        let Output { status, stdout, stderr } =
            self.command(mode, how).output().expect("bash is installed");
        let text = String::from_utf8_lossy(&stdout).into_owned();
        assert_eq!(String::from_utf8_lossy(&stderr), "", "{text}");
        (status.code(), text)
    }
}

#[test]
fn the_output_ends_with_one_line_of_counts() {
    let suite = Suite::new();
    let (code, text) = suite.run("daily", "");
    assert_eq!(code, Some(0), "{text}");
    assert!(
        text.ends_with(
            "\n2 more tests run only in make test-rest\n2 passed, 0 failed, 2 skipped\n"
        ),
        "{text}"
    );
    assert!(text.contains(" 2 no QEMU\n") && text.contains(" 2 in part: no mkfs.x\n"), "{text}");
    let (code, text) = suite.run("full", "");
    assert_eq!(code, Some(0), "{text}");
    assert!(text.ends_with("\n4 passed, 0 failed, 2 skipped\n"), "{text}");
    assert!(!text.contains("more tests"), "{text}");
    let slowest = text.lines().skip_while(|line| !line.starts_with("slowest")).skip(1);
    let mut slowest: Vec<(f64, &str)> = slowest
        .map_while(|line| {
            let mut words = line.split_whitespace();
            Some((words.next()?.parse().ok()?, words.next_back()?))
        })
        .collect();
    // Which test is the slowest depends on how busy the computer is.
    assert!(slowest.is_sorted_by(|one, next| one.0 >= next.0), "{text}");
    assert!(slowest.first().is_some_and(|&(seconds, _)| seconds >= 0.1), "{text}");
    slowest.sort_by_key(|&(_, name)| name);
    let names: Vec<&str> = slowest.into_iter().map(|(_, name)| name).collect();
    assert_eq!(names, ["a", "a", "b", "b", "slow", "slow"], "{text}");
}

#[test]
fn the_daily_tests_and_the_rest_are_all_tests() {
    let (code, text) = Suite::new().run("rest", "");
    assert_eq!(code, Some(0), "{text}");
    assert!(text.ends_with("\n2 passed, 0 failed, 0 skipped\n"), "{text}");
    assert!(!text.contains("x/empty") && !text.contains("more tests"), "{text}");
}

#[test]
fn a_failure_is_shown_with_its_output() {
    let suite = Suite::new();
    let (code, text) = suite.run("full", "fail");
    assert_eq!(code, Some(1), "{text}");
    assert!(text.contains("the reason of c\n") && text.contains("failed:\n  x c\n"), "{text}");
    assert!(text.ends_with("\n4 passed, 2 failed, 2 skipped\n"), "{text}");
}

#[test]
fn a_killed_program_is_a_failure() {
    let (code, text) = Suite::new().run("full", "die");
    assert_eq!(code, Some(1), "{text}");
    assert!(text.contains("(the program ended with 137)"), "{text}");
    assert!(text.ends_with("\n4 passed, 2 failed, 2 skipped\n"), "{text}");
}

#[test]
fn an_interrupt_ends_the_test_programs() {
    let suite = Suite::new();
    let mut runner = suite.command("daily", "hang").spawn().expect("bash is installed");
    let pid_file = suite.folder.path().join("pid");
    let start = Instant::now();
    while !pid_file.exists() {
        assert!(start.elapsed() < Duration::from_secs(60), "no test program was started");
        std::thread::sleep(Duration::from_millis(20));
    }
    let pid = std::fs::read_to_string(&pid_file).expect("it was renamed");
    let kill = |pid: &str| Command::new("kill").args(["-INT", pid]).status();
    assert!(kill(&runner.id().to_string()).expect("kill is installed").success());
    assert_eq!(runner.wait().expect("our own file or process").code(), Some(130));
    assert!(!Path::new("/proc").join(pid.trim()).exists(), "process {pid} is still running");
}
