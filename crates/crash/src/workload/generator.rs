//! What both generators of workloads need: random choices, and what the files are at each moment.

use std::collections::BTreeMap;

use flashfit_device::random::Random;

use super::Operation;

/// A workload under construction.
pub(super) struct Generator {
    pub(super) random: Random,
    pub(super) operations: Vec<Operation>,
    /// Each file's size in sectors.
    pub(super) files: BTreeMap<String, u32>,
    pub(super) dirs: Vec<String>,
    next_name: u32,
}

impl Generator {
    pub(super) fn new(seed: u64) -> Self {
        Self {
            random: Random::new(seed),
            operations: Vec::new(),
            files: BTreeMap::new(),
            dirs: Vec::new(),
            next_name: 0,
        }
    }

    pub(super) fn below(&mut self, limit: u32) -> u32 {
        u32::try_from(self.random.below(u64::from(limit))).expect("below a u32")
    }

    /// True in so many of 100 cases.
    pub(super) fn percent(&mut self, percent: u32) -> bool {
        self.below(100) < percent
    }

    /// The number of sectors of a write: mostly whole blocks, sometimes not.
    pub(super) fn write_sectors(&mut self) -> u32 {
        match self.below(4) {
            0 => 1 + self.below(12),
            1 => 8,
            2 => 8 * (1 + self.below(4)),
            _ => 8 * (1 + self.below(8)),
        }
    }

    pub(super) fn make_dir(&mut self, path: &str) {
        self.dirs.push(path.to_owned());
        self.operations.push(Operation::MakeDir { path: path.to_owned() });
    }

    /// A new name in one of the directories or the root.
    pub(super) fn new_path(&mut self, prefix: &str) -> String {
        self.next_name += 1;
        let name = format!("{prefix}{}", self.next_name);
        let dirs = u32::try_from(self.dirs.len()).expect("few directories");
        match self.below(dirs + 1) {
            0 => name,
            dir => format!("{}/{name}", self.dirs[dir as usize - 1]),
        }
    }

    pub(super) fn create(&mut self, path: &str) {
        self.files.insert(path.to_owned(), 0);
        self.operations.push(Operation::Create { path: path.to_owned() });
    }

    pub(super) fn write(&mut self, path: &str, sector: u32, sectors: u32, synchronous: bool) {
        let size = self.files.get_mut(path).expect("only files are written");
        *size = (*size).max(sector + sectors);
        let path = path.to_owned();
        self.operations.push(Operation::Write { path, sector, sectors, synchronous });
    }

    pub(super) fn rename(&mut self, from: &str, to: &str) {
        let size = self.files.remove(from).expect("only files are renamed");
        self.files.insert(to.to_owned(), size);
        self.operations.push(Operation::Rename { from: from.to_owned(), to: to.to_owned() });
    }

    pub(super) fn unlink(&mut self, path: &str) {
        self.files.remove(path);
        self.operations.push(Operation::Unlink { path: path.to_owned() });
    }

    pub(super) fn fsync(&mut self, path: &str) {
        let path = path.to_owned();
        let operation = match self.below(4) {
            0 => Operation::Fdatasync { path },
            _ => Operation::Fsync { path },
        };
        self.operations.push(operation);
    }

    /// Any file that is not one of the reference files.
    pub(super) fn any_file(&mut self) -> Option<String> {
        let files: Vec<&String> =
            self.files.keys().filter(|path| !path.starts_with(REFERENCE)).collect();
        let count = u64::try_from(files.len()).expect("few files");
        if count == 0 {
            return None;
        }
        let chosen = self.random.below(count);
        files.get(usize::try_from(chosen).expect("few files")).map(|path| (*path).clone())
    }

    /// Files that are synced once and then left alone.
    pub(super) fn reference_files(&mut self, count: u32) {
        for number in 0..count {
            let path = format!("{REFERENCE}{number}");
            self.create(&path);
            let sectors = self.write_sectors();
            self.write(&path, 0, sectors, false);
        }
        self.operations.push(Operation::SyncAll);
    }
}

const REFERENCE: &str = "reference-";
