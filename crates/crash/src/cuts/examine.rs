//! What is left after a live power cut: mounted and looked at in a restored machine, checked and
//! repaired on this one.
//!
//! The checking program runs on an image of the card, which is as fast as this machine. The same
//! program checks crash states, so both are judged alike.

use std::path::Path;
use std::time::Duration;

use flashfit_host::Runner;

use super::bench::{CutBench, CutSetup};
use super::ledger::CutLedger;
use super::machine::{Guest, SILENCE_LIMIT, unexpected};
use super::wire::{GuestReply, GuestRequest};
use crate::CrashError;
use crate::model::Violation;
use crate::observe::{CrashObservation, MountedView, RepairedView, said};
use crate::verdict::Judge;
use crate::workload::{CrashWorkload, LoggedOperation, SqliteMode};

const FSCK_LIMIT: Duration = Duration::from_secs(120);

/// What was found after a power cut.
pub(super) struct CutFindings {
    pub violations: Vec<Violation>,
    pub operations: Vec<LoggedOperation>,
    pub recovery: Duration,
    /// The machine, if it can go on working.
    pub guest: Option<Guest>,
}

/// What one mount in the guest showed.
struct Look {
    view: MountedView,
    took: Duration,
    guest: Option<Guest>,
}

impl CutBench<'_> {
    /// Looks at the card after a power cut. `image` is what it contained then; without it, no power
    /// was cut. `dead` is why it does not answer.
    pub(super) fn examine(
        &self,
        guest: Result<Guest, String>,
        setup: &CutSetup<'_>,
        ledger: &CutLedger,
        image: &Path,
    ) -> Result<CutFindings, CrashError> {
        let needs_fsck = setup.setup.promises.needs_fsck;
        let input = self.input(ledger);
        let (recovered, mut guest) = match guest {
            Err(why) => {
                let view = MountedView { not_mounted: Some(why), ..MountedView::default() };
                let observation =
                    CrashObservation { recovered: view, damage: None, repaired: None };
                return Ok(self.judged(ledger, &observation, needs_fsck, Duration::ZERO, None));
            }
            Ok(guest) if needs_fsck => {
                let why = Some("it is repaired first".to_owned());
                let view = MountedView { not_mounted: why, ..MountedView::default() };
                let took = Duration::ZERO;
                (Look { view, took, guest: None }, Some(guest))
            }
            Ok(guest) => {
                let mut look = self.look(guest, setup, &input)?;
                let guest = look.guest.take();
                (look, guest)
            }
        };
        let (view, recovery) = (recovered.view, recovered.took);
        let damage = match view.not_mounted {
            Some(_) => None,
            None => self.damage(setup)?,
        };
        let mut repaired = None;
        let wants_repair = view.not_mounted.is_some() || damage.is_some();
        let copy = self.machine.folder().join("repaired.img");
        if let Some(repair) = setup.setup.recipe.repair(&copy).filter(|_| wants_repair) {
            // The image itself may be kept.
            let failed = |source| CrashError::File { path: copy.clone(), source };
            std::fs::copy(image, &copy).map_err(failed)?;
            let not_repaired = match self.runner.run(&repair.timeout(FSCK_LIMIT)) {
                // Bits 0 and 1 of fsck(8): errors were corrected.
                Ok(outcome) if outcome.code.is_some_and(|code| code & !3 == 0) => None,
                other => said(other)?.map(|text| without_path(&text, &copy)),
            };
            // What the kernel remembers of the damaged file system must not matter.
            if let Some(guest) = guest.take() {
                guest.kill();
            }
            self.card.write_back(&copy)?;
            let mut look = self.look(self.restore()?, setup, &input)?;
            guest = look.guest.take();
            if look.view.not_mounted.is_none() {
                if let Some(damage) = self.damage(setup)? {
                    look.view.unreadable = Some(format!("damaged even after the repair: {damage}"));
                }
            }
            repaired = Some(RepairedView { not_repaired, view: look.view });
        }
        let observation = CrashObservation { recovered: view, damage, repaired };
        Ok(self.judged(ledger, &observation, needs_fsck, recovery, guest))
    }

    fn judged(
        &self,
        ledger: &CutLedger,
        seen: &CrashObservation,
        needs_fsck: bool,
        recovery: Duration,
        guest: Option<Guest>,
    ) -> CutFindings {
        let repaired = seen.repaired.as_ref().and_then(|repaired| repaired.view.tree.as_ref());
        let operations = ledger.operations(seen.recovered.tree.as_ref().or(repaired));
        let judge = Judge::of_operations(self.workload, operations.clone(), needs_fsck);
        let violations = judge.violations(seen, ledger.position());
        // After damage, the kernel of the machine may be in a bad state.
        let guest = guest.filter(|_| violations.is_empty());
        CutFindings { violations, operations, recovery, guest }
    }

    fn input(&self, ledger: &CutLedger) -> String {
        match self.workload {
            CrashWorkload::Sqlite(_) => SqliteMode::check(Path::new("/")).1,
            workload => Judge::of_operations(workload, ledger.operations(None), false)
                .acknowledged(ledger.position()),
        }
    }

    /// Mounts in the guest. A guest that hangs or ends is what the file system did to it.
    fn look(
        &self,
        mut guest: Guest,
        setup: &CutSetup<'_>,
        input: &str,
    ) -> Result<Look, CrashError> {
        let (mount, workload) = (setup.mount.clone(), self.workload.clone());
        guest.send(&GuestRequest::Check { mount, workload, input: input.to_owned() })?;
        match guest.reply(SILENCE_LIMIT) {
            Ok(GuestReply::Checked { view, mount_ns }) => {
                let took = Duration::from_nanos(mount_ns);
                Ok(Look { view: *view, took, guest: Some(guest) })
            }
            Ok(other) => Err(unexpected(&other)),
            Err(error @ (CrashError::Silent { .. } | CrashError::GuestEnded { .. }))
                if !self.runner.interrupt().is_raised() =>
            {
                let why = Some(error.to_string());
                let view = MountedView { not_mounted: why, ..MountedView::default() };
                guest.kill();
                Ok(Look { view, took: Duration::ZERO, guest: None })
            }
            Err(error) => Err(error),
        }
    }

    /// What the checking program finds on the unmounted card.
    fn damage(&self, setup: &CutSetup<'_>) -> Result<Option<String>, CrashError> {
        let image = self.machine.folder().join("checked.img");
        self.card.image(&image)?;
        let outcome = self.runner.run(&setup.setup.recipe.fsck(&image).timeout(FSCK_LIMIT));
        Ok(said(outcome)?.map(|text| without_path(&text, &image)))
    }
}

fn without_path(text: &str, image: &Path) -> String {
    text.replace(&image.display().to_string(), "DEVICE")
}
