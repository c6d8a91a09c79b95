//! `flashfit survey` in a build without SQLite: what it would do, and which build does it.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::Args;
use flashfit_device::identity::DeviceIdentity;
use flashfit_device::{DeclaredFacts, DeviceKind};
use flashfit_tune::{Criterion, RunPrior};
use flashfit_user_error::ExitClass;

use crate::command_error::CommandError;
use crate::tune::resolved::ResolvedSpec;

pub use {
    AbsentMentionArgs as SurveyMentionArgs, AbsentPriorArgs as SurveyPriorArgs,
    AbsentSurveyArgs as SurveyArgs,
};

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
    let message = format!("survey{what}: not in this build of flashfit, which has no SQLite");
    let hint = "install the Debian package for amd64, or build from source: make build";
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

/// With the name that other arguments conflict with.
#[derive(Debug, Args)]
#[group(id = "SurveyPriorArgs")]
pub struct AbsentPriorArgs {}

/// Without SQLite, nothing is known of similar devices.
#[expect(clippy::unnecessary_wraps, reason = "as with SQLite")]
pub fn of_run(_: &AbsentPriorArgs, resolved: ResolvedSpec) -> Result<ResolvedSpec, CommandError> {
    Ok(resolved)
}

#[expect(clippy::unnecessary_wraps, reason = "as with SQLite")]
pub fn of_replay(
    _: &AbsentPriorArgs,
    _: &[PathBuf],
    _: Criterion,
) -> Result<Option<RunPrior>, CommandError> {
    Ok(None)
}

#[cfg(test)]
mod tests {
    use clap::{CommandFactory, Parser};

    use crate::cli::{Cli, Command};

    fn says_where(text: &str) -> bool {
        let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
        text.contains("NOT IN THIS BUILD") && text.contains("package for amd64 has it")
    }

    #[test]
    fn the_help_says_that_this_build_lacks_surveys_and_where_they_are() {
        let mut command = Cli::command();
        assert!(says_where(&command.render_help().to_string()));
        let survey = command.find_subcommand_mut("survey").unwrap();
        assert!(says_where(&survey.render_long_help().to_string()));
        for line in [&["survey", "--help"][..], &["help", "survey"]] {
            let asked = Cli::try_parse_from([&["flashfit"], line].concat()).unwrap_err();
            assert!(says_where(&asked.to_string()), "{line:?}: {asked}");
        }
    }

    #[test]
    fn every_use_is_refused_with_the_builds_that_have_it() {
        for line in [&["list", "--where", "kind=usb"][..], &["add", "run", "--json"], &[]] {
            let parsed = Cli::try_parse_from([&["flashfit", "survey"], line].concat()).unwrap();
            let Command::Survey(args) = parsed.command else { panic!("{line:?}") };
            let error = super::run(&args).unwrap_err();
            assert!(error.message().contains("not in this build"), "{}", error.message());
            assert_eq!(error.class().name(), "environment");
        }
    }
}
