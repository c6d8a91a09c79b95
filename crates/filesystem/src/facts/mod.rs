//! Reads the parameters of a file system from a node or an image with its own tools; read-only.
//!
//! blkid(8) reports the kind. ext2 to ext4, btrfs, xfs and squashfs are then asked by dumpe2fs,
//! btrfs, xfs_db and unsquashfs. Of FAT, exFAT, f2fs and nilfs2 the first bytes are read here: the
//! tools of the first two tell no stable text, dump.f2fs opens what it reads for writing, and
//! nilfs-tune takes no image files.
//!
//! Limits: each is asked for what the planner decides (blocks, units, where data begins), not for
//! everything it can tell; of several copies of a superblock the first is read.

mod btrfs;
mod bytes;
mod exfat;
mod extended;
mod f2fs;
mod fat;
mod lines;
mod nilfs2;
mod squashfs;
mod xfs;

use std::io::{Read as _, Seek as _, SeekFrom};
use std::path::Path;

use flashfit_host::{Program, ProgramError, Runner};
use flashfit_user_error::{ExitClass, Hint, UserError};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What blkid(8) reads at least at the beginning and at the end.
const AT_BEGIN_BYTES: u64 = 128 << 10;
const AT_END_BYTES: u64 = 64 << 10;
/// Large enough for every superblock that is read here.
const FIRST_BYTES: usize = 8 << 10;

/// Why a file system cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum FactsError {
    /// A program is missing or failed.
    #[error(transparent)]
    Program(#[from] ProgramError),
    /// The node cannot be read.
    #[error("cannot read {}: {source}", path.display())]
    Unreadable {
        /// The node or image.
        path: std::path::PathBuf,
        source: std::io::Error,
    },
    /// The output of a program has an unknown form.
    #[error("`{command_line}` did not report {what}")]
    UnexpectedOutput {
        command_line: String,
        /// What was looked for.
        what: String,
    },
}

impl UserError for FactsError {
    fn class(&self) -> ExitClass {
        match self {
            Self::Program(error) => error.class(),
            Self::Unreadable { .. } => ExitClass::Io,
            Self::UnexpectedOutput { .. } => ExitClass::Environment,
        }
    }

    fn hint(&self) -> Option<Hint> {
        match self {
            Self::Program(error) => error.hint(),
            Self::Unreadable { source, .. } => (source.kind()
                == std::io::ErrorKind::PermissionDenied)
                .then(|| "run it as root".into()),
            Self::UnexpectedOutput { command_line, .. } => {
                Some(format!("see its output: {command_line}").into())
            }
        }
    }
}

/// A number of a file system.
#[derive(Debug, Clone, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
pub struct FactNumber {
    /// Its name, with its unit last: `stride_blocks`.
    pub name: String,
    pub value: u64,
    /// Where it was read: the program and the name it has there.
    pub read_from: String,
}

/// A word of a file system.
#[derive(Debug, Clone, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
pub struct FeatureWord {
    pub name: String,
    pub value: String,
    /// Where it was read.
    pub read_from: String,
}

/// What a file system says of itself.
#[derive(Debug, Clone, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
pub struct FileSystemFacts {
    /// What mount(8) calls it: `ext4`, `vfat`, …
    pub kind: String,
    /// Its label, where it has one.
    pub label: Option<String>,
    /// Its UUID or volume number, as blkid(8) writes it.
    pub uuid: Option<String>,
    /// The UUID of its entry in the partition table, as blkid(8) writes it.
    #[serde(default)]
    pub partition_uuid: Option<String>,
    /// The unit it allocates in: block, or cluster where it has clusters only.
    pub block_bytes: u64,
    /// Numbers by name, in a fixed order for each kind.
    pub numbers: Vec<FactNumber>,
    pub words: Vec<FeatureWord>,
    /// Where the area that files are allocated from begins, from the start of the node; `None`
    /// where the file system has no such area, because data lie everywhere.
    pub data_start_bytes: Option<u64>,
    /// Features by the names that its own tools use.
    pub features: Vec<String>,
}

impl FileSystemFacts {
    pub fn number(&self, name: &str) -> Option<u64> {
        self.numbers.iter().find(|number| number.name == name).map(|number| number.value)
    }

    pub fn word(&self, name: &str) -> Option<&str> {
        self.words.iter().find(|word| word.name == name).map(|word| word.value.as_str())
    }

    pub fn has_feature(&self, name: &str) -> bool {
        self.features.iter().any(|feature| feature == name)
    }
}

