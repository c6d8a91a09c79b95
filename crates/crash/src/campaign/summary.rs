//! Counts of checked states and what follows from them.

use std::collections::{BTreeMap, BTreeSet};

use flashfit_card::FaultClass;
use flashfit_filesystem::Promise;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::batch::{BrokenState, StateBatch};
use crate::bound::upper_bound;
use crate::model::{Oracle, Violation};

/// Examples that a result keeps for each oracle.
const MOST_EXAMPLES: usize = 3;

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct StateCounts {
    pub states: u64,
    /// Looked at through the kernel.
    pub mounted: u64,
    /// With the bytes of one before.
    pub same_bytes: u64,
    /// Of which recovery reads the same as of one before.
    pub same_reads: u64,
    /// Equivalent ones that were looked at nevertheless.
    pub rechecked: u64,
    /// Of these, judged otherwise than the one that they are equivalent to.
    pub mismatched: u64,
    /// With a second power cut during recovery.
    pub recovery_cuts: u64,
    /// States in which each oracle found a violation.
    pub by_oracle: BTreeMap<Oracle, u64>,
    /// States in which each promise was broken, promised or not.
    pub by_promise: BTreeMap<Promise, u64>,
    /// States in which a promise was broken that the file system gives.
    pub broken: u64,
    /// Time of one worker.
    pub seconds: f64,
    /// The longest recovery by the kernel, in milliseconds.
    pub longest_recovery_ms: u64,
    /// What the device did at its power cuts, where it is a simulated card.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub faults: BTreeMap<FaultClass, FaultCounts>,
    /// States in which a flush that the device ignored makes a difference.
    #[serde(default)]
    pub ignored_flushes: FaultCounts,
}

/// How often something happened to the device, and who noticed.
#[derive(Debug, Clone, Default, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
pub struct FaultCounts {
    /// States in which it happened.
    pub happened: u64,
    /// Of these, with a broken promise.
    pub noticed: u64,
    /// Of these, by what found a violation.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub by_oracle: BTreeMap<Oracle, u64>,
}

impl FaultCounts {
    /// Counts a state in which it happened.
    pub fn count(&mut self, violations: &[Violation], keeps: &BTreeSet<Promise>) {
        self.happened += 1;
        let oracles: BTreeSet<Oracle> = violations.iter().map(|found| found.oracle).collect();
        self.noticed += u64::from(oracles.iter().any(|oracle| keeps.contains(&oracle.promise())));
        for oracle in oracles {
            *self.by_oracle.entry(oracle).or_default() += 1;
        }
    }

    pub fn add(&mut self, other: &Self) {
        self.happened += other.happened;
        self.noticed += other.noticed;
        for (oracle, count) in &other.by_oracle {
            *self.by_oracle.entry(*oracle).or_default() += count;
        }
    }
}

impl StateCounts {
    /// Counts one state's violations.
    pub fn count(&mut self, violations: &[Violation], keeps: &BTreeSet<Promise>) {
        self.states += 1;
        let oracles: BTreeSet<Oracle> = violations.iter().map(|found| found.oracle).collect();
        let promises: BTreeSet<Promise> = oracles.iter().map(|oracle| oracle.promise()).collect();
        for oracle in oracles {
            *self.by_oracle.entry(oracle).or_default() += 1;
        }
        for promise in &promises {
            *self.by_promise.entry(*promise).or_default() += 1;
        }
        self.broken += u64::from(!promises.is_disjoint(keeps));
    }

    fn add(&mut self, other: &Self) {
        self.states += other.states;
        self.mounted += other.mounted;
        self.same_bytes += other.same_bytes;
        self.same_reads += other.same_reads;
        self.rechecked += other.rechecked;
        self.mismatched += other.mismatched;
        self.recovery_cuts += other.recovery_cuts;
        self.broken += other.broken;
        self.seconds += other.seconds;
        self.longest_recovery_ms = self.longest_recovery_ms.max(other.longest_recovery_ms);
        for (class, faults) in &other.faults {
            self.faults.entry(*class).or_default().add(faults);
        }
        self.ignored_flushes.add(&other.ignored_flushes);
        for (oracle, count) in &other.by_oracle {
            *self.by_oracle.entry(*oracle).or_default() += count;
        }
        for (promise, count) in &other.by_promise {
            *self.by_promise.entry(*promise).or_default() += count;
        }
    }
}

/// The result of one setup.
#[derive(Debug, Clone, PartialEq)]
pub struct SetupResult {
    pub label: String,
    pub counts: StateCounts,
    /// Recorded workloads.
    pub rounds: u32,
    /// Those of them of which all wanted states were checked, and all of `broken_rounds`.
    pub judged_rounds: u32,
    /// Those with a state in which a promise was broken.
    pub broken_rounds: u32,
    /// The first states that each oracle found.
    pub examples: Vec<BrokenState>,
}

