//! Live power cuts: a virtual machine works on a simulated card, the plug of both is pulled at a
//! random moment, and a restored machine looks at what is left.
//!
//! Unlike crash states, the kernel is any that boots, no root is needed, and everything happens in
//! real time: requests are under way, caches are written back, timers run. A power cut cannot be
//! repeated exactly, so the image after every one that broke something is kept.
//!
//! Limits: one process works, one operation after another; the machine has one emulated processor
//! where the computer has no KVM.

pub(crate) mod bench;
mod card;
mod card_remains;
pub(crate) mod examine;
pub mod guest;
pub(crate) mod kept;
pub(crate) mod ledger;
pub(crate) mod limits;
pub(crate) mod machine;
pub(crate) mod rounds;
pub(crate) mod turn;
pub(crate) mod wire;

use std::sync::atomic::AtomicBool;

use flashfit_card::CardModel;
use flashfit_host::SystemRunner;
use flashfit_host::private_folder::PrivateFolder;
use flashfit_vm::VmFacts;

use bench::{CutBench, CutSetup};
use card::PluggedCard;
use card_remains::CardRemains;
use examine::Examination;
use machine::SavedMachine;
use rounds::Rounds;
use turn::{Pace, Turn};
use wire::{GuestReply, GuestRequest};

use crate::CrashError;
use crate::campaign::{
    CampaignFolder, CampaignPlan, CardPlan, SetupResult, StateBatch, round_seed,
};
use crate::setup::CrashSetup;

pub use machine::{MachineChoice, kernel};
pub use rounds::CutLimits;

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
        Rounds::results(self.plan, self.folder, self.runner, ended)
    }

    fn cuts(&self, limits: &CutLimits, watch: &dyn Fn(&CutEvent<'_>)) -> Result<(), CrashError> {
        let rounds = Rounds::new(self.plan, self.folder, self.runner, limits)?;
        if rounds.are_done() {
            return Ok(());
        }
        rounds.check_room()?;
        let bytes = self.setups.iter().map(|setup| setup.device_bytes).max().unwrap_or(0);
        let model = self.card.of_size(bytes)?;
        let bench = self.boot(&model)?;
        watch(&CutEvent::Booted(bench.machine.facts()));
        let mut turns = Vec::new();
        for setup in self.setups {
            let image = bench.machine.folder().join("new.img");
            let ready = CutSetup::new(setup, &model, &image, self.runner)?;
            let pace = self.without_cut(&bench, &ready)?;
            let kept = rounds.kept(turns.len(), &setup.label);
            turns.push(Turn { setup: ready, kept, pace });
        }
        let mut guest = None;
        rounds.run(&|batch| watch(&CutEvent::Cut(batch)), &mut |setup, round| {
            let (batch, next) = self.cut(&bench, &mut turns[setup], round, guest.take())?;
            guest = next;
            Ok(batch)
        })
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
        let mut remains = CardRemains::new(bench, setup, &image, Some(guest));
        let setup = setup.setup;
        let examination = Examination { workload: bench.workload, setup, ledger: &done.ledger };
        examination.of(&mut remains)?.check_without_cut(setup)?;
        Ok(Pace::of(&done, written))
    }
}
