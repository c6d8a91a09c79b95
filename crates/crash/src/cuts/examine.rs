//! What is left after a live power cut, looked at and judged as crash states are.

use std::path::Path;
use std::time::Duration;

use super::ledger::CutLedger;
use crate::CrashError;
use crate::model::Violation;
use crate::observe::CrashObservation;
use crate::observe::remains::{self, Look, Remains};
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

/// Judges what is left.
pub(crate) struct Examination<'a> {
    pub workload: &'a CrashWorkload,
    pub setup: &'a CrashSetup,
    pub ledger: &'a CutLedger,
}

impl Examination<'_> {
    pub(crate) fn of(&self, remains: &mut dyn Remains) -> Result<CutFindings, CrashError> {
        let needs_fsck = self.setup.promises.needs_fsck;
        let (observation, recovery) = remains::observe(remains, needs_fsck, &self.input())?;
        Ok(self.judged(&observation, recovery))
    }

    /// Of a device that does not answer.
    pub(crate) fn of_dead(&self, why: String) -> CutFindings {
        let recovered = Look::not_mounted(why).view;
        let observation = CrashObservation { recovered, damage: None, repaired: None };
        self.judged(&observation, Duration::ZERO)
    }

    fn judged(&self, seen: &CrashObservation, recovery: Duration) -> CutFindings {
        let ledger = self.ledger;
        let repaired = seen.repaired.as_ref().and_then(|repaired| repaired.view.tree.as_ref());
        let operations = ledger.operations(seen.recovered.tree.as_ref().or(repaired));
        let promises = &self.setup.promises;
        let judge = Judge::of_operations(self.workload, operations.clone(), promises);
        let violations = judge.violations(seen, ledger.position());
        CutFindings { violations, operations, recovery }
    }

    fn input(&self) -> String {
        match self.workload {
            CrashWorkload::Sqlite(_) => SqliteMode::check(Path::new("/")).1,
            workload => {
                let operations = self.ledger.operations(None);
                Judge::of_operations(workload, operations, &self.setup.promises)
                    .acknowledged(self.ledger.position())
            }
        }
    }
}
