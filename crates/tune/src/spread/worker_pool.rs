//! The boards of a run as those who share its trials: a thread each, with a test bed of its own.
//!
//! A [`WorkerPool`] is where the run is decided, a [`Worker`] is where a board works. They speak through
//! channels, so that a test bed never leaves its thread. Whoever leaves, by an error or a panic, is
//! heard of: a desk says so when it goes.

use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;

use flashfit_bench::Workload;
use flashfit_run_format::unix_seconds;
use flashfit_testbed::{TestBed, TestBedFacts, TrialError, TrialReport};

use crate::record::{TrialDevice, TrialKey};
use crate::session::request;
use crate::spec::RunSpec;

/// How often a board without work looks whether it is still ours.
const LOOK_INTERVAL: Duration = Duration::from_secs(10);

/// What a board says.
#[derive(Debug)]
pub enum WorkerEvent {
    /// Its device was taken over.
    Opened(Box<TestBedFacts>),
    /// A trial was made, or not.
    Made {
        /// When it began, in seconds since 1970.
        started_unix_s: u64,
        /// What came of it.
        made: Result<Box<TrialReport>, TrialError>,
    },
    /// It is of no use any more. A trial that it was given is not made.
    Left(TrialError),
}

#[derive(Debug)]
struct Board {
    made_on: TrialDevice,
    /// `None` once it has left.
    orders: Option<Sender<TrialKey>>,
    is_busy: bool,
}

/// The boards of a run.
#[derive(Debug)]
pub struct WorkerPool {
    boards: Vec<Board>,
    heard: Receiver<(usize, WorkerEvent)>,
}

/// Where one board works.
#[derive(Debug)]
pub struct Worker {
    board: usize,
    orders: Receiver<TrialKey>,
    says: Sender<(usize, WorkerEvent)>,
    has_left: bool,
}

impl WorkerPool {
    /// Of these boards, with a desk for each.
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

    /// Waits until all have taken over their devices or left; who has and who has not, in order.
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

    /// Where a board makes its trials.
    pub fn made_on(&self, board: usize) -> &TrialDevice {
        &self.boards[board].made_on
    }

    /// The board and device by its number.
    pub fn number(&self, made_on: &TrialDevice) -> Option<usize> {
        self.boards.iter().position(|board| board.orders.is_some() && board.made_on == *made_on)
    }

    /// Those that have not left.
    pub fn present(&self) -> impl Iterator<Item = usize> {
        let present = |(number, board): (usize, &Board)| board.orders.is_some().then_some(number);
        self.boards.iter().enumerate().filter_map(present)
    }

    /// Those that wait for work.
    pub fn idle(&self) -> Vec<usize> {
        self.present().filter(|board| !self.boards[*board].is_busy).collect()
    }

    /// Whether nobody is at work.
    pub fn is_idle(&self) -> bool {
        !self.boards.iter().any(|board| board.is_busy)
    }

    /// Gives a board a trial to make. One that is leaving is heard of later, with the trial.
    pub fn give(&mut self, board: usize, key: TrialKey) {
        self.boards[board].is_busy = true;
        if let Some(orders) = &self.boards[board].orders {
            let _ = orders.send(key);
        }
    }

    /// Waits for what is said next; `None` when there is nobody left to say anything.
    pub fn hear(&mut self) -> Option<(usize, WorkerEvent)> {
        let (board, heard) = loop {
            let (board, heard) = self.heard.recv().ok()?;
            // Of one that was dismissed nothing more is wanted.
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

    /// Has no more work for a board, which goes then.
    pub fn dismiss(&mut self, board: usize) {
        self.boards[board].orders = None;
        self.boards[board].is_busy = false;
    }
}

impl Worker {
    /// Says that the device was taken over.
    pub fn opened(&self, facts: &TestBedFacts) {
        self.say(WorkerEvent::Opened(Box::new(facts.clone())));
    }

    /// Makes trials until there are no more. `still_ours` is called before each of them and while
    /// there is none.
    ///
    /// # Errors
    /// What made the board useless; the run goes on with the others.
    pub fn serve(
        &self,
        stand: &mut dyn TestBed,
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
            let made = match stand.run_trial(&request(spec, workloads, &key)) {
                Ok(report) => Ok(Box::new(report)),
                // The setup's fault, not the board's.
                Err(error @ TrialError::Setup { .. }) => Err(error),
                Err(error) => return Err(error),
            };
            self.say(WorkerEvent::Made { started_unix_s, made });
        }
    }

    /// Says why the board is of no use any more.
    pub fn leave(mut self, why: TrialError) {
        self.has_left = true;
        self.say(WorkerEvent::Left(why));
    }

    fn say(&self, heard: WorkerEvent) {
        // Nobody listens where the run has ended.
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
