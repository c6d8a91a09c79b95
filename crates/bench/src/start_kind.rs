//! Kinds of starts of a trial, as `catalog/starts` defines them: what a user's file system may have
//! been through before the work that is measured.
//!
//! Rounds of a comparison go through all kinds in turn, so each kind has the same share. Limit: the
//! shares are not those of a particular user.

use std::path::Path;

use flashfit_catalog::{CatalogEntry, FileMistake, FileMistakes, ReadToml, entries, read_toml};
use flashfit_device::Bytes;
use serde::{Deserialize, Serialize};

use crate::error::BenchError;
use crate::start::{LEAST_FILE_BYTES, most_writing};

/// A range of numbers; both ends are possible.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "(T, T)", into = "(T, T)", bound(serialize = "T: Clone + Serialize"))]
pub struct Span<T> {
    pub least: T,
    pub most: T,
}

impl<T> From<(T, T)> for Span<T> {
    fn from((least, most): (T, T)) -> Self {
        Self { least, most }
    }
}

impl<T> From<Span<T>> for (T, T) {
    fn from(span: Span<T>) -> Self {
        (span.least, span.most)
    }
}

impl Span<u32> {
    /// The number at this place between the ends, 0 to 1, on a logarithmic scale.
    pub fn logarithmic(self, at: f64) -> u32 {
        let span = Span { least: u64::from(self.least), most: u64::from(self.most) };
        u32::try_from(span.logarithmic(at)).expect("it is between numbers of 32 bits")
    }
}

impl Span<u64> {
    /// The number at this place between the ends, 0 to 1, on a logarithmic scale.
    pub fn logarithmic(self, at: f64) -> u64 {
        let (low, high) = ((self.least as f64 + 1.0).ln(), (self.most as f64 + 1.0).ln());
        let value = ((high - low).mul_add(at, low).exp() - 1.0).round() as u64;
        value.clamp(self.least, self.most)
    }

    /// The number at this place between the ends, 0 to 1.
    pub fn linear(self, at: f64) -> u64 {
        let width = (self.most - self.least) as f64;
        self.least + (width * at).round() as u64
    }
}

/// What may happen between mkfs and a workload.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StartKind {
    /// The name of its file, without extension.
    #[serde(default)]
    pub name: String,
    /// When this is, as the end of a sentence: `after a remount`.
    pub title: String,
    /// The chance that mkfs does what the kernel otherwise does in the minutes after the first
    /// mount, such as writing inode tables; not on devices where that takes long.
    #[serde(default)]
    pub settled_percent: u8,
    /// The chance that mkfs does as for the user instead, so that the kernel does it.
    #[serde(default)]
    pub plain_percent: u8,
    /// How many files are written.
    #[serde(default)]
    pub files: Span<u32>,
    /// The size of the largest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file_size: Option<Span<Bytes>>,
    /// An fsync after every so many files; 0 for none.
    #[serde(default)]
    pub sync_every: u32,
    /// The chance that every other file is removed.
    #[serde(default)]
    pub removed_percent: u8,
    /// The chance that the file system is mounted again.
    #[serde(default)]
    pub remounted_percent: u8,
    /// How long the device is idle then.
    #[serde(default)]
    pub idle_ms: Span<u64>,
}

/// The most that a kind may ask for.
const MOST_FILES: u32 = 10_000;
const MOST_FILE_BYTES: u64 = 64 << 20;
const MOST_IDLE_MS: u64 = 60_000;
/// Places in a range of which a mean is computed.
const PLACES: u32 = 16;

/// The mean size of files of which the largest has so many bytes.
fn size_of_files(largest: u64) -> u64 {
    let halvings = u64::from((largest / LEAST_FILE_BYTES).max(1).ilog2()) + 1;
    (0..halvings).map(|halving| largest >> halving).sum::<u64>() / halvings
}

impl StartKind {
    /// The longest that it takes before a workload that may run so long, in nanoseconds.
    pub fn most_ns(&self, runtime_ns: u64) -> u64 {
        let writing = if self.files.most > 0 { most_writing(runtime_ns).as_nanos() } else { 0 };
        let writing_ns = u64::try_from(writing).expect("some seconds");
        writing_ns + (self.idle_ms.most * 1_000_000).min(runtime_ns)
    }

    /// What it writes on average on a device that is fast enough, in bytes.
    pub fn mean_written_bytes(&self) -> u64 {
        let Some(size) = self.file_size else { return 0 };
        let size = Span { least: size.least.0, most: size.most.0 };
        let at = |place: u32| f64::from(2 * place + 1) / f64::from(2 * PLACES);
        let files: u64 = (0..PLACES).map(|p| u64::from(self.files.logarithmic(at(p)))).sum();
        let bytes: u64 = (0..PLACES).map(|p| size_of_files(size.logarithmic(at(p)))).sum();
        files * bytes / u64::from(PLACES * PLACES)
    }