/// Reads the file system on `node`, a device or an image file; `None` where there is none, or one
/// of a kind that is not known here.
///
/// # Errors
/// See [`FactsError`].
pub fn read(runner: &dyn Runner, node: &Path) -> Result<Option<FileSystemFacts>, FactsError> {
    let Some(found) = identify(runner, node)? else { return Ok(None) };
    let read = match found.kind.as_str() {
        "ext2" | "ext3" | "ext4" => extended::read(runner, node)?,
        "btrfs" => btrfs::read(runner, node)?,
        "xfs" => xfs::read(runner, node)?,
        "squashfs" => squashfs::read(runner, node)?,
        "f2fs" => superblock(node, "f2fs superblock", f2fs::parse)?,
        "nilfs2" => superblock(node, "nilfs2 superblock", nilfs2::parse)?,
        "vfat" => superblock(node, "FAT boot sector", fat::parse)?,
        // Swap space has pages and no numbers that a plan would set.
        "swap" => Read { block_bytes: 4096, ..Read::default() },
        "exfat" => superblock(node, "exFAT boot sector", exfat::parse)?,
        _ => return Ok(None),
    };
    Ok(Some(FileSystemFacts {
        kind: found.kind,
        label: found.label,
        uuid: found.uuid,
        partition_uuid: found.partition_uuid,
        block_bytes: read.block_bytes,
        numbers: read.numbers,
        words: read.words,
        data_start_bytes: read.data_start_bytes,
        features: read.features,
    }))
}

/// What the reader of one kind finds.
#[derive(Debug, Default, PartialEq, Eq)]
struct Read {
    block_bytes: u64,
    numbers: Vec<FactNumber>,
    words: Vec<FeatureWord>,
    data_start_bytes: Option<u64>,
    features: Vec<String>,
}

impl Read {
    fn number(&mut self, name: &str, value: u64, read_from: &str) {
        let (name, read_from) = (name.to_owned(), read_from.to_owned());
        self.numbers.push(FactNumber { name, value, read_from });
    }

    fn word(&mut self, name: &str, value: &str, read_from: &str) {
        let (name, value) = (name.to_owned(), value.to_owned());
        self.words.push(FeatureWord { name, value, read_from: read_from.to_owned() });
    }
}

/// What blkid(8) calls the contents of `node`, also of a kind that is not read here, such as LUKS,
/// a part of LVM or RAID, or an image for optical discs; `None` where it finds nothing.
///
/// # Errors
/// See [`FactsError`].
pub fn kind(runner: &dyn Runner, node: &Path) -> Result<Option<String>, FactsError> {
    Ok(identify(runner, node)?.map(|found| found.kind))
}

struct Identity {
    kind: String,
    label: Option<String>,
    uuid: Option<String>,
    partition_uuid: Option<String>,
}

/// What blkid(8) sees; exit code 2 is nothing, 8 is several things at once.
fn identify(runner: &dyn Runner, node: &Path) -> Result<Option<Identity>, FactsError> {
    let program = Program::new("blkid").args(["-p", "-o", "export"]).arg(node);
    let outcome = runner.run(&program)?;
    match outcome.code {
        Some(0) => {}
        // It says the same of a node that it cannot open or read.
        Some(2) => return read_ends(node).map(|()| None),
        Some(8) => {
            return Err(FactsError::UnexpectedOutput {
                command_line: outcome.command_line,
                what: "which of several file systems this is".to_owned(),
            });
        }
        _ => return Err(flashfit_host::program::failed(&outcome).into()),
    }
    let value = |key: &str| {
        let of = |line: &str| line.strip_prefix(key)?.strip_prefix('=').map(unescaped);
        outcome.stdout.lines().find_map(of)
    };
    let (label, uuid) = (value("LABEL"), value("UUID"));
    let partition_uuid = value("PART_ENTRY_UUID");
    Ok(value("TYPE").map(|kind| Identity { kind, label, uuid, partition_uuid }))
}

/// blkid(8) puts a backslash before what a shell would take otherwise.
fn unescaped(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        plain.push(if c == '\\' { chars.next().unwrap_or(c) } else { c });
    }
    plain
}

fn superblock(
    node: &Path,
    what: &str,
    parse: impl Fn(&[u8]) -> Option<Read>,
) -> Result<Read, FactsError> {
    let unexpected = || FactsError::UnexpectedOutput {
        command_line: format!("hexdump -C -n 4096 {}", node.display()),
        what: format!("a valid {what}"),
    };
    parse(&first_bytes(node)?).ok_or_else(unexpected)
}

