//! Live power cuts of a board: a machine with a real card works, a relay cuts its power at a random
//! moment, and after it has started again, the machine looks at what is left.
//!
//! What was acknowledged is kept here, where no power is cut. The promises and the checks are those
//! of virtual machines and of crash states. Source: the method of the CELF "eMMC/SSD Filesystem
//! Tuning Methodology", which cut the power of a board by a relay for days.
//!
//! Limits: moments are drawn evenly from the time of the work, and a relay hits them as well as its
//! delay repeats; a real device does not tell what it lost.

mod power;
pub mod program;
mod remains;
mod session;
mod turn;
mod wire;

use std::sync::Arc;
use std::time::{Duration, Instant};

use flashfit_device::{Bytes, Device};
use flashfit_host::SystemRunner;

use crate::CrashError;
use crate::campaign::{CampaignFolder, CampaignPlan, SetupResult, StateBatch, round_seed};
use crate::cuts::CutLimits;
use crate::cuts::examine::Examination;
use crate::cuts::rounds::Rounds;
use crate::cuts::wire::{GuestReply, GuestRequest};
use crate::setup::CrashSetup;

pub use power::{CommandSwitch, PowerSwitch};
pub use session::{BoardConnection, BoardError, BoardLink};
pub use wire::{BoardFacts, BoardPartition};

use power::Power;
use remains::BoardRemains;
use session::{BoardSession, unexpected};
use turn::{BoardTurn, worked};
use wire::{BoardReply, BoardRequest};

/// A multiple of every erase block that is known, for devices with room for it.
const ALIGNMENT: u64 = 64 << 20;
const ROOMY: u64 = 1 << 30;
const LEAST_ALIGNMENT: u64 = 4 << 20;
/// Between two attempts to reach a board that starts.
const RETRY_INTERVAL: Duration = Duration::from_secs(1);

/// The device whose data the user agreed to lose.
#[derive(Debug, Clone)]
pub struct BoardTarget {
    /// As the user saw it.
    pub device: Device,
    /// The name by which the user agreed.
    pub name: String,
    /// Where the work is done on a whole disk; its table is written once.
    pub partition: Option<BoardPartition>,
}

/// Where on the board's device the work is done: in one partition of a whole disk, so that making
/// file systems is quick on a large one, or in all of a partition that was named.
///
/// # Errors
/// When the device is too small.
pub fn partition_for(
    device: &Device,
    setups: &[CrashSetup],
) -> Result<Option<BoardPartition>, CrashError> {
    let needed = setups.iter().map(|setup| setup.device_bytes).max().unwrap_or_default();
    let is_partition = device.partition_start.is_some();
    let start = if device.capacity.0 >= ROOMY { ALIGNMENT } else { LEAST_ALIGNMENT };
    // The table is repeated at the end.
    let whole = if is_partition { needed } else { needed + start + LEAST_ALIGNMENT };
    if device.capacity.0 < whole {
        return Err(CrashError::TooSmall { needed: Bytes(whole), has: device.capacity });
    }
    let partition = BoardPartition { start_bytes: start, size_bytes: needed };
    Ok((!is_partition).then_some(partition))
}

/// Times of a board.
#[derive(Debug, Clone, Copy)]
pub struct BoardTimes {
    /// How long the power stays off.
    pub off: Duration,
    /// How long the board may take to start.
    pub start: Duration,
}

/// A campaign of power cuts of a board.
pub struct BoardCampaign<'a> {
    pub plan: &'a CampaignPlan,
    pub setups: &'a [CrashSetup],
    pub folder: &'a CampaignFolder,
    pub runner: &'a SystemRunner,
    pub link: &'a dyn BoardLink,
    pub switch: Arc<dyn PowerSwitch>,
    pub target: &'a BoardTarget,
    pub times: BoardTimes,
}

/// What a campaign reports while it runs.
pub enum BoardEvent<'a> {
    Reached(&'a BoardFacts),
    Cut(&'a StateBatch),
}

/// A board that has started, with its device open.
struct Started<'a> {
    session: BoardSession<'a>,
    facts: BoardFacts,
}

impl<'a> BoardCampaign<'a> {
    /// Cuts the power until there were enough cuts, the time is over, or an interrupt. Returns the
    /// results of all that is recorded. The board has power when this returns.
    ///
    /// # Errors
    /// [`CrashError::Interrupted`], or why no more cuts are possible.
    pub fn run(
        &self,
        limits: &CutLimits,
        watch: &dyn Fn(&BoardEvent<'_>),
    ) -> Result<Vec<SetupResult>, CrashError> {
        let ended = self.cuts(limits, watch);
        Rounds::results(self.plan, self.folder, self.runner, ended)
    }

    fn cuts(&self, limits: &CutLimits, watch: &dyn Fn(&BoardEvent<'_>)) -> Result<(), CrashError> {
        let rounds = Rounds::new(self.plan, self.folder, self.runner, limits)?;
        if rounds.are_done() {
            return Ok(());
        }
        rounds.check_room()?;
        let power = Power::new(&self.switch);
        let mut started = self.start(true)?;
        watch(&BoardEvent::Reached(&started.facts));
        let mut turns = Vec::new();
        for setup in self.setups {
            turns.push(self.without_cut(&mut started.session, setup)?);
        }
        let mut started = Some(started);
        rounds.run(&|batch| watch(&BoardEvent::Cut(batch)), &mut |setup, round| {
            let board = started.take().expect("it is put back after every power cut");
            let (batch, next) = self.cut(&power, board, &mut turns[setup], round)?;
            started = Some(next);
            Ok(batch)
        })
    }

    /// Reaches the board and opens its device. `makes`: whether the partition table is written.
    fn start(&self, makes: bool) -> Result<Started<'a>, CrashError> {
        let deadline = Instant::now() + self.times.start;
        let interrupt = self.runner.interrupt();
        let connection = loop {
            if interrupt.is_raised() {
                return Err(CrashError::Interrupted);
            }
            match self.link.start() {
                Ok(connection) => break connection,
                Err(error) if error.is_transient && Instant::now() < deadline => {
                    std::thread::sleep(RETRY_INTERVAL);
                }
                Err(error) => return Err(CrashError::Board(error)),
            }
        };
        let mut session = BoardSession::new(connection, interrupt);
        let device_json = serde_json::to_string(&self.target.device).expect("plain data");
        let (name, partition) = (self.target.name.clone(), self.target.partition);
        match session.ask(&BoardRequest::Open { device_json, name, partition, makes })? {
            BoardReply::Opened(facts) => Ok(Started { session, facts }),
            other => Err(unexpected(&other)),
        }
    }

    /// All work without a power cut: how long it takes, and whether the oracles are content.
    fn without_cut(
        &self,
        session: &mut BoardSession<'a>,
        setup: &'a CrashSetup,
    ) -> Result<BoardTurn<'a>, CrashError> {
        let seed = round_seed(self.plan.seed, 0);
        self.begin(session, setup, seed)?;
        let ledger = self.plan.workload.ledger(seed);
        let done = worked(session, ledger, self.runner.interrupt())?;
        if !done.ledger.has_sync() {
            return Err(CrashError::NothingAcknowledged);
        }
        match session.ask_guest(GuestRequest::Unmount)? {
            GuestReply::Unmounted => {}
            other => return Err(unexpected(&BoardReply::Guest(other))),
        }
        let workload = &self.plan.workload;
        let mut remains = BoardRemains { session, setup, workload };
        let examination = Examination { workload, setup, ledger: &done.ledger };
        examination.of(&mut remains)?.check_without_cut(setup)?;
        Ok(BoardTurn::new(setup, &done))
    }
}