    fn parse(entry: &CatalogEntry) -> Result<Self, FileMistakes> {
        let ReadToml { value, mut mistakes } = read_toml::<Self>(&entry.text);
        let rules = value.iter().flat_map(Self::broken_rules);
        mistakes.extend(rules.map(|reason| FileMistake { line: 1, reason }));
        match value {
            Some(read) if mistakes.is_empty() => Ok(Self { name: entry.name.clone(), ..read }),
            _ => Err(FileMistakes::new(&entry.origin, mistakes)),
        }
    }

    fn broken_rules(&self) -> Vec<String> {
        let sizes = self.file_size.unwrap_or_default();
        let is_range = self.files.least <= self.files.most
            && sizes.least <= sizes.most
            && self.idle_ms.least <= self.idle_ms.most;
        let is_small = self.files.most <= MOST_FILES
            && sizes.most.0 <= MOST_FILE_BYTES
            && self.idle_ms.most <= MOST_IDLE_MS;
        let mut broken = Vec::new();
        if !is_range {
            broken.push("a range is written [LEAST, MOST]".to_owned());
        }
        if !is_small {
            let size = Bytes(MOST_FILE_BYTES);
            let most = format!("{MOST_FILES} files of {size} and {MOST_IDLE_MS} ms");
            broken.push(format!("at most {most} are possible"));
        }
        if self.files.most > 0 && self.file_size.is_none() {
            broken.push("files need a file_size".to_owned());
        }
        broken
    }
}

/// All kinds, sorted by name. `user` is the user's catalog directory.
///
/// # Errors
/// An unreadable directory; [`BenchError::BadFiles`] for the first invalid file.
pub fn load(user: Option<&Path>) -> Result<Vec<StartKind>, BenchError> {
    let parse = |entry| StartKind::parse(entry).map_err(|bad| BenchError::BadFiles(vec![bad]));
    entries("starts", "toml", user)?.iter().map(parse).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::start::StartVariation;

    #[test]
    fn the_built_in_kinds_begin_with_a_new_file_system() {
        let kinds = load(None).unwrap();
        let names: Vec<&str> = kinds.iter().map(|kind| kind.name.as_str()).collect();
        assert_eq!(names, ["1-new", "2-remounted", "3-synced", "4-written"]);
        assert_eq!(kinds[0].files, Span { least: 0, most: 0 });
        let text = serde_json::to_string(&kinds).unwrap();
        assert_eq!(serde_json::from_str::<Vec<StartKind>>(&text).unwrap(), kinds);
    }

    #[test]
    fn ranges_are_drawn_from_end_to_end() {
        let span = Span { least: 4_u64, most: 1000 };
        assert_eq!((span.logarithmic(0.0), span.logarithmic(1.0)), (4, 1000));
        assert!((60..80).contains(&span.logarithmic(0.5)));
        assert_eq!(span.linear(0.5), 502);
        assert_eq!(Span { least: 0_u32, most: 0 }.logarithmic(0.7), 0);
    }

    #[test]
    fn what_a_start_takes_and_writes_is_estimated() {
        let kinds = load(None).unwrap();
        let cost = |kind: &StartKind| (kind.most_ns(2_000_000_000), kind.mean_written_bytes());
        assert_eq!(cost(&kinds[0]), (0, 0));
        let (slowest_ns, bytes) = cost(&kinds[3]);
        assert_eq!(slowest_ns, 6_000_000_000);
        assert!((8 << 20..24 << 20).contains(&bytes), "{bytes}");
        // The draws of a kind write as much on average.
        let size = |seed| {
            let draw = StartVariation::draw(&kinds[3], seed, 2_000_000_000);
            u64::from(draw.files) * size_of_files(draw.file_bytes)
        };
        let mean = (0..2000).map(size).sum::<u64>() / 2000;
        assert!((mean * 9 / 10..mean * 11 / 10).contains(&bytes), "{mean}, {bytes}");
    }

    #[test]
    fn an_invalid_file_is_named_with_the_reason() {
        for (text, reason) in [
            ("title = \"x\"\nfiles = [2, 1]\nfile_size = [1, 2]", "[LEAST, MOST]"),
            ("title = \"x\"\nfiles = [1, 2]", "need a file_size"),
            ("title = \"x\"\nidle_ms = [0, 100000]", "at most"),
            ("files = [1, 2]", "title"),
            ("title = \"x\"\nfile = 3", "unknown field"),
        ] {
            let user = tempfile::tempdir().unwrap();
            std::fs::create_dir(user.path().join("starts")).unwrap();
            std::fs::write(user.path().join("starts/mine.toml"), text).unwrap();
            let error = load(Some(user.path())).unwrap_err().to_string();
            assert!(error.contains("mine.toml") && error.contains(reason), "{error}");
        }
    }
}
