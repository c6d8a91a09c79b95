//! Live power cuts: a virtual machine works on a simulated card, the plug of both is pulled at a
//! random moment, and a restored machine looks at what is left.
//!
//! Unlike crash states, the kernel is any that boots, no root is needed, and everything happens in
//! real time: requests are under way, caches are written back, timers run. A power cut cannot be
//! repeated exactly, so the image after every one that broke something is kept.
//!
//! Limits: one process works, one operation after another; the machine has one emulated processor
//! where the computer has no KVM.

mod bench;
mod card;
mod examine;
pub mod guest;
mod ledger;
mod machine;
mod turn;
mod wire;

use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use flashfit_card::CardModel;
use flashfit_device::Bytes;
use flashfit_host::SystemRunner;
use flashfit_host::private_folder::PrivateFolder;
use flashfit_vm::VmFacts;

use bench::{CutBench, CutSetup};
use card::PluggedCard;
use machine::SavedMachine;
use turn::{Pace, Turn};
use wire::{GuestReply, GuestRequest};

use crate::CrashError;
use crate::campaign::{
    CampaignFolder, CampaignPlan, CardPlan, SetupResult, StateBatch, round_seed,
};
use crate::setup::CrashSetup;

pub use machine::{MachineChoice, kernel};

/// For the image of the present power cut and one that is kept.
const ROOM: Bytes = Bytes::mib(64);

/// A campaign of live power cuts.
pub struct CutCampaign<'a> {
    /// With a card and a kernel.
    pub plan: &'a CampaignPlan,
    pub card: &'a CardPlan,
    pub setups: &'a [CrashSetup],
    pub folder: &'a CampaignFolder,
    pub runner: &'a SystemRunner,
    pub choice: MachineChoice<'a>,
}

/// When a campaign ends before all its power cuts were made.
#[derive(Debug, Clone, Copy, Default)]
pub struct CutLimits {
    pub time: Option<Duration>,
    /// Power cuts that broke a promise.
    pub broken: Option<u64>,
}

/// What a campaign reports while it runs.
pub enum CutEvent<'a> {
    Booted(&'a VmFacts),
    Cut(&'a StateBatch),
}

impl CutCampaign<'_> {
    /// Cuts the power until there were enough cuts, the time is over, or an interrupt. Returns the
    /// results of all that is recorded.
    ///
    /// # Errors
    /// [`CrashError::Interrupted`], or why no more cuts are possible.
    pub fn run(
        &self,
        limits: &CutLimits,
        watch: &dyn Fn(&CutEvent<'_>),
    ) -> Result<Vec<SetupResult>, CrashError> {
        let ended = self.cuts(limits, watch);
        if self.runner.interrupt().is_raised() {
            return Err(CrashError::Interrupted);
        }
        ended?;
        // It belongs to a power cut that was judged.
        let _ = std::fs::remove_file(self.folder.draft_path());
        self.folder.results(self.plan)
    }

    fn cuts(&self, limits: &CutLimits, watch: &dyn Fn(&CutEvent<'_>)) -> Result<(), CrashError> {
        let start = Instant::now();
        let recorded = self.folder.batches()?;
        let of = |label: &str| recorded.iter().filter(|b| b.setup == label).count() as u64;
        let wanted = self.plan.states.unwrap_or(u64::MAX);
        if self.setups.iter().all(|setup| of(&setup.label) >= wanted) {
            return Ok(());
        }
        self.folder.check_room(ROOM)?;
        let bytes = self.setups.iter().map(|setup| setup.device_bytes).max().unwrap_or(0);
        let model = self.card.of_size(bytes)?;
        let bench = self.boot(&model)?;
        watch(&CutEvent::Booted(bench.machine.facts()));
        let mut turns = Vec::new();
        for setup in self.setups {
            let image = bench.machine.folder().join("new.img");
            let ready = CutSetup::new(setup, &model, &image, self.runner)?;
            let pace = self.without_cut(&bench, &ready)?;
            let done = of(&setup.label);
            turns.push(Turn {
                setup: ready,
                next: u32::try_from(done).expect("fewer power cuts than 2^32"),
                left: wanted.saturating_sub(done),
                kept: 0,
                pace,
            });
        }
        let deadline = limits.time.map(|time| start + time);
        let broken = |batch: &StateBatch| batch.counts.broken > 0;
        let mut count = recorded.iter().filter(|batch| broken(batch)).count() as u64;
        let is_over = |count: u64| {
            self.runner.interrupt().is_raised()
                || deadline.is_some_and(|deadline| Instant::now() >= deadline)
                || limits.broken.is_some_and(|most| count >= most)
        };
        let mut guest = None;
        while turns.iter().any(|turn| turn.left > 0) {
            for turn in turns.iter_mut().filter(|turn| turn.left > 0) {
                if is_over(count) {
                    return Ok(());
                }
                self.folder.check_room(ROOM)?;
                let (batch, next) = self.cut(&bench, turn, guest.take())?;
                guest = next;
                self.folder.append(&batch)?;
                count += u64::from(broken(&batch));
                watch(&CutEvent::Cut(&batch));
            }
        }
        Ok(())
    }

    fn boot(&self, model: &CardModel) -> Result<CutBench<'_>, CrashError> {
        let folder = PrivateFolder::new()
            .map_err(|source| CrashError::File { path: std::env::temp_dir(), source })?;
        let socket = SavedMachine::socket(&folder);
        let card = PluggedCard::serve(model, &socket, self.card.history_ms())?;
        let kernel = kernel(&self.choice, self.setups, self.runner)?;
        let workload = &self.plan.workload;
        let machine = SavedMachine::boot(
            &self.choice,
            kernel,
            self.setups,
            workload,
            model,
            folder,
            self.runner,
        )?;
        Ok(CutBench { card, machine, workload, runner: self.runner })
    }

    /// All work without a power cut: how long it takes, and whether the oracles are content.
    fn without_cut(&self, bench: &CutBench<'_>, setup: &CutSetup<'_>) -> Result<Pace, CrashError> {
        let seed = round_seed(self.plan.seed, 0);
        let mut guest = bench.restore()?;
        bench.begin(&mut guest, setup, seed)?;
        let writes = bench.card.writes();
        let done = bench.work(&mut guest, seed, None, &AtomicBool::new(false))?;
        if !done.ledger.has_sync() {
            return Err(CrashError::NothingAcknowledged);
        }
        guest.send(&GuestRequest::Unmount)?;
        match guest.reply(machine::SILENCE_LIMIT)? {
            GuestReply::Unmounted => {}
            other => return Err(machine::unexpected(&other)),
        }
        let written = bench.card.writes() - writes;
        let image = self.folder.draft_path();
        bench.card.image(&image)?;
        let found = bench.examine(Ok(guest), setup, &done.ledger, &image)?;
        let keeps = &setup.setup.promises.keeps;
        let broken = found.violations.iter().find(|v| keeps.contains(&v.oracle.promise()));
        match broken {
            None => Ok(Pace::of(&done, written)),
            Some(violation) => Err(CrashError::BrokenWithoutCut {
                setup: setup.setup.label.clone(),
                detail: violation.detail.clone(),
            }),
        }
    }
}
