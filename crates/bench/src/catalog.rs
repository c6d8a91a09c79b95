//! Loads the workloads of the catalog; files in the user's directory take precedence.

use std::path::Path;

use flashfit_catalog::{CatalogEntryError, Origin, entries};

use crate::error::BenchError;
use crate::workload::Workload;

/// All known workloads, sorted by name.
#[derive(Debug, Clone)]
pub struct Workloads(Vec<Workload>);

impl Workloads {
    /// `user` is the user's catalog directory.
    ///
    /// # Errors
    /// An unreadable directory; [`BenchError::BadFiles`] with the mistakes of all files.
    pub fn load(user: Option<&Path>) -> Result<Self, BenchError> {
        let mut workloads = entries("workloads", "fio", user)?;
        for entry in entries("workloads", "toml", user)? {
            // The user's file replaces a built-in one of the other form.
            let is_own = matches!(entry.origin, Origin::File(_));
            let same = workloads.iter().position(|other| other.name == entry.name);
            match same {
                Some(at) if is_own => workloads[at] = entry,
                Some(_) => {}
                None => workloads.push(entry),
            }
        }
        workloads.sort_by(|one, other| one.name.cmp(&other.name));
        let (mut found, mut mistakes) = (Vec::new(), Vec::new());
        for entry in &workloads {
            match Workload::read(entry) {
                Ok(workload) => found.push(workload),
                Err(of_file) => mistakes.push(of_file),
            }
        }
        if mistakes.is_empty() { Ok(Self(found)) } else { Err(BenchError::BadFiles(mistakes)) }
    }

    pub fn all(&self) -> &[Workload] {
        &self.0
    }

    /// # Errors
    /// [`CatalogEntryError::Unknown`], with the closest name.
    pub fn find(&self, name: &str) -> Result<&Workload, BenchError> {
        let names = || self.0.iter().map(|workload| workload.name.as_str());
        self.0
            .iter()
            .find(|workload| workload.name == name)
            .ok_or_else(|| CatalogEntryError::unknown("workload", name, names()).into())
    }
}

#[cfg(test)]
mod tests {
    use flashfit_user_error::UserError;

    use super::*;
    use crate::workload::PointProfile;

    const NAMES: [&str; 17] = [
        "bonnie",
        "compile",
        "create-read-delete",
        "database",
        "fileserver",
        "grep",
        "large-write",
        "linear-read",
        "linear-write",
        "mapped-files",
        "program-start",
        "random-read",
        "random-write",
        "sync-files",
        "tree-walk",
        "untar",
        "untar-write",
    ];

    #[test]
    fn all_built_in_workloads_are_loaded() {
        let workloads = Workloads::load(None).unwrap();
        let names: Vec<_> = workloads.all().iter().map(|workload| workload.name.as_str()).collect();
        assert_eq!(names, NAMES);
        for workload in workloads.all() {
            let quick = workload.points(PointProfile::Quick);
            assert!(
                quick.iter().all(|point| workload.points(PointProfile::Standard).contains(point))
            );
        }
    }

    #[test]
    fn a_mistyped_name_gets_a_suggestion() {
        let workloads = Workloads::load(None).unwrap();
        let error = workloads.find("random-raed").unwrap_err();
        assert_eq!(error.hint(), Some("did you mean `random-read`?".into()));
    }

    #[test]
    fn an_invalid_user_file_is_named() {
        let user = tempfile::tempdir().unwrap();
        std::fs::create_dir(user.path().join("workloads")).unwrap();
        std::fs::write(user.path().join("workloads/grep.fio"), "#: title = 3\n[a]\n").unwrap();
        let text = Workloads::load(Some(user.path())).unwrap_err().to_string();
        assert!(text.contains("workloads/grep.fio:1: "), "{text}");
    }
}
