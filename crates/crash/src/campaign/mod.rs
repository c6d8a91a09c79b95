//! A campaign: many recorded workloads on several setups, and the states of each.
//!
//! Work is done in rounds. A round records one workload on one setup and checks states of that log;
//! two workers never share a log, so no two devices with the same identity are mounted at once. The
//! log is saved before the first state is checked, and counts are appended in synced batches, so a
//! killed campaign continues where its records end. The logs of rounds without a broken promise are
//! removed.

mod batch;
mod checks;
mod continuation;
mod definition;
mod folder;
mod plan;
mod points;
mod round;
mod summary;

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use flashfit_host::SystemRunner;

use crate::CrashError;
use crate::log::CrashLog;
use crate::mounting::MachineKernel;
use crate::setup::CrashSetup;

pub use batch::{BrokenState, CutRecord, StateBatch};
pub use definition::SetupDefinition;
pub use folder::CampaignFolder;
pub use plan::{BoardPlan, CampaignPlan, CampaignStart, CardPlan, definitions};
pub use points::MountPoints;
pub use round::round_seed;
pub use summary::{FaultCounts, SetupResult, StateCounts};

/// How a campaign runs.
#[derive(Debug, Clone)]
pub struct CampaignLimits {
    /// Time of the campaign, with that of earlier commands; the end of a round may be a little
    /// later.
    pub time: Option<Duration>,
    pub workers: usize,
    /// Whether the logs of rounds without a broken promise are kept.
    pub keeps_logs: bool,
    /// Whether every state is looked at, even if it is equivalent to one before.
    pub looks_at_all: bool,
}

/// A round to be done.
#[derive(Debug, Clone, Copy)]
struct RoundJob {
    setup: usize,
    round: u32,
    /// The first state that is not recorded.
    from: u32,
    most: u32,
}

/// What is left to do.
struct Queue<'a> {
    plan: &'a CampaignPlan,
    /// Interrupted rounds.
    unfinished: Vec<RoundJob>,
    next_round: Vec<u32>,
    /// States that are neither recorded nor being checked.
    left: Vec<u64>,
    turn: usize,
}

/// States of one log: enough to be worth recording it, and few enough for many logs.
const MOST_PER_ROUND: u64 = 600;
const LEAST_PER_ROUND: u64 = 15;
/// Logs of a small campaign. If all are sound, a check of as many random states finds a broken one
/// in at most 5 % of other runs of the work.
const LOGS: u64 = 60;
/// The most states of one log where the time is limited: a short campaign gets several logs.
const PER_ROUND_IN_TIME: u64 = 100;
/// States of requests that were recorded elsewhere, which have one round; without a number.
const MOST_OF_REQUESTS: u64 = 100_000;

impl Queue<'_> {
    fn next(&mut self) -> Option<RoundJob> {
        if let Some(job) = self.unfinished.pop() {
            return Some(job);
        }
        if self.plan.requests.is_some() && self.next_round.iter().any(|round| *round > 0) {
            return None;
        }
        let count = self.left.len();
        let setup =
            (0..count).map(|step| (self.turn + step) % count).find(|s| self.left[*s] > 0)?;
        self.turn = setup + 1;
        let most = self.left[setup].min(per_round(self.plan));
        self.left[setup] -= most;
        let round = self.next_round[setup];
        self.next_round[setup] += 1;
        let most = u32::try_from(most).unwrap_or(u32::MAX);
        Some(RoundJob { setup, round, from: 0, most })
    }
}

fn per_round(plan: &CampaignPlan) -> u64 {
    if plan.requests.is_some() {
        return plan.states.unwrap_or(MOST_OF_REQUESTS);
    }
    let most = if plan.start.time_ns.is_some() { PER_ROUND_IN_TIME } else { MOST_PER_ROUND };
    plan.states.map_or(most, |states| (states / LOGS).clamp(LEAST_PER_ROUND, most))
}

