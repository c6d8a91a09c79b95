//! What was found before, kept in one JSON file: findings hold for one kernel, one set of programs,
//! one catalog file and one geometry.
//!
//! The file is written under another name and renamed, so two flashfits at once cost a record at
//! most. A file that is damaged, of another version or not ours is passed over and written again.
//! Limit: an entry does not say which flashfit judged, so [`VERSION`] rises when the verdicts
//! change.

use std::ffi::OsString;
use std::io::Write;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::finding::{OptionFinding, OptionFindings, OptionVerdict};

const SCHEMA: &str = "flashfit.options-cache";
const VERSION: u32 = 1;
/// A machine has few kernels and file systems; older records go.
const MOST_RECORDS: usize = 64;
/// A larger file is not ours.
const MOST_BYTES: u64 = 8 << 20;

/// What findings depend on; see [`super::key_elsewhere`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OptionCacheKey {
    pub(super) filesystem: String,
    /// Release and build of the kernel.
    pub(super) kernel: String,
    /// Programs, each with what it says of its version.
    pub(super) programs: Vec<String>,
    /// A hash of the catalog's file.
    #[serde(rename = "catalogue")]
    pub(super) catalog: String,
    /// A hash of the conditions.
    pub(super) conditions: String,
    /// Whether images could be mounted.
    pub(super) mounted: bool,
}

impl OptionCacheKey {
    /// Whether kernel and programs are the same.
    pub(super) fn is_same_machine(&self, other: &Self) -> bool {
        self.kernel == other.kernel && self.programs == other.programs
    }
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Record {
    key: OptionCacheKey,
    findings: OptionFindings,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    schema: String,
    schema_version: u32,
    records: Vec<Record>,
}

/// Findings of earlier runs.
#[derive(Debug, Clone)]
pub struct Cache {
    path: Option<PathBuf>,
}

impl Cache {
    /// The user's: `flashfit/options.json` in `$XDG_CACHE_HOME` or `~/.cache`; nowhere when
    /// neither is known.
    pub fn of_user() -> Self {
        let path = folder(std::env::var_os("XDG_CACHE_HOME"), std::env::var_os("HOME"));
        Self { path: path.map(|folder| folder.join("flashfit/options.json")) }
    }

    /// In a file of that name.
    pub fn at(path: &Path) -> Self {
        Self { path: Some(path.to_owned()) }
    }

    /// None: everything is found out again.
    pub fn none() -> Self {
        Self { path: None }
    }

    /// What was found under this key.
    pub fn get(&self, key: &OptionCacheKey) -> Option<OptionFindings> {
        let record = self.read().into_iter().find(|record| record.key == *key)?;
        Some(record.findings)
    }

    /// What was refused of an option of a file system by its catalog's hash, and under which key.
    pub(super) fn refusals(
        &self,
        filesystem: &str,
        catalog: &str,
        option: &str,
    ) -> Vec<(OptionCacheKey, OptionFinding)> {
        let records = self
            .read()
            .into_iter()
            .filter(|record| record.key.filesystem == filesystem && record.key.catalog == catalog);
        let refused = |record: Record| {
            let found = record.findings.of(option)?.clone();
            (found.verdict == OptionVerdict::Refused).then_some((record.key, found))
        };
        records.filter_map(refused).collect()
    }

    /// Keeps findings in place of earlier ones, unless a program was missing: installing one is
    /// quicker seen than an old record. Otherwise the reason why it could not.
    ///
    /// # Errors
    /// In words.
    pub fn keep(&self, key: OptionCacheKey, findings: &OptionFindings) -> Result<(), String> {
        let is_lasting = |found: &OptionFinding| found.verdict != OptionVerdict::ToolMissing;
        if findings.options.iter().all(is_lasting) { self.put(key, findings) } else { Ok(()) }
    }

    fn put(&self, key: OptionCacheKey, findings: &OptionFindings) -> Result<(), String> {
        let Some(path) = &self.path else {
            return Err("neither XDG_CACHE_HOME nor HOME names a folder".to_owned());
        };
        let mut records = self.read();
        records.retain(|record| record.key != key);
        records.push(Record { key, findings: findings.clone() });
        let surplus = records.len().saturating_sub(MOST_RECORDS);
        records.drain(..surplus);
        let file = File { schema: SCHEMA.to_owned(), schema_version: VERSION, records };
        let text = serde_json::to_vec(&file).expect("records are plain data");
        write_whole(path, &text).map_err(|error| format!("{}: {error}", path.display()))
    }

