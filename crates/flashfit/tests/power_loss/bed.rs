//! A directory in memory in which the command is recorded and states are recreated.

use std::collections::BTreeMap;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use flashfit_test_support as test_support;
use flashfit_test_support::power_loss::{
    CrashDisk, DiskOp, Recorder, StateAfterCut, StateEntry, TracedDevice, record,
};
use tempfile::TempDir;

const FLASHFIT: &str = env!("CARGO_BIN_EXE_flashfit");
/// The device of `apply` and `restore`, in the watched directory.
pub const IMAGE: &str = "image";

/// Records a skip and returns true if the tests cannot run here.
#[must_use]
pub fn skip_without_strace() -> bool {
    let programs = ["strace", "fio", "mkfs.ext4", "sfdisk", "wipefs", "partx"];
    let missing = test_support::block_devices().or_else(|| test_support::programs(&programs));
    test_support::skip(missing)
}

pub struct Recording {
    /// For messages.
    pub name: String,
    /// The state before.
    pub before: Box<dyn Fn() -> CrashDisk>,
    pub ops: Vec<DiskOp>,
}

/// `watched` contains flashfit's files; `outside` is not affected by the power cut.
pub struct CrashBed {
    folder: TempDir,
    /// What is surely in the files that are only changed where a state differs from the last one.
    on_disk: BTreeMap<PathBuf, StateEntry>,
}

impl CrashBed {
    pub fn new() -> Self {
        let folder = test_support::tempdir_in_memory().unwrap();
        for name in ["watched", "outside"] {
            std::fs::create_dir(folder.path().join(name)).unwrap();
        }
        Self { folder, on_disk: BTreeMap::new() }
    }

    /// The directory whose files a power cut may change.
    pub fn root(&self) -> PathBuf {
        self.folder.path().join("watched")
    }

    /// A path in the watched directory.
    pub fn path(&self, name: &str) -> PathBuf {
        self.root().join(name)
    }

    /// A path outside the watched directory.
    pub fn outside(&self, name: &str) -> PathBuf {
        self.folder.path().join("outside").join(name)
    }

    /// The command with the watched directory as its working directory.
    pub fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(FLASHFIT);
        command
            .args(args)
            .current_dir(self.root())
            .env_remove("FLASHFIT_CATALOG")
            .env("XDG_CACHE_HOME", self.outside("cache"))
            .env("FLASHFIT_STATE_DIR", self.path("var/lib/flashfit"));
        command
    }

    /// Runs the command; returns exit code and output.
    pub fn run(&self, args: &[&str]) -> (Option<i32>, String) {
        let output = self.command(args).output().unwrap();
        let text = [output.stdout, output.stderr].concat();
        (output.status.code(), String::from_utf8_lossy(&text).into_owned())
    }

    /// Runs the command, which must succeed.
    #[track_caller]
    pub fn succeed(&self, args: &[&str]) {
        let (code, text) = self.run(args);
        assert_eq!(code, Some(0), "{args:?}: {text}");
    }

    /// Records the command, which must succeed, and replays it. The model must end in the state of
    /// the disk; otherwise an operation was not recorded.
    #[track_caller]
    pub fn record(
        &self,
        name: &str,
        args: &[&str],
        ignored: &[PathBuf],
        device: Option<TracedDevice>,
    ) -> Recording {
        let recorder = Recorder { root: self.root(), ignored: ignored.to_vec(), device };
        let before = self.folder.path().join(format!("before {name}"));
        copy(&self.root(), &before);
        let (output, ops) = record(&recorder, &self.command(args)).unwrap();
        assert!(output.status.success(), "{name}: {output:?}");
        let root = self.root();
        let mut ops = ops;
        let mounted = self.written_by_kernel(&before, &ops);
        let copied = before.clone();
        let disk = move || CrashDisk::read_as(&copied, &root, &[]).unwrap();
        // Nothing but the removal of the marker is written to the device after it was mounted.
        let image = self.path(IMAGE);
        let image_now = std::fs::read(&image).ok();
        let on_device = |op: &DiskOp| matches!(op, DiskOp::Write { path, .. } if *path == image);
        if let Some(last) = ops.iter().rposition(on_device).filter(|_| name.starts_with("apply")) {
            // Without a partition table, mkfs may already have overwritten the marker.
            let places = [last, last + 2];
            let is_at = |at: &usize| {
                let ops = [&ops[..*at], &mounted[..], &ops[*at..]].concat();
                self.replayed_image(&before, &ops).as_deref() == image_now.as_deref()
            };
            let at = places.into_iter().find(is_at).unwrap_or(last);
            ops.splice(at..at, mounted);
        }
        let mut replayed = disk();
        for op in &ops {
            replayed.apply(op).unwrap();
        }
        let found = CrashDisk::read(&self.root(), ignored).unwrap().whole();
        same(name, &replayed.whole(), &found);
        Recording { name: name.to_owned(), before: Box::new(disk), ops }
    }

    /// `apply` mounts the new file system to check it, so the kernel writes to the device. These
    /// writes are the differences at the end, and are synced by the unmount.
    fn written_by_kernel(&self, before: &Path, ops: &[DiskOp]) -> Vec<DiskOp> {
        let path = self.path(IMAGE);
        let Ok(found) = std::fs::read(&path) else { return Vec::new() };
        let replayed = self.replayed_image(before, ops).unwrap();
        let blocks = found.chunks(4096).zip(replayed.chunks(4096)).enumerate();
        let mut kernel: Vec<DiskOp> = blocks
            .filter(|(_, (is, was))| is != was)
            .map(|(number, (is, _))| DiskOp::Write {
                path: path.clone(),
                cache: 1,
                offset: Some(4096 * number as u64),
                data: is.to_vec(),
            })
            .collect();
        if !kernel.is_empty() {
            kernel.push(DiskOp::Sync { path, cache: 1 });
        }
        kernel
    }

    fn replayed_image(&self, before: &Path, ops: &[DiskOp]) -> Option<Vec<u8>> {
        let mut replayed = CrashDisk::read_as(before, &self.root(), &[]).unwrap();
        ops.iter().for_each(|op| replayed.apply(op).unwrap());
        replayed.whole().file(IMAGE)
    }

    /// Makes the watched directory hold this state. The device's file stays the same file; it and
    /// the images of a backup are written only where they differ.
    pub fn put(&mut self, state: &StateAfterCut) {
        let root = self.root();
        self.on_disk.retain(|path, _| state.entries.contains_key(path));
        clear(&root, Path::new(""), state, &self.on_disk);
        for (path, entry) in &state.entries {
            let target = root.join(path);
            match (entry, self.on_disk.get(path)) {
                (StateEntry::Dir, _) => std::fs::create_dir_all(&target).unwrap(),
                (StateEntry::File { .. }, Some(earlier)) => change(&target, earlier, entry),
                (StateEntry::File { .. }, None) => overwrite(&target, &entry.bytes().unwrap()),
            }
            let is_large =
                path == Path::new(IMAGE) || path.extension().is_some_and(|it| it == "img");
            if is_large {
                self.on_disk.insert(path.clone(), entry.clone());
            }
        }
    }

    /// To be called when a file may have been changed by something else: what it holds now, where
    /// that is known.
    pub fn changed(&mut self, path: &str, now: Option<&StateEntry>) {
        match now {
            Some(entry) => self.on_disk.insert(path.into(), entry.clone()),
            None => self.on_disk.remove(Path::new(path)),
        };
    }

    /// To be called when any file may have been changed by something else.
    pub fn forget(&mut self) {
        self.on_disk.clear();
    }
}

