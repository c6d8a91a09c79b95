//! One mount of a file system after a power cut: what the kernel recovers, what is there, and
//! whether it can be written again. The same on this machine and in a virtual one.

use std::io::Write;
use std::path::Path;
use std::time::{Duration, Instant};

use flashfit_host::kernel_log::KernelLog;
use flashfit_host::{Program, ProgramError, Runner};
use serde::{Deserialize, Serialize};

use super::{ObservedTree, await_free, fullness, mount_with, unmount_at};
use crate::CrashError;

/// A check that takes longer hangs.
const CHECK_LIMIT: Duration = Duration::from_secs(60);
const PROBE_NAME: &str = "written-after-the-power-cut";

/// What a checking program said about what is mounted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProgramView {
    pub code: Option<i32>,
    pub output: String,
    /// The last line of its error output.
    pub error: String,
}

/// What was seen of a mounted file system.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MountedView {
    /// Why it was not mounted.
    pub not_mounted: Option<String>,
    /// Why it could not be read as a whole.
    pub unreadable: Option<String>,
    pub tree: Option<ObservedTree>,
    pub program: Option<ProgramView>,
    /// Why a new file could not be written and synced.
    pub not_writable: Option<String>,
    /// Errors in the kernel log.
    pub kernel_errors: Vec<String>,
}

/// How a file system is mounted and looked at.
pub struct MountLook<'a> {
    pub runner: &'a dyn Runner,
    /// Without links: the kernel log has this name.
    pub node: &'a Path,
    pub kind: &'a str,
    pub options: &'a [String],
    pub point: &'a Path,
    /// Looks at what is mounted instead of reading the workload's own files.
    pub check: Option<&'a Program>,
}

impl MountLook<'_> {
    /// Mounts, looks, writes and unmounts. `on_mount` is told how long the mount took, whether it
    /// succeeded or not.
    ///
    /// # Errors
    /// When something other than the file system fails.
    pub fn view(
        &self,
        log: &mut KernelLog,
        input: &str,
        on_mount: impl FnOnce(Duration),
    ) -> Result<MountedView, CrashError> {
        let mut view = MountedView::default();
        await_free(self.node)?;
        let start = Instant::now();
        let mounted = mount_with(self.node, self.kind, self.point, self.options);
        on_mount(start.elapsed());
        match mounted {
            Err(error) => view.not_mounted = Some(error.to_string()),
            Ok(()) => {
                match self.check {
                    Some(check) => view.program = Some(self.program_view(check, input)?),
                    None => match ObservedTree::read(self.point) {
                        Ok(tree) => view.tree = Some(tree),
                        Err(error) => view.unreadable = Some(error.to_string()),
                    },
                }
                view.not_writable = not_writable(self.point, self.kind);
                unmount_at(self.point)?;
            }
        }
        view.kernel_errors = errors(&log.take(), self.node);
        Ok(view)
    }

    fn program_view(&self, check: &Program, input: &str) -> Result<ProgramView, CrashError> {
        let program = check.clone().stdin(input).timeout(CHECK_LIMIT);
        match self.runner.run(&program) {
            Ok(outcome) => Ok(ProgramView {
                code: outcome.code,
                output: outcome.stdout,
                error: outcome.stderr.lines().last().unwrap_or_default().to_owned(),
            }),
            Err(error @ ProgramError::TimedOut { .. }) => {
                Ok(ProgramView { code: None, output: String::new(), error: error.to_string() })
            }
            Err(error) => Err(error.into()),
        }
    }
}

/// Why a new file cannot be written and synced. A file system that its files have filled is sound.
fn not_writable(root: &Path, kind: &str) -> Option<String> {
    let error = probe(root).err()?;
    if error.kind() != std::io::ErrorKind::StorageFull || !fullness::is_full(root) {
        return Some(error.to_string());
    }
    (!fullness::may_be_filled_by_files(root, kind))
        .then(|| format!("{error}, although files occupy little of it"))
}

/// Writes, syncs and removes a file.
fn probe(root: &Path) -> std::io::Result<()> {
    let path = root.join(PROBE_NAME);
    let mut file = std::fs::File::create(&path)?;
    file.write_all(&[0x5a; 4096])?;
    file.sync_all()?;
    std::fs::remove_file(path)
}

/// A message that is the same on every device: which loop device was free is chance.
pub(super) fn without_name(text: &str, node: &Path) -> String {
    let name = node.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let text = text.replace(&node.display().to_string(), &name);
    let mut rest = text.as_str();
    let mut renamed = String::new();
    while let Some(at) = position(rest, &name) {
        renamed += &rest[..at];
        renamed += "DEVICE";
        rest = &rest[at + name.len()..];
    }
    renamed + rest
}