impl SetupResult {
    pub(super) fn new<'a>(label: &str, batches: impl Iterator<Item = &'a StateBatch>) -> Self {
        let mut result = Self {
            label: label.to_owned(),
            counts: StateCounts::default(),
            rounds: 0,
            judged_rounds: 0,
            broken_rounds: 0,
            examples: Vec::new(),
        };
        let (mut rounds, mut broken_rounds) = (BTreeSet::new(), BTreeSet::new());
        let mut judged_rounds = BTreeSet::new();
        let mut shown: BTreeMap<Oracle, usize> = BTreeMap::new();
        for batch in batches {
            result.counts.add(&batch.counts);
            rounds.insert(batch.round);
            if batch.counts.broken > 0 {
                broken_rounds.insert(batch.round);
            }
            // What the rest of the states would show is not known.
            if batch.counts.broken > 0 || batch.ends_round {
                judged_rounds.insert(batch.round);
            }
            for broken in &batch.broken {
                let is_new = broken.violations.iter().any(|violation| {
                    shown.get(&violation.oracle).is_none_or(|count| *count < MOST_EXAMPLES)
                });
                if is_new {
                    for violation in &broken.violations {
                        *shown.entry(violation.oracle).or_default() += 1;
                    }
                    result.examples.push(broken.clone());
                }
            }
        }
        let count = |rounds: BTreeSet<u32>| u32::try_from(rounds.len()).expect("few rounds");
        (result.rounds, result.broken_rounds) = (count(rounds), count(broken_rounds));
        result.judged_rounds = count(judged_rounds);
        result
    }

    /// Of all states of the recorded logs, the share with a broken promise is at most this, at
    /// 95 %.
    pub fn upper_bound(&self) -> f64 {
        upper_bound(self.counts.broken, self.counts.states)
    }

    /// Of further runs of the work, the share in which one of as many states, drawn at random,
    /// breaks a promise is at most this, at 95 %. It also limits the probability that a promise is
    /// broken in one state that is drawn at random from a further run.
    pub fn runs_upper_bound(&self) -> f64 {
        upper_bound(self.broken_rounds.into(), self.judged_rounds.into())
    }

    /// Checked states an hour of one worker's time.
    pub fn states_per_hour(&self) -> u64 {
        if self.counts.seconds <= 0.0 {
            return 0;
        }
        (self.counts.states as f64 * 3600.0 / self.counts.seconds) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn batch(round: u32, states: u64, broken: u64) -> StateBatch {
        StateBatch {
            setup: "ext4".to_owned(),
            round,
            from: 0,
            to: u32::try_from(states).unwrap(),
            most: 1000,
            ends_round: true,
            counts: StateCounts { states, broken, ..StateCounts::default() },
            broken: Vec::new(),
            cut: None,
            elapsed_ns: None,
        }
    }

    /// Three logs are three runs of the work, however many states they have.
    #[test]
    fn the_limit_for_other_runs_counts_logs_and_not_states() {
        let honest: Vec<StateBatch> = (0..3).map(|round| batch(round, 1000, 0)).collect();
        let result = SetupResult::new("ext4", honest.iter());
        assert!((result.upper_bound() - 0.000_998).abs() < 1e-5, "{}", result.upper_bound());
        // 1 - 0.05^(1/3)
        assert!((result.runs_upper_bound() - 0.6316).abs() < 1e-3, "{}", result.runs_upper_bound());
        // Two batches of one log, both with broken states.
        let some = [batch(0, 100, 3), batch(0, 100, 1), batch(1, 50, 0), batch(2, 50, 0)];
        let result = SetupResult::new("ext4", some.iter());
        assert_eq!((result.rounds, result.broken_rounds), (3, 1));
        assert!(result.runs_upper_bound() > 0.8 && result.upper_bound() < 0.04);
    }

    #[test]
    fn a_sound_log_counts_when_all_its_states_were_checked_and_a_broken_one_always() {
        let unfinished =
            |round, broken| StateBatch { ends_round: false, ..batch(round, 9, broken) };
        let some = [unfinished(0, 0), batch(1, 50, 0), unfinished(2, 1), unfinished(3, 0)];
        let result = SetupResult::new("ext4", some.iter());
        assert_eq!((result.rounds, result.judged_rounds, result.broken_rounds), (4, 2, 1));
        assert_eq!(result.runs_upper_bound(), upper_bound(1, 2));
        let result = SetupResult::new("ext4", [unfinished(0, 0), unfinished(1, 0)].iter());
        assert_eq!(result.runs_upper_bound(), 1.0);
        // The rest of it was checked later.
        let result = SetupResult::new("ext4", [unfinished(0, 0), batch(0, 9, 0)].iter());
        assert_eq!(result.runs_upper_bound(), upper_bound(0, 1));
    }
}
