//! What `flashfit apply RUN` adds to a run's recommendation: a label and a second partition, in
//! place of those of the run.

use std::path::Path;

use clap::Args;
use flashfit_filesystem::plan::SecondChoice;
use flashfit_user_error::ExitClass;

use crate::command_error::CommandError;

/// What a run need not decide. A plan has them from `flashfit plan`.
#[derive(Debug, Args)]
pub struct AdditionArgs {
    /// Label of the file system; in a GPT also the name of its partition [default: that of the
    /// run].
    #[arg(help_heading = "With a run", long, value_name = "NAME", conflicts_with = "keep_data")]
    pub label: Option<String>,
    /// Second partition behind the first: swap:SIZE, FS:SIZE or FS:SIZE:DIR, such as swap:512MiB
    /// or ext4:2GiB:/srv [default: that of the run].
    #[arg(help_heading = "With a run", long, value_name = "WHAT", conflicts_with = "keep_data")]
    pub second: Option<SecondChoice>,
}

/// A plan is carried out as it was shown.
pub fn refuse_additions(path: &Path, additions: &AdditionArgs) -> Result<(), CommandError> {
    let given = [("--label", additions.label.is_some()), ("--second", additions.second.is_some())];
    let Some((flag, _)) = given.into_iter().find(|(_, is_given)| *is_given) else { return Ok(()) };
    Err(CommandError::new(
        ExitClass::Usage,
        format!("{flag} belongs to a run, and {} is a plan", path.display()),
        Some("give it to flashfit plan, which writes it into the plan"),
    ))
}
