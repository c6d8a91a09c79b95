//! Executes a run: asks the search for trials, runs them and records each one before the next
//! starts.

use std::time::Instant;

use flashfit_bench::{StartVariation, Workload};
use flashfit_run_format::unix_seconds;
use flashfit_search::{
    self as search, CandidateIndex, NextStep, Observation, Proposal, SearchEnd, SearchError,
    TrialOutcome as Found,
};
use flashfit_testbed::{TestBed, TrialError, TrialRequest};
use flashfit_user_error::{ExitClass, Hint, UserError};

use crate::budget::{Budget, BudgetReached, Spent, TrialCost};
use crate::completed::CompletedTrial;
use crate::driver::{self, DriverRules, SearchDriver};
use crate::life;
use crate::objective::{self, NoFigures, Objective};
use crate::order;
use crate::problem::Problem;
use crate::record::{RecordedOutcome, TrialDevice, TrialKey, TrialRecord};
use crate::run_dir::{RunDir, RunDirError};
use crate::spec::{RunHeader, RunSpec};
use crate::spread::{DeviceEffects, WorkerPool};
use crate::starts;
use crate::sustained::SustainedReserve;

/// Why a run failed.
#[derive(Debug, thiserror::Error)]
pub enum TuneError {
    #[error(transparent)]
    Dir(#[from] RunDirError),
    /// The test bed failed, independently of the setup.
    #[error(transparent)]
    TestBed(#[from] TrialError),
    #[error("no board is left: the last one failed: {last}")]
    NoBoardLeft { last: String },
    #[error("no setup worked: the last error was: {last}")]
    AllFailed {
        /// The message of the last one.
        last: String,
    },
    /// The space or the budget allow no search.
    #[error("{}", driver::describe_search_error(.0))]
    Search(#[from] SearchError),
    /// The first trials show that the budget is too small.
    #[error("the budget is too small: {needed}")]
    BudgetTooSmall {
        /// The cost of one trial of each file system.
        needed: String,
        /// The smallest sufficient budget.
        least: LeastBudget,
    },
    /// No trial has the figure that the run is ranked by.
    #[error(transparent)]
    NoFigures(#[from] NoFigures),
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
            Self::TestBed(error) => error.class(),
            Self::NoBoardLeft { .. } => ExitClass::Io,
            Self::AllFailed { .. } => ExitClass::BadVerdict,
            Self::Search(_) | Self::BudgetTooSmall { .. } => ExitClass::Usage,
            Self::NoFigures(_) => ExitClass::Environment,
        }
    }

    fn hint(&self) -> Option<Hint> {
        match self {
            Self::Dir(error) => error.hint(),
            Self::TestBed(error) => error.hint(),
            Self::AllFailed { .. } => {
                Some("the run directory contains the message of each trial".into())
            }
            Self::NoBoardLeft { .. }
            | Self::Search(_)
            | Self::BudgetTooSmall { .. }
            | Self::NoFigures(_) => None,
        }
    }
}

/// Observes a run, for example to show its progress.
pub trait Observer {
    fn on_trial_start(&mut self, key: &TrialKey, so_far: &RunProgress<'_>);

    fn on_trial_end(&mut self, record: &TrialRecord);

    /// The bare device is measured under a workload.
    fn on_raw_start(&mut self, workload: &str) {
        let _ = workload;
    }

    /// A longer trial begins, of which a stage takes at most this time.
    fn on_sustained_start(&mut self, key: &TrialKey, runtime_ns: u64) {
        let _ = (key, runtime_ns);
    }

    /// One of several boards failed; the others continue.
    fn on_worker_lost(&mut self, made_on: &TrialDevice, why: &TrialError) {
        let _ = (made_on, why);
    }

    /// A minute of trials has passed: what is believed so far.
    fn on_first_belief(&mut self, so_far: &RunProgress<'_>, belief: &search::Answer) {
        let _ = (so_far, belief);
    }

    /// A batch is complete; `leader` is the current choice.
    fn on_batch_end(&mut self, so_far: &RunProgress<'_>, leader: Option<CandidateIndex>);
}

pub struct RunProgress<'a> {
    pub problem: &'a Problem,
    pub history: &'a [Observation],
    pub spent: Spent,
    /// What the whole run may spend.
    pub budget: &'a Budget,
    /// What the search may spend: the budget without what is kept for longer work.
    pub limits: &'a Budget,
    /// The most remaining trials, including the one that starts; `None` if unknown.
    pub left: Option<u64>,
    /// The fewest, if the search becomes confident as soon as it can.
    pub least_left: u64,
}

/// The time in trials after which there is a first belief.
const FIRST_BELIEF_NS: u64 = 60_000_000_000;

/// Why a run ended normally.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum RunEnd {
    /// The search is done.
    Search(SearchEnd),
    /// The time or write budget is spent.
    Limit(BudgetReached),
}

pub struct TuneSession<'a> {
    pub(crate) spec: &'a RunSpec,
    pub(crate) problem: &'a Problem,
    pub(crate) rules: DriverRules,
    pub(crate) objective: Objective,
    pub(crate) workloads: &'a [Workload],
    pub(crate) dir: RunDir,
    pub(crate) trials: Vec<TrialRecord>,
    pub(crate) history: Vec<Observation>,
    pub(crate) costs: Vec<TrialCost>,
    /// Effects of the devices, if the trials were made on several.
    pub(crate) levels: DeviceEffects,
    /// What is kept of the budget for longer trials.
    pub(crate) sustained: Option<SustainedReserve>,
    /// The header of the run once the next trial is recorded, if it changes then.
    next_header: Option<RunHeader>,
    /// When no further trial begins.
    pub(crate) until: Option<Instant>,
    /// Whether the first belief was given.
    has_first_belief: bool,
}

enum Executor<'a> {
    One(&'a mut dyn TestBed),
    Many(&'a mut WorkerPool),
}

impl<'a> TuneSession<'a> {
    /// Continues from earlier trials; none for a new run.
    ///
    /// # Errors
    /// If one of them lacks the figure that the run is ranked by.
    pub fn new(
        spec: &'a RunSpec,
        problem: &'a Problem,
        workloads: &'a [Workload],
        dir: RunDir,
        trials: Vec<TrialRecord>,
    ) -> Result<Self, TuneError> {
        let objective = Objective::of(spec);
        let known: Vec<TrialRecord> =
            trials.iter().filter(|trial| problem.has(&trial.key)).cloned().collect();
        let history = objective::history(problem, objective, &known);
        let costs = known.iter().map(TrialRecord::cost).collect();
        let (rules, levels) = (DriverRules::of(spec), DeviceEffects::default());
        let mut session = Self {
            spec,
            problem,
            rules,
            objective,
            workloads,
            dir,
            trials,
            history,
            costs,
            levels,
            sustained: None,
            next_header: None,
            until: None,
            has_first_belief: false,
        };
        session.charge_overlap();
        session.relevel()?;
        Ok(session)
    }

    /// With the next trial, the run gets this header, if any.
    pub fn replace_header_with_next_trial(&mut self, header: Option<RunHeader>) {
        self.next_header = header;
    }

    /// Runs until the search is done or the budget is spent.
    ///
    /// # Errors
    /// See [`TuneError`]. Recorded trials remain, and the run can be resumed.
    pub fn run(
        &mut self,
        test_bed: &mut dyn TestBed,
        observer: &mut dyn Observer,
    ) -> Result<RunEnd, TuneError> {
        self.measure_raw(test_bed, observer)?;
        self.reserve_sustained();
        let ended = self.run_loop(Executor::One(test_bed), observer)?;
        self.measure_sustained(test_bed, observer)?;
        Ok(ended)
    }

    /// Like [`TuneSession::run`], with the trials distributed over several boards.
    ///
    /// # Errors
    /// See [`TuneError`]; [`TuneError::NoBoardLeft`] if all boards fail.
    pub fn run_spread(
        &mut self,
        pool: &mut WorkerPool,
        observer: &mut dyn Observer,
    ) -> Result<RunEnd, TuneError> {
        let rules = self.rules.clone();
        self.overlap(&SearchDriver::new(self.problem, &rules), pool, observer)?;
        self.run_loop(Executor::Many(pool), observer)
    }

    fn run_loop(
        &mut self,
        mut executor: Executor<'_>,
        observer: &mut dyn Observer,
    ) -> Result<RunEnd, TuneError> {
        let rules = self.rules.clone();
        loop {
            self.stop_if_hopeless()?;
            let short_lived = life::short_lived(self.problem, &self.history, &self.trials);
            let driver = SearchDriver::new(self.problem, &rules).excluding(short_lived);
            match driver.next(&self.history, &self.costs)? {
                NextStep::Done(stop) => {
                    // The search may be done because nothing worked.
                    let worked = self.history.iter().any(is_measured);
                    return if worked { Ok(RunEnd::Search(stop)) } else { Err(self.all_failed()) };
                }
                NextStep::Try(proposals) => {
                    let reached = match &mut executor {
                        Executor::One(test_bed) => {
                            self.make(&driver, &proposals, *test_bed, observer)?
                        }
                        Executor::Many(pool) => {
                            self.make_spread(&driver, &proposals, pool, observer)?
                        }
                    };
                    if let Some(reached) = reached {
                        return Ok(RunEnd::Limit(reached));
                    }
                }
            }
            let leader = driver.choice(&self.history, &self.costs);
            observer.on_batch_end(&self.so_far(&driver), leader);
        }
    }

    /// The trials made so far.
    pub fn into_trials(self) -> Vec<TrialRecord> {
        self.trials
    }

    /// Makes these trials until the budget is spent or it is time to confirm.
    fn make(
        &mut self,
        driver: &SearchDriver<'_>,
        proposals: &[Proposal],
        test_bed: &mut dyn TestBed,
        observer: &mut dyn Observer,
    ) -> Result<Option<BudgetReached>, TuneError> {
        let confirms = driver.must_confirm_now(&self.history, &self.costs);
        for proposal in proposals {
            if driver::is_excluded(&self.history, proposal.candidate) {
                continue;
            }
            let spent = self.spent();
            if self.check_budget(&spent).is_err() {
                self.release_sustained();
            }
            self.check_budget(&spent)?;
            if let Some(reached) = self.limit_reached(&spent) {
                return Ok(Some(reached));
            }
            if !confirms && driver.must_confirm_now(&self.history, &self.costs) {
                return Ok(None);
            }
            let key = objective::key(self.problem, proposal);
            observer.on_trial_start(&key, &self.so_far(driver));
            let record = self.one(test_bed, key, proposal)?;
            let outcome = self.objective.outcome(&record);
            observer.on_trial_end(&record);
            self.costs.push(record.cost());
            self.tell(*proposal, starts::of_record(&record), outcome);
            self.trials.push(record);
            self.stop_if_hopeless()?;
            self.give_first_belief(driver, observer);
        }
        driver::close_batch(&mut self.history);
        Ok(None)
    }

    /// Tells what is believed after the first minute, without waiting for the end of a batch.
    fn give_first_belief(&mut self, driver: &SearchDriver<'_>, observer: &mut dyn Observer) {
        if self.has_first_belief || self.spent().time_ns < FIRST_BELIEF_NS {
            return;
        }
        let Some(leader) = driver.choice(&self.history, &self.costs) else { return };
        let belief = driver.answer(leader, &self.history, &self.costs, &[]);
        observer.on_first_belief(&self.so_far(driver), &belief);
        self.has_first_belief = true;
    }

    pub(crate) fn tell(&mut self, proposal: Proposal, start: u64, outcome: Found) {
        let visit = u64::try_from(self.history.len()).expect("a run has few trials");
        self.history.push(Observation { proposal, visit, start, outcome });
    }

    pub(crate) fn spent(&self) -> Spent {
        let mut spent = Spent::default();
        self.costs.iter().for_each(|cost| spent.add(*cost));
        spent
    }

    /// Checks, based on the first trials, that the budget suffices for one trial of each file
    /// system.
    pub(crate) fn check_budget(&self, spent: &Spent) -> Result<(), TuneError> {
        let families = u64::try_from(self.problem.families()).expect("few file systems");
        if spent.trials == 0 || spent.trials >= families.max(2) {
            return Ok(());
        }
        let need = |mean: u64| mean.saturating_mul(families);
        let (time, written) = (need(spent.mean_ns()), need(spent.mean_written_bytes()));
        let limits = &self.rules.limits;
        let short = |needed: String, least: LeastBudget| {
            let trials = match families {
                1 => "one trial".to_owned(),
                several => format!("one trial of each of {several} file systems"),
            };
            let needed = format!("{trials} takes about {needed}");
            Err(TuneError::BudgetTooSmall { needed, least })
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

    pub(crate) fn so_far(&self, driver: &SearchDriver<'_>) -> RunProgress<'_> {
        let spent = self.spent();
        let most = driver.max_trials(&self.history, &self.costs);
        let made = self.history.len() as f64;
        let by_limits = self.rules.limits.trials_left(&spent);
        let by_search = (most.is_finite()).then(|| (most - made).max(1.0).ceil() as u64);
        let left = by_search.into_iter().chain(by_limits.map(|left| left.max(1))).min();
        let limits = &self.rules.limits;
        let least_left = driver.least_trials(&self.history).min(left.unwrap_or(u64::MAX)).max(1);
        let (problem, history) = (self.problem, &self.history);
        let budget = &self.spec.limits;
        RunProgress { problem, history, spent, budget, limits, left, least_left }
    }

    /// Makes and records one trial.
    fn one(
        &mut self,
        test_bed: &mut dyn TestBed,
        key: TrialKey,
        proposal: &Proposal,
    ) -> Result<TrialRecord, TuneError> {
        let started_unix_s = unix_seconds();
        let start = starts::draw(self.spec, &key);
        let made = test_bed.run_trial(&request(self.spec, self.workloads, &key, start.as_ref()));
        let (report, message) = match made {
            Ok(report) => (report, None),
            Err(TrialError::Setup { message, report }) => (*report, Some(message)),
            Err(fatal) => return Err(fatal.into()),
        };
        let batch = Some(proposal.batch);
        self.keep(CompletedTrial { key, batch, made_on: None, started_unix_s, report, message })
    }

    pub(crate) fn keep(&mut self, mut made: CompletedTrial) -> Result<TrialRecord, TuneError> {
        let (raw, kernel_messages) = made.take_logs();
        // Lines may have been removed, so the number of trials may already be in use.
        let last = self.trials.iter().map(|trial| trial.number).max().unwrap_or(0);
        let record = made.into_record(last.saturating_add(1));
        if let Some(header) = &self.next_header {
            self.dir.replace_header(header)?;
            self.next_header = None;
        }
        self.dir.append(&record, &raw, &kernel_messages)?;
        Ok(record)
    }

    /// Ends a run of which no setup works, or no trial has the figure that it is ranked by.
    pub(crate) fn stop_if_hopeless(&self) -> Result<(), TuneError> {
        self.objective.check_figures(self.trials.iter(), search::MAX_WITHOUT_FIGURE - 1)?;
        match search::all_failed(&self.problem.space, &self.history) {
            Some(_) => Err(self.all_failed()),
            None => Ok(()),
        }
    }

    /// Why no trial was measured.
    fn all_failed(&self) -> TuneError {
        let last = self.trials.iter().rev().find_map(|trial| match &trial.outcome {
            RecordedOutcome::Failed { message } => Some(message.clone()),
            RecordedOutcome::Completed { .. } => None,
        });
        match (last, self.objective.check_figures(self.trials.iter(), 0)) {
            (None, Err(lacking)) => lacking.into(),
            (last, _) => TuneError::AllFailed { last: last.unwrap_or_else(|| "nothing".into()) },
        }
    }
}

/// The request for a trial of a run.
pub(crate) fn request<'a>(
    spec: &RunSpec,
    workloads: &'a [Workload],
    key: &'a TrialKey,
    start: Option<&'a StartVariation>,
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
        start,
        data_bytes: spec.data_size.0,
        memory_bytes: spec.memory.0,
        runtime_ns: spec.runtime_ns(),
        seed: order::trial_seed(spec.seed, key),
        exercise: None,
    }
}

fn is_measured(observation: &Observation) -> bool {
    matches!(observation.outcome, Found::Measured { .. })
}
