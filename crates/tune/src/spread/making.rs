//! A run's session with a team: handing out the trials of a batch, keeping each as it comes.

use std::collections::BTreeMap;

use flashfit_search::{Batch, Proposal};
use flashfit_testbed::TrialError;
use flashfit_user_error::{ExitClass, UserError};

use crate::budget::BudgetReached;
use crate::driver::{self, SearchDriver};
use crate::objective;
use crate::record::{TrialKey, TrialPurpose, TrialRecord};
use crate::session::{CompletedTrial, Observer, TuneError, TuneSession};

use super::queue::TrialQueue;
use super::worker_pool::{WorkerEvent, WorkerPool};
use super::{DeviceEffects, OVERLAP_REPEATS};

/// What is handed out.
#[derive(Debug, Clone)]
struct Job {
    key: TrialKey,
    /// What the search asked for; `None` for a trial that compares devices.
    ask: Option<Proposal>,
}

/// What is handed out and not back yet, and why nothing more is handed out.
#[derive(Debug, Default)]
struct Out {
    jobs: BTreeMap<usize, Job>,
    stopped: Option<TuneError>,
}

/// What came back.
enum Back {
    /// A trial, kept.
    Kept,
    /// A board that is lost, with what it was to make.
    Lost(usize, Option<Job>),
}

