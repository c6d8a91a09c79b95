//! What is left after a live power cut, looked at and judged: mounted, checked, and where that
//! fails or the file system needs it, repaired and looked at again.
//!
//! The promises and the checks are those of crash states.

use std::path::Path;
use std::time::Duration;

use super::ledger::CutLedger;
use crate::CrashError;
use crate::model::Violation;
use crate::observe::{CrashObservation, MountedView, RepairedView};
use crate::setup::CrashSetup;
use crate::verdict::{Judge, check_without_cut};
use crate::workload::{CrashWorkload, LoggedOperation, SqliteMode};

/// What was found after a power cut.
pub(crate) struct CutFindings {
    pub violations: Vec<Violation>,
    pub operations: Vec<LoggedOperation>,
    pub recovery: Duration,
}

impl CutFindings {
    /// # Errors
    /// When something is found where no power was cut.
    pub(crate) fn check_without_cut(&self, setup: &CrashSetup) -> Result<(), CrashError> {
        check_without_cut(&self.violations, setup)
    }
}

/// What one mount showed.
pub(crate) struct Look {
    pub view: MountedView,
    /// How long the mount took.
    pub took: Duration,
}

/// A device after a power cut.
pub(crate) trait Remains {
    /// Mounts, reads everything, writes and unmounts. `input` is for a checking program.
    fn look(&mut self, input: &str) -> Result<Look, CrashError>;

    /// What the checking program finds on the unmounted device.
    fn damage(&mut self) -> Result<Option<String>, CrashError>;

    /// Repairs it: why that failed. `None` for a file system that has no repairing program.
    fn repair(&mut self) -> Result<Option<Option<String>>, CrashError>;
}

/// Judges what is left.
pub(crate) struct Examination<'a> {
    pub workload: &'a CrashWorkload,
    pub setup: &'a CrashSetup,
    pub ledger: &'a CutLedger,
}

impl Examination<'_> {
    pub(crate) fn of(&self, remains: &mut dyn Remains) -> Result<CutFindings, CrashError> {
        let input = self.input();
        let recovered = if self.setup.promises.needs_fsck {
            Look { view: not_mounted("it is repaired first".to_owned()), took: Duration::ZERO }
        } else {
            remains.look(&input)?
        };
        let (view, recovery) = (recovered.view, recovered.took);
        let damage = match view.not_mounted {
            Some(_) => None,
            None => remains.damage()?,
        };
        let mut repaired = None;
        if view.not_mounted.is_some() || damage.is_some() {
            if let Some(not_repaired) = remains.repair()? {
                let mut view = remains.look(&input)?.view;
                if view.not_mounted.is_none() {
                    if let Some(damage) = remains.damage()? {
                        view.unreadable = Some(format!("damaged even after the repair: {damage}"));
                    }
                }
                repaired = Some(RepairedView { not_repaired, view });
            }
        }
        let observation = CrashObservation { recovered: view, damage, repaired };
        Ok(self.judged(&observation, recovery))
    }

    /// Of a device that does not answer.
    pub(crate) fn of_dead(&self, why: String) -> CutFindings {
        let recovered = not_mounted(why);
        let observation = CrashObservation { recovered, damage: None, repaired: None };
        self.judged(&observation, Duration::ZERO)
    }

    fn judged(&self, seen: &CrashObservation, recovery: Duration) -> CutFindings {
        let ledger = self.ledger;
        let repaired = seen.repaired.as_ref().and_then(|repaired| repaired.view.tree.as_ref());
        let operations = ledger.operations(seen.recovered.tree.as_ref().or(repaired));
        let needs_fsck = self.setup.promises.needs_fsck;
        let judge = Judge::of_operations(self.workload, operations.clone(), needs_fsck);
        let violations = judge.violations(seen, ledger.position());
        CutFindings { violations, operations, recovery }
    }

    fn input(&self) -> String {
        match self.workload {
            CrashWorkload::Sqlite(_) => SqliteMode::check(Path::new("/")).1,
            workload => Judge::of_operations(workload, self.ledger.operations(None), false)
                .acknowledged(self.ledger.position()),
        }
    }
}

pub(crate) fn not_mounted(why: String) -> MountedView {
    MountedView { not_mounted: Some(why), ..MountedView::default() }
}