fn first_bytes(node: &Path) -> Result<Vec<u8>, FactsError> {
    let unreadable = |source| FactsError::Unreadable { path: node.to_owned(), source };
    let mut bytes = Vec::with_capacity(FIRST_BYTES);
    let file = std::fs::File::open(node).map_err(unreadable)?;
    let limit = u64::try_from(FIRST_BYTES).expect("it is small");
    file.take(limit).read_to_end(&mut bytes).map_err(unreadable)?;
    Ok(bytes)
}

/// Reads where superblocks may be: at both ends.
fn read_ends(node: &Path) -> Result<(), FactsError> {
    let unreadable = |source| FactsError::Unreadable { path: node.to_owned(), source };
    let mut file = std::fs::File::open(node).map_err(unreadable)?;
    let mut part = Vec::new();
    file.by_ref().take(AT_BEGIN_BYTES).read_to_end(&mut part).map_err(unreadable)?;
    // Of a device without a length, there is no end to read.
    let length = file.seek(SeekFrom::End(0)).unwrap_or(0);
    if length > AT_BEGIN_BYTES {
        let start = length.saturating_sub(AT_END_BYTES);
        file.seek(SeekFrom::Start(start)).map_err(unreadable)?;
        file.take(AT_END_BYTES).read_to_end(&mut part).map_err(unreadable)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use flashfit_host::ProgramOutcome;
    use flashfit_host::program::ScriptedRunner;

    use super::*;

    fn outcome(code: i32, stdout: &str) -> ProgramOutcome {
        ProgramOutcome { code: Some(code), stdout: stdout.to_owned(), ..ProgramOutcome::default() }
    }

    #[test]
    fn a_missing_tool_is_named_with_its_package() {
        let runner = ScriptedRunner::new().answer("blkid", outcome(0, "TYPE=ext4\n"));
        let error = read(&runner, Path::new("/dev/x")).unwrap_err();
        assert_eq!(error.class(), ExitClass::Environment);
        assert_eq!(error.hint(), Some("apt-get install e2fsprogs".into()));
    }

    #[test]
    fn a_node_that_cannot_be_read_is_no_empty_one() {
        let runner = ScriptedRunner::new().answer("blkid", outcome(2, ""));
        let error = read(&runner, Path::new("/dev/there-is-none")).unwrap_err();
        assert!(matches!(error, FactsError::Unreadable { .. }), "{error}");
        let zero = read(&runner, Path::new("/dev/zero")).unwrap();
        assert_eq!(zero, None);
    }

    #[test]
    fn two_file_systems_at_once_are_told_and_others_are_none() {
        let both = ScriptedRunner::new().answer("blkid", outcome(8, ""));
        let error = read(&both, Path::new("/dev/x")).unwrap_err();
        assert!(error.to_string().contains("which of several"), "{error}");
        let other = ScriptedRunner::new().answer("blkid", outcome(0, "TYPE=ntfs\n"));
        assert_eq!(read(&other, Path::new("/dev/x")).unwrap(), None);
    }

    #[test]
    fn a_superblock_that_blkid_believes_and_that_makes_no_sense_is_an_error() {
        let runner = ScriptedRunner::new().answer("blkid", outcome(0, "TYPE=exfat\n"));
        let error = read(&runner, Path::new("/dev/zero")).unwrap_err();
        assert!(error.to_string().contains("exFAT boot sector"), "{error}");
    }

    #[test]
    fn numbers_are_found_by_name_in_what_a_tool_prints() {
        let printed = "Block size:               4096\nRAID stride:              2\n\
                       Filesystem features:      has_journal extent\n";
        let runner = ScriptedRunner::new()
            .answer("blkid", outcome(0, "TYPE=ext4\nLABEL=my\\ card\nUUID=1-2\n"))
            .answer("dumpe2fs -h /dev/x", outcome(0, printed));
        let facts = read(&runner, Path::new("/dev/x")).unwrap().unwrap();
        assert_eq!((facts.kind.as_str(), facts.block_bytes), ("ext4", 4096));
        assert_eq!(facts.label.as_deref(), Some("my card"));
        assert_eq!(facts.number("stride_blocks"), Some(2));
        assert_eq!(facts.number("stripe_width_blocks"), None);
        assert!(facts.has_feature("extent"));
        let empty = ScriptedRunner::new()
            .answer("blkid", outcome(0, "TYPE=ext4\n"))
            .answer("dumpe2fs", outcome(0, "nothing\n"));
        let error = read(&empty, Path::new("/dev/x")).unwrap_err();
        assert!(error.to_string().contains("did not report its `Block size`"), "{error}");
    }
}
