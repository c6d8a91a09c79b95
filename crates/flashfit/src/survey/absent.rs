//! `flashfit survey` in a build without SQLite: what it would do, and which build does it.

use std::ffi::OsString;

use clap::Args;
use flashfit_device::identity::DeviceIdentity;
use flashfit_device::{DeclaredFacts, DeviceKind};
use flashfit_user_error::ExitClass;

use crate::command_error::CommandError;

pub use {AbsentMentionArgs as SurveyMentionArgs, AbsentSurveyArgs as SurveyArgs};

#[derive(Debug, Args)]
pub struct AbsentSurveyArgs {
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, hide = true)]
    pub arguments: Vec<OsString>,
}

pub fn run(args: &AbsentSurveyArgs) -> Result<(), CommandError> {
    let what = args
        .arguments
        .first()
        .map_or_else(String::new, |word| format!(" {}", word.to_string_lossy()));
    let message = format!("survey{what}: this build of flashfit has no SQLite");
    let hint = "build flashfit from source, which has it: make build";
    Err(CommandError::new(ExitClass::Environment, message, Some(hint)))
}

#[derive(Debug, Args)]
pub struct AbsentMentionArgs {}

/// Without SQLite, there is nothing to mention.
#[expect(clippy::unnecessary_wraps, reason = "as with SQLite")]
pub fn mention(
    _: &AbsentMentionArgs,
    _: DeviceKind,
    _: &DeviceIdentity,
    _: &DeclaredFacts,
    _: (u64, bool),
) -> Result<(), CommandError> {
    Ok(())
}
