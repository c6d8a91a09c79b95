//! Running trials on all cores, and the built command.

use std::io::{BufRead, BufReader};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::time::Duration;

pub const FLASHFIT: &str = env!("CARGO_BIN_EXE_flashfit");

const POLL_INTERVAL: Duration = Duration::from_millis(2);

/// What a trial gives for each seed, in the order of the seeds.
pub fn of_each<T: Send>(seeds: Range<u64>, trial: impl Fn(u64) -> T + Sync) -> Vec<T> {
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let next = Mutex::new(seeds);
    let done = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    let seed = next.lock().unwrap().next();
                    let Some(seed) = seed else { break };
                    let outcome = trial(seed);
                    done.lock().unwrap().push((seed, outcome));
                }
            });
        }
    });
    let mut done = done.into_inner().unwrap();
    done.sort_by_key(|(seed, _)| *seed);
    done.into_iter().map(|(_, outcome)| outcome).collect()
}

/// A process, ended when the value goes.
pub struct Running(pub Child);

impl Drop for Running {
    fn drop(&mut self) {
        rustix::process::kill_process(
            rustix::process::Pid::from_child(&self.0),
            rustix::process::Signal::INT,
        )
        .ok();
        self.0.wait().ok();
    }
}

/// A simulated card that `flashfit card serve` serves, at a loop device or a socket.
pub struct ServedCard {
    /// The loop device, or what the command prints of a socket.
    pub at: PathBuf,
    _serving: Running,
}

impl ServedCard {
    /// Serves a card of the catalog or of a file; returns once it can be used.
    pub fn new(card: &str, more: &[&str]) -> Self {
        let mut child = Command::new(FLASHFIT)
            .args(["card", "serve", card])
            .args(more)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let output = child.stdout.take().unwrap();
        let serving = Running(child);
        let mut line = String::new();
        BufReader::new(output).read_line(&mut line).unwrap();
        assert!(!line.is_empty(), "{card} is not served");
        Self { at: PathBuf::from(line.trim()), _serving: serving }
    }
}

/// The document that a probe prints, and the most memory that it took, in bytes.
pub fn probe(target: &Path, more: &[&str]) -> (serde_json::Value, u64) {
    let mut child = Command::new(FLASHFIT)
        .args(["probe", "--json"])
        .arg(target)
        .args(more)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let status = PathBuf::from(format!("/proc/{}/status", child.id()));
    let mut output = child.stdout.take().unwrap();
    let reader = std::thread::spawn(move || {
        let mut text = String::new();
        std::io::Read::read_to_string(&mut output, &mut text).unwrap();
        text
    });
    let mut most = 0;
    while child.try_wait().unwrap().is_none() {
        most = most.max(high_water(&status).unwrap_or(0));
        std::thread::sleep(POLL_INTERVAL);
    }
    (serde_json::from_str(&reader.join().unwrap()).unwrap(), most)
}

/// The most memory that a process took so far, in bytes (`VmHWM`).
fn high_water(status: &Path) -> Option<u64> {
    let text = std::fs::read_to_string(status).ok()?;
    let line = text.lines().find(|line| line.starts_with("VmHWM:"))?;
    let kib: u64 = line.split_whitespace().nth(1)?.parse().ok()?;
    Some(kib << 10)
}
