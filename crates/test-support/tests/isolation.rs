//! An isolated test sees only its own processes, leaves none behind, and fails if its body fails.
//! Each case reruns this program, so that leftovers can be observed from outside.

use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Command, Output};
use std::time::{Duration, Instant};

use flashfit_test_support::isolated;

const CASE: &str = "FLASHFIT_TEST_CASE";

fn case() -> Option<String> {
    std::env::var(CASE).ok()
}

/// Does nothing unless another test sets `CASE`.
#[test]
fn a_case() {
    let Some(case) = case() else { return };
    isolated(|| match case.as_str() {
        "fails" => panic!("the expected failure"),
        mark => {
            let left = Command::new("sleep").arg(format!("600.{mark}")).spawn();
            std::mem::forget(left.expect("sleep"));
            // A new process has no arguments until exec.
            let started = Instant::now();
            while processes_with(mark) != 1 {
                assert!(started.elapsed() < Duration::from_secs(60), "{:?}", command_lines());
            }
        }
    });
}

fn run(case: &str) -> Output {
    Command::new(std::env::current_exe().expect("a running program"))
        .args(["--exact", "a_case", "--nocapture"])
        .env(CASE, case)
        .output()
        .expect("the test program starts")
}

fn command_lines() -> Vec<String> {
    let entries = std::fs::read_dir("/proc").expect("procfs").flatten();
    let is_number = |path: &PathBuf| {
        path.file_name().is_some_and(|name| name.as_encoded_bytes().iter().all(u8::is_ascii_digit))
    };
    let processes = entries.map(|entry| entry.path()).filter(is_number);
    let texts = processes.filter_map(|path| std::fs::read(path.join("cmdline")).ok());
    texts.map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).collect()
}

fn processes_with(mark: &str) -> usize {
    command_lines().iter().filter(|line| line.starts_with("sleep") && line.contains(mark)).count()
}

#[test]
fn an_isolated_test_has_its_own_processes_network_and_temporary_folder() {
    isolated(|| {
        // Only the shell and the test.
        assert_eq!(command_lines().len(), 2, "{:?}", command_lines());
        let listener = TcpListener::bind("127.0.0.1:22").expect("the port is free");
        TcpStream::connect(listener.local_addr().expect("bound")).expect("loopback is up");
        let mounts = std::fs::read_to_string("/proc/self/mounts").expect("procfs");
        let temporary = std::env::temp_dir();
        assert!(mounts.contains(&format!("tmpfs {} tmpfs", temporary.display())), "{mounts}");
        assert_eq!(std::fs::read_dir(&temporary).expect("a folder").count(), 0);
    });
}

#[test]
fn processes_left_by_an_isolated_test_end_with_it() {
    let mark = std::process::id().to_string();
    let output = run(&mark);
    assert!(output.status.success(), "{output:?}");
    assert_eq!(processes_with(&mark), 0);
}

#[test]
fn a_failing_isolated_test_fails_outside_and_shows_why() {
    // Without root the test is skipped.
    let output = run("fails");
    let stdout = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(stdout.contains("skipped: ") || !output.status.success(), "{output:?}");
    assert!(stdout.contains("skipped: ") || stdout.contains("the expected failure"), "{output:?}");
}
