//! The boards of a run as a pool of workers, each a thread with its own test bed.
//!
//! The run is controlled by the [`WorkerPool`]; a [`Worker`] controls one board. They communicate
//! through channels, so a test bed never leaves its thread. A worker that ends, even by a panic,
//! always reports it.

use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;

use flashfit_bench::Workload;
use flashfit_run_format::unix_seconds;
use flashfit_testbed::{TestBed, TestBedFacts, TrialError, TrialReport};

use crate::record::{TrialDevice, TrialKey};
use crate::session::request;
use crate::spec::RunSpec;
use crate::starts;

/// Interval at which an idle worker checks that it still owns its board.
const LOOK_INTERVAL: Duration = Duration::from_secs(10);

/// A message of a worker.
#[derive(Debug)]
pub enum WorkerEvent {
    /// The device is ready.
    Opened(Box<TestBedFacts>),
    /// A trial is finished.
    Made {
        /// Start time, in seconds since 1970.
        started_unix_s: u64,
        made: Result<Box<TrialReport>, TrialError>,
    },
    /// The board failed; its current trial was not made.
    Left(TrialError),
}

#[derive(Debug)]
struct Board {
    made_on: TrialDevice,
    /// `None` after it ended.
    orders: Option<Sender<TrialKey>>,
    is_busy: bool,
}

/// The boards of a run.
#[derive(Debug)]
pub struct WorkerPool {
    boards: Vec<Board>,
    heard: Receiver<(usize, WorkerEvent)>,
}

#[derive(Debug)]
pub struct Worker {
    board: usize,
    orders: Receiver<TrialKey>,
    says: Sender<(usize, WorkerEvent)>,
    has_left: bool,
}

impl WorkerPool {
    /// A pool of these boards, with a worker for each.
    pub fn new(boards: Vec<TrialDevice>) -> (Self, Vec<Worker>) {
        let (says, heard) = channel();
        let mut desks = Vec::new();
        let board = |(board, made_on)| {
            let (orders, taken) = channel();
            desks.push(Worker { board, orders: taken, says: says.clone(), has_left: false });
            Board { made_on, orders: Some(orders), is_busy: false }
        };
        let boards = boards.into_iter().enumerate().map(board).collect();
        (Self { boards, heard }, desks)
    }

    /// Waits until every device is ready or failed; returns the results in order.
    pub fn opened(&mut self) -> Vec<Result<Box<TestBedFacts>, TrialError>> {
        let mut found: Vec<Option<Result<Box<TestBedFacts>, TrialError>>> =
            self.boards.iter().map(|_| None).collect();
        while found.iter().any(Option::is_none) {
            let Ok((board, heard)) = self.heard.recv() else { break };
            match heard {
                WorkerEvent::Opened(facts) => found[board] = Some(Ok(facts)),
                WorkerEvent::Left(why) => {
                    self.dismiss(board);
                    found[board] = Some(Err(why));
                }
                WorkerEvent::Made { .. } => {}
            }
        }
        found.into_iter().map(|one| one.unwrap_or_else(|| Err(vanished()))).collect()
    }

    /// The test bed of a board.
    pub fn made_on(&self, board: usize) -> &TrialDevice {
        &self.boards[board].made_on
    }

    /// Board and device by number.
    pub fn number(&self, made_on: &TrialDevice) -> Option<usize> {
        self.boards.iter().position(|board| board.orders.is_some() && board.made_on == *made_on)
    }

    /// The boards that are available.
    pub fn present(&self) -> impl Iterator<Item = usize> {
        let present = |(number, board): (usize, &Board)| board.orders.is_some().then_some(number);
        self.boards.iter().enumerate().filter_map(present)
    }

    pub fn idle(&self) -> Vec<usize> {
        self.present().filter(|board| !self.boards[*board].is_busy).collect()
    }

    /// Whether all boards are idle.
    pub fn is_idle(&self) -> bool {
        !self.boards.iter().any(|board| board.is_busy)
    }

    /// Assigns a trial to a board. If the board is ending, a later message returns the trial.
    pub fn give(&mut self, board: usize, key: TrialKey) {
        self.boards[board].is_busy = true;
        if let Some(orders) = &self.boards[board].orders {
            let _ = orders.send(key);
        }
    }

    /// Waits for the next message; `None` if no worker is left.
    pub fn hear(&mut self) -> Option<(usize, WorkerEvent)> {
        let (board, heard) = loop {
            let (board, heard) = self.heard.recv().ok()?;
            // Ignore messages of dismissed workers.
            if self.boards[board].orders.is_some() {
                break (board, heard);
            }
        };
        self.boards[board].is_busy = false;
        if matches!(heard, WorkerEvent::Left(_)) {
            self.dismiss(board);
        }
        Some((board, heard))
    }

    /// Dismisses a board, whose worker then ends.
    pub fn dismiss(&mut self, board: usize) {
        self.boards[board].orders = None;
        self.boards[board].is_busy = false;
    }
}

impl Worker {
    /// Reports that the device is ready.
    pub fn opened(&self, facts: &TestBedFacts) {
        self.say(WorkerEvent::Opened(Box::new(facts.clone())));
    }

    /// Runs trials until none is left. `still_ours` is called before each trial and while
    /// idle.
    ///
    /// # Errors
    /// The error that made the board unusable; the run continues with the others.
    pub fn serve(
        &self,
        test_bed: &mut dyn TestBed,
        spec: &RunSpec,
        workloads: &[Workload],
        still_ours: &mut dyn FnMut() -> Result<(), TrialError>,
    ) -> Result<(), TrialError> {
        loop {
            let key = match self.orders.recv_timeout(LOOK_INTERVAL) {
                Ok(key) => key,
                Err(RecvTimeoutError::Timeout) => {
                    still_ours()?;
                    continue;
                }
                Err(RecvTimeoutError::Disconnected) => return Ok(()),
            };
            still_ours()?;
            let started_unix_s = unix_seconds();
            let start = starts::draw(spec, &key);
            let asked = request(spec, workloads, &key, start.as_ref());
            let made = match test_bed.run_trial(&asked) {
                Ok(report) => Ok(Box::new(report)),
                // The setup failed, not the board.
                Err(error @ TrialError::Setup { .. }) => Err(error),
                Err(error) => return Err(error),
            };
            self.say(WorkerEvent::Made { started_unix_s, made });
        }
    }

    /// Reports the failure of the board.
    pub fn leave(mut self, why: TrialError) {
        self.has_left = true;
        self.say(WorkerEvent::Left(why));
    }

    fn say(&self, heard: WorkerEvent) {
        // The run may have ended.
        let _ = self.says.send((self.board, heard));
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        if !self.has_left {
            self.say(WorkerEvent::Left(vanished()));
        }
    }
}

fn vanished() -> TrialError {
    TrialError::Device { what: "is not served any more".to_owned() }
}
