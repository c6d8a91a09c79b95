//! How far a run is, as a line of JSON every few seconds, for programs that watch it.

use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use flashfit_tune::{RunProgress, TrialKey};
use schemars::JsonSchema;
use serde::Serialize;

use super::remaining::{self, RemainingTime};
use super::wear_so_far::WearSoFar;
use crate::{output, schemas};

/// Documented as the longest silence.
const INTERVAL: Duration = Duration::from_secs(5);

/// What a run does.
#[derive(Debug, Clone, Default, PartialEq, JsonSchema, Serialize)]
pub struct RunPhase {
    /// `preparing`, `trials` or `answering`.
    pub phase: &'static str,
    /// The trial that runs.
    pub setup: Option<String>,
    pub workload: Option<String>,
    pub trials: u64,
    /// By the trials that have ended.
    pub written_bytes: u64,
    /// The same of the device's life; `None` for a file, and before anything was written.
    pub wear: Option<WearSoFar>,
    /// The share of the run that is done at least, from 0 to 1.
    pub share_done: Option<f64>,
    /// The range of what remains; it counts from the beginning of the trial.
    pub remaining: Option<RemainingTime>,
}

impl RunPhase {
    /// A trial begins. `made` is how many trials there are, and the time of those that were made
    /// here with their number.
    pub fn of_trial(
        key: &TrialKey,
        so_far: &RunProgress<'_>,
        (trials, made): (u64, (Duration, u32)),
        wear: Option<WearSoFar>,
    ) -> Self {
        let remaining = remaining::of_run(so_far, made);
        let most_ns = remaining.and_then(|left| left.most_ns);
        let spent_ns = so_far.spent.time_ns as f64;
        Self {
            phase: "trials",
            setup: Some(key.setup.label()),
            workload: Some(key.workload.clone()),
            trials,
            written_bytes: so_far.spent.written_bytes,
            wear,
            share_done: most_ns.map(|left_ns| spent_ns / (spent_ns + left_ns as f64)),
            remaining,
        }
    }

    /// A longer trial begins, after those of the search.
    pub fn of_longer(self, key: &TrialKey) -> Self {
        let (setup, workload) = (Some(key.setup.label()), Some(key.workload.clone()));
        Self { phase: "trials", setup, workload, remaining: None, ..self }
    }

    /// No more trials; the rest stays as it was.
    pub fn answering(self, trials: u64) -> Self {
        let nothing = RemainingTime { least_ns: 0, most_ns: Some(0) };
        Self {
            phase: "answering",
            setup: None,
            workload: None,
            trials,
            share_done: Some(1.0),
            remaining: Some(nothing),
            ..self
        }
    }
}

#[derive(JsonSchema, Serialize)]
pub struct ProgressLine<'a> {
    schema: String,
    schema_version: u32,
    elapsed_ns: u64,
    #[serde(flatten)]
    phase: &'a RunPhase,
}

/// Prints lines until it is dropped, so that none follows the answer.
pub struct Heartbeat {
    phases: Option<Sender<RunPhase>>,
    printer: Option<JoinHandle<()>>,
}

impl Heartbeat {
    pub fn start() -> Self {
        let (phases, received) = channel();
        let printer = std::thread::spawn(move || print_lines(&received));
        Self { phases: Some(phases), printer: Some(printer) }
    }

    /// The next lines say this.
    pub fn set(&self, phase: RunPhase) {
        // The printer ends only after this.
        if let Some(phases) = &self.phases {
            let _ = phases.send(phase);
        }
    }
}

impl Drop for Heartbeat {
    fn drop(&mut self) {
        self.phases = None;
        // It has nothing to say that the answer does not.
        let _ = self.printer.take().map(JoinHandle::join);
    }
}

fn print_lines(received: &Receiver<RunPhase>) {
    let began = Instant::now();
    let mut next = began;
    let mut phase = RunPhase { phase: "preparing", ..RunPhase::default() };
    loop {
        match received.recv_timeout(next.saturating_duration_since(Instant::now())) {
            Ok(other) => phase = other,
            Err(RecvTimeoutError::Disconnected) => return,
            Err(RecvTimeoutError::Timeout) => {
                print(&phase, began.elapsed());
                next += INTERVAL;
            }
        }
    }
}

fn print(phase: &RunPhase, elapsed: Duration) {
    let elapsed_ns = u64::try_from(elapsed.as_nanos()).unwrap_or(u64::MAX);
    let schema = schemas::name::<ProgressLine<'_>>();
    let line = ProgressLine { schema, schema_version: 1, elapsed_ns, phase };
    output::whole_line(&line);
}
