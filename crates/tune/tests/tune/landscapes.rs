//! Properties of the strategies on landscapes without any order.

use std::collections::BTreeSet;
use std::hash::{DefaultHasher, Hash, Hasher};

use flashfit_filesystem::Setup;
use flashfit_tune::strategy::{Exhaustive, Greedy, Strategy, best};
use flashfit_tune::{By, Purpose, Results, Space};
use proptest::prelude::{ProptestConfig, any, prop, prop_assert, prop_assert_eq, proptest};
use proptest::strategy::Strategy as Generator;

use crate::support::{Answer, Opt, SpaceOf, failed, measure, measured, opt};

const NAMES: [&str; 5] = ["a", "b", "c", "d", "e"];

/// A rate between 1000 and 1003, so that ties are common, or a failure now and then.
fn random(seed: u64, setup: &Setup) -> Answer {
    let mut hasher = DefaultHasher::new();
    (seed, setup).hash(&mut hasher);
    match hasher.finish() % 16 {
        0 => Answer::Fails,
        number => Answer::Kib(1000 + number % 4),
    }
}

/// An option is risky or not, and excludes some of those before it.
fn options() -> impl Generator<Value = Vec<Opt>> {
    prop::collection::vec((any::<bool>(), any::<u8>()), 0..=NAMES.len()).prop_map(|traits| {
        let option = |(index, (risky, excluded)): (usize, (bool, u8))| {
            // Two bits of three have to be set, so that exclusions are not too common.
            let rivals: Vec<&str> = (0..index)
                .filter(|bit| excluded >> bit & 1 == 1 && excluded >> (bit + 3) & 1 == 1)
                .map(|bit| NAMES[bit])
                .collect();
            let option = opt(NAMES[index]).excluding(&rivals);
            if risky { option.risky() } else { option }
        };
        traits.into_iter().enumerate().map(option).collect()
    })
}

fn spaces() -> impl Generator<Value = Space> {
    (options(), options(), 1..=3usize).prop_map(|(first, second, schedulers)| {
        SpaceOf::filesystem("x", &first)
            .and("y", &second)
            .schedulers(&["none", "bfq", "kyber"][..schedulers])
            .build()
    })
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn greedy_ends_and_asks_for_no_setup_twice(space in spaces(), seed: u64) {
        let (batches, results) = measure(&Greedy, &space, |setup| random(seed, setup));
        let asked: Vec<Setup> = batches.concat();
        let once: BTreeSet<&Setup> = asked.iter().collect();
        prop_assert_eq!(once.len(), asked.len());
        prop_assert!(asked.len() <= Greedy.most_setups(&space));
        if let Some((winner, _)) = best(&space, &results) {
            prop_assert!(space.allows(winner));
        }
    }

    #[test]
    fn greedy_is_a_function_of_the_results_alone(space in spaces(), seed: u64) {
        let (batches, _) = measure(&Greedy, &space, |setup| random(seed, setup));
        let mut results = Results::of(&[], &["w".to_owned()], 1, By::Throughput);
        for batch in &batches {
            for (index, setup) in batch.iter().enumerate() {
                prop_assert_eq!(&Greedy.next(&space, &results)[..], &batch[index..]);
                results.add(&match random(seed, setup) {
                    Answer::Kib(rate) => measured(Purpose::Search, setup, "w", 0, rate),
                    Answer::Fails => failed(Purpose::Search, setup, "w", 0),
                });
            }
        }
        prop_assert!(Greedy.next(&space, &results).is_empty());
    }

    #[test]
    fn exhaustive_covers_what_greedy_asks_for(space in spaces(), seed: u64) {
        let (batches, _) = measure(&Greedy, &space, |setup| random(seed, setup));
        let all = Exhaustive.next(&space, &Results::of(&[], &["w".to_owned()], 1, By::Throughput));
        let once: BTreeSet<&Setup> = all.iter().collect();
        prop_assert_eq!(once.len(), all.len());
        prop_assert!(batches.concat().iter().all(|setup| once.contains(setup)));
    }
}
