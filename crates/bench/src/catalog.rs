//! The workloads of the catalog, with the user's own over them.

use std::path::Path;

use flashfit_catalog::{CatalogEntryError, entries};

use crate::error::BenchError;
use crate::workload::Workload;

/// All known workloads, sorted by name.
#[derive(Debug, Clone)]
pub struct Workloads(Vec<Workload>);

impl Workloads {
    /// Reads them; `user` is the user's own catalog folder.
    ///
    /// # Errors
    /// An unreadable folder, and [`BenchError::BadWorkload`] for the first bad file.
    pub fn load(user: Option<&Path>) -> Result<Self, BenchError> {
        let workloads = entries("workloads", "fio", user)?;
        workloads.iter().map(Workload::parse).collect::<Result<_, _>>().map(Self)
    }

    /// All of them.
    pub fn all(&self) -> &[Workload] {
        &self.0
    }

    /// The one of that name.
    ///
    /// # Errors
    /// [`CatalogEntryError::Unknown`], with the nearest name.
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

    const NAMES: [&str; 11] = [
        "compile",
        "create-read-delete",
        "database",
        "fileserver",
        "grep",
        "linear-read",
        "linear-write",
        "random-read",
        "random-write",
        "sync-files",
        "untar",
    ];

    #[test]
    fn the_built_in_workloads_are_all_there() {
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
    fn a_mistyped_name_gets_the_nearest() {
        let workloads = Workloads::load(None).unwrap();
        let error = workloads.find("random-raed").unwrap_err();
        assert_eq!(error.hint().as_deref(), Some("did you mean `random-read`?"));
    }

    #[test]
    fn a_bad_file_of_the_users_is_named() {
        let user = tempfile::tempdir().unwrap();
        std::fs::create_dir(user.path().join("workloads")).unwrap();
        std::fs::write(user.path().join("workloads/grep.fio"), "#: title = 3\n[a]\n").unwrap();
        let text = Workloads::load(Some(user.path())).unwrap_err().to_string();
        assert!(text.contains("workloads/grep.fio:1: "), "{text}");
    }
}
