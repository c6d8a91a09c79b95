//! Every state of a recording, each checked once.

use std::collections::HashSet;

use flashfit_test_support::power_loss::{CrashDisk, CrashEffort, CrashState, DiskOp};

use crate::bed::Recording;

/// Beyond these a loss is only counted.
const SHOWN_LOSSES: usize = 5;

/// Checks the states that a power cut may leave.
pub trait Campaign {
    /// Is told of an operation that ended; `disk` is the disk as the program sees it.
    fn acknowledge(&mut self, op: &DiskOp, disk: &CrashDisk);

    /// Why this state loses something.
    fn check(&mut self, state: &CrashState) -> Result<(), String>;
}

/// What was counted.
#[derive(Debug, Default)]
pub struct Tally {
    pub operations: usize,
    /// States with those that are equal.
    pub generated: usize,
    /// States without.
    pub states: usize,
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
        )
    }
}

impl Tally {
    pub fn add(&mut self, other: Self) {
        self.operations += other.operations;
        self.generated += other.generated;
        self.states += other.states;
        self.whole_program += other.whole_program;
        self.lost += other.lost;
        self.losses.extend(other.losses);
    }

    /// Keeps a loss.
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

/// Checks every state of a recording. The syncs with the numbers `without` do nothing, although
/// the program was told that they did. Each state is given to `keep` after it was checked.
pub fn check_all(
    recording: &Recording,
    effort: CrashEffort,
    without: &[usize],
    campaign: &mut dyn Campaign,
    keep: &mut dyn FnMut(&CrashState),
) -> Tally {
    let mut disk = (recording.before)();
    let mut tally = Tally { operations: recording.ops.len(), ..Tally::default() };
    let mut seen = HashSet::new();
    let mut cut = |number: usize, disk: &CrashDisk, campaign: &mut dyn Campaign| {
        let seed = effort.seed.wrapping_mul(1_000_003).wrapping_add(number as u64);
        for state in disk.states(CrashEffort { seed, ..effort }) {
            tally.generated += 1;
            if seen.insert(state.hash()) {
                tally.states += 1;
                if let Err(why) = campaign.check(&state) {
                    let name = &recording.name;
                    tally.lose(format!("{name}, after operation {number}: {why}"));
                }
                keep(&state);
            }
        }
    };
    cut(0, &disk, campaign);
    for (number, op) in recording.ops.iter().enumerate() {
        if !without.contains(&number) {
            disk.apply(op).unwrap();
        }
        campaign.acknowledge(op, &disk);
        cut(number + 1, &disk, campaign);
    }
    println!("{}: {tally}", recording.name);
    tally
}
