//! Which kind of start each trial has, and its draw.
//!
//! A round of confirming trials is about one kind of start: setups are compared in the same state,
//! and the rounds go through all kinds in turn. Ranking strategies measure every setup equally
//! often, so their repeats do the same. The trials of an adaptive search go through the kinds from
//! a place that depends on the setup, because most setups are measured once: with one state for all
//! of them, the search would find what is best in that state.
//!
//! Everything is a function of the run's seed and the trial's key, so a resumed run draws the same.

use std::borrow::Cow;

use flashfit_bench::{StartKind, StartVariation, start_kind};
use flashfit_device::random::Random;
use flashfit_numbers::fnv1a;

use crate::choice::StrategyKind;
use crate::order;
use crate::record::{TrialKey, TrialPurpose, TrialRecord};
use crate::spec::RunSpec;

/// What is to happen between mkfs and the workload of a trial; `None` without variation.
pub fn draw(spec: &RunSpec, key: &TrialKey) -> Option<StartVariation> {
    let kinds = kinds(spec);
    let is_shared = spec.strategy != StrategyKind::Adaptive
        || matches!(key.purpose, TrialPurpose::Confirm | TrialPurpose::Overlap);
    let of_setup = if is_shared { String::new() } else { key.setup.label() };
    let text = format!("start/{}/{of_setup}", key.workload);
    let own = Random::new(spec.seed ^ fnv1a(text.as_bytes())).next_u64() >> 1;
    let count = u64::try_from(kinds.len()).expect("few kinds");
    let first = if is_shared { 0 } else { own.checked_rem(count)? };
    let turn = (first + u64::from(key.repeat)).checked_rem(count)?;
    let in_turn = order::shuffled((0..kinds.len()).collect(), spec.seed, u32::MAX);
    let kind = &kinds[in_turn[usize::try_from(turn).expect("few kinds")]];
    let seed = order::trial_seed(spec.seed, key) ^ own;
    Some(StartVariation::draw(kind, seed, spec.runtime_ns()))
}

/// The kinds of a run; those of the catalog for an earlier run whose starts vary.
pub fn kinds(spec: &RunSpec) -> Cow<'_, [StartKind]> {
    if !spec.state.varied || !spec.starts.is_empty() {
        return Cow::Borrowed(if spec.state.varied { &spec.starts } else { &[] });
    }
    Cow::Owned(start_kind::load(None).expect("the built-in catalog is valid"))
}

/// The number of the kind of start of a recorded trial for the search; 0 without one. Trials of
/// earlier runs, which had no kinds, are told apart by what happened.
pub fn of_record(trial: &TrialRecord) -> u64 {
    kind_of(trial).map_or(0, |kind| fnv1a(kind.as_bytes()))
}

/// The name of the kind of start of a recorded trial.
pub fn kind_of(trial: &TrialRecord) -> Option<&str> {
    let start = trial.state.as_ref()?.start.as_ref()?;
    Some(match start.kind.as_str() {
        "" if start.remounted => "2-remounted",
        "" if start.files > 0 || start.idle_ms > 0 => "3-synced",
        "" => "1-new",
        kind => kind,
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use flashfit_bench::{MeasurementLength, StartingState};
    use flashfit_filesystem::{Scheduler, Setup};

    use super::*;

    fn spec(strategy: &str) -> RunSpec {
        let text = format!(
            r#"{{"target":"x","filesystems":[],"options":{{}},"workloads":[],"schedulers":[],
                "strategy":"{strategy}","profile":"quick","by":"throughput","repeats":1,
                "confirm_rounds":4,"seed":9,"start":"auto","allow":"safe","data_size":1,"memory":1,
                "runtime_ms":2000,"erase_unit":null,"write_unit":null}}"#
        );
        let mut spec: RunSpec = serde_json::from_str(&text).expect("a specification");
        spec.state = StartingState { varied: true, ..StartingState::default() };
        spec.starts = start_kind::load(None).expect("valid");
        spec
    }

    fn key(purpose: TrialPurpose, option: &str, repeat: u32) -> TrialKey {
        let setup = Setup {
            filesystem: "ext4".to_owned(),
            options: vec![option.to_owned()],
            scheduler: Scheduler::new("none"),
        };
        let (workload, length) = ("sync-files".to_owned(), MeasurementLength::Full);
        TrialKey { purpose, setup, workload, length, repeat }
    }

    fn kind(spec: &RunSpec, purpose: TrialPurpose, option: &str, repeat: u32) -> String {
        draw(spec, &key(purpose, option, repeat)).expect("it varies").kind
    }

    #[test]
    fn rounds_go_through_all_kinds_and_setups_share_the_draw() {
        for strategy in ["adaptive", "greedy"] {
            let spec = spec(strategy);
            let of = |round| kind(&spec, TrialPurpose::Confirm, "noatime", round);
            let kinds: BTreeSet<String> = (0..4).map(of).collect();
            assert_eq!(kinds.len(), 4, "{kinds:?}");
            for round in 0..8 {
                let of = |option| draw(&spec, &key(TrialPurpose::Confirm, option, round));
                assert_eq!(of("noatime"), of("lazytime"));
            }
        }
    }

    #[test]
    fn setups_that_are_searched_once_start_differently() {
        let spec = spec("adaptive");
        let of = |option: u32| kind(&spec, TrialPurpose::Search, &option.to_string(), 0);
        let kinds: BTreeSet<String> = (0..20).map(of).collect();
        assert_eq!(kinds.len(), 4, "{kinds:?}");
        let repeats = |repeat| kind(&spec, TrialPurpose::Search, "noatime", repeat);
        assert_eq!((0..4).map(repeats).collect::<BTreeSet<String>>().len(), 4);
    }

    #[test]
    fn a_run_without_variation_has_no_draws_and_an_earlier_run_those_of_the_catalog() {
        let mut spec = spec("adaptive");
        spec.starts.clear();
        assert!(draw(&spec, &key(TrialPurpose::Search, "x", 0)).is_some());
        spec.state.varied = false;
        assert_eq!(draw(&spec, &key(TrialPurpose::Search, "x", 0)), None);
    }
}
