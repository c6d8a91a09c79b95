//! Writes and syncs files in turn, which must exist after a power cut.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use flashfit_device::random::Random;

/// Number of files, some of which are new and others overwritten.
const FILES: u64 = 6;
/// Not a multiple of any card's page size.
const BYTES: usize = 44 << 10;

/// Writes generations of files and remembers what was synced.
pub struct Witness {
    folder: PathBuf,
    synced: AtomicU64,
}

impl Witness {
    /// Writes to a directory of a mounted file system.
    pub fn new(mount_point: &Path) -> Self {
        Self { folder: mount_point.join("witness"), synced: AtomicU64::new(0) }
    }

    /// Number of synced generations.
    pub fn synced(&self) -> u64 {
        self.synced.load(Ordering::SeqCst)
    }

    /// Writes generations until an error, or until this many are synced.
    pub fn write_up_to(&self, generations: u64) -> io::Result<()> {
        std::fs::create_dir_all(&self.folder)?;
        sync_folder(self.folder.parent().expect("it lies on the mount point"))?;
        for generation in self.synced()..generations {
            let path = self.file(generation % FILES);
            let file = OpenOptions::new().create(true).write(true).truncate(false).open(path)?;
            file.write_all_at(&pattern(generation), 0)?;
            file.sync_all()?;
            if generation < FILES {
                sync_folder(&self.folder)?;
            }
            self.synced.store(generation + 1, Ordering::SeqCst);
        }
        Ok(())
    }

    fn file(&self, number: u64) -> PathBuf {
        self.folder.join(number.to_string())
    }

    /// Checks that each file has its last synced content. Only the file being written at the power
    /// cut may have either of two generations.
    pub fn check(&self) -> Result<(), String> {
        let synced = self.synced();
        for number in 0..FILES.min(synced) {
            let last = synced - 1 - (synced - 1 - number) % FILES;
            let path = self.file(number);
            let bytes = std::fs::read(&path).map_err(|e| format!("{}: {e}", path.display()))?;
            let next = (number == synced % FILES).then(|| pattern(synced));
            let wanted = pattern(last);
            if bytes.len() != BYTES {
                return Err(format!("file {number} has {} bytes", bytes.len()));
            }
            for (at, chunk) in bytes.chunks(512).enumerate() {
                let place = at * 512..at * 512 + chunk.len();
                let newer = next.as_ref().is_some_and(|next| next[place.clone()] == *chunk);
                if chunk != &wanted[place] && !newer {
                    return Err(format!(
                        "sector {at} of file {number}, synced as generation {last} of {synced}, is \
                         lost: {:x?}",
                        &chunk[..16]
                    ));
                }
            }
        }
        Ok(())
    }
}

fn sync_folder(folder: &Path) -> io::Result<()> {
    File::open(folder)?.sync_all()
}

/// Different for each generation and sector.
fn pattern(generation: u64) -> Vec<u8> {
    let mut random = Random::new(generation + 1);
    (0..BYTES / 8).flat_map(|_| random.next_u64().to_le_bytes()).collect()
}
