//! Distributes the trials of a batch over the workers and records each result.

use std::collections::BTreeMap;

use flashfit_search::{Batch, Proposal};
use flashfit_testbed::TrialError;
use flashfit_user_error::{ExitClass, UserError};

use crate::budget::BudgetReached;
use crate::completed::CompletedTrial;
use crate::driver::{self, SearchDriver};
use crate::objective;
use crate::record::{TrialKey, TrialPurpose, TrialRecord};
use crate::session::{LeastBudget, Observer, TuneError, TuneSession};
use crate::starts;

use super::queue::TrialQueue;
use super::worker_pool::{WorkerEvent, WorkerPool};
use super::{DeviceEffects, OVERLAP_REPEATS};

/// A trial for a worker.
#[derive(Debug, Clone)]
struct Job {
    key: TrialKey,
    /// `None` for a trial that compares devices.
    proposal: Option<Proposal>,
}

/// Outstanding jobs, and the error that stopped further ones.
#[derive(Debug, Default)]
struct OutstandingJobs {
    jobs: BTreeMap<usize, Job>,
    stopped: Option<TuneError>,
}

enum JobResult {
    Kept,
    /// A failed board with its job.
    Lost(usize, Option<Job>),
}

impl TuneSession<'_> {
    /// Measures the baseline on every device that lacks it, if there are several.
    pub(crate) fn overlap(
        &mut self,
        driver: &SearchDriver<'_>,
        pool: &mut WorkerPool,
        observer: &mut dyn Observer,
    ) -> Result<(), TuneError> {
        let mut left: BTreeMap<usize, Vec<String>> = BTreeMap::new();
        let elsewhere = |board| {
            let here = pool.made_on(board);
            let others = self.trials.iter().filter_map(|trial| trial.made_on.as_ref());
            others.chain(pool.present().map(|other| pool.made_on(other))).any(|on| on != here)
        };
        for board in pool.present().filter(|board| elsewhere(*board)) {
            let lacking = self.problem.workloads.iter().flat_map(|workload| {
                let made = self.trials.iter().filter(|trial| {
                    trial.key.purpose == TrialPurpose::Overlap
                        && trial.key.workload == *workload
                        && trial.made_on.as_ref() == Some(pool.made_on(board))
                });
                let count = OVERLAP_REPEATS.saturating_sub(made.count());
                std::iter::repeat_n(workload.clone(), count)
            });
            left.insert(board, lacking.collect());
        }
        let mut out = OutstandingJobs::default();
        let mut reached = None;
        loop {
            for board in pool.idle() {
                let Some(of_board) = left.get_mut(&board).filter(|left| !left.is_empty()) else {
                    continue;
                };
                reached = reached.or_else(|| self.whole_limit_reached(out.jobs.len()));
                let may_begin = out.stopped.is_none() && reached.is_none();
                if let Some(workload) = of_board.pop().filter(|_| may_begin) {
                    let key = self.overlap_key(workload, &out);
                    self.hand_out(
                        Job { key, proposal: None },
                        board,
                        &mut out,
                        pool,
                        driver,
                        observer,
                    );
                }
            }
            match self.take_back(&mut out, pool, observer) {
                None => break,
                Some(JobResult::Kept | JobResult::Lost(..)) => {}
            }
        }
        self.charge_overlap();
        // The search ends: figures of a device that was not compared cannot be converted.
        if !self.history.is_empty() {
            match reached {
                Some(BudgetReached::Budget) => self.rules.limits.budget_ns = Some(0),
                Some(BudgetReached::MaxWrite) => self.rules.limits.max_write_bytes = Some(0),
                None => {}
            }
        }
        out.stopped.map_or_else(|| self.relevel(), Err)
    }

    /// Makes the trials of a batch until the budget is spent or it is time to confirm.
    pub(crate) fn make_spread(
        &mut self,
        driver: &SearchDriver<'_>,
        proposals: &[Proposal],
        pool: &mut WorkerPool,
        observer: &mut dyn Observer,
    ) -> Result<Option<BudgetReached>, TuneError> {
        let confirms = driver.must_confirm_now(&self.history, &self.costs);
        let mut queue = TrialQueue::new(proposals, |round| self.begun_on(proposals, round, pool));
        let mut out = OutstandingJobs::default();
        let (mut reached, mut turned) = (None, false);
        loop {
            for board in pool.idle() {
                queue.retain(|proposal| !driver::is_excluded(&self.history, proposal.candidate));
                if queue.is_empty() {
                    break;
                }
                let spent = self.spent();
                if out.stopped.is_none() {
                    out.stopped =
                        self.check_budget(&spent).err().map(|error| self.with_overlap(error, pool));
                }
                reached = reached.or_else(|| self.limit_reached_with(&spent, out.jobs.len()));
                turned |= !confirms && driver.must_confirm_now(&self.history, &self.costs);
                if out.stopped.is_some() || reached.is_some() || turned {
                    break;
                }
                if let Some(proposal) = queue.take(board) {
                    let job = Job {
                        key: objective::key(self.problem, &proposal),
                        proposal: Some(proposal),
                    };
                    self.hand_out(job, board, &mut out, pool, driver, observer);
                }
            }
            match self.take_back(&mut out, pool, observer) {
                Some(JobResult::Kept) => {}
                Some(JobResult::Lost(board, job)) => {
                    queue.lost(board, job.and_then(|job| job.proposal))
                }
                None => break,
            }
        }
        if let Some(stopped) = out.stopped {
            return Err(stopped);
        }
        if self.history.is_empty() && reached.is_some() {
            // Without a limit that the comparison of devices used up, it is late.
            if let Some(spent) = self.spec.limits.reached(&self.spent_in_all()) {
                return Err(self.too_small(spent, pool));
            }
        }
        if reached.is_some() || turned {
            return Ok(reached);
        }
        driver::close_batch(&mut self.history);
        self.relevel()?;
        Ok(None)
    }

    /// A budget too small for the search, together with the comparison of devices.
    fn with_overlap(&self, error: TuneError, pool: &WorkerPool) -> TuneError {
        let is_overlap = |trial: &TrialRecord| trial.key.purpose == TrialPurpose::Overlap;
        let TuneError::BudgetTooSmall { least, .. } = error else { return error };
        let reached = match least {
            LeastBudget::Seconds(_) => BudgetReached::Budget,
            LeastBudget::WrittenMib(_) => BudgetReached::MaxWrite,
        };
        if self.trials.iter().any(is_overlap) { self.too_small(reached, pool) } else { error }
    }

    /// The error of a budget that does not suffice for the comparison of devices and one trial of
    /// each file system.
    fn too_small(&self, reached: BudgetReached, pool: &WorkerPool) -> TuneError {
        let made = self.trials.iter().filter(|trial| trial.key.purpose == TrialPurpose::Overlap);
        let (boards, families) = (pool.present().count(), self.problem.families());
        let comparing = made.count().max(OVERLAP_REPEATS * self.problem.workloads.len() * boards);
        let trials = u64::try_from(comparing + families).expect("few file systems and boards");
        let spent = self.spent_in_all();
        let (amount, least) = match reached {
            BudgetReached::Budget => {
                let seconds = spent.mean_ns().saturating_mul(trials).div_ceil(1_000_000_000);
                (format!("{seconds} s"), LeastBudget::Seconds(seconds))
            }
            BudgetReached::MaxWrite => {
                let mib = spent.mean_written_bytes().saturating_mul(trials).div_ceil(1 << 20);
                (format!("{mib} MiB of writing"), LeastBudget::WrittenMib(mib))
            }
        };
        let needed = format!(
            "comparing {boards} devices and one trial of each of {families} file systems take \
             about {amount}"
        );
        TuneError::BudgetTooSmall { needed, least }
    }

    /// The board that started a confirming round, in a resumed run.
    fn begun_on(
        &self,
        proposals: &[Proposal],
        round: (u32, usize),
        pool: &WorkerPool,
    ) -> Option<usize> {
        let batch = proposals.first()?.batch.number;
        let made = self.trials.iter().find(|trial| {
            trial.key.purpose == TrialPurpose::Confirm
                && trial.key.repeat == round.0
                && trial.key.workload == self.problem.workloads[round.1]
                && trial.batch.is_some_and(|of| of.number == batch)
        });
        pool.number(made?.made_on.as_ref()?)
    }

    /// Keys are unique within a run, including outstanding trials.
    fn overlap_key(&self, workload: String, out: &OutstandingJobs) -> TrialKey {
        let mut key = TrialKey {
            purpose: TrialPurpose::Overlap,
            setup: self.problem.baseline().clone(),
            workload,
            length: flashfit_bench::MeasurementLength::Full,
            repeat: 0,
        };
        let known = || self.trials.iter().map(|t| &t.key).chain(out.jobs.values().map(|j| &j.key));
        while known().any(|known| *known == key) {
            key.repeat += 1;
        }
        key
    }

    fn hand_out(
        &self,
        job: Job,
        board: usize,
        out: &mut OutstandingJobs,
        pool: &mut WorkerPool,
        driver: &SearchDriver<'_>,
        observer: &mut dyn Observer,
    ) {
        observer.on_trial_start(&job.key, &self.so_far(driver));
        pool.give(board, job.key.clone());
        out.jobs.insert(board, job);
    }

    /// Waits for a result; `None` without outstanding jobs.
    fn take_back(
        &mut self,
        out: &mut OutstandingJobs,
        pool: &mut WorkerPool,
        observer: &mut dyn Observer,
    ) -> Option<JobResult> {
        if pool.present().next().is_none() && out.stopped.is_none() {
            out.stopped = Some(TuneError::NoBoardLeft { last: "none was there".to_owned() });
        }
        if pool.is_idle() {
            return None;
        }
        let (board, heard) = pool.hear()?;
        let job = out.jobs.remove(&board);
        let lost = |why: TrialError, out: &mut OutstandingJobs, observer: &mut dyn Observer| {
            let is_last = pool.present().next().is_none();
            if why.class() == ExitClass::Interrupted {
                out.stopped = Some(TuneError::TestBed(why));
            } else {
                observer.on_worker_lost(pool.made_on(board), &why);
                if is_last && out.stopped.is_none() {
                    out.stopped = Some(TuneError::NoBoardLeft { last: why.to_string() });
                }
            }
        };
        let (started_unix_s, made) = match heard {
            WorkerEvent::Made { started_unix_s, made } => (started_unix_s, made),
            WorkerEvent::Left(why) => {
                lost(why, out, observer);
                return Some(JobResult::Lost(board, job));
            }
            WorkerEvent::Opened(_) => return Some(JobResult::Kept),
        };
        let Some(job) = job else { return Some(JobResult::Kept) };
        let (report, message) = match made {
            Ok(report) => (report, None),
            Err(TrialError::Setup { message, .. }) if job.proposal.is_none() => {
                // A setup that works on the other boards is not at fault.
                pool.dismiss(board);
                let what = format!("cannot be compared: its baseline fails: {message}");
                let why = TrialError::Device { what };
                observer.on_worker_lost(pool.made_on(board), &why);
                if pool.present().next().is_none() && out.stopped.is_none() {
                    out.stopped = Some(TuneError::NoBoardLeft { last: why.to_string() });
                }
                return Some(JobResult::Lost(board, Some(job)));
            }
            Err(TrialError::Setup { message, report }) => (report, Some(message)),
            Err(why) => {
                lost(why, out, observer);
                return Some(JobResult::Lost(board, Some(job)));
            }
        };
        let batch = job.proposal.map(|proposal| Batch { ..proposal.batch });
        let made_on = Some(pool.made_on(board).clone());
        let made = CompletedTrial {
            key: job.key,
            batch,
            made_on,
            started_unix_s,
            report: *report,
            message,
        };
        let kept = self.keep(made).and_then(|record| self.learn(record, job.proposal, observer));
        if let Err(error) = kept {
            out.stopped.get_or_insert(error);
        }
        Some(JobResult::Kept)
    }

    /// Adds a recorded trial to the history.
    fn learn(
        &mut self,
        record: TrialRecord,
        proposal: Option<Proposal>,
        observer: &mut dyn Observer,
    ) -> Result<(), TuneError> {
        observer.on_trial_end(&record);
        let Some(proposal) = proposal else {
            self.trials.push(record);
            return Ok(());
        };
        let outcome = self.objective.outcome(&self.levels.applied(&record));
        self.costs.push(record.cost());
        self.tell(proposal, starts::of_record(&record), outcome);
        self.trials.push(record);
        self.stop_if_hopeless()
    }

    /// Estimates the device effects again from all complete batches, and converts the history.
    /// Never within a batch, which a resumed run must reproduce.
    pub(crate) fn relevel(&mut self) -> Result<(), TuneError> {
        let of_search: Vec<&TrialRecord> =
            self.trials.iter().filter(|trial| self.problem.has(&trial.key)).collect();
        let is_whole = driver::whole_batches(&self.history);
        let whole =
            of_search.iter().zip(&self.history).filter(|(_, observation)| is_whole(observation));
        let overlap = self.trials.iter().filter(|trial| trial.key.purpose == TrialPurpose::Overlap);
        let levels = DeviceEffects::of(overlap.chain(whole.map(|(trial, _)| *trial)));
        if !levels.are_several() {
            return Ok(());
        }
        for (observation, trial) in self.history.iter_mut().zip(of_search) {
            observation.outcome = self.objective.outcome(&levels.applied(trial));
        }
        self.levels = levels;
        Ok(())
    }

    /// Subtracts the cost of comparing devices from the budget, since the search does not see it.
    pub(crate) fn charge_overlap(&mut self) {
        let mut limits = self.spec.limits.clone();
        let overlap = self.trials.iter().filter(|trial| trial.key.purpose == TrialPurpose::Overlap);
        for cost in overlap.map(TrialRecord::cost) {
            let less = |limit: &mut Option<u64>, by: u64| {
                *limit = limit.map(|limit| limit.saturating_sub(by));
            };
            less(&mut limits.budget_ns, cost.time_ns);
            less(&mut limits.max_write_bytes, cost.written_bytes);
        }
        self.rules.limits = limits;
    }
}
