//! The way of a run: ask the strategy, make the trials, keep each one before the next begins.

use std::time::{SystemTime, UNIX_EPOCH};

use flashfit_bench::{Point, Workload};
use flashfit_host::{ExitClass, Explain};
use flashfit_stand::{Stand, TrialError, TrialReport, TrialRequest};

use crate::order;
use crate::record::{Outcome, Purpose, RECORD_VERSION, TrialKey, TrialRecord};
use crate::results::{Results, Standing};
use crate::run_dir::{RunDir, RunDirError};
use crate::space::Space;
use crate::spec::RunSpec;
use crate::strategy::{best, strategy};

/// Why a run ended before its time.
#[derive(Debug, thiserror::Error)]
pub enum TuneError {
    /// The run directory.
    #[error(transparent)]
    Dir(#[from] RunDirError),
    /// The stand, and no other setup would fare better.
    #[error(transparent)]
    Stand(#[from] TrialError),
    /// No setup worked.
    #[error("no setup worked; the last said: {last}")]
    AllFailed {
        /// What the last one said.
        last: String,
    },
}

impl Explain for TuneError {
    fn class(&self) -> ExitClass {
        match self {
            Self::Dir(error) => error.class(),
            Self::Stand(error) => error.class(),
            Self::AllFailed { .. } => ExitClass::BadVerdict,
        }
    }

    fn hint(&self) -> Option<String> {
        match self {
            Self::Dir(error) => error.hint(),
            Self::Stand(error) => error.hint(),
            Self::AllFailed { .. } => Some("the run directory has each trial's message".into()),
        }
    }
}

/// Watches a run; the command shows its progress this way.
pub trait Observer {
    /// A trial begins; at most `left` are to be made, this one included.
    fn began(&mut self, key: &TrialKey, left: usize);

    /// A trial was kept.
    fn ended(&mut self, record: &TrialRecord);
}

/// A run under way.
pub struct Session<'a> {
    spec: &'a RunSpec,
    space: &'a Space,
    workloads: &'a [Workload],
    dir: RunDir,
    trials: Vec<TrialRecord>,
    results: Results,
}

impl<'a> Session<'a> {
    /// Goes on from the trials that were made before; none for a new run.
    pub fn new(
        spec: &'a RunSpec,
        space: &'a Space,
        workloads: &'a [Workload],
        dir: RunDir,
        trials: Vec<TrialRecord>,
    ) -> Self {
        let results = Results::of(&trials, &spec.workloads, spec.repeats, spec.by);
        Self { spec, space, workloads, dir, trials, results }
    }

    /// Runs until the strategy has no more to ask and the winner is confirmed.
    ///
    /// # Errors
    /// As [`TuneError`] tells; what was kept stays, and the run can be resumed.
    pub fn run(
        &mut self,
        stand: &mut dyn Stand,
        observer: &mut dyn Observer,
    ) -> Result<(), TuneError> {
        let strategy = strategy(self.spec.strategy);
        let most = strategy.most_setups(self.space) * self.trials_per_setup();
        let confirming = 3 * to_usize(self.spec.confirm_rounds) * self.workloads.len();
        loop {
            let setups = strategy.next(self.space, &self.results);
            if setups.is_empty() {
                break;
            }
            let keys: Vec<TrialKey> = setups
                .iter()
                .flat_map(|setup| self.results.missing(Purpose::Search, setup, self.spec.repeats))
                .collect();
            self.make(stand, observer, keys, |made| most.saturating_sub(made).max(1) + confirming)?;
            self.stop_if_all_failed()?;
        }
        // A run that is resumed may have nothing left to try, and nothing that worked.
        self.stop_if_all_failed()?;
        self.confirm(stand, observer)
    }

    /// The trials made so far.
    pub fn into_trials(self) -> Vec<TrialRecord> {
        self.trials
    }

    /// Makes fresh trials of the winner and of the setups it is compared with, in turn.
    fn confirm(
        &mut self,
        stand: &mut dyn Stand,
        observer: &mut dyn Observer,
    ) -> Result<(), TuneError> {
        let Some((winner, _)) = best(self.space, &self.results) else { return Ok(()) };
        let rivals = self.space.rivals(winner);
        if rivals.is_empty() {
            return Ok(());
        }
        let keys: Vec<TrialKey> = std::iter::once(winner)
            .chain(&rivals)
            .flat_map(|setup| {
                self.results.missing(Purpose::Confirm, setup, self.spec.confirm_rounds)
            })
            .collect();
        let before = self.trials.len();
        let count = keys.len();
        self.make(stand, observer, keys, |made| count - (made - before))
    }

    fn make(
        &mut self,
        stand: &mut dyn Stand,
        observer: &mut dyn Observer,
        mut keys: Vec<TrialKey>,
        left: impl Fn(usize) -> usize,
    ) -> Result<(), TuneError> {
        order::interleave(&mut keys, self.spec.seed);
        for key in keys {
            if self.results.failure(key.purpose, &key.setup).is_some() {
                continue;
            }
            observer.began(&key, left(self.trials.len()));
            let record = self.one(stand, key)?;
            observer.ended(&record);
            self.results.add(&record);
            self.trials.push(record);
        }
        Ok(())
    }

    /// Makes one trial and keeps it.
    fn one(&mut self, stand: &mut dyn Stand, key: TrialKey) -> Result<TrialRecord, TuneError> {
        let workload = self
            .workloads
            .iter()
            .find(|workload| workload.name == key.workload)
            .expect("trials are made of the run's own workloads");
        let request = TrialRequest {
            setup: &key.setup,
            workload,
            profile: self.spec.profile,
            data_bytes: self.spec.data_size.0,
            memory_bytes: self.spec.memory.0,
            runtime_ns: self.spec.runtime_ns(),
            seed: order::trial_seed(self.spec.seed, &key),
        };
        let started_unix_s = unix_seconds();
        let made = stand.run_trial(&request);
        let (report, message) = match made {
            Ok(report) => (report, None),
            Err(TrialError::Setup { message, report }) => (*report, Some(message)),
            Err(fatal) => return Err(fatal.into()),
        };
        let TrialReport { phases, mut points, counters, kernel_messages, notes } = report;
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
            started_unix_s,
            phases,
            outcome: message
                .map_or(Outcome::Completed { points }, |message| Outcome::Failed { message }),
            counters,
            kernel_messages: u32::try_from(kernel_messages.len()).unwrap_or(u32::MAX),
            notes,
        };
        self.dir.append(&record, &raw, &kernel_messages)?;
        Ok(record)
    }

    fn stop_if_all_failed(&self) -> Result<(), TuneError> {
        let mut last = None;
        for setup in self.results.setups(Purpose::Search) {
            match self.results.standing(setup) {
                Standing::Failed(message) => last = Some(message),
                _ => return Ok(()),
            }
        }
        last.map_or(Ok(()), |last| Err(TuneError::AllFailed { last }))
    }

    fn trials_per_setup(&self) -> usize {
        self.workloads.len() * to_usize(self.spec.repeats)
    }
}

/// A point's part of a file name.
fn file_label(point: Point) -> String {
    match point {
        Point::BlockSize(bytes) => format!("bs{bytes}"),
        Point::WorkSet(hundredths) => format!("ws{hundredths}"),
        Point::Only => "only".to_owned(),
    }
}

fn to_usize(count: u32) -> usize {
    usize::try_from(count).expect("at least 32 bits")
}

pub(crate) fn unix_seconds() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |elapsed| elapsed.as_secs())
}
