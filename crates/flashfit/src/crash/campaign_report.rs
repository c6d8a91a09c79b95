//! What a campaign prints in the end; and where it ended before all was done, what is known so far
//! and the command that continues.

use flashfit_crash::campaign::{CampaignFolder, CampaignPlan, SetupResult};
use flashfit_crash::setup::CrashSetup;
use flashfit_crash::{CrashError, MOST_NAMED_USERS};
use flashfit_user_error::{ExitClass, UserError};

use super::cuts_report::CutMachine;
use super::states_document::{CutsDocument, StatesDocument, document};
use super::verdict;
use crate::command_error::CommandError;
use crate::output;
use crate::rendering::crash_states::{self, Counted};

/// A campaign and how its results are shown.
#[derive(Clone, Copy)]
pub struct CampaignReport<'a> {
    pub plan: &'a CampaignPlan,
    pub setups: &'a [CrashSetup],
    pub folder: &'a CampaignFolder,
    pub counted: Counted,
    pub json: bool,
    /// What is typed to continue.
    pub command: &'a str,
}

impl CampaignReport<'_> {
    /// Prints the results; an error where a promise was broken. `machine` is where power was cut.
    pub fn show(
        &self,
        results: &[SetupResult],
        machine: Option<&CutMachine>,
    ) -> Result<(), CommandError> {
        if let Err(error) = verdict::check_something_checked(results, self.counted) {
            self.folder.abandon_without_records();
            return Err(error);
        }
        if self.json {
            let dir = self.folder.path();
            let document = document(self.plan, self.setups, results, dir, machine);
            match self.counted {
                Counted::States => output::json(StatesDocument(document))?,
                Counted::Cuts => output::json(CutsDocument(document))?,
            }
        } else {
            output::print(&self.text(results))?;
        }
        verdict::verdict(results, self.counted)
    }

    /// The error of a campaign that ended early. After an interrupt, the results so far are
    /// printed, and counted in the message: with JSON, its only document is the error's.
    pub fn ended_early(&self, error: CrashError) -> CommandError {
        // What had no records was removed.
        let is_kept = CampaignFolder::has_campaign(self.folder.path());
        let hint = hint(&error, self.command, is_kept);
        let error = CommandError::from(error);
        let error = match &hint {
            Some(hint) => error.or_hint(hint),
            None => error,
        };
        let results = self.folder.results(self.plan).unwrap_or_default();
        let is_known = results.iter().any(|result| result.counts.states > 0);
        if error.class() != ExitClass::Interrupted || !is_known {
            return error;
        }
        if !self.json {
            let text = self.text(&results);
            // The interrupt is the error that matters.
            let _ = output::print(&format!("Interrupted: these are the results so far.\n\n{text}"));
        }
        let message = format!("{}; {}", error.message(), so_far(&results, self.counted));
        CommandError::new(ExitClass::Interrupted, message, hint.as_deref())
    }

    fn text(&self, results: &[SetupResult]) -> String {
        let (dir, width) = (self.folder.path(), output::width());
        crash_states::text(self.plan, self.setups, results, dir, self.counted, width)
    }
}

/// Where the same command goes on, and not where it has to be corrected.
fn hint(error: &CrashError, command: &str, is_kept: bool) -> Option<String> {
    if let Some(ids) = ids_to_end(error) {
        return Some(format!("end what uses it and repeat: kill {ids}; {command}"));
    }
    if let CrashError::NotMounted { setup, .. } = error {
        let kind = setup.split(':').next().unwrap_or(setup);
        return Some(format!("leave it out; what this kernel takes: flashfit options --fs {kind}"));
    }
    match error.class() {
        ExitClass::Interrupted | ExitClass::Io | ExitClass::Environment if is_kept => {
            Some(format!("continue with: {command}"))
        }
        _ => None,
    }
}

/// The processes that the error names, without this one, which has ended when the hint is read.
fn ids_to_end(error: &CrashError) -> Option<String> {
    let CrashError::Busy { users, .. } = error else { return None };
    let named = users.iter().take(MOST_NAMED_USERS).map(|user| user.id);
    let others = named.filter(|id| *id != std::process::id());
    let ids: Vec<String> = others.map(|id| id.to_string()).collect();
    (!ids.is_empty()).then(|| ids.join(" "))
}

fn so_far(results: &[SetupResult], counted: Counted) -> String {
    let unit = match counted {
        Counted::States => "states",
        Counted::Cuts => "power cuts",
    };
    let one = |result: &SetupResult| {
        let (states, broken) = (result.counts.states, result.counts.broken);
        format!("{broken} of {states} {unit} of {} broke a promise", result.label)
    };
    let all: Vec<String> = results.iter().map(one).collect();
    format!("so far, {}", all.join("; "))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use flashfit_host::mount_users::MountUser;

    use super::*;

    #[test]
    fn who_uses_a_mount_is_to_be_ended() {
        let user = |id| MountUser { id, name: "sh".to_owned(), uses: BTreeSet::new() };
        let busy = |users| CrashError::Busy { point: "/mnt".into(), seconds: 30, users };
        let hinted = |error, is_kept| hint(&error, "flashfit crash states --dir x", is_kept);
        let refused = CrashError::NotMounted { setup: "xfs:nodax".into(), reason: "no".into() };
        assert!(hinted(refused, true).unwrap().ends_with("flashfit options --fs xfs"));
        let found = hinted(busy(vec![user(12)]), false).unwrap();
        assert!(found.ends_with("kill 12; flashfit crash states --dir x"), "{found}");
        // Only those that the message names, and not this process.
        let own = std::process::id();
        let found = hinted(busy([own, 1, 2, 3].map(user).to_vec()), false).unwrap();
        assert!(found.contains(": kill 1 2; "), "{found}");
        for users in [Vec::new(), vec![user(own)]] {
            let found = hinted(busy(users), true).unwrap();
            assert_eq!(found, "continue with: flashfit crash states --dir x");
        }
        assert_eq!(hinted(busy(Vec::new()), false), None);
        assert_eq!(hinted(CrashError::NothingAcknowledged, true), None);
    }
}
