//! Showing how far a run is: a bar on a terminal, a line every half minute elsewhere.
//!
//! The estimate takes every trial that may still be made for as long as those so far; a search that
//! ends early takes less, so it is said as "at most".

use std::io::IsTerminal;
use std::time::{Duration, Instant};

use flashfit_search::CandidateIndex;
use flashfit_testbed::TrialError;
use flashfit_tune::{Observer, RunProgress, TrialDevice, TrialKey, TrialRecord};
use indicatif::{ProgressBar, ProgressStyle};

use crate::output::{note, warn};
use crate::rendering::duration;
use crate::tune::args::ProgressArg;
use crate::tune::belief;
use crate::tune::spending::of_limits;

/// The first line comes as soon as there is an estimate.
const LINE_INTERVAL: Duration = Duration::from_secs(30);

/// Shows a run's progress on standard error.
pub struct TuneProgress {
    shown: Shown,
    made: u64,
    /// Time in the trials made here, and how many they are.
    spent: (Duration, u32),
    began: Instant,
    /// Whether what is believed is printed to standard output, a line of JSON each time.
    stream: bool,
    leader: Option<String>,
}

enum Shown {
    Bar(ProgressBar),
    Lines { last: Instant, first: bool },
    Nothing,
}

impl TuneProgress {
    /// `made` trials were made before.
    pub fn new(when: ProgressArg, made: usize, stream: bool) -> Self {
        let terminal = std::io::stderr().is_terminal();
        let shown = match when {
            ProgressArg::Never => Shown::Nothing,
            ProgressArg::Auto if terminal => Shown::Bar(bar()),
            ProgressArg::Auto | ProgressArg::Always => {
                Shown::Lines { last: Instant::now(), first: true }
            }
        };
        let made = u64::try_from(made).expect("a run has few trials");
        let (spent, began) = ((Duration::ZERO, 0), Instant::now());
        Self { shown, made, spent, began, stream, leader: None }
    }

    /// Takes the bar off the screen.
    pub fn finish(&mut self) {
        if let Shown::Bar(bar) = &self.shown {
            bar.finish_and_clear();
        }
    }

    /// How long `left` more trials may take, in words; unknown before the first.
    fn at_most(&self, left: u64) -> String {
        let (total, count) = self.spent;
        if count == 0 {
            return "no estimate yet".to_owned();
        }
        let left = u32::try_from(left).unwrap_or(u32::MAX);
        format!("at most {}", duration((total / count).saturating_mul(left)))
    }
}

fn bar() -> ProgressBar {
    let style = ProgressStyle::with_template("{bar:16} {pos}/{len}, {wide_msg}")
        .expect("the template is constant");
    let bar = ProgressBar::new(1).with_style(style);
    bar.enable_steady_tick(Duration::from_millis(500));
    bar
}

impl Observer for TuneProgress {
    fn on_trial_start(&mut self, key: &TrialKey, so_far: &RunProgress<'_>) {
        let left = so_far.left.unwrap_or(1);
        let most = self.at_most(left);
        let what = format!("{} under {}", key.setup.label(), key.workload);
        let most = of_limits(so_far).map_or(most.clone(), |used| format!("{used}; {most}"));
        match &mut self.shown {
            Shown::Bar(bar) => {
                bar.set_length(self.made + left);
                bar.set_position(self.made);
                bar.set_message(format!("{most}: {what}"));
            }
            Shown::Lines { last, first }
                if *first && self.spent.1 > 0 || last.elapsed() >= LINE_INTERVAL =>
            {
                *first = false;
                *last = Instant::now();
                let made = self.made;
                note(&format!(
                    "{made} trials in {}; at most {left} to go; {most}; now {what}",
                    duration(self.began.elapsed())
                ));
            }
            Shown::Lines { .. } | Shown::Nothing => {}
        }
    }

    fn on_trial_end(&mut self, record: &TrialRecord) {
        self.made += 1;
        let took = Duration::from_nanos(record.phases.total_ns);
        self.spent = (self.spent.0 + took, self.spent.1 + 1);
        if let Shown::Bar(bar) = &self.shown {
            bar.set_position(self.made);
        }
    }

    fn on_worker_lost(&mut self, made_on: &TrialDevice, why: &TrialError) {
        let text = format!("lost {made_on}: {why}");
        match &self.shown {
            Shown::Bar(bar) => bar.suspend(|| warn(&text)),
            Shown::Lines { .. } | Shown::Nothing => warn(&text),
        }
    }

    fn on_batch_end(&mut self, so_far: &RunProgress<'_>, leader: Option<CandidateIndex>) {
        let leader = leader.map(|leader| so_far.problem.setups[leader].label());
        if self.stream {
            belief::print(so_far, leader.clone());
        }
        let Some(leader) = leader.filter(|leader| self.leader.as_ref() != Some(leader)) else {
            return;
        };
        let text = format!("after {} trials {leader} leads", so_far.history.len());
        match &self.shown {
            Shown::Bar(bar) => bar.println(text),
            Shown::Lines { .. } => note(&text),
            Shown::Nothing => {}
        }
        self.leader = Some(leader);
    }
}