    fn read(&self) -> Vec<Record> {
        let read = || -> Option<Vec<Record>> {
            let path = self.path.as_ref()?;
            let found = std::fs::metadata(path).ok()?;
            if !found.is_file() || found.len() > MOST_BYTES {
                return None;
            }
            let file: File = serde_json::from_slice(&std::fs::read(path).ok()?).ok()?;
            (file.schema == SCHEMA && file.schema_version == VERSION).then_some(file.records)
        };
        read().unwrap_or_default()
    }
}

/// The XDG base directory specification: a path that is not absolute is ignored.
fn folder(cache_home: Option<OsString>, home: Option<OsString>) -> Option<PathBuf> {
    let absolute = |path: Option<OsString>| path.map(PathBuf::from).filter(|p| p.is_absolute());
    absolute(cache_home).or_else(|| absolute(home).map(|home| home.join(".cache")))
}

fn write_whole(path: &Path, bytes: &[u8]) -> std::io::Result<()> {
    let folder = path.parent().unwrap_or(Path::new("."));
    std::fs::create_dir_all(folder)?;
    let mut draft = tempfile::NamedTempFile::new_in(folder)?;
    draft.write_all(bytes)?;
    draft.persist(path).map(drop).map_err(|error| error.error)
}

/// A hash that is the same on every machine, as text.
pub(super) fn hash(text: &str) -> String {
    format!("{:016x}", flashfit_numbers::fnv1a(text.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(kernel: &str) -> OptionCacheKey {
        OptionCacheKey {
            filesystem: "ext4".into(),
            kernel: kernel.into(),
            programs: vec!["mke2fs 1.47.0".into()],
            catalog: hash("a"),
            conditions: hash("b"),
            mounted: true,
        }
    }

    fn findings(reason: &str) -> OptionFindings {
        OptionFindings {
            filesystem: "ext4".into(),
            not_mounted: Some(reason.into()),
            options: Vec::new(),
        }
    }

    #[test]
    fn findings_are_kept_for_their_key_only_and_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let cache = Cache::at(&folder.path().join("deep/options.json"));
        assert_eq!(cache.get(&key("6.1")), None);
        cache.put(key("6.1"), &findings("one")).unwrap();
        cache.put(key("6.2"), &findings("two")).unwrap();
        cache.put(key("6.1"), &findings("three")).unwrap();
        assert_eq!(cache.get(&key("6.1")), Some(findings("three")));
        assert_eq!(cache.get(&key("6.2")), Some(findings("two")));
        assert_eq!(cache.get(&OptionCacheKey { catalog: hash("c"), ..key("6.1") }), None);
        assert_eq!(cache.read().len(), 2);
        let names = std::fs::read_dir(folder.path().join("deep")).unwrap().count();
        assert_eq!(names, 1, "a draft is left");
    }

    #[test]
    fn a_damaged_or_foreign_file_is_written_anew() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("options.json");
        let cache = Cache::at(&path);
        let foreign = r#"{"schema":"flashfit.options-cache","schema_version":99,"records":[]}"#;
        for text in ["", "{", "[]", "\0\0", foreign, r#"{"schema":"x"}"#] {
            std::fs::write(&path, text).unwrap();
            assert_eq!(cache.get(&key("6.1")), None, "{text}");
            cache.put(key("6.1"), &findings("new")).unwrap();
            assert_eq!(cache.get(&key("6.1")), Some(findings("new")));
        }
    }

    #[test]
    fn the_file_does_not_grow_without_end() {
        let folder = tempfile::tempdir().unwrap();
        let cache = Cache::at(&folder.path().join("options.json"));
        for number in 0..MOST_RECORDS + 3 {
            cache.put(key(&number.to_string()), &findings("x")).unwrap();
        }
        assert_eq!(cache.read().len(), MOST_RECORDS);
        assert_eq!(cache.get(&key("0")), None, "the oldest goes");
    }

    #[test]
    fn where_nothing_can_be_kept_the_reason_is_told() {
        assert!(Cache::none().put(key("1"), &findings("x")).is_err());
        let file = tempfile::NamedTempFile::new().unwrap();
        let below_a_file = Cache::at(&file.path().join("options.json"));
        assert!(below_a_file.put(key("1"), &findings("x")).unwrap_err().contains("options.json"));
    }

    #[test]
    fn the_folder_is_the_users_cache() {
        let os = |text: &str| Some(OsString::from(text));
        assert_eq!(folder(os("/c"), os("/h")), Some("/c".into()));
        assert_eq!(folder(os("c"), os("/h")), Some("/h/.cache".into()), "not absolute");
        assert_eq!(folder(os(""), os("/h")), Some("/h/.cache".into()));
        assert_eq!(folder(None, None), None);
        assert_eq!(hash(""), "cbf29ce484222325");
        assert_eq!(hash("a"), "af63dc4c8601ec8c");
    }
}
