//! What every power cut of a campaign needs: the card, the saved machine, and for each setup a card
//! with a new file system.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use flashfit_card::CardModel;
use flashfit_host::{Runner, SystemRunner};

use super::card::{PluggedCard, SavedCard};
use super::ledger::{CutLedger, Taken};
use super::limits::WorkLimits;
use super::machine::{Guest, SILENCE_LIMIT, SavedMachine, unexpected};
use super::wire::{Arrival, GuestMount, GuestReply, GuestRequest};
use crate::CrashError;
use crate::setup::CrashSetup;
use crate::workload::CrashWorkload;

/// A guest that is silent because its card is gone is not waited for.
const LOOK_UP: Duration = Duration::from_millis(10);
/// How long a program may work without a power cut.
const PROGRAM_LIMIT: Duration = Duration::from_secs(120);
/// Making a file system of some hundred megabytes takes less than a second.
const MKFS_LIMIT: Duration = Duration::from_secs(120);

pub(super) struct CutBench<'a> {
    pub card: PluggedCard,
    pub machine: SavedMachine,
    pub workload: &'a CrashWorkload,
    pub runner: &'a SystemRunner,
}

/// A setup that is ready for power cuts.
pub(super) struct CutSetup<'a> {
    pub setup: &'a CrashSetup,
    pub mount: GuestMount,
    /// With a new file system.
    new: SavedCard,
}

/// How far the work came.
pub(crate) struct WorkDone {
    pub ledger: CutLedger,
    pub took: Duration,
}

impl<'a> CutSetup<'a> {
    /// Makes the file system in `image`, which is overwritten.
    pub(super) fn new(
        setup: &'a CrashSetup,
        model: &CardModel,
        image: &Path,
        runner: &SystemRunner,
    ) -> Result<Self, CrashError> {
        let failed = |source| CrashError::File { path: image.to_owned(), source };
        let file = std::fs::File::create(image).map_err(failed)?;
        file.set_len(model.capacity.0).map_err(failed)?;
        let recipe = &setup.recipe;
        for program in std::iter::once(recipe.mkfs(image)).chain(recipe.tune(image)) {
            runner.run_checked(&program.timeout(MKFS_LIMIT))?;
        }
        let new = SavedCard::of_image(model, image)?;
        let mount =
            GuestMount { kind: recipe.kind().to_owned(), options: recipe.mount_options().to_vec() };
        Ok(Self { setup, mount, new })
    }
}

impl CutBench<'_> {
    pub(super) fn restore(&self) -> Result<Guest, CrashError> {
        self.machine.restore(self.runner)
    }

    /// Begins the work of `seed` on a card with a new file system.
    pub(super) fn begin(
        &self,
        guest: &mut Guest,
        setup: &CutSetup<'_>,
        seed: u64,
    ) -> Result<(), CrashError> {
        self.card.insert(&setup.new);
        let (mount, workload) = (setup.mount.clone(), self.workload.clone());
        guest.send(&GuestRequest::Work { mount, workload, seed })?;
        match guest.reply(SILENCE_LIMIT)? {
            GuestReply::Mounted => Ok(()),
            GuestReply::NotMounted(reason) => {
                Err(CrashError::NotMounted { setup: setup.setup.label.clone(), reason })
            }
            other => Err(unexpected(&other)),
        }
    }

    /// Lets the guest work, until it is done or for `time`, or until `is_cut`. What arrives after
    /// that is not acknowledged.
    ///
    /// # Errors
    /// Without `time`, when built-in work is silent for long, or a program does not end.
    pub(super) fn work(
        &self,
        guest: &mut Guest,
        seed: u64,
        time: Option<Duration>,
        is_cut: &AtomicBool,
    ) -> Result<WorkDone, CrashError> {
        let mut ledger = self.workload.ledger(seed);
        let limits = WorkLimits::of(self.workload, PROGRAM_LIMIT);
        let start = Instant::now();
        let (end, mut last) = (time.map(|time| start + time), start);
        if ledger.is_paced() {
            guest.send(&GuestRequest::Go)?;
        }
        loop {
            let now = Instant::now();
            let left = end.map(|end| end.saturating_duration_since(now));
            let heard = guest.until(now + left.map_or(LOOK_UP, |left| LOOK_UP.min(left)))?;
            if is_cut.load(Ordering::SeqCst) {
                break;
            }
            let is_over = end.is_some_and(|end| Instant::now() >= end);
            let message = match heard {
                Arrival::Nothing if is_over => break,
                Arrival::Nothing => {
                    if end.is_none() {
                        limits.check(start, last)?;
                    }
                    continue;
                }
                Arrival::End => return Err(CrashError::GuestEnded { console: guest.last_line() }),
                Arrival::Message(message) => message,
            };
            last = Instant::now();
            match ledger.take(message)? {
                Taken::Operation | Taken::Line if is_over => break,
                Taken::Operation => guest.send(&GuestRequest::Go)?,
                Taken::Ended if end.is_none() => break,
                Taken::Line if end.is_none() => limits.check(start, last)?,
                Taken::Line | Taken::Ended => {}
            }
        }
        Ok(WorkDone { ledger, took: start.elapsed() })
    }
}
