//! A simulated card after a power cut: mounted and looked at in a restored machine, checked and
//! repaired on this one.
//!
//! The checking program runs on an image of the card, which is as fast as this machine. The same
//! program checks crash states, so both are judged alike.

use std::path::{Path, PathBuf};
use std::time::Duration;

use flashfit_host::Runner;

use super::bench::{CutBench, CutSetup};
use super::machine::{Guest, SILENCE_LIMIT, unexpected};
use super::wire::{GuestReply, GuestRequest};
use crate::CrashError;
use crate::observe::remains::{Look, Remains, ShownToMachine, look_in_machine};
use crate::observe::{FSCK_LIMIT, repair_failure, said};

pub(super) struct CardRemains<'a> {
    pub bench: &'a CutBench<'a>,
    pub setup: &'a CutSetup<'a>,
    /// What the card contained after the power cut.
    pub image: &'a Path,
    /// The machine, if it can go on working.
    pub guest: Option<Guest>,
    /// After a repair: what the card contains instead.
    repaired: Option<PathBuf>,
}

impl<'a> CardRemains<'a> {
    pub(super) fn new(
        bench: &'a CutBench<'a>,
        setup: &'a CutSetup<'a>,
        image: &'a Path,
        guest: Option<Guest>,
    ) -> Self {
        Self { bench, setup, image, guest, repaired: None }
    }
}

impl ShownToMachine for CardRemains<'_> {
    fn look_once(&mut self, input: &str) -> Result<Look, CrashError> {
        let mut guest = match self.guest.take() {
            Some(guest) => guest,
            None => self.bench.restore()?,
        };
        let (mount, workload) = (self.setup.mount.clone(), self.bench.workload.clone());
        guest.send(&GuestRequest::Check { mount, workload, input: input.to_owned() })?;
        match guest.reply(SILENCE_LIMIT) {
            Ok(GuestReply::Checked { view, mount_ns }) => {
                self.guest = Some(guest);
                Ok(Look { view: *view, recovery: Duration::from_nanos(mount_ns) })
            }
            Ok(other) => Err(unexpected(&other)),
            Err(error) if !self.is_end(&error) => Err(error),
            Err(error) => {
                match error {
                    CrashError::GuestEnded { .. } => guest.check_end()?,
                    _ => guest.kill(),
                }
                Err(error)
            }
        }
    }

    /// A guest that hangs or ends is what the file system did to it.
    fn is_end(&self, error: &CrashError) -> bool {
        let is_end = matches!(error, CrashError::Silent { .. } | CrashError::GuestEnded { .. });
        is_end && !self.bench.runner.interrupt().is_raised()
    }

    /// What the card could not read is zeros then.
    fn show_again(&mut self) -> Result<(), CrashError> {
        // Meanwhile, the card serves the last requests of the dead machine.
        self.guest = Some(self.bench.restore()?);
        self.bench.card.write_back(self.repaired.as_deref().unwrap_or(self.image))
    }
}

impl Remains for CardRemains<'_> {
    fn look(&mut self, input: &str) -> Result<Look, CrashError> {
        look_in_machine(self, input)
    }

    fn damage(&mut self) -> Result<Option<String>, CrashError> {
        let image = self.bench.machine.folder().join("checked.img");
        self.bench.card.image(&image)?;
        let fsck = self.setup.setup.recipe.fsck(&image).timeout(FSCK_LIMIT);
        Ok(said(self.bench.runner.run(&fsck))?.map(|text| without_path(&text, &image)))
    }

    fn repair(&mut self) -> Result<Option<Option<String>>, CrashError> {
        let copy = self.bench.machine.folder().join("repaired.img");
        let Some(repair) = self.setup.setup.recipe.repair(&copy) else { return Ok(None) };
        // The image itself may be kept.
        let failed = |source| CrashError::File { path: copy.clone(), source };
        std::fs::copy(self.image, &copy).map_err(failed)?;
        let outcome = self.bench.runner.run(&repair.timeout(FSCK_LIMIT));
        let not_repaired = repair_failure(outcome)?.map(|text| without_path(&text, &copy));
        // What the kernel remembers of the damaged file system must not matter.
        if let Some(guest) = self.guest.take() {
            guest.kill();
        }
        self.bench.card.write_back(&copy)?;
        self.repaired = Some(copy);
        Ok(Some(not_repaired))
    }
}

fn without_path(text: &str, image: &Path) -> String {
    text.replace(&image.display().to_string(), "DEVICE")
}
