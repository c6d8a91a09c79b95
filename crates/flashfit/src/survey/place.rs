//! Where the survey is.

use std::path::PathBuf;

use clap::Args;
use flashfit_user_error::ExitClass;

use crate::command_error::CommandError;
use crate::environment;

/// The environment variable that names the survey.
const VARIABLE: &str = "FLASHFIT_SURVEY";

/// The file of the survey.
#[derive(Debug, Args)]
pub struct SurveyFileArgs {
    /// File of the survey [default: survey.db in your data directory] [env: FLASHFIT_SURVEY].
    #[arg(long, value_name = "FILE")]
    pub db: Option<PathBuf>,
}

impl SurveyFileArgs {
    pub fn path(&self) -> Result<PathBuf, CommandError> {
        self.db.clone().or_else(named_file).or_else(usual_file).ok_or_else(|| {
            let message = "there is no data directory for the survey: HOME is not set";
            CommandError::new(ExitClass::Usage, message, Some("name the file with --db FILE"))
        })
    }
}

/// The survey that the environment names.
pub fn named_file() -> Option<PathBuf> {
    environment::value(VARIABLE).map(PathBuf::from)
}

/// The survey in the user's data directory, if the environment says where that is.
pub fn usual_file() -> Option<PathBuf> {
    let variable = |name: &str| std::env::var_os(name).map(PathBuf::from);
    // The specification: a relative path is not valid.
    let named = variable("XDG_DATA_HOME").filter(|path| path.is_absolute());
    let usual = || Some(variable("HOME").filter(|path| path.is_absolute())?.join(".local/share"));
    Some(named.or_else(usual)?.join("flashfit/survey.db"))
}
