//! Checks every distinct state of a recording.

use std::collections::{BTreeMap, HashSet};
use std::time::Instant;

use flashfit_test_support::power_loss::{CrashDisk, CrashEffort, DiskOp, StateAfterCut};

use crate::bed::Recording;

/// Number of losses that are described; others are only counted.
const SHOWN_LOSSES: usize = 5;

/// Checks states after a power cut.
pub trait Campaign {
    /// What the states after this operation are counted as.
    fn scenario(&self, op: Option<&DiskOp>) -> &'static str;

    /// Called when an operation ended; `disk` is the disk as the program sees it.
    fn acknowledge(&mut self, op: &DiskOp, disk: &CrashDisk);

    /// What this state has lost, if anything.
    fn check(&mut self, state: &StateAfterCut) -> Result<(), String>;
}

#[derive(Debug, Default)]
pub struct Tally {
    pub operations: usize,
    /// All states, including equal ones.
    pub generated: usize,
    /// States without, all of them and by scenario.
    pub states: usize,
    pub by_scenario: BTreeMap<&'static str, usize>,
    /// States from which the command itself went on.
    pub whole_program: usize,
    pub lost: usize,
    pub losses: Vec<String>,
}

impl std::fmt::Display for Tally {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "{} operations recorded, {} states generated, {} distinct, {} of them with the \
             command itself, lost: {}",
            self.operations, self.generated, self.states, self.whole_program, self.lost
        )?;
        for (scenario, states) in &self.by_scenario {
            write!(f, "\n    {states:6} distinct states of {scenario}")?;
        }
        Ok(())
    }
}

impl Tally {
    pub fn add(&mut self, other: Self) {
        self.operations += other.operations;
        self.generated += other.generated;
        self.states += other.states;
        for (scenario, states) in other.by_scenario {
            *self.by_scenario.entry(scenario).or_default() += states;
        }
        self.whole_program += other.whole_program;
        self.lost += other.lost;
        self.losses.extend(other.losses);
    }

    pub fn lose(&mut self, what: String) {
        self.lost += 1;
        if self.losses.len() < SHOWN_LOSSES {
            self.losses.push(what);
        }
    }

    #[track_caller]
    pub fn assert_none_lost(&self) {
        assert!(self.states > 0, "nothing was checked");
        assert_eq!(self.lost, 0, "{self}\n{}", self.losses.join("\n"));
    }
}

/// Checks every state of a recording, each once. Each is given to `keep` after it was checked.
pub fn check_all(
    recording: &Recording,
    effort: CrashEffort,
    campaign: &mut dyn Campaign,
    keep: &mut dyn FnMut(&StateAfterCut),
) -> Tally {
    let begun = Instant::now();
    let mut check = Checks::new(recording, effort);
    check.cut(0, None, campaign, keep);
    for (number, op) in recording.ops.iter().enumerate() {
        check.disk.apply(op).unwrap();
        campaign.acknowledge(op, &check.disk);
        check.cut(number + 1, Some(op), campaign, keep);
    }
    let tally = check.tally;
    println!("{}: {tally}\n    {:.1} s", recording.name, begun.elapsed().as_secs_f64());
    tally
}

/// Checks the states of a recording in which the syncs with these numbers do nothing, although
/// the program was told that they did, until one is lost.
pub fn is_lost_without(
    recording: &Recording,
    effort: CrashEffort,
    without: &[usize],
    campaign: &mut dyn Campaign,
) -> bool {
    let mut check = Checks::new(recording, effort);
    for (number, op) in recording.ops.iter().enumerate() {
        if !without.contains(&number) {
            check.disk.apply(op).unwrap();
        }
        campaign.acknowledge(op, &check.disk);
        // Until the first of these syncs nothing differs.
        if without.first().is_some_and(|first| number >= *first) {
            check.cut(number + 1, Some(op), campaign, &mut |_| {});
        }
        if check.tally.lost > 0 {
            return true;
        }
    }
    false
}

struct Checks<'a> {
    recording: &'a Recording,
    effort: CrashEffort,
    disk: CrashDisk,
    seen: HashSet<u64>,
    tally: Tally,
}

impl<'a> Checks<'a> {
    fn new(recording: &'a Recording, effort: CrashEffort) -> Self {
        let tally = Tally { operations: recording.ops.len(), ..Tally::default() };
        Self { recording, effort, disk: (recording.before)(), seen: HashSet::new(), tally }
    }

    /// Checks what a power cut after `op` may leave.
    fn cut(
        &mut self,
        number: usize,
        op: Option<&DiskOp>,
        campaign: &mut dyn Campaign,
        keep: &mut dyn FnMut(&StateAfterCut),
    ) {
        let seed = self.effort.seed.wrapping_mul(1_000_003).wrapping_add(number as u64);
        let scenario = campaign.scenario(op);
        for state in self.disk.states(CrashEffort { seed, ..self.effort }) {
            self.tally.generated += 1;
            if !self.seen.insert(state.hash()) {
                continue;
            }
            self.tally.states += 1;
            *self.tally.by_scenario.entry(scenario).or_default() += 1;
            if let Err(why) = campaign.check(&state) {
                let name = &self.recording.name;
                self.tally.lose(format!("{name}, after operation {number}: {why}"));
            }
            keep(&state);
        }
    }
}
