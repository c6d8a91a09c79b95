//! One power cut of a board: work, power off, power on, look, judge, record.
//!
//! The work goes on while the switch is told, because a relay takes its time: otherwise every power
//! cut would meet an idle device. An acknowledgment that still arrives was given before the cut.
//! How long the switch takes is learned, and the command is given so much earlier.

use std::path::Path;
use std::time::{Duration, Instant};

use flashfit_host::interrupt::Interrupt;
use flashfit_numbers::SplitMix64;

use super::power::{Power, PowerSwitch};
use super::remains::{BoardRemains, mount_of};
use super::session::{BoardSession, silent, unexpected};
use super::wire::{BoardReply, BoardRequest, DEVICE, DeviceProgram};
use super::{BoardCampaign, Started};
use crate::CrashError;
use crate::campaign::{StateBatch, round_seed};
use crate::cuts::bench::WorkDone;
use crate::cuts::examine::Examination;
use crate::cuts::ledger::{CutLedger, Taken};
use crate::cuts::rounds::JudgedCut;
use crate::cuts::turn::Pace;
use crate::cuts::wire::{Arrival, GuestReply, GuestRequest};
use crate::setup::CrashSetup;

/// How often the switch and the interrupt are looked for.
const LOOK_UP: Duration = Duration::from_millis(20);
/// A board that has said nothing for so long after the switch obeyed has no power.
const QUIET: Duration = Duration::from_secs(1);
/// One that still works so long after it has power.
const STILL_ON: Duration = Duration::from_secs(5);
/// All work takes seconds, on a slow card minutes.
const WORK_LIMIT: Duration = Duration::from_secs(1800);
/// Part of a new delay of the switch that is learned.
const SHARE: f64 = 0.3;

/// A setup with what was learned of it.
pub(super) struct BoardTurn<'a> {
    pub setup: &'a CrashSetup,
    pace: Pace,
    /// From the command to the last sign of life; nothing before the first power cut.
    delay: Option<Duration>,
}

impl<'a> BoardTurn<'a> {
    pub(super) fn new(setup: &'a CrashSetup, done: &WorkDone) -> Self {
        Self { setup, pace: Pace::of(done, 0), delay: None }
    }

    fn learn(&mut self, end: &WorkLost) {
        let heard = end.heard.max(end.told);
        self.pace.learn(heard, end.ledger.acknowledged());
        if end.was_done {
            return;
        }
        let delay = heard - end.told;
        self.delay = Some(match self.delay {
            None => delay,
            Some(known) => known.mul_f64(1.0 - SHARE) + delay.mul_f64(SHARE),
        });
    }
}

/// Work that a power cut has ended; times are from its start.
struct WorkLost {
    ledger: CutLedger,
    /// When the switch was told.
    told: Duration,
    /// The last sign of life.
    heard: Duration,
    /// Whether all work was done before.
    was_done: bool,
}

/// All work of a round.
pub(super) fn worked(
    session: &mut BoardSession<'_>,
    mut ledger: CutLedger,
    interrupt: &Interrupt,
) -> Result<WorkDone, CrashError> {
    let start = Instant::now();
    if ledger.is_paced() {
        session.send(&BoardRequest::Guest(GuestRequest::Go))?;
    }
    loop {
        if interrupt.is_raised() {
            return Err(CrashError::Interrupted);
        }
        match session.until(Instant::now() + LOOK_UP)? {
            Arrival::Nothing if start.elapsed() < WORK_LIMIT => {}
            Arrival::Nothing => return Err(silent(WORK_LIMIT)),
            Arrival::End => return Err(session.lost()),
            Arrival::Message(BoardReply::Guest(reply)) => match ledger.take(reply)? {
                Taken::Operation => session.send(&BoardRequest::Guest(GuestRequest::Go))?,
                Taken::Line => {}
                Taken::Ended => return Ok(WorkDone { ledger, took: start.elapsed() }),
            },
            Arrival::Message(other) => return Err(unexpected(&other)),
        }
    }
}

