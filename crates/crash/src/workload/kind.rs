//! The workloads and their names.

use std::path::{Path, PathBuf};
use std::str::FromStr;

use flashfit_filesystem::Promise;
use flashfit_host::Program;
use flashfit_user_error::{ExitClass, Hint, UserError};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Operation, ProgramWorkload, SqliteMode, files, metadata};

/// What is done before the power cut.
#[derive(Debug, Clone, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CrashWorkload {
    /// Create, write, append, replace, sync.
    Files,
    /// Rename, link, unlink, mkdir, truncate, fallocate.
    Metadata,
    /// Transactions.
    Sqlite(SqliteMode),
    /// The user's own program.
    Program(ProgramWorkload),
    /// Unknown: the requests were recorded elsewhere.
    Requests,
}

#[derive(Debug, thiserror::Error)]
pub enum WorkloadError {
    #[error("unknown workload `{0}`")]
    Unknown(String),
    #[error("{}: {source}", path.display())]
    Read { path: PathBuf, source: std::io::Error },
    #[error("{}: {reason}", path.display())]
    Invalid { path: PathBuf, reason: String },
}

impl UserError for WorkloadError {
    fn class(&self) -> ExitClass {
        ExitClass::Usage
    }

    fn hint(&self) -> Option<Hint> {
        Some(match self {
            Self::Unknown(_) => Hint::from(
                "files, metadata, sqlite, sqlite:wal-full (or delete, truncate, persist with off, \
                 normal, full or extra), or a file with `run` and `check`",
            ),
            Self::Read { .. } | Self::Invalid { .. } => Hint::from(
                "a workload file has two lines: run = \"a shell command whose lines acknowledge\" \
                 and check = \"a shell command that reads those lines\"",
            ),
        })
    }
}

impl CrashWorkload {
    /// The workload of this name, or in this file.
    ///
    /// # Errors
    /// For a name that is neither, or a file that is not a workload.
    pub fn parse(text: &str) -> Result<Self, WorkloadError> {
        Ok(match text {
            "files" => Self::Files,
            "metadata" => Self::Metadata,
            "sqlite" => Self::Sqlite(SqliteMode::default()),
            _ => match text.strip_prefix("sqlite:") {
                Some(mode) => Self::Sqlite(
                    SqliteMode::from_str(mode)
                        .map_err(|()| WorkloadError::Unknown(text.to_owned()))?,
                ),
                None if !Path::new(text).exists() => {
                    return Err(WorkloadError::Unknown(text.to_owned()));
                }
                None => Self::Program(ProgramWorkload::load(Path::new(text))?),
            },
        })
    }

    /// In words.
    pub fn name(&self) -> String {
        match self {
            Self::Files => "files".to_owned(),
            Self::Metadata => "metadata".to_owned(),
            Self::Sqlite(mode) => format!("sqlite:{mode}"),
            Self::Program(_) => "program".to_owned(),
            Self::Requests => "requests".to_owned(),
        }
    }

    /// What looks at the mounted folder; none where the workload's own files are read.
    pub fn check(&self, root: &Path) -> Option<Program> {
        match self {
            Self::Files | Self::Metadata | Self::Requests => None,
            Self::Sqlite(_) => Some(SqliteMode::check(root).0),
            Self::Program(program) => Some(program.check(root)),
        }
    }

    /// Whether its check can notice that this promise is broken.
    pub fn examines(&self, promise: Promise) -> bool {
        match self {
            Self::Files | Self::Metadata => true,
            Self::Sqlite(_) | Self::Program(_) => {
                matches!(promise, Promise::Consistent | Promise::Synced)
            }
            Self::Requests => promise == Promise::Consistent,
        }
    }

    /// The operations of a built-in workload for a seed; empty for others.
    pub fn operations(&self, seed: u64) -> Vec<(u32, Operation)> {
        let operations = match self {
            Self::Files => files::operations(seed),
            Self::Metadata => metadata::operations(seed),
            Self::Sqlite(_) | Self::Program(_) | Self::Requests => Vec::new(),
        };
        (0..).zip(operations).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_workload_has_a_name_or_is_a_file() {
        for name in ["files", "metadata", "sqlite:wal-full", "sqlite:delete-extra"] {
            assert_eq!(CrashWorkload::parse(name).unwrap().name(), name);
        }
        assert_eq!(CrashWorkload::parse("sqlite").unwrap().name(), "sqlite:wal-full");
        for bad in ["file", "sqlite:wal", "sqlite:wal-most", "/nonexistent"] {
            assert!(matches!(CrashWorkload::parse(bad), Err(WorkloadError::Unknown(_))), "{bad}");
        }
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "run = 'x'\ncheck = 'y'").unwrap();
        let path = file.path().to_str().unwrap();
        assert!(matches!(CrashWorkload::parse(path), Ok(CrashWorkload::Program(_))));
        std::fs::write(file.path(), "run = 'x'").unwrap();
        assert!(matches!(CrashWorkload::parse(path), Err(WorkloadError::Invalid { .. })));
    }

    #[test]
    fn a_seed_gives_the_same_operations() {
        for workload in [CrashWorkload::Files, CrashWorkload::Metadata] {
            assert_eq!(workload.operations(7), workload.operations(7));
            assert_ne!(workload.operations(7), workload.operations(8));
            let syncs = workload.operations(7);
            assert!(syncs.iter().filter(|(_, operation)| operation.is_sync()).count() > 5);
        }
    }
}
