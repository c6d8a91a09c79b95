//! An isolated test sees its own processes alone, leaves none, and fails where its body does. The
//! cases are this program again, so that what is left can be looked for from outside.

use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Command, Output};
use std::time::{Duration, Instant};

use flashfit_test_support::isolated;

const CASE: &str = "FLASHFIT_TEST_CASE";

fn case() -> Option<String> {
    std::env::var(CASE).ok()
}

/// Does nothing by itself; the tests below run it with `CASE` set.
#[test]
fn a_case() {
    let Some(case) = case() else { return };
    isolated(|| match case.as_str() {
        "fails" => panic!("as it should"),
        mark => {
            let left = Command::new("sleep").arg(format!("600.{mark}")).spawn();
            std::mem::forget(left.expect("sleep"));
            // It has no arguments for a moment.
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
        .expect("it can be started")
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
        // The shell, the test and nothing of the machine.
        assert_eq!(command_lines().len(), 2, "{:?}", command_lines());
        let listener = TcpListener::bind("127.0.0.1:22").expect("nobody has this port");
        TcpStream::connect(listener.local_addr().expect("bound")).expect("loopback is up");
        let mounts = std::fs::read_to_string("/proc/self/mounts").expect("procfs");
        let temporary = std::env::temp_dir();
        assert!(mounts.contains(&format!("tmpfs {} tmpfs", temporary.display())), "{mounts}");
        assert_eq!(std::fs::read_dir(&temporary).expect("a folder").count(), 0);
    });
}

#[test]
fn what_an_isolated_test_leaves_ends_with_it() {
    let mark = std::process::id().to_string();
    let output = run(&mark);
    assert!(output.status.success(), "{output:?}");
    assert_eq!(processes_with(&mark), 0);
}

#[test]
fn an_isolated_test_that_fails_fails_outside_and_shows_why() {
    // Without root it is skipped.
    let output = run("fails");
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(said.contains("skipped: ") || !output.status.success(), "{output:?}");
    assert!(said.contains("skipped: ") || said.contains("as it should"), "{output:?}");
}
