//! Kills machines and the processes that start them: only a directory may remain, which the next
//! start removes.
//!
//! This test program is also the process that is killed (argument `hold`) and the next start
//! (`tidy`). `FLASHFIT_KILLS` is the number of kills at different moments.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "support/guest.rs"]
mod guest;

use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Child, Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use flashfit_host::SystemRunner;
use flashfit_host::interrupt::Interrupt;
use flashfit_test_support::{HarnessTest, run_tests};
use flashfit_vm::{Vm, VmError, doctor};
use guest::{Guest, GuestShell, kernel_or_skip, options};

const END_TIMEOUT: Duration = Duration::from_secs(10);

fn main() -> ExitCode {
    match std::env::args().nth(1).as_deref() {
        Some("hold") => return hold(),
        Some("tidy") => {
            doctor::examine(&doctor::DoctorNeeds::default(), &SystemRunner::default());
            return ExitCode::SUCCESS;
        }
        _ => {}
    }
    let full: [(&str, fn()); 2] = [
        ("a_machine_ends_when_its_starter_is_killed", a_machine_ends_when_its_starter_is_killed),
        ("kills_at_any_moment_leave_nothing", kills_at_any_moment_leave_nothing),
    ];
    let mut tests = Vec::from(full.map(|(name, test)| HarnessTest::new(name, test).only_in_full()));
    tests.push(HarnessTest::new("a_killed_machine_is_reported", a_killed_machine_is_reported));
    run_tests(tests, 1, || None)
}

/// Starts a machine, prints its process id, and keeps it until this process is killed.
#[expect(clippy::print_stdout, reason = "its starter reads it")]
fn hold() -> ExitCode {
    let guest = Guest::new();
    let vm = Vm::start(&options(kernel_or_skip().unwrap(), &guest), &Interrupt::new()).unwrap();
    println!("{}", vm.id());
    std::thread::sleep(Duration::from_secs(600));
    ExitCode::FAILURE
}

fn a_killed_machine_is_reported() {
    let Some(kernel) = kernel_or_skip() else { return };
    let guest = Guest::new();
    let vm = Vm::start(&options(kernel, &guest), &Interrupt::new()).unwrap();
    assert_eq!(GuestShell::new(&vm).run("echo hello"), "hello");
    let mut channel = vm.channel().unwrap();
    kill(vm.id());
    let mut rest = Vec::new();
    channel.read_to_end(&mut rest).unwrap();
    let asked = Instant::now();
    while vm.is_running() && asked.elapsed() < END_TIMEOUT {
        std::thread::sleep(Duration::from_millis(5));
    }
    let error = vm.stop().unwrap_err();
    assert!(matches!(error, VmError::Ended { .. }), "{error}");
    assert!(error.to_string().contains("signal 9"), "{error}");
}

fn a_machine_ends_when_its_starter_is_killed() {
    if kernel_or_skip().is_none() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let mut starter = start("hold", folder.path());
    let mut line = String::new();
    BufReader::new(starter.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let machine: u32 = line.trim().parse().unwrap();
    assert!(Path::new(&format!("/proc/{machine}")).exists());
    end(&mut starter);
    assert_nothing_left(folder.path(), &format!("after process {machine}"));
}

fn kills_at_any_moment_leave_nothing() {
    if kernel_or_skip().is_none() {
        return;
    }
    let times = std::env::var("FLASHFIT_KILLS").ok().and_then(|text| text.parse().ok());
    for number in 0..times.unwrap_or(4_u64) {
        let folder = tempfile::tempdir().unwrap();
        let mut starter = start("hold", folder.path());
        // Spread over the start of a machine, without a pattern in it.
        std::thread::sleep(Duration::from_millis(number * 1_618 % 5_000));
        end(&mut starter);
        assert_nothing_left(folder.path(), &format!("after kill {number}"));
    }
}

fn start(what: &str, folder: &Path) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .arg(what)
        .env("TMPDIR", folder)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap()
}

fn end(starter: &mut Child) {
    kill(starter.id());
    starter.wait().unwrap();
}

fn kill(process: u32) {
    let killed = Command::new("kill").args(["-9", &process.to_string()]).status().unwrap();
    assert!(killed.success());
}

/// Asserts that no process uses the directory and that the next start removes its content.
fn assert_nothing_left(folder: &Path, when: &str) {
    let asked = Instant::now();
    while !processes_naming(folder).is_empty() {
        assert!(asked.elapsed() < END_TIMEOUT, "{when}: {:?}", processes_naming(folder));
        std::thread::sleep(Duration::from_millis(10));
    }
    assert!(start("tidy", folder).wait().unwrap().success());
    let machines = || {
        let names = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name());
        let names = names.map(|name| name.to_string_lossy().into_owned());
        names.filter(|name| name.starts_with("flashfit-tmp-")).collect::<Vec<_>>()
    };
    assert!(machines().is_empty(), "{when}: {:?}", machines());
}

fn processes_naming(folder: &Path) -> Vec<String> {
    let needle = folder.display().to_string();
    let processes = std::fs::read_dir("/proc").unwrap().flatten();
    let lines = processes.filter_map(|entry| {
        let bytes = std::fs::read(entry.path().join("cmdline")).ok()?;
        Some(String::from_utf8_lossy(&bytes).replace('\0', " "))
    });
    lines.filter(|line| line.contains(&needle)).collect()
}