fn change(path: &Path, earlier: &StateEntry, now: &StateEntry) {
    let file = std::fs::File::options().write(true).open(path).unwrap();
    for (offset, bytes) in now.differences(earlier) {
        file.write_all_at(bytes, offset).unwrap();
    }
    // The last block may reach beyond the end.
    file.set_len(now.length()).unwrap();
}

/// Keeps the file, so that its number and the time of its creation stay.
pub fn overwrite(path: &Path, bytes: &[u8]) {
    use std::io::Write;
    let mut options = std::fs::File::options();
    let mut file = options.write(true).create(true).truncate(false).open(path).unwrap();
    file.set_len(bytes.len() as u64).unwrap();
    file.write_all(bytes).unwrap();
}

fn clear(root: &Path, below: &Path, state: &StateAfterCut, reused: &BTreeMap<PathBuf, StateEntry>) {
    for entry in std::fs::read_dir(root.join(below)).unwrap() {
        let entry = entry.unwrap();
        let path = below.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            if state.entries.contains_key(&path) {
                clear(root, &path, state, reused);
            } else {
                std::fs::remove_dir_all(entry.path()).unwrap();
            }
        } else if path != Path::new(IMAGE) && !reused.contains_key(&path) {
            std::fs::remove_file(entry.path()).unwrap();
        }
    }
}

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy(&entry.path(), &target);
        } else {
            std::fs::copy(entry.path(), target).unwrap();
        }
    }
}

#[track_caller]
fn same(name: &str, replayed: &StateAfterCut, found: &StateAfterCut) {
    let names = |state: &StateAfterCut| state.entries.keys().cloned().collect::<Vec<_>>();
    assert_eq!(names(replayed), names(found), "{name}: an operation was not recorded");
    for (path, entry) in &found.entries {
        let (is, was) = (entry.bytes(), replayed.entries[path].bytes());
        let differs = is.iter().flatten().zip(was.iter().flatten()).position(|(a, b)| a != b);
        let path = path.display();
        assert!(is == was, "{name}: a write to {path} was not recorded, at {differs:?}");
    }
}
