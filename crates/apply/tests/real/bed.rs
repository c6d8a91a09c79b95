//! What the tests lie on: images with a user's data in them, works, and what is left afterwards.

use std::fs::OpenOptions;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Child;
use std::time::{Duration, Instant};

use flashfit_apply::partition::NewPartition;
use flashfit_apply::{ApplyJob, UnfinishedChange, UnfinishedRecords, unfinished};
use flashfit_device::{Bytes, Device, SystemRoots, TargetFile, WriteConsent, in_use};
use flashfit_host::{Program, SystemRunner};
use flashfit_test_support::{self as test_support, MissingNeed};

use crate::worker::Order;

/// Beyond this something hangs.
const PATIENCE: Duration = Duration::from_secs(30);
const IMAGE_BYTES: u64 = 16 << 20;
const MIB: u64 = 1 << 20;

/// A work by what is special about it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// ext4 in the partition of a GPT.
    Gpt,
    /// ext4 in the partition of an MBR.
    Mbr,
    /// ext4 without a partition table.
    Whole,
    /// The same, and it does not become what it should.
    Wrong,
}

impl Kind {
    /// Its name as an argument.
    pub fn name(self) -> &'static str {
        match self {
            Self::Gpt => "gpt",
            Self::Mbr => "mbr",
            Self::Whole => "whole",
            Self::Wrong => "wrong",
        }
    }

    /// The kind of that name.
    pub fn of(name: &str) -> Option<Self> {
        [Self::Gpt, Self::Mbr, Self::Whole, Self::Wrong]
            .into_iter()
            .find(|kind| kind.name() == name)
    }
}

/// Why the tests cannot be made here.
pub fn missing() -> Option<MissingNeed> {
    let needed = ["sfdisk", "mkfs.ext4", "mount", "partx", "wipefs"];
    test_support::block_devices().or_else(|| test_support::programs(&needed))
}

/// The work of a kind on a block device.
pub fn work(kind: Kind, consent: &WriteConsent) -> ApplyJob {
    let disk = consent.path();
    let capacity = consent.device().capacity.0;
    let label = match kind {
        Kind::Gpt => "gpt",
        Kind::Mbr | Kind::Whole | Kind::Wrong => "dos",
    };
    let (start, size) = (MIB, capacity - 2 * MIB);
    let script = format!("label: {label}\nstart={}, size={}\n", start / 512, size / 512);
    let sfdisk = Program::new("sfdisk")
        .args(["--quiet", "--wipe", "always", "--wipe-partitions", "always"])
        .arg(disk)
        .stdin(script);
    let node = PathBuf::from(format!("{}p1", disk.display()));
    let partition = NewPartition { sfdisk, node, start: Bytes(start), size: Bytes(size) };
    let has_table = matches!(kind, Kind::Gpt | Kind::Mbr);
    let partition = has_table.then_some(partition);
    let node = partition.as_ref().map_or_else(|| disk.to_owned(), |found| found.node.clone());
    let mkfs = Program::new("mkfs.ext4")
        .args(["-q", "-F", "-b", "4096", "-E", "stride=2,stripe-width=1024"])
        .arg(&node);
    let stride = if kind == Kind::Wrong { 4 } else { 2 };
    ApplyJob {
        second: None,
        image: None,
        label: None,
        partition,
        format_commands: vec![mkfs],
        node,
        kind: "ext4".to_owned(),
        mount_options: vec!["noatime".to_owned(), "commit=30".to_owned()],
        scheduler: "none".to_owned(),
        numbers: vec![
            ("stride_blocks".to_owned(), stride),
            ("stripe_width_blocks".to_owned(), 1024),
        ],
        fstab_line: "UUID=YOUR-UUID /mnt/flash ext4 noatime,nofail 0 2".to_owned(),
        udev_rule: "KERNEL==\"loop7\"".to_owned(),
    }
}

/// An image with a user's data on it, and the folders that go with it; removed with the value.
pub struct Bed {
    folder: tempfile::TempDir,
    /// What the image held at first.
    pub original: Vec<u8>,
}

impl Bed {
    /// An image whose every sector differs from every other.
    pub fn new() -> Self {
        // In memory, where syncing costs nothing; where there is none, on the disk.
        let folder = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap();
        let original: Vec<u8> =
            (0..IMAGE_BYTES / 8).flat_map(|at| (at | 1 << 63).to_le_bytes()).collect();
        let bed = Self { folder, original };
        bed.rewind();
        bed
    }

    /// A path in the folder.
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub fn image(&self) -> PathBuf {
        self.path("image")
    }