/// Works, and tells the switch at a moment. Returns when the board has no power.
fn worked_until_cut(
    session: &mut BoardSession<'_>,
    mut ledger: CutLedger,
    moment: Duration,
    switch: &dyn PowerSwitch,
    interrupt: &Interrupt,
) -> Result<WorkLost, CrashError> {
    let start = Instant::now();
    let mut heard = start;
    let mut was_done = false;
    if ledger.is_paced() {
        session.send(&BoardRequest::Guest(GuestRequest::Go))?;
    }
    std::thread::scope(|scope| {
        let mut switching = None;
        let mut told = Duration::ZERO;
        let mut obeyed = None;
        loop {
            if switching.is_none() && obeyed.is_none() {
                if interrupt.is_raised() {
                    return Err(CrashError::Interrupted);
                }
                if start.elapsed() >= moment {
                    told = start.elapsed();
                    switching = Some(scope.spawn(|| switch.switch(false)));
                }
            }
            if let Some(done) = switching.take_if(|thread| thread.is_finished()) {
                done.join().expect("a switch does not panic")?;
                obeyed = Some(Instant::now());
            }
            if let Some(obeyed) = obeyed {
                if heard.max(obeyed).elapsed() >= QUIET {
                    let heard = heard - start;
                    return Ok(WorkLost { ledger, told, heard, was_done });
                }
                if heard > obeyed + STILL_ON {
                    return Err(CrashError::NotCut);
                }
            }
            match session.until(Instant::now() + LOOK_UP)? {
                Arrival::Nothing => {}
                Arrival::End if switching.is_none() && obeyed.is_none() => {
                    return Err(session.lost());
                }
                Arrival::End => std::thread::sleep(LOOK_UP),
                // Its device may lose power before its processor does.
                Arrival::Message(BoardReply::Guest(GuestReply::WorkFailed(_)))
                    if switching.is_some() || obeyed.is_some() =>
                {
                    heard = Instant::now();
                }
                Arrival::Message(BoardReply::Guest(reply)) => {
                    heard = Instant::now();
                    match ledger.take(reply)? {
                        // It may be gone; that is seen above.
                        Taken::Operation => {
                            let _ = session.send(&BoardRequest::Guest(GuestRequest::Go));
                        }
                        Taken::Line => {}
                        Taken::Ended => was_done = true,
                    }
                }
                Arrival::Message(other) => return Err(unexpected(&other)),
            }
        }
    })
}

impl<'a> BoardCampaign<'a> {
    /// Begins the work of `seed` on a new file system.
    pub(super) fn begin(
        &self,
        session: &mut BoardSession<'a>,
        setup: &CrashSetup,
        seed: u64,
    ) -> Result<(), CrashError> {
        let (node, recipe) = (Path::new(DEVICE), &setup.recipe);
        let programs = std::iter::once(recipe.mkfs(node)).chain(recipe.tune(node));
        let programs = programs.map(|program| DeviceProgram::new(&program)).collect();
        match session.ask(&BoardRequest::Make { programs })? {
            BoardReply::Made => {}
            other => return Err(unexpected(&other)),
        }
        let (mount, workload) = (mount_of(setup), self.plan.workload.clone());
        match session.ask_guest(GuestRequest::Work { mount, workload, seed })? {
            GuestReply::Mounted => Ok(()),
            GuestReply::NotMounted(reason) => {
                Err(CrashError::NotMounted { setup: setup.label.clone(), reason })
            }
            other => Err(unexpected(&BoardReply::Guest(other))),
        }
    }

    /// One power cut.
    pub(super) fn cut(
        &self,
        power: &Power,
        board: Started<'a>,
        turn: &mut BoardTurn<'a>,
        round: u32,
    ) -> Result<(StateBatch, Started<'a>), CrashError> {
        let start = Instant::now();
        let (setup, workload) = (turn.setup, &self.plan.workload);
        let seed = round_seed(self.plan.seed, round);
        let mut random = SplitMix64::new(seed);
        let Started { mut session, facts } = board;
        self.begin(&mut session, setup, seed)?;
        let moment = turn.pace.time(&mut random).saturating_sub(turn.delay.unwrap_or_default());
        let interrupt = self.runner.interrupt();
        let (ledger, switch) = (workload.ledger(seed), power.switch());
        power.is_cut();
        let end = worked_until_cut(&mut session, ledger, moment, switch, interrupt)?;
        turn.learn(&end);
        drop(session);
        self.pause(self.times.off);
        power.on()?;
        let mut next = self.start(false)?;
        if next.facts.boot_id == facts.boot_id {
            return Err(CrashError::NotCut);
        }
        let mut remains = BoardRemains { session: &mut next.session, setup, workload };
        let found = Examination { workload, setup, ledger: &end.ledger }.of(&mut remains)?;
        let judged = JudgedCut {
            setup,
            round,
            ledger: &end.ledger,
            after: end.heard.max(end.told),
            report: None,
            found: &found,
            took: start.elapsed(),
        };
        if judged.is_broken() {
            self.folder.keep_ledger(&setup.label, round, &found.operations)?;
        }
        Ok((judged.batch(), next))
    }

    /// Waits, unless the user interrupts.
    fn pause(&self, time: Duration) {
        let end = Instant::now() + time;
        while Instant::now() < end && !self.runner.interrupt().is_raised() {
            std::thread::sleep(LOOK_UP);
        }
    }
}