/// A campaign in progress.
pub struct Campaign<'a> {
    pub plan: &'a CampaignPlan,
    pub setups: &'a [CrashSetup],
    pub folder: &'a CampaignFolder,
    pub points: &'a MountPoints,
    /// A virtual machine's kernel mounts the states; without it, this one.
    pub machine: Option<&'a MachineKernel<'a>>,
    /// Requests that were recorded elsewhere, in place of work that is recorded here.
    pub requests: Option<&'a CrashLog>,
    pub runner: &'a SystemRunner,
}

impl Campaign<'_> {
    /// Checks states until there are enough, the time is over, or an interrupt; `watch` is called
    /// after every batch. Returns the results of everything that is recorded.
    ///
    /// # Errors
    /// [`CrashError::Interrupted`], or why no more states can be checked.
    pub fn run(
        &self,
        limits: &CampaignLimits,
        watch: &(dyn Fn(&StateBatch) + Sync),
    ) -> Result<Vec<SetupResult>, CrashError> {
        let results = self.checked(limits, watch);
        if results.is_err() {
            self.folder.abandon_without_records();
        }
        results
    }

    fn checked(
        &self,
        limits: &CampaignLimits,
        watch: &(dyn Fn(&StateBatch) + Sync),
    ) -> Result<Vec<SetupResult>, CrashError> {
        let queue = Mutex::new(self.queue()?);
        let stop = AtomicBool::new(false);
        let spent = self.folder.spent()?;
        let deadline = limits.time.map(|time| Instant::now() + time.saturating_sub(spent));
        let is_over = || {
            stop.load(Ordering::Relaxed)
                || self.runner.interrupt().is_raised()
                || deadline.is_some_and(|deadline| Instant::now() >= deadline)
        };
        let worker = |number: usize| -> Result<(), CrashError> {
            let mut worker = round::Worker::new(self, number, limits);
            while !is_over() {
                let next = queue.lock().expect("no worker panics with it").next();
                let Some(job) = next else { break };
                let checked = worker.run(&job, &is_over, watch)?;
                // A short log has fewer states than were set aside for it.
                let unused = u64::from(job.most - job.from) - u64::from(checked);
                queue.lock().expect("no worker panics with it").left[job.setup] += unused;
            }
            Ok(())
        };
        let results: Vec<Result<(), CrashError>> = std::thread::scope(|scope| {
            let start = |number| {
                let (worker, stop) = (&worker, &stop);
                scope.spawn(move || {
                    let result = worker(number);
                    if result.is_err() {
                        stop.store(true, Ordering::Relaxed);
                    }
                    result
                })
            };
            let workers: Vec<_> = (0..limits.workers.max(1)).map(start).collect();
            workers.into_iter().map(|worker| worker.join().expect("reported above")).collect()
        });
        // It may have ended a virtual machine, which is not the error.
        if self.runner.interrupt().is_raised() {
            return Err(CrashError::Interrupted);
        }
        results.into_iter().collect::<Result<(), _>>()?;
        self.folder.results(self.plan)
    }

    fn queue(&self) -> Result<Queue<'_>, CrashError> {
        let batches = self.folder.batches()?;
        let count = self.plan.setups.len();
        let mut queue = Queue {
            plan: self.plan,
            unfinished: Vec::new(),
            next_round: vec![0; count],
            left: vec![self.plan.states.unwrap_or(u64::MAX); count],
            turn: 0,
        };
        for (setup, label) in self.plan.setups.iter().enumerate() {
            let mut rounds = std::collections::BTreeMap::new();
            for batch in batches.iter().filter(|batch| batch.setup == *label) {
                let recorded = u64::from(batch.to - batch.from);
                queue.left[setup] = queue.left[setup].saturating_sub(recorded);
                rounds.insert(batch.round, (batch.to, batch.most, batch.ends_round));
            }
            queue.next_round[setup] = rounds.keys().next_back().map_or(0, |last| last + 1);
            for (round, (to, most, ends)) in rounds {
                if !ends && self.folder.has_log(label, round) {
                    let planned = u64::from(most - to).min(queue.left[setup]);
                    queue.left[setup] -= planned;
                    let most = to.saturating_add(u32::try_from(planned).unwrap_or(u32::MAX));
                    queue.unfinished.push(RoundJob { setup, round, from: to, most });
                }
            }
        }
        Ok(queue)
    }
}
