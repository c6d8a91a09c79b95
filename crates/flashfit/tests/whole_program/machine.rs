//! Finds what a test left on the machine: processes, mounts in any namespace, loop devices.

use std::path::Path;

use flashfit_host::{Program, Runner, SystemRunner};
use rustix::process::{Pid, Signal, kill_process};

use crate::fixture::{Place, wait_until};

pub fn signal(process: u32, signal: Signal) {
    kill_process(Pid::from_raw(i32::try_from(process).unwrap()).unwrap(), signal).unwrap();
}

/// An attached loop device: its name and the kernel's sequence number of the attachment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Attachment {
    name: String,
    sequence: String,
}

impl Attachment {
    /// Whether it is still attached.
    pub fn is_there(&self) -> bool {
        attachment(&self.name).as_ref() == Some(self)
    }
}

fn attachment(name: &str) -> Option<Attachment> {
    let folder = Path::new("/sys/block").join(name);
    folder.join("loop/backing_file").exists().then(|| {
        let sequence = std::fs::read_to_string(folder.join("diskseq")).unwrap_or_default();
        Attachment { name: name.to_owned(), sequence }
    })
}

/// The server of the test's card.
pub struct Server {
    pub process: u32,
    pub device: Attachment,
}

impl Server {
    /// The card server of the active run in `place`.
    pub fn of(place: &Place) -> Self {
        let card = place.arg("card.toml");
        let mut found = None;
        wait_until("the card is served", || {
            let process = processes().into_iter().find(|process| {
                let words = words(*process);
                words.iter().any(|word| word == "card-server") && words.contains(&card)
            });
            found = process.and_then(|process| Some((process, loop_device_of(process)?)));
            found.is_some()
        });
        let (process, device) = found.unwrap();
        Self { process, device }
    }
}

fn loop_device_of(process: u32) -> Option<Attachment> {
    let open = std::fs::read_dir(format!("/proc/{process}/fd")).ok()?;
    let targets = open.flatten().filter_map(|entry| std::fs::read_link(entry.path()).ok());
    let mut names = targets.filter_map(|target| {
        let name = target.strip_prefix("/dev").ok()?.to_str()?.to_owned();
        name.strip_prefix("loop")?.parse::<u32>().ok()?;
        Some(name)
    });
    attachment(&names.next()?)
}

pub fn processes() -> Vec<u32> {
    let entries = std::fs::read_dir("/proc").unwrap().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
}

/// The command line of a process; empty if it has ended.
pub fn words(process: u32) -> Vec<String> {
    let bytes = std::fs::read(format!("/proc/{process}/cmdline")).unwrap_or_default();
    bytes.split(|byte| *byte == 0).map(|w| String::from_utf8_lossy(w).into_owned()).collect()
}

/// Live children of all threads of a process.
pub fn children(process: u32) -> Vec<u32> {
    let tasks = std::fs::read_dir(format!("/proc/{process}/task")).into_iter().flatten().flatten();
    let texts = tasks.map(|task| std::fs::read_to_string(task.path().join("children")));
    let of_text = |text: String| -> Vec<u32> {
        text.split_whitespace().filter_map(|word| word.parse().ok()).collect()
    };
    texts.map_while(Result::ok).flat_map(of_text).collect()
}

/// Everything on the machine that refers to this directory: processes by their arguments, mounts in
/// any namespace by mount point or source, loop devices by their file.
pub fn traces(place: &Place) -> Vec<String> {
    let folder = place.folder().to_str().unwrap();
    let mut found = Vec::new();
    for process in processes() {
        let words = words(process);
        if words.iter().any(|word| word.contains(folder)) {
            found.push(format!("process {process}: {}", words.join(" ")));
        }
        let mounts = std::fs::read_to_string(format!("/proc/{process}/mountinfo"));
        let mounts = mounts.unwrap_or_default();
        let ours = mounts.lines().filter(|line| line.contains(folder));
        found.extend(ours.map(|line| format!("mount seen by {process}: {line}")));
    }
    for name in loop_devices() {
        let file = Path::new("/sys/block").join(&name).join("loop/backing_file");
        let file = std::fs::read_to_string(file).unwrap_or_default();
        if file.contains(folder) {
            found.push(format!("{name} over {}", file.trim()));
        }
    }
    found
}

fn loop_devices() -> Vec<String> {
    let entries = std::fs::read_dir("/sys/block").unwrap().flatten();
    let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
    names.filter(|name| name.starts_with("loop")).collect()
}

/// Waits until nothing refers to this directory.
#[track_caller]
pub fn wait_for_no_traces(place: &Place, server: Option<&Server>) {
    wait_until("all is given back", || {
        traces(place).is_empty() && !server.is_some_and(|server| server.device.is_there())
    });
}

/// Whether a file system is mounted on `point` in the namespace of `process`.
pub fn is_mounted(process: u32, point: &Path) -> bool {
    let mounts = std::fs::read_to_string(format!("/proc/{process}/mountinfo")).unwrap_or_default();
    mounts.lines().any(|line| line.split(' ').nth(4).map(Path::new) == Some(point))
}

/// A loop device attached by losetup and not open; detached on drop.
pub struct PlainLoop {
    pub node: String,
    /// The name that confirms it.
    pub name: String,
}

impl PlainLoop {
    pub fn attach(file: &Path, sector_bytes: u32, more: &[&str]) -> Self {
        let losetup = Program::new("losetup")
            .args(["--find", "--show", "--partscan", "--sector-size"])
            .arg(sector_bytes.to_string())
            .args(more.iter().copied())
            .arg(file);
        let outcome = SystemRunner::default().run_checked(&losetup).unwrap();
        Self::at(outcome.stdout.trim())
    }

    /// Attaches a file to a node with a high number, which no other test is given when this one is
    /// detached for a moment. Where the node cannot be made, to the first that is free.
    pub fn attach_far(number: u32, file: &Path) -> Self {
        let node = format!("/dev/loop{number}");
        let losetup = Program::new("losetup").arg("--partscan").arg(&node).arg(file);
        match SystemRunner::default().run_checked(&losetup) {
            Ok(_) => Self::at(&node),
            Err(_) => Self::attach(file, 512, &[]),
        }
    }

    /// Attaches a file to a node that is free.
    pub fn attach_to(node: &str, file: &Path) -> Self {
        let losetup = Program::new("losetup").arg("--partscan").arg(node);
        let losetup = losetup.arg(file);
        SystemRunner::default().run_checked(&losetup).unwrap();
        Self::at(node)
    }

    fn at(node: &str) -> Self {
        let name = node.strip_prefix("/dev/").unwrap().to_owned();
        Self { node: node.to_owned(), name }
    }
}

impl Drop for PlainLoop {
    fn drop(&mut self) {
        let losetup = Program::new("losetup").args(["--detach", &self.node]);
        // If detaching fails, later tests notice it.
        let _ = SystemRunner::default().run(&losetup);
    }
}
