//! Which setups and workloads of the runs are compared, as the user named them.

use std::collections::BTreeSet;

use flashfit_filesystem::Setup;
use flashfit_tune::compare::ComparedRun;
use flashfit_user_error::ExitClass;

use super::args::CompareArgs;
use crate::command_error::CommandError;

/// Names in an error; more would not be read.
const MOST_NAMES: usize = 8;

/// Whether a setup is meant by a text: its label, or file system and options.
pub fn is_named(setup: &Setup, text: &str) -> bool {
    if setup.label() == text {
        return true;
    }
    let mut parts = text.split([':', '+']);
    let is_filesystem = parts.next() == Some(&setup.filesystem);
    let mut options: Vec<&str> = parts.filter(|option| *option != "base").collect();
    let mut own: Vec<&str> = setup.options.iter().map(String::as_str).collect();
    options.sort_unstable();
    own.sort_unstable();
    is_filesystem && options == own
}

/// Whether the user wants a setup.
pub fn wants_setup(args: &CompareArgs, setup: &Setup) -> bool {
    let of_filesystem = args.filesystems.is_empty() || args.filesystems.contains(&setup.filesystem);
    let named = args.setups.is_empty() || args.setups.iter().any(|text| is_named(setup, text));
    of_filesystem && named
}

/// Whether the user wants a workload.
pub fn wants_workload(args: &CompareArgs, workload: &str) -> bool {
    args.workloads.is_empty() || args.workloads.iter().any(|name| name == workload)
}

/// Refuses names that no run has: they are probably misspelled.
pub fn check(args: &CompareArgs, runs: &[ComparedRun]) -> Result<(), CommandError> {
    let trials = || runs.iter().flat_map(|run| &run.trials);
    if trials().next().is_none() {
        return Ok(());
    }
    let setups: BTreeSet<&Setup> = trials().map(|trial| &trial.key.setup).collect();
    let is_known = |text: &&String| !setups.iter().any(|setup| is_named(setup, text));
    if let Some(text) = args.setups.iter().find(is_known) {
        let known = setups.iter().map(|setup| setup.label()).collect();
        return Err(unknown("setup", text, known));
    }
    let filesystems: BTreeSet<String> =
        setups.iter().map(|setup| setup.filesystem.clone()).collect();
    if let Some(text) = args.filesystems.iter().find(|name| !filesystems.contains(*name)) {
        return Err(unknown("file system", text, filesystems));
    }
    let workloads: BTreeSet<String> = trials().map(|trial| trial.key.workload.clone()).collect();
    if let Some(text) = args.workloads.iter().find(|name| !workloads.contains(*name)) {
        return Err(unknown("workload", text, workloads));
    }
    Ok(())
}

fn unknown(what: &str, text: &str, known: BTreeSet<String>) -> CommandError {
    let more = known.len().saturating_sub(MOST_NAMES);
    let mut names: Vec<String> = known.into_iter().take(MOST_NAMES).collect();
    if more > 0 {
        names.push(format!("{more} more"));
    }
    let hint = format!("recorded: {}", names.join(", "));
    let message = format!("no run has the {what} `{text}`");
    CommandError::new(ExitClass::Usage, message, Some(&hint))
}

#[cfg(test)]
mod tests {
    use flashfit_filesystem::Scheduler;

    use super::*;

    #[test]
    fn setups_are_named_by_label_or_by_options() {
        let setup = |options: &[&str]| Setup {
            filesystem: "ext4".to_owned(),
            options: options.iter().map(|option| (*option).to_owned()).collect(),
            scheduler: Scheduler::new("none"),
        };
        let tuned = setup(&["noatime", "discard"]);
        for text in ["ext4 noatime+discard none", "ext4:noatime+discard", "ext4:discard:noatime"] {
            assert!(is_named(&tuned, text), "{text}");
        }
        for text in ["ext4", "ext4:noatime", "f2fs:noatime+discard", "", "ext4:base"] {
            assert!(!is_named(&tuned, text), "{text}");
        }
        let bare = setup(&[]);
        assert!(["ext4", "ext4:base", "ext4 base none"].iter().all(|text| is_named(&bare, text)));
    }
}
