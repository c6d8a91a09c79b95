//! Creates, repairs and checks each file system.

use std::path::Path;
use std::time::{Duration, Instant};

use flashfit_filesystem::{Conditions, FileSystemCatalog, Recipe, Scheduler, Setup};
use flashfit_host::mount::Mounted;
use flashfit_host::{Program, Runner, SystemRunner};
use flashfit_test_support::{MissingNeed, TestNeed, programs};

pub const FILE_SYSTEMS: [&str; 3] = ["ext4", "btrfs", "xfs"];

/// Why a file system cannot be tested here.
pub fn lacking(filesystem: &str) -> Option<MissingNeed> {
    let supported = std::fs::read_to_string("/proc/filesystems").unwrap();
    let loaded = || supported.split_whitespace().any(|word| word == filesystem);
    let modprobe = Program::new("modprobe").arg(filesystem);
    let known = loaded() || SystemRunner::default().run_checked(&modprobe).is_ok();
    let tools = match filesystem {
        "ext4" => ["mkfs.ext4", "e2fsck"],
        "btrfs" => ["mkfs.btrfs", "btrfs"],
        _ => ["mkfs.xfs", "xfs_repair"],
    };
    let unknown = || TestNeed::Kernel.missing(format!("this kernel has no {filesystem}"));
    programs(&tools).or_else(|| (!known).then(unknown))
}

/// Creates a file system, with the catalog's command if there is one.
pub fn make(filesystem: &str, node: &Path) -> Result<(), String> {
    let fs_catalog = FileSystemCatalog::load(None).unwrap();
    let mkfs = match fs_catalog.filesystem(filesystem) {
        Ok(known) => {
            let setup = Setup::base(known, Scheduler::new("none"));
            Recipe::new(known, &setup, &Conditions::default()).unwrap().mkfs(node)
        }
        Err(_) => Program::new(format!("mkfs.{filesystem}")).args(["-q", "-f"]).arg(node),
    };
    run(&mkfs)
}

pub fn mount(filesystem: &str, node: &Path, point: &Path) -> Result<Mounted, String> {
    Mounted::new(&SystemRunner::default(), node, filesystem, point, &[]).map_err(|e| e.to_string())
}

/// Retries, because a child of another thread keeps copies of all open files between fork and exec,
/// so the file system may be in use a moment longer.
pub fn unmount(mounted: Mounted) -> Result<(), String> {
    let deadline = Instant::now() + Duration::from_secs(10);
    let point = mounted.point().to_owned();
    loop {
        let umount = Program::new("umount").arg(&point);
        match run(&umount) {
            Ok(()) => break,
            Err(error) if Instant::now() > deadline => return Err(error),
            Err(_) => std::thread::sleep(Duration::from_millis(10)),
        }
    }
    Ok(())
}

/// Repairs a file system after a power cut: e2fsck replays the journal itself, others need a mount.
pub fn repair(filesystem: &str, node: &Path, point: &Path) -> Result<(), String> {
    if filesystem == "ext4" {
        let e2fsck = Program::new("e2fsck").args(["-f", "-y"]).arg(node);
        let outcome = SystemRunner::default().run(&e2fsck).map_err(|error| error.to_string())?;
        // Exit code 1 means that errors were corrected, including a journal replay.
        return match outcome.code {
            Some(0 | 1) if !has_complaint(&outcome.stdout) => Ok(()),
            _ => Err(format!("e2fsck: {}{}", outcome.stdout, outcome.stderr)),
        };
    }
    let mounted = mount(filesystem, node, point)?;
    unmount(mounted)
}

/// Whether e2fsck fixed more than the counters in the superblock, which are only written at
/// unmount.
fn has_complaint(said: &str) -> bool {
    let harmless = |line: &str| {
        ["Free blocks count wrong (", "Free inodes count wrong ("]
            .iter()
            .any(|sum| line.starts_with(sum))
    };
    let lines: Vec<&str> = said.lines().collect();
    lines.windows(2).any(|pair| pair[1].contains("? yes") && !harmless(pair[0]))
}

/// Checks a repaired file system without changing it.
pub fn check(filesystem: &str, node: &Path) -> Result<(), String> {
    let program = match filesystem {
        "ext4" => Program::new("e2fsck").args(["-f", "-n"]),
        "btrfs" => Program::new("btrfs").args(["check", "--readonly", "--check-data-csum"]),
        _ => Program::new("xfs_repair").arg("-n"),
    };
    run(&program.arg(node))
}

pub fn run(program: &Program) -> Result<(), String> {
    let outcome = SystemRunner::default().run(program).map_err(|error| error.to_string())?;
    if outcome.success() {
        return Ok(());
    }
    Err(format!("{}: {}{}", program.command_line(), outcome.stdout, outcome.stderr))
}
