//! Every card of the catalogue under every file system: a whole fio run, a loss of power in the
//! middle of another, the file system's own repair, and what was synced read back.
//!
//! This test has a main function of its own, because the mounts of all its threads must be out of
//! the machine's sight before the first thread is started. An argument chooses pairs by name, such
//! as `sd-c4-block/ext4` or `btrfs`. Needs root, FUSE, loop devices, fio and the file systems'
//! tools.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]
#![expect(clippy::print_stdout, reason = "it is its own test harness")]

mod life;
mod repair;
mod witness;

use std::process::ExitCode;
use std::sync::Mutex;
use std::time::Instant;

use flashfit_host::mount::enter_private_namespace;
use flashfit_host::program::find;
use flashfit_host::{Program, Runner, SystemRunner, capability};

/// The cards mostly wait, so more of them than processors can be tried at a time.
const AT_A_TIME: usize = 8;

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let filter = args.iter().find(|arg| !arg.starts_with('-'));
    if let Some(reason) = lacking() {
        println!("skipped: {reason}");
        return ExitCode::SUCCESS;
    }
    enter_private_namespace().unwrap();
    share_mounts();
    let pairs = pairs(filter.map(String::as_str));
    let failures = try_all(pairs);
    failures.iter().for_each(|failure| println!("FAILED {failure}"));
    if failures.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Each card's process takes a copy of the mounts that are there when it starts. What is unmounted
/// here must go there too, or the device of one card would stay in use by the process of another.
fn share_mounts() {
    let mount = Program::new("mount").args(["--make-rshared", "/"]);
    SystemRunner::default().run_checked(&mount).unwrap();
}

fn lacking() -> Option<String> {
    let program = || (find("fio").is_none()).then(|| "no fio".to_owned());
    capability::missing_for_simulated_cards().or_else(program)
}

/// Every card with every file system that this machine has.
fn pairs(filter: Option<&str>) -> Vec<(String, &'static str)> {
    let mut pairs = Vec::new();
    for filesystem in repair::FILE_SYSTEMS {
        if let Some(reason) = repair::lacking(filesystem) {
            println!("skipped: {filesystem}: {reason}");
            continue;
        }
        for model in flashfit_card::catalogue::all(None).unwrap() {
            let name = format!("{}/{filesystem}", model.name);
            if filter.is_none_or(|filter| name.contains(filter)) {
                pairs.push((model.name, filesystem));
            }
        }
    }
    pairs
}

fn try_all(pairs: Vec<(String, &'static str)>) -> Vec<String> {
    let (waiting, failures) = (Mutex::new(pairs), Mutex::new(Vec::new()));
    let worker = || {
        loop {
            let Some((card, filesystem)) = waiting.lock().unwrap().pop() else { return };
            let started = Instant::now();
            match life::of(&card, filesystem) {
                Ok(told) => {
                    let ms = started.elapsed().as_millis();
                    println!("test {card}/{filesystem} ... ok ({ms} ms; {told})");
                }
                Err(what) => failures.lock().unwrap().push(format!("{card}/{filesystem}: {what}")),
            }
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..AT_A_TIME {
            scope.spawn(worker);
        }
    });
    failures.into_inner().unwrap()
}
