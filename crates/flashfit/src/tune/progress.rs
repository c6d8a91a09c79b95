//! Showing how far a run is: a bar on a terminal, a line every half minute elsewhere.

use std::rc::Rc;
use std::time::{Duration, Instant};

use flashfit_report::text::count_of;
use flashfit_search::{Answer, CandidateIndex};
use flashfit_testbed::TrialError;
use flashfit_tune::{Observer, RunProgress, TrialDevice, TrialKey, TrialRecord};

use super::progress_display::{LINE_INTERVAL, Shown, show_trial};
use crate::output::note;
use crate::rendering::duration;
use crate::rendering::progress_line::on_one_line;
use crate::tune::args::ProgressArg;
use crate::tune::heartbeat::{Heartbeat, RunPhase};
use crate::tune::wear_so_far::WearMeter;
use crate::tune::{belief, remaining, spending};

/// Shows a run's progress on standard error.
pub struct TuneProgress {
    shown: Shown,
    made: u64,
    /// Time in the trials made here, and how many they are.
    spent: (Duration, u32),
    began: Instant,
    /// Where the run is watched by a program, lines of JSON are printed.
    heartbeat: Option<Rc<Heartbeat>>,
    /// What it said last.
    phase: RunPhase,
    wear: WearMeter,
    leader: Option<String>,
    /// Of trials on a twin: when none begins any more.
    twin_until: Option<Instant>,
}

impl TuneProgress {
    /// `made` trials were made before.
    pub fn new(
        when: ProgressArg,
        made: usize,
        heartbeat: Option<Rc<Heartbeat>>,
        wear: WearMeter,
    ) -> Self {
        let shown = Shown::new(when);
        let made = u64::try_from(made).expect("a run has few trials");
        let (spent, began, phase) = ((Duration::ZERO, 0), Instant::now(), RunPhase::default());
        Self { shown, made, spent, began, heartbeat, phase, wear, leader: None, twin_until: None }
    }

    /// Of trials on a twin, none of which begins after `until`.
    pub fn of_twin(self, until: Option<Instant>) -> Self {
        Self { twin_until: until, ..self }
    }

    /// What the lines of JSON say from now on.
    fn watched(&mut self, phase: RunPhase) {
        self.heartbeat.iter().for_each(|heartbeat| heartbeat.set(phase.clone()));
        self.phase = phase;
    }

    /// Takes the bar off the screen.
    pub fn finish(&mut self) {
        if let Some(heartbeat) = &self.heartbeat {
            heartbeat.set(self.phase.clone().answering(self.made));
        }
        self.shown.finish();
    }
}

impl Observer for TuneProgress {
    fn on_trial_start(&mut self, key: &TrialKey, so_far: &RunProgress<'_>) {
        let wear = self.wear.wear(so_far.spent.written_bytes);
        let to = if self.twin_until.is_some() { " to the simulated twin" } else { "" };
        let spent = spending::so_far(so_far, wear.as_ref()) + to;
        self.watched(RunPhase::of_trial(key, so_far, (self.made, self.spent), wear));
        let left = so_far.left.unwrap_or(1);
        let remaining = remaining::in_words(so_far, self.spent, self.twin_until);
        let what = format!("{} under {}", key.setup.label(), key.workload);
        match &mut self.shown {
            Shown::Bar(bar) => {
                show_trial(bar, (self.made, self.made + left), [&remaining, &spent, &what]);
            }
            Shown::Lines { last, first }
                if *first && self.spent.1 > 0 || last.elapsed() >= LINE_INTERVAL =>
            {
                *first = false;
                *last = Instant::now();
                let elapsed = duration(self.began.elapsed());
                let least = so_far.least_left.min(left);
                let trials = match least == left {
                    true => left.to_string(),
                    false => format!("{least} to {left}"),
                };
                let to_go = format!("{trials} to go; {remaining}; now ");
                let made = count_of(self.made as usize, "trial");
                note(&on_one_line(&format!("{made} in {elapsed}; {to_go}"), &what));
                note(&on_one_line(&format!("  so far: {spent}"), ""));
            }
            Shown::Lines { .. } | Shown::Nothing => {}
        }
    }

    fn on_raw_start(&mut self, workload: &str) {
        self.shown.now(&format!("the bare device under {workload}, before the first trial"));
    }

    fn on_sustained_start(&mut self, key: &TrialKey, runtime_ns: u64) {
        self.watched(self.phase.clone().of_longer(key));
        let limit = duration(Duration::from_nanos(runtime_ns));
        self.shown.now(&format!("{} under {}, {limit} at a time", key.setup.label(), key.workload));
    }

    fn on_trial_end(&mut self, record: &TrialRecord) {
        self.made += 1;
        self.wear.add_trial(record);
        let took = Duration::from_nanos(record.phases.total_ns);
        self.spent = (self.spent.0 + took, self.spent.1 + 1);
        self.shown.set_position(self.made);
    }

    fn on_worker_lost(&mut self, made_on: &TrialDevice, why: &TrialError) {
        self.shown.warn(&format!("lost {made_on}: {why}"));
    }

    fn on_first_belief(&mut self, so_far: &RunProgress<'_>, belief: &Answer) {
        let leader = so_far.problem.setups[belief.recommended].label();
        let text = remaining::first_belief(so_far, belief, &leader);
        self.shown.say(&text);
        self.leader = Some(leader);
    }

    fn on_batch_end(&mut self, so_far: &RunProgress<'_>, leader: Option<CandidateIndex>) {
        let leader = leader.map(|leader| so_far.problem.setups[leader].label());
        if self.heartbeat.is_some() {
            let wear = self.wear.wear(so_far.spent.written_bytes);
            self.phase.written_bytes = so_far.spent.written_bytes;
            self.phase.wear.clone_from(&wear);
            belief::print(so_far, wear, leader.clone());
        }
        let Some(leader) = leader.filter(|leader| self.leader.as_ref() != Some(leader)) else {
            return;
        };
        let trials = count_of(so_far.history.len(), "trial");
        self.shown.say(&format!("after {trials} {leader} leads"));
        self.leader = Some(leader);
    }
}