impl TuneSession<'_> {
    /// Has the baseline measured on every device that lacks it, where there are several.
    pub(crate) fn overlap(
        &mut self,
        course: &SearchDriver<'_>,
        team: &mut WorkerPool,
        observer: &mut dyn Observer,
    ) -> Result<(), TuneError> {
        let mut left: BTreeMap<usize, Vec<String>> = BTreeMap::new();
        let elsewhere = |board| {
            let here = team.made_on(board);
            let others = self.trials.iter().filter_map(|trial| trial.made_on.as_ref());
            others.chain(team.present().map(|other| team.made_on(other))).any(|on| on != here)
        };
        for board in team.present().filter(|board| elsewhere(*board)) {
            let lacking = self.problem.workloads.iter().flat_map(|workload| {
                let made = self.trials.iter().filter(|trial| {
                    trial.key.purpose == TrialPurpose::Overlap
                        && trial.key.workload == *workload
                        && trial.made_on.as_ref() == Some(team.made_on(board))
                });
                let count = OVERLAP_REPEATS.saturating_sub(made.count());
                std::iter::repeat_n(workload.clone(), count)
            });
            left.insert(board, lacking.collect());
        }
        let mut out = Out::default();
        loop {
            for board in team.idle() {
                let wanted = left.get_mut(&board).and_then(Vec::pop);
                if let Some(workload) = wanted.filter(|_| out.stopped.is_none()) {
                    let key = self.overlap_key(workload, &out);
                    self.hand_out(Job { key, ask: None }, board, &mut out, team, course, observer);
                }
            }
            match self.take_back(&mut out, team, observer) {
                None => break,
                Some(Back::Kept | Back::Lost(..)) => {}
            }
        }
        self.charge_overlap();
        out.stopped.map_or_else(|| self.relevel(), Err)
    }

    /// Makes the trials of a batch until they are all made, a limit is reached, or it is time to
    /// confirm.
    pub(crate) fn make_spread(
        &mut self,
        course: &SearchDriver<'_>,
        asks: &[Proposal],
        team: &mut WorkerPool,
        observer: &mut dyn Observer,
    ) -> Result<Option<BudgetReached>, TuneError> {
        let confirms = course.turns_to_confirming(&self.history, &self.costs);
        let mut queue = TrialQueue::new(asks, |round| self.begun_on(asks, round, team));
        let mut out = Out::default();
        let (mut reached, mut turned) = (None, false);
        loop {
            for board in team.idle() {
                queue.retain(|ask| !driver::is_out(&self.history, ask.candidate));
                if queue.is_empty() {
                    break;
                }
                let spent = self.spent();
                if out.stopped.is_none() {
                    out.stopped = self.reaches(&spent).err();
                }
                reached = reached.or_else(|| self.rules.limits.reached(&spent));
                turned |= !confirms && course.turns_to_confirming(&self.history, &self.costs);
                if out.stopped.is_some() || reached.is_some() || turned {
                    break;
                }
                if let Some(ask) = queue.take(board) {
                    let job = Job { key: objective::key(self.problem, &ask), ask: Some(ask) };
                    self.hand_out(job, board, &mut out, team, course, observer);
                }
            }
            match self.take_back(&mut out, team, observer) {
                Some(Back::Kept) => {}
                Some(Back::Lost(board, job)) => queue.lost(board, job.and_then(|job| job.ask)),
                None => break,
            }
        }
        if let Some(stopped) = out.stopped {
            return Err(stopped);
        }
        if reached.is_some() || turned {
            return Ok(reached);
        }
        driver::close_batch(&mut self.history);
        self.relevel()?;
        Ok(None)
    }

    /// Which board has begun a round of confirming trials in a run that goes on.
    fn begun_on(&self, asks: &[Proposal], round: (u32, usize), team: &WorkerPool) -> Option<usize> {
        let batch = asks.first()?.batch.number;
        let made = self.trials.iter().find(|trial| {
            trial.key.purpose == TrialPurpose::Confirm
                && trial.key.repeat == round.0
                && trial.key.workload == self.problem.workloads[round.1]
                && trial.batch.is_some_and(|of| of.number == batch)
        });
        team.number(made?.made_on.as_ref()?)
    }

    /// No two trials of a run have the same key, those that are under way included.
    fn overlap_key(&self, workload: String, out: &Out) -> TrialKey {
        let mut key = TrialKey {
            purpose: TrialPurpose::Overlap,
            setup: self.problem.reference().clone(),
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
        out: &mut Out,
        team: &mut WorkerPool,
        course: &SearchDriver<'_>,
        observer: &mut dyn Observer,
    ) {
        observer.began(&job.key, &self.so_far(course));
        team.give(board, job.key.clone());
        out.jobs.insert(board, job);
    }

    /// Waits for what comes back; `None` when nothing is out.
    fn take_back(
        &mut self,
        out: &mut Out,
        team: &mut WorkerPool,
        observer: &mut dyn Observer,
    ) -> Option<Back> {
        if team.present().next().is_none() && out.stopped.is_none() {
            out.stopped = Some(TuneError::NoBoardLeft { last: "none was there".to_owned() });
        }
        if team.is_idle() {
            return None;
        }
        let (board, heard) = team.hear()?;
        let job = out.jobs.remove(&board);
        let lost = |why: TrialError, out: &mut Out, observer: &mut dyn Observer| {
            let is_last = team.present().next().is_none();
            if why.class() == ExitClass::Interrupted {
                out.stopped = Some(TuneError::Stand(why));
            } else {
                observer.lost(team.made_on(board), &why);
                if is_last && out.stopped.is_none() {
                    out.stopped = Some(TuneError::NoBoardLeft { last: why.to_string() });
                }
            }
        };
        let (started_unix_s, made) = match heard {
            WorkerEvent::Made { started_unix_s, made } => (started_unix_s, made),
            WorkerEvent::Left(why) => {
                lost(why, out, observer);
                return Some(Back::Lost(board, job));
            }
            WorkerEvent::Opened(_) => return Some(Back::Kept),
        };
        let Some(job) = job else { return Some(Back::Kept) };
        let (report, message) = match made {
            Ok(report) => (report, None),
            Err(TrialError::Setup { message, .. }) if job.ask.is_none() => {
                // What works on the other boards is not the setup's fault.
                team.dismiss(board);
                let what = format!("cannot be compared, its untuned setup fails: {message}");
                let why = TrialError::Device { what };
                observer.lost(team.made_on(board), &why);
                if team.present().next().is_none() && out.stopped.is_none() {
                    out.stopped = Some(TuneError::NoBoardLeft { last: why.to_string() });
                }
                return Some(Back::Lost(board, Some(job)));
            }
            Err(TrialError::Setup { message, report }) => (report, Some(message)),
            Err(why) => {
                lost(why, out, observer);
                return Some(Back::Lost(board, Some(job)));
            }
        };
        let batch = job.ask.map(|ask| Batch { ..ask.batch });
        let made_on = Some(team.made_on(board).clone());
        let made = CompletedTrial {
            key: job.key,
            batch,
            made_on,
            started_unix_s,
            report: *report,
            message,
        };
        let kept = self.keep(made).and_then(|record| self.learn(record, job.ask, observer));
        if let Err(error) = kept {
            out.stopped.get_or_insert(error);
        }
        Some(Back::Kept)
    }

    /// Tells the search of a trial that was kept.
    fn learn(
        &mut self,
        record: TrialRecord,
        ask: Option<Proposal>,
        observer: &mut dyn Observer,
    ) -> Result<(), TuneError> {
        observer.ended(&record);
        let Some(ask) = ask else {
            self.trials.push(record);
            return Ok(());
        };
        let outcome = self.judge.outcome(&self.levels.applied(&record))?;
        self.costs.push(record.cost());
        self.tell(ask, outcome);
        self.trials.push(record);
        self.stop_if_all_failed()
    }

    /// Compares the devices again by all whole batches, and corrects by that what the search was
    /// told. Never within a batch: a run that goes on has to find the same batch again.
    pub(crate) fn relevel(&mut self) -> Result<(), TuneError> {
        let of_search: Vec<&TrialRecord> =
            self.trials.iter().filter(|trial| self.problem.has(&trial.key)).collect();
        let is_whole = driver::whole_batches(&self.history);
        let whole = of_search.iter().zip(&self.history).filter(|(_, told)| is_whole(told));
        let overlap = self.trials.iter().filter(|trial| trial.key.purpose == TrialPurpose::Overlap);
        let levels = DeviceEffects::of(overlap.chain(whole.map(|(trial, _)| *trial)));
        if !levels.are_several() {
            return Ok(());
        }
        let outcomes: Result<Vec<_>, _> =
            of_search.iter().map(|trial| self.judge.outcome(&levels.applied(trial))).collect();
        for (told, outcome) in self.history.iter_mut().zip(outcomes?) {
            told.outcome = outcome;
        }
        self.levels = levels;
        Ok(())
    }

    /// What comparing devices has cost is taken from the limits: the search does not know of it.
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
