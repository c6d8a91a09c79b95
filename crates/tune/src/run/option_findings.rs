//! Which options are no choice on this machine, because they are refused, ignored or so anyway:
//! found out on scratch images before the device is touched, or known from before.

use std::collections::BTreeMap;

use flashfit_device::Target;
use flashfit_option_probe::OptionFindings;
use flashfit_testbed::Host;
use flashfit_user_error::{ExitClass, Hint, UserError};

use super::{RunError, RunRequest, TrialTarget};
use flashfit_target::TargetSource;

/// What is known about the options of a run's file systems.
#[derive(Debug, Default)]
pub struct RunOptionFindings {
    /// By place.
    found: Vec<BTreeMap<String, OptionFindings>>,
    /// What the user should know of what could not be found out.
    pub notes: Vec<String>,
}

impl RunOptionFindings {
    /// Finds out what is not known yet. To be called before any thread is started, since images
    /// are mounted where no other process sees them.
    pub fn look(
        request: RunRequest<'_>,
        target: &TrialTarget,
        place: &mut dyn Host,
    ) -> Result<Self, RunError> {
        let (mut by_file_system, mut notes) = (BTreeMap::new(), Vec::new());
        for name in &request.spec.filesystems {
            let filesystem = request.catalogs.filesystems.filesystem(name)?;
            if filesystem.plan_only.is_some() {
                continue;
            }
            match place.option_findings(name, &target.conditions, rotational(target)) {
                Ok(findings) => {
                    by_file_system.insert(name.clone(), findings);
                }
                Err(error) if error.class() == ExitClass::Interrupted => return Err(error.into()),
                // The trials themselves still show which setups do not work.
                Err(error) => notes.push(format!(
                    "whether the options of {name} have an effect here was not found out: {error}{}",
                    error
                        .hint()
                        .as_ref()
                        .and_then(Hint::text)
                        .map_or_else(String::new, |hint| format!(" ({hint})"))
                )),
            }
        }
        Ok(Self { found: vec![by_file_system], notes })
    }

    /// Joins what is known about another place: what is not a choice in one of them is none.
    pub fn and(&mut self, other: Self) {
        self.found.extend(other.found);
        self.notes.extend(other.notes);
    }

    /// Why an option is not a choice here; `None` where it is one, or where that is not known.
    pub fn why_no_choice(&self, filesystem: &str, option: &str) -> Option<String> {
        let by_place = self.found.iter().filter_map(|found| found.get(filesystem)?.of(option));
        by_place.filter_map(|finding| finding.why_no_choice()).next()
    }

    /// The refusal of an option that the user named although it is not a choice here.
    pub fn check_named<'a>(
        &self,
        filesystem: &str,
        named: impl IntoIterator<Item = &'a String>,
    ) -> Result<(), RunError> {
        for option in named {
            if let Some(reason) = self.why_no_choice(filesystem, option) {
                let (filesystem, option) = (filesystem.to_owned(), option.clone());
                return Err(RunError::OptionWithoutEffect { filesystem, option, reason });
            }
        }
        Ok(())
    }
}

/// What the kernel takes the device for, where that is known before it is attached: btrfs has
/// `ssd` as its default by it. A simulated card's loop device has no disk below it.
fn rotational(target: &TrialTarget) -> Option<bool> {
    match (&target.inspected.source, &target.inspected.target) {
        (TargetSource::Card(_), _) => Some(false),
        (TargetSource::Device(_), Target::Image(_)) => None,
        (TargetSource::Device(device), _) => Some(device.queue.rotational),
    }
}
