//! Files that the user asks for: `--output`, `--svg`, `--twin`.
//!
//! Only a new file is written, or one of the same kind that flashfit wrote before, which its
//! content shows; others only with `--force`. [`flashfit_host::replaceable_file`] writes it.

use std::path::Path;

use flashfit_host::replaceable_file::{ReplaceableFile, ReplaceableFileError};
use flashfit_user_error::{ExitClass, UserError};

use crate::command_error::CommandError;

/// What is written; a file of one kind does not replace one of another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OutputKind {
    Report,
    Drawing,
    /// A card model that was fitted.
    CardModel,
    /// The document of a probe.
    Geometry,
    /// What a twin is fitted to.
    Measurements,
    Plan,
    /// A recorded trace.
    Trace,
    /// A template, which the user edits; an existing one is never replaced.
    Workload,
    /// Figures of a survey; an existing file is never replaced.
    #[cfg(feature = "survey")]
    Bundle,
}

impl OutputKind {
    fn name(self) -> &'static str {
        match self {
            Self::Report => "report",
            Self::Drawing => "drawing",
            Self::CardModel => "card model",
            Self::Geometry => "probe document",
            Self::Measurements => "file of measurements",
            Self::Plan => "plan",
            Self::Trace => "trace",
            Self::Workload => "workload",
            #[cfg(feature = "survey")]
            Self::Bundle => "bundle",
        }
    }

    fn is_never_replaced(self) -> bool {
        match self {
            Self::Workload => true,
            #[cfg(feature = "survey")]
            Self::Bundle => true,
            _ => false,
        }
    }

    /// Whether the beginning of a file shows that flashfit wrote it. The earlier marks are those of
    /// version 0.1.
    fn is_in(self, head: &str) -> bool {
        let json = |schema: &str| {
            head.starts_with('{') && head.contains(&format!("\"schema\": \"flashfit.{schema}\""))
        };
        match self {
            Self::Report => {
                head.starts_with("<!DOCTYPE html>")
                    && (head.contains("name=\"generator\" content=\"flashfit")
                        || head.contains(" - flashfit</title>"))
            }
            Self::Drawing => {
                head.starts_with("<svg ") && head.contains("class=\"flashfit-drawing\"")
            }
            Self::CardModel => head.starts_with("# ") && head.contains("fitted by flashfit."),
            Self::Geometry => json("probe"),
            Self::Measurements => head.starts_with("{\"schema\":\"flashfit.twin-measurements\""),
            Self::Plan => json("plan"),
            Self::Trace => head.starts_with("command = \"flashfit wear record"),
            Self::Workload => false,
            #[cfg(feature = "survey")]
            Self::Bundle => false,
        }
    }
}

/// A file that may be written.
#[derive(Debug)]
pub struct OutputFile<'a> {
    path: &'a Path,
    kind: OutputKind,
    force: bool,
}

impl<'a> OutputFile<'a> {
    /// Refuses a file that must not be written. Called before the work whose result goes there.
    pub fn check(path: &'a Path, kind: OutputKind, force: bool) -> Result<Self, CommandError> {
        if path == Path::new("-") {
            let message = format!("a {} is a file, not standard output", kind.name());
            return Err(CommandError::new(ExitClass::Usage, message, Some("name a file")));
        }
        let is_own = |head: &str| kind.is_in(head);
        let checked = ReplaceableFile::check(path, &is_own, force);
        checked.map_err(|error| failed(error, kind))?;
        Ok(Self { path, kind, force })
    }

    /// Writes it, whole or not at all.
    pub fn write(&self, text: &str) -> Result<(), CommandError> {
        let is_own = |head: &str| self.kind.is_in(head);
        ReplaceableFile::check(self.path, &is_own, self.force)
            .and_then(|file| file.write(text))
            .map_err(|error| failed(error, self.kind))
    }
}

fn failed(error: ReplaceableFileError, kind: OutputKind) -> CommandError {
    let ReplaceableFileError::Foreign { path } = &error else { return error.into() };
    let name = kind.name();
    if kind.is_never_replaced() {
        let message = format!("{} exists; it was not changed", path.display());
        return CommandError::new(error.class(), message, Some("name another file"));
    }
    let message = format!(
        "{} exists, and is not a {name} that flashfit wrote; it was not changed",
        path.display()
    );
    CommandError::new(error.class(), message, Some("name another file, or replace it with --force"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_of_one_kind_does_not_replace_one_of_another() {
        let plan = "{\n  \"schema\": \"flashfit.plan\",\n";
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        let write = |kind| OutputFile::check(&path, kind, false)?.write(plan);
        write(OutputKind::Plan).unwrap();
        write(OutputKind::Plan).unwrap();
        assert!(
            write(OutputKind::Geometry).unwrap_err().message().contains("not a probe document")
        );
        assert!(write(OutputKind::Report).is_err());
        std::fs::write(&path, "<!DOCTYPE html>\n").unwrap();
        assert!(write(OutputKind::Report).is_err(), "a page of somebody else");
        assert!(OutputFile::check(Path::new("-"), OutputKind::Report, true).is_err());
    }
}
