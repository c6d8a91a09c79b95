//! What the user sees of the trials on a twin. Nobody is asked: a simulated card loses no data.

use std::time::Instant;

use flashfit_device::{ConsentMethod, Device};
use flashfit_testbed::TrialError;
use flashfit_tune::Observer;
use flashfit_tune::run::{RunEvent, RunUi};

use super::args::ProgressArg;
use super::progress::TuneProgress;
use super::wear_so_far::WearMeter;
use crate::output::{note, warn};

pub struct TwinUi {
    when: ProgressArg,
    until: Option<Instant>,
    /// Once trials begin.
    progress: Option<TuneProgress>,
}

impl TwinUi {
    /// No trial begins after `until`.
    pub fn new(when: ProgressArg, until: Option<Instant>) -> Self {
        Self { when, until, progress: None }
    }

    fn progress(&mut self, made: usize) -> &mut TuneProgress {
        let (when, until) = (self.when, self.until);
        self.progress.get_or_insert_with(|| {
            TuneProgress::new(when, made, None, WearMeter::default()).of_twin(until)
        })
    }
}

impl RunUi for TwinUi {
    fn observer(&mut self) -> &mut dyn Observer {
        self.progress(0)
    }

    fn event(&mut self, event: RunEvent<'_>) {
        match event {
            RunEvent::BoardLeftOut(reason) => note(&format!("twin: left out: {reason}")),
            RunEvent::LeftOut(text) => note(&format!("twin: {text}")),
            RunEvent::Warning(text) => warn(&format!("twin: {text}")),
            RunEvent::Began { made, .. } => {
                self.progress(made);
            }
            RunEvent::Ended => self.progress.iter_mut().for_each(TuneProgress::finish),
            RunEvent::Target { .. } | RunEvent::Probed(_) | RunEvent::SpreadOver(_) => {}
        }
    }

    fn agree(
        &mut self,
        _: Option<&str>,
        _: &Device,
        _: &mut dyn FnMut(&ConsentMethod) -> Result<(), TrialError>,
    ) -> Result<String, TrialError> {
        unreachable!("a twin is a simulated card, for which nobody is asked")
    }
}
