//! The directory of a campaign.

use std::path::{Path, PathBuf};

/// The directory that was asked for, or the first `crash-run`, `crash-run-2` and so on that does
/// not exist.
pub fn choose(wanted: Option<&Path>) -> PathBuf {
    if let Some(wanted) = wanted {
        return wanted.to_owned();
    }
    let numbered = (2..).map(|number| PathBuf::from(format!("crash-run-{number}")));
    let mut names = std::iter::once(PathBuf::from("crash-run")).chain(numbered);
    names.find(|name| !name.exists()).expect("numbers do not end")
}