/// Where a text names a device: `loop1` is not in a message about `loop10`.
fn position(text: &str, name: &str) -> Option<usize> {
    let is_whole = |&(at, _): &(usize, &str)| {
        let before = text[..at].chars().next_back();
        let after = text[at + name.len()..].chars().next();
        !before.is_some_and(char::is_alphanumeric) && !after.is_some_and(|c| c.is_ascii_digit())
    };
    text.match_indices(name).find(is_whole).map(|(at, _)| at)
}

/// The lines of the kernel log that report errors of this device.
fn errors(lines: &[String], node: &Path) -> Vec<String> {
    const ERRORS: [&str; 7] =
        ["error", "corrupt", "critical", "warning", "bug:", "call trace", "shutdown"];
    let name = node.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let is_error = |line: &&String| {
        let lower = line.to_ascii_lowercase();
        let about = position(&lower, &name).is_some();
        // ext4 writes that it has nothing against errors: "errors=remount-ro" and the like.
        let says = ERRORS.iter().any(|word| lower.contains(word)) && !lower.contains("errors=");
        about && says && !lower.contains("warning: mounting")
    };
    lines.iter().filter(is_error).map(|line| without_name(line, node)).collect()
}

#[cfg(test)]
mod tests {
    use flashfit_host::SystemRunner;
    use flashfit_test_support::{block_devices, isolated, programs, skip};

    use super::*;

    #[test]
    fn a_file_system_that_is_full_is_not_broken() {
        flashfit_test_support::isolated_if_root(|| {
            let place = tempfile::tempdir().unwrap();
            let mount = |options: &str| {
                let program = Program::new("mount").args(["-t", "tmpfs", "-o", options, "none"]);
                SystemRunner::default().run_checked(&program.arg(place.path())).is_ok()
            };
            if !mount("size=2m") {
                return;
            }
            let found = |kind| not_writable(place.path(), kind);
            assert_eq!(found("tmpfs"), None);
            let large = place.path().join("large");
            fill(&large);
            assert_eq!(found("tmpfs"), None);
            // Space that no name leads to is lost.
            let lost = std::fs::File::open(&large).unwrap();
            std::fs::remove_file(&large).unwrap();
            let why = found("tmpfs").unwrap();
            assert!(why.contains("No space") && why.contains("files occupy little"), "{why}");
            assert_eq!(found("nilfs2"), None);
            drop(lost);
            assert!(mount("remount,ro"));
            assert!(found("tmpfs").unwrap().contains("Read-only"));
        });
    }

    #[test]
    fn what_is_reserved_for_root_is_not_free() {
        if skip(block_devices().or(programs(&["mkfs.ext4"]))) {
            return;
        }
        isolated(|| {
            let place = tempfile::tempdir().unwrap();
            let (image, point) = (place.path().join("image"), place.path().join("point"));
            std::fs::File::create(&image).unwrap().set_len(32 << 20).unwrap();
            std::fs::create_dir(&point).unwrap();
            let run = |program: Program| SystemRunner::default().run_checked(&program).unwrap();
            let mkfs = Program::new("mkfs.ext4").args(["-q", "-m", "20"]).arg(&image);
            let mount = Program::new("mount").args(["-o", "loop"]).arg(&image).arg(&point);
            run(mkfs);
            run(mount);
            // Root may use the reserve, users may not.
            let filled = point.join("filled");
            fill(&filled);
            let left = std::fs::File::options().write(true).open(&filled).unwrap();
            left.set_len(left.metadata().unwrap().len() - (2 << 20)).unwrap();
            left.sync_all().unwrap();
            assert!(fullness::is_full(&point));
            assert_eq!(not_writable(&point, "ext4"), None);
            fill(&point.join("rest"));
            assert_eq!(not_writable(&point, "ext4"), None);
            let lost = [left, std::fs::File::open(point.join("rest")).unwrap()];
            std::fs::remove_file(&filled).unwrap();
            std::fs::remove_file(point.join("rest")).unwrap();
            let why = not_writable(&point, "ext4");
            drop(lost);
            run(Program::new("umount").arg(&point));
            assert!(why.unwrap().contains("files occupy little"));
        });
    }

    fn fill(path: &Path) {
        let mut file = std::fs::File::create(path).unwrap();
        while file.write_all(&[1; 4096]).is_ok() {}
    }

    #[test]
    fn errors_of_another_device_are_not_those_of_this_one() {
        let node = Path::new("/dev/loop1");
        let line =
            |name: &str| format!("EXT4-fs error (device {name}): ext4_lookup: checksum invalid");
        let lines = ["loop1", "loop10", "loop12p1", "vloop1", "loop1p1"].map(line);
        let found = errors(&lines, node);
        assert_eq!(found, ["DEVICE", "DEVICEp1"].map(line));
        assert_eq!(without_name("/dev/loop1: loop10 and loop1", node), "DEVICE: loop10 and DEVICE");
    }
}
