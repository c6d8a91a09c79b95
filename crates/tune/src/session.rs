//! The way of a run: ask the search, make the trials, keep each one before the next begins.

use flashfit_bench::{Workload, WorkloadPoint};
use flashfit_run_format::unix_seconds;
use flashfit_search::{
    self as search, CandidateIndex, NextStep, Observation, Proposal, SearchEnd, SearchError,
    TrialOutcome as Found,
};
use flashfit_testbed::{TestBed, TrialError, TrialReport, TrialRequest};
use flashfit_user_error::{ExitClass, UserError};

use crate::budget::{Budget, BudgetReached, Spent, TrialCost};
use crate::driver::{self, DriverRules, SearchDriver};
use crate::objective::{self, NoFigure, Objective};
use crate::order;
use crate::problem::Problem;
use crate::record::{
    RECORD_VERSION, RecordedOutcome, TrialBatch, TrialDevice, TrialKey, TrialRecord,
};
use crate::run_dir::{RunDir, RunDirError};
use crate::spec::RunSpec;
use crate::spread::{DeviceEffects, WorkerPool};

/// Why a run ended before its time.
#[derive(Debug, thiserror::Error)]
pub enum TuneError {
    /// The run directory.
    #[error(transparent)]
    Dir(#[from] RunDirError),
    /// The stand, and no other setup would fare better.
    #[error(transparent)]
    Stand(#[from] TrialError),
    /// Every board of a lab was lost.
    #[error("no board is left; the last was lost: {last}")]
    NoBoardLeft {
        /// Why it was.
        last: String,
    },
    /// No setup worked.
    #[error("no setup worked; the last said: {last}")]
    AllFailed {
        /// What the last one said.
        last: String,
    },
    /// The space or the limits make no search possible.
    #[error("{}", driver::in_words(.0))]
    Search(#[from] SearchError),
    /// The first trials show that the limits do not reach.
    #[error("the limit is too small: {needed}")]
    TooLittle {
        /// What one trial of each file system takes.
        needed: String,
        /// The least that reaches for them.
        least: LeastBudget,
    },
    /// A trial does not tell what the run is judged by.
    #[error(transparent)]
    NoFigure(#[from] NoFigure),
}

/// A budget that reaches for one trial of each file system.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LeastBudget {
    Seconds(u64),
    WrittenMib(u64),
}

impl UserError for TuneError {
    fn class(&self) -> ExitClass {
        match self {
            Self::Dir(error) => error.class(),
            Self::Stand(error) => error.class(),
            Self::NoBoardLeft { .. } => ExitClass::Io,
            Self::AllFailed { .. } => ExitClass::BadVerdict,
            Self::Search(_) | Self::TooLittle { .. } => ExitClass::Usage,
            Self::NoFigure(_) => ExitClass::Environment,
        }
    }

    fn hint(&self) -> Option<String> {
        match self {
            Self::Dir(error) => error.hint(),
            Self::Stand(error) => error.hint(),
            Self::AllFailed { .. } => Some("the run directory has each trial's message".into()),
            Self::NoBoardLeft { .. }
            | Self::Search(_)
            | Self::TooLittle { .. }
            | Self::NoFigure(_) => None,
        }
    }
}

/// Watches a run; the command shows its progress this way.
pub trait Observer {
    /// A trial begins.
    fn began(&mut self, key: &TrialKey, so_far: &RunProgress<'_>);

    /// A trial was kept.
    fn ended(&mut self, record: &TrialRecord);

    /// One of several boards is of no use any more; the others go on.
    fn lost(&mut self, made_on: &TrialDevice, why: &TrialError) {
        let _ = (made_on, why);
    }

    /// A batch is over, after which the search thinks again; it would choose `leader` now.
    fn thought(&mut self, so_far: &RunProgress<'_>, leader: Option<CandidateIndex>);
}

/// Where a run stands.
pub struct RunProgress<'a> {
    /// What is searched.
    pub problem: &'a Problem,
    /// What the search was told.
    pub history: &'a [Observation],
    /// What that cost.
    pub spent: Spent,
    /// What may be spent.
    pub limits: &'a Budget,
    /// Trials that are still to be made, at the most, the one that begins included; `None` where
    /// that cannot be told.
    pub left: Option<u64>,
}

/// Why a run ended in its time.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum RunEnd {
    /// The search has said so.
    Search(SearchEnd),
    /// A limit of time or of writing.
    Limit(BudgetReached),
}

/// A run under way.
pub struct TuneSession<'a> {
    pub(crate) spec: &'a RunSpec,
    pub(crate) problem: &'a Problem,
    pub(crate) rules: DriverRules,
    pub(crate) judge: Objective,
    workloads: &'a [Workload],
    dir: RunDir,
    pub(crate) trials: Vec<TrialRecord>,
    pub(crate) history: Vec<Observation>,
    pub(crate) costs: Vec<TrialCost>,
    /// How the devices differ on which the trials were made; nothing where it was one.
    pub(crate) levels: DeviceEffects,
}

/// Who makes the trials.
enum Executor<'a> {
    One(&'a mut dyn TestBed),
    Many(&'a mut WorkerPool),
}

/// A trial that came back, before it is kept.
pub(crate) struct CompletedTrial {
    pub key: TrialKey,
    pub batch: Option<flashfit_search::Batch>,
    pub made_on: Option<TrialDevice>,
    pub started_unix_s: u64,
    pub report: TrialReport,
    /// Why the setup did not work, if it did not.
    pub message: Option<String>,
}

impl<'a> TuneSession<'a> {
    /// Goes on from the trials that were made before; none for a new run.
    ///
    /// # Errors
    /// When one of them does not tell what the run is judged by.
    pub fn new(
        spec: &'a RunSpec,
        problem: &'a Problem,
        workloads: &'a [Workload],
        dir: RunDir,
        trials: Vec<TrialRecord>,
    ) -> Result<Self, TuneError> {
        let judge = Objective::of(spec);
        let known: Vec<TrialRecord> =
            trials.iter().filter(|trial| problem.has(&trial.key)).cloned().collect();
        let history = objective::history(problem, judge, &known)?;
        let costs = known.iter().map(TrialRecord::cost).collect();
        let (rules, levels) = (DriverRules::of(spec), DeviceEffects::default());
        let mut session =
            Self { spec, problem, rules, judge, workloads, dir, trials, history, costs, levels };
        session.charge_overlap();
        session.relevel()?;
        Ok(session)
    }

    /// Runs until the search has ended or a limit is reached.
    ///
    /// # Errors
    /// As [`TuneError`] tells; what was kept stays, and the run can be resumed.
    pub fn run(
        &mut self,
        stand: &mut dyn TestBed,
        observer: &mut dyn Observer,
    ) -> Result<RunEnd, TuneError> {
        self.go(Executor::One(stand), observer)
    }

    /// As [`TuneSession::run`], with the trials spread over several boards.
    ///
    /// # Errors
    /// As [`TuneError`] tells; [`TuneError::NoBoardLeft`] when all of them are lost.
    pub fn run_spread(
        &mut self,
        team: &mut WorkerPool,
        observer: &mut dyn Observer,
    ) -> Result<RunEnd, TuneError> {
        let rules = self.rules.clone();
        self.overlap(&SearchDriver::new(self.problem, &rules), team, observer)?;
        self.go(Executor::Many(team), observer)
    }

    fn go(
        &mut self,
        mut hands: Executor<'_>,
        observer: &mut dyn Observer,
    ) -> Result<RunEnd, TuneError> {
        let rules = self.rules.clone();
        let course = SearchDriver::new(self.problem, &rules);
        loop {
            self.stop_if_all_failed()?;
            match course.next(&self.history, &self.costs)? {
                NextStep::Done(stop) => {
                    // Nothing may be left to try because nothing worked.
                    let worked = self.history.iter().any(is_measured);
                    return if worked { Ok(RunEnd::Search(stop)) } else { Err(self.all_failed()) };
                }
                NextStep::Try(asks) => {
                    let reached = match &mut hands {
                        Executor::One(stand) => self.make(&course, &asks, *stand, observer)?,
                        Executor::Many(team) => self.make_spread(&course, &asks, team, observer)?,
                    };
                    if let Some(reached) = reached {
                        return Ok(RunEnd::Limit(reached));
                    }
                }
            }
            let leader = course.choice(&self.history, &self.costs);
            observer.thought(&self.so_far(&course), leader);
        }
    }

    /// The trials made so far.
    pub fn into_trials(self) -> Vec<TrialRecord> {
        self.trials
    }

    /// Makes trials until they are all made, a limit is reached, or it is time to confirm.
    fn make(
        &mut self,
        course: &SearchDriver<'_>,
        asks: &[Proposal],
        stand: &mut dyn TestBed,
        observer: &mut dyn Observer,
    ) -> Result<Option<BudgetReached>, TuneError> {
        let confirms = course.turns_to_confirming(&self.history, &self.costs);
        for ask in asks {
            if driver::is_out(&self.history, ask.candidate) {
                continue;
            }
            let spent = self.spent();
            self.reaches(&spent)?;
            if let Some(reached) = self.rules.limits.reached(&spent) {
                return Ok(Some(reached));
            }
            if !confirms && course.turns_to_confirming(&self.history, &self.costs) {
                return Ok(None);
            }
            let key = objective::key(self.problem, ask);
            observer.began(&key, &self.so_far(course));
            let record = self.one(stand, key, ask)?;
            let outcome = self.judge.outcome(&record)?;
            observer.ended(&record);
            self.costs.push(record.cost());
            self.tell(*ask, outcome);
            self.trials.push(record);
            self.stop_if_all_failed()?;
        }
        driver::close_batch(&mut self.history);
        Ok(None)
    }

    pub(crate) fn tell(&mut self, ask: Proposal, outcome: Found) {
        let visit = u64::try_from(self.history.len()).expect("a run has few trials");
        self.history.push(Observation { proposal: ask, visit, outcome });
    }

    pub(crate) fn spent(&self) -> Spent {
        let mut spent = Spent::default();
        self.costs.iter().for_each(|cost| spent.add(*cost));
        spent
    }

    /// The first trials show whether the limits reach for one trial of each file system.
    pub(crate) fn reaches(&self, spent: &Spent) -> Result<(), TuneError> {
        let families = u64::try_from(self.problem.families()).expect("few file systems");
        if spent.trials == 0 || spent.trials >= families {
            return Ok(());
        }
        let need = |mean: u64| mean.saturating_mul(families);
        let (time, written) = (need(spent.mean_ns()), need(spent.mean_written_bytes()));
        let limits = &self.rules.limits;
        let short = |needed: String, least: LeastBudget| {
            let needed =
                format!("one trial of each of {families} file systems takes about {needed}");
            Err(TuneError::TooLittle { needed, least })
        };
        if limits.budget_ns.is_some_and(|budget| budget < time) {
            let seconds = time.div_ceil(1_000_000_000);
            return short(format!("{seconds} s"), LeastBudget::Seconds(seconds));
        }
        if limits.max_write_bytes.is_some_and(|most| most < written) {
            let mib = written.div_ceil(1 << 20);
            return short(format!("{mib} MiB of writing"), LeastBudget::WrittenMib(mib));
        }
        Ok(())
    }

    pub(crate) fn so_far(&self, course: &SearchDriver<'_>) -> RunProgress<'_> {
        let spent = self.spent();
        let most = course.most_trials(&self.history, &self.costs);
        let made = self.history.len() as f64;
        let by_limits = self.rules.limits.trials_left(&spent);
        let by_search = (most.is_finite()).then(|| (most - made).max(1.0).ceil() as u64);
        let left = by_search.into_iter().chain(by_limits.map(|left| left.max(1))).min();
        let limits = &self.rules.limits;
        RunProgress { problem: self.problem, history: &self.history, spent, limits, left }
    }

    /// Makes one trial and keeps it.
    fn one(
        &mut self,
        stand: &mut dyn TestBed,
        key: TrialKey,
        ask: &Proposal,
    ) -> Result<TrialRecord, TuneError> {
        let started_unix_s = unix_seconds();
        let made = stand.run_trial(&request(self.spec, self.workloads, &key));
        let (report, message) = match made {
            Ok(report) => (report, None),
            Err(TrialError::Setup { message, report }) => (*report, Some(message)),
            Err(fatal) => return Err(fatal.into()),
        };
        let batch = Some(ask.batch);
        self.keep(CompletedTrial { key, batch, made_on: None, started_unix_s, report, message })
    }

    /// Keeps a trial.
    pub(crate) fn keep(&mut self, made: CompletedTrial) -> Result<TrialRecord, TuneError> {
        let CompletedTrial { key, batch, made_on, started_unix_s, report, message } = made;
        let TrialReport {
            phases,
            mut points,
            fill_bytes,
            state,
            written,
            counters,
            processor,
            kernel_messages,
            device_errors,
            notes,
        } = report;
        let raw: Vec<(String, String)> = points
            .iter_mut()
            .map(|point| (file_label(point.point), std::mem::take(&mut point.raw_json)))
            .collect();
        // Lines may have been removed, so the count of trials is no free number.
        let last = self.trials.iter().map(|trial| trial.number).max().unwrap_or(0);
        let record = TrialRecord {
            version: RECORD_VERSION,
            number: last.saturating_add(1),
            key,
            batch: batch.map(|batch| TrialBatch { number: batch.number, size: batch.size }),
            made_on,
            started_unix_s,
            phases,
            outcome: message.map_or(RecordedOutcome::Completed { points }, |message| {
                RecordedOutcome::Failed { message }
            }),
            state,
            fill_bytes,
            written,
            counters,
            processor,
            kernel_messages: u32::try_from(kernel_messages.len()).unwrap_or(u32::MAX),
            device_errors,
            notes,
        };
        self.dir.append(&record, &raw, &kernel_messages)?;
        Ok(record)
    }

    pub(crate) fn stop_if_all_failed(&self) -> Result<(), TuneError> {
        match search::all_failed(&self.problem.space, &self.history) {
            Some(_) => Err(self.all_failed()),
            None => Ok(()),
        }
    }

    fn all_failed(&self) -> TuneError {
        let last = self.trials.iter().rev().find_map(|trial| match &trial.outcome {
            RecordedOutcome::Failed { message } => Some(message.clone()),
            RecordedOutcome::Completed { .. } => None,
        });
        TuneError::AllFailed { last: last.unwrap_or_else(|| "nothing".to_owned()) }
    }
}

/// What is asked of a test bed for a trial of a run.
pub(crate) fn request<'a>(
    spec: &RunSpec,
    workloads: &'a [Workload],
    key: &'a TrialKey,
) -> TrialRequest<'a> {
    let workload = workloads
        .iter()
        .find(|workload| workload.name == key.workload)
        .expect("trials are made of the run's own workloads");
    TrialRequest {
        setup: &key.setup,
        workload,
        profile: spec.profile,
        length: key.length,
        state: spec.state,
        data_bytes: spec.data_size.0,
        memory_bytes: spec.memory.0,
        runtime_ns: spec.runtime_ns(),
        seed: order::trial_seed(spec.seed, key),
    }
}

fn is_measured(told: &Observation) -> bool {
    matches!(told.outcome, Found::Measured { .. })
}

/// A point's part of a file name.
fn file_label(point: WorkloadPoint) -> String {
    match point {
        WorkloadPoint::BlockSize(bytes) => format!("bs{bytes}"),
        WorkloadPoint::WorkSet(hundredths) => format!("ws{hundredths}"),
        WorkloadPoint::Only => "only".to_owned(),
    }
}
