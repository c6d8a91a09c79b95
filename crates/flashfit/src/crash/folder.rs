//! The directory of a campaign.

use std::path::{Path, PathBuf};

use flashfit_crash::campaign::{CampaignFolder, CampaignPlan};

use crate::command_error::CommandError;

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

/// The campaign in a directory.
pub fn existing(dir: &Path) -> Result<(CampaignFolder, CampaignPlan), CommandError> {
    let hint = "name the directory that flashfit crash states or cuts printed";
    CampaignFolder::existing(dir).map_err(|error| CommandError::from(error).or_hint(hint))
}

/// Begins a campaign, or continues the one that is there.
pub fn open(dir: &Path, plan: &CampaignPlan) -> Result<CampaignFolder, CommandError> {
    let hint = "name another directory with --dir";
    CampaignFolder::open(dir, plan).map_err(|error| CommandError::from(error).or_hint(hint))
}