    /// Puts everything back to the beginning.
    pub fn rewind(&self) {
        std::fs::write(self.image(), &self.original).unwrap();
        for folder in ["backup", "state"] {
            let _ = std::fs::remove_dir_all(self.path(folder));
        }
    }

    /// Keeps what was made, for [`Bed::rewind_to_made`].
    pub fn keep_made(&self) {
        self.copy_folder("backup", "made");
        std::fs::copy(self.image(), self.path("made/image")).unwrap();
    }

    /// Puts everything back to what was made.
    pub fn rewind_to_made(&self) {
        std::fs::write(self.image(), std::fs::read(self.path("made/image")).unwrap()).unwrap();
        let _ = std::fs::remove_dir_all(self.path("state"));
        self.copy_folder("made", "backup");
        std::fs::remove_file(self.path("backup/image")).unwrap();
    }

    fn copy_folder(&self, from: &str, to: &str) {
        let _ = std::fs::remove_dir_all(self.path(to));
        std::fs::create_dir(self.path(to)).unwrap();
        for file in files_in(&self.path(from)) {
            let name = file.file_name().unwrap();
            std::fs::copy(&file, self.path(to).join(name)).unwrap();
        }
    }

    /// The order to make this of the image.
    pub fn order(&self, kind: Option<Kind>, dies_at: u32) -> Order {
        let (backup, state) = (self.path("backup"), self.path("state"));
        Order { image: self.image(), kind, backup, named: true, state, dies_at }
    }

    /// Whether the image is as it was, byte for byte.
    pub fn is_original(&self) -> bool {
        std::fs::read(self.image()).unwrap() == self.original
    }

    /// Whether the first and last 4 MiB are as they were.
    #[track_caller]
    pub fn assert_ends(&self) {
        let now = std::fs::read(self.image()).unwrap();
        let (first, last) = (4 << 20, self.original.len() - (4 << 20));
        assert!(now[..first] == self.original[..first], "the first 4 MiB differ");
        assert!(now[last..] == self.original[last..], "the last 4 MiB differ");
    }

    /// Whether what lies between the table and the partition, such as a boot loader, is as it was.
    #[track_caller]
    pub fn assert_gap(&self) {
        let now = std::fs::read(self.image()).unwrap();
        let (from, to) = (17 << 10, 1 << 20);
        assert!(now[from..to] == self.original[from..to], "the gap was written to");
    }

    /// Whether what is kept in the backup is what the image held at first.
    #[track_caller]
    pub fn assert_backup(&self) {
        let first = std::fs::read(self.path("backup/first.img")).unwrap();
        let last = std::fs::read(self.path("backup/last.img")).unwrap();
        assert!(self.original.starts_with(&first) && first.len() == 4 << 20);
        assert!(self.original.ends_with(&last) && last.len() == 4 << 20);
    }

    /// What is said of the image.
    pub fn unfinished(&self) -> Option<UnfinishedChange> {
        self.unfinished_as("state")
    }

    /// What is said of it on a machine that remembers this.
    pub fn unfinished_as(&self, state: &str) -> Option<UnfinishedChange> {
        let device = Device::from_image(&SystemRunner::default(), &self.image()).unwrap();
        let records = UnfinishedRecords::in_folder(&self.path(state));
        unfinished(&SystemRoots::default(), &device, &records).unwrap()
    }

    /// Waits until nobody has the image any more: the kernel detaches a dead process's loop device
    /// in its own time.
    #[track_caller]
    pub fn wait_until_free(&self) {
        let began = Instant::now();
        let image = TargetFile::open(&self.image()).unwrap();
        while !in_use::of_image(&SystemRoots::default(), &self.image(), &image, &[]).uses.is_empty()
        {
            assert!(began.elapsed() < PATIENCE, "the image stays in use");
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    /// Writes over a few bytes of the image.
    pub fn scribble(&self, offset: u64, bytes: &[u8]) {
        let file = OpenOptions::new().write(true).open(self.image()).unwrap();
        file.write_all_at(bytes, offset).unwrap();
    }
}

/// What a worker said, and how it ended.
pub fn ended(child: Child) -> (Option<i32>, String) {
    let output = child.wait_with_output().unwrap();
    let text = [output.stdout, output.stderr].concat();
    (output.status.code(), String::from_utf8_lossy(&text).into_owned())
}

/// Every file below a folder, so that a test can tell that none was made.
pub fn files_in(folder: &Path) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(folder) else { return Vec::new() };
    entries.map(|entry| entry.unwrap().path()).collect()
}
