//! One log under examination: builds its states, looks at them or finds an equivalent one, and
//! judges.

use std::collections::HashMap;
use std::path::Path;
use std::time::Duration;

use flashfit_host::Runner;

use crate::CrashError;
use crate::blocks::BlockPool;
use crate::campaign::CardPlan;
use crate::device::CrashDevice;
use crate::equivalence::{Equivalence, ObservationCache};
use crate::log::{CrashLog, LogEntry};
use crate::model::Violation;
use crate::mounting::Mounting;
use crate::observe::StateObserver;
use crate::setup::CrashSetup;
use crate::state::{BuiltState, CrashState, FaultyCard, RecoveryCut, StateBuilder};
use crate::verdict::Judge;
use crate::workload::{CrashWorkload, SqliteMode};

/// Examines the states of one log on one device.
pub struct StateExamination<'a> {
    observer: StateObserver<'a>,
    device: &'a CrashDevice,
    log: &'a CrashLog,
    judge: Judge,
    /// For each input of the checking program.
    caches: HashMap<String, ObservationCache>,
    builder: StateBuilder,
    /// Decides what is there, instead of the builder.
    card: Option<FaultyCard>,
    workload: &'a CrashWorkload,
    looks_at_all: bool,
}

/// What was found of a state.
pub struct Examined {
    pub violations: Vec<Violation>,
    /// Why it was not looked at itself.
    pub equivalence: Option<Equivalence>,
    pub recovery: Duration,
    /// The requests of its recovery, where they were asked for.
    pub recovery_log: Vec<LogEntry>,
}

impl<'a> StateExamination<'a> {
    pub fn new(
        runner: &'a dyn Runner,
        setup: &'a CrashSetup,
        workload: &'a CrashWorkload,
        device: &'a CrashDevice,
        log: &'a CrashLog,
        mounting: Mounting<'a>,
    ) -> Self {
        device.disk().pool = log.pool.clone();
        Self {
            observer: StateObserver {
                runner,
                recipe: &setup.recipe,
                needs_fsck: setup.promises.needs_fsck,
                mounting,
                workload,
            },
            device,
            log,
            judge: Judge::new(workload, log, &setup.promises),
            caches: HashMap::new(),
            builder: StateBuilder::new(log),
            card: None,
            workload,
            looks_at_all: false,
        }
    }

    /// Lets a simulated card decide what its power cuts leave. Every state is then looked at, as it
    /// may have blocks that cannot be read.
    ///
    /// # Errors
    /// When the card cannot have the size of the device.
    pub fn use_card(&mut self, card: &CardPlan) -> Result<(), CrashError> {
        self.card = Some(FaultyCard::new(card, self.log)?);
        self.looks_at_all = true;
        Ok(())
    }

    pub fn log(&self) -> &CrashLog {
        self.log
    }

    /// Whether every state is looked at, even if it is equivalent to one before.
    pub fn looks_at_all(&mut self, all: bool) {
        self.looks_at_all = all || self.card.is_some();
    }

    /// The contents of a state, without a second power cut.
    pub fn build(&mut self, state: &CrashState) -> BuiltState {
        if let (Some(card), Some(seed)) = (&self.card, state.cut_seed) {
            return card.build(self.log, state.position, seed);
        }
        let mut disk = self.device.disk();
        self.builder.build(self.log, &mut disk.pool, state)
    }

    /// The contents after a second power cut during the recovery that `log` recorded.
    pub fn build_recovery(
        &self,
        built: &BuiltState,
        log: &[LogEntry],
        cut: &RecoveryCut,
    ) -> BuiltState {
        apply_recovery(built, log, cut, &mut self.device.disk().pool)
    }

    /// Judges a state, by an equivalent one where there is one.
    ///
    /// # Errors
    /// When something other than the file system fails.
    pub fn examine(
        &mut self,
        state: &CrashState,
        built: &BuiltState,
        record_recovery: bool,
    ) -> Result<Examined, CrashError> {
        let input = self.input(state);
        let cache = self.caches.entry(input).or_default();
        let known = if self.looks_at_all { None } else { cache.find(built) };
        if let Some((why, seen)) = known {
            return Ok(Examined {
                violations: self.judge.violations(&seen, state.position),
                equivalence: Some(why),
                recovery: Duration::ZERO,
                recovery_log: Vec::new(),
            });
        }
        self.look(state, built, record_recovery)
    }

    /// Looks at a state, whatever is known of equivalent ones.
    ///
    /// # Errors
    /// See [`Self::examine`].
    pub fn look(
        &mut self,
        state: &CrashState,
        built: &BuiltState,
        record_recovery: bool,
    ) -> Result<Examined, CrashError> {
        let input = self.input(state);
        let contents = built.contents.clone();
        let seen = self.observer.observe(self.device, contents, &input, record_recovery)?;
        let violations = self.judge.violations(&seen.observation, state.position);
        if self.card.is_none() {
            self.caches.entry(input).or_default().add(built, &seen.reads, seen.observation);
        }
        let (recovery, recovery_log) = (seen.recovery, seen.recovery_log);
        Ok(Examined { violations, equivalence: None, recovery, recovery_log })
    }

    fn input(&self, state: &CrashState) -> String {
        match self.workload {
            CrashWorkload::Sqlite(_) => SqliteMode::check(Path::new("/")).1,
            _ => self.judge.acknowledged(state.position),
        }
    }
}

fn apply_recovery(
    built: &BuiltState,
    log: &[LogEntry],
    cut: &RecoveryCut,
    pool: &mut BlockPool,
) -> BuiltState {
    let arrived = &log[..(cut.position as usize).min(log.len())];
    let flushed = arrived.iter().rposition(LogEntry::is_flush).unwrap_or(0);
    let kept = if cut.drops_unflushed { &arrived[..flushed] } else { arrived };
    let mut second = built.clone();
    for entry in kept {
        second.apply(pool, entry, None);
    }
    second
}
