//! What the exhaustive strategy covers.

use std::collections::BTreeSet;

use flashfit_filesystem::Setup;
use flashfit_tune::strategy::{Exhaustive, Strategy};

use crate::support::{Answer, SpaceOf, measure, opt};

fn labels(setups: &[Setup]) -> Vec<String> {
    setups.iter().map(Setup::label).collect()
}

#[test]
fn every_subset_once_under_every_scheduler() {
    let options = [opt("a"), opt("b"), opt("c")];
    let space = SpaceOf::filesystem("toy", &options).schedulers(&["none", "bfq"]).build();
    let (batches, _) = measure(&Exhaustive, &space, |_| Answer::Kib(1));
    assert_eq!(batches.len(), 1);
    assert_eq!(batches[0].len(), 16);
    assert_eq!(BTreeSet::from_iter(&batches[0]).len(), 16);
    assert_eq!(Exhaustive.most_setups(&space), 16);
}

#[test]
fn no_subset_with_options_that_exclude_another() {
    let space = SpaceOf::filesystem("toy", &[opt("a"), opt("b"), opt("c").excluding(&["a"])])
        .and("other", &[])
        .build();
    let (batches, _) = measure(&Exhaustive, &space, |_| Answer::Kib(1));
    assert_eq!(
        labels(&batches[0]),
        [
            "toy base none",
            "toy a none",
            "toy b none",
            "toy a+b none",
            "toy c none",
            "toy b+c none",
            "other base none",
        ]
    );
}

#[test]
fn unsafe_setups_are_measured_too() {
    let space = SpaceOf::filesystem("toy", &[opt("risky").risky()]).build();
    let (batches, _) = measure(&Exhaustive, &space, |_| Answer::Kib(1));
    assert_eq!(labels(&batches[0]), ["toy base none", "toy risky none"]);
}

#[test]
fn options_that_are_always_on_are_on_in_every_setup() {
    let mut space = SpaceOf::filesystem("toy", &[opt("a"), opt("b"), opt("c")]).build();
    space.choices[0].always = vec!["b".into()];
    space.choices[0].free = vec!["a".into(), "c".into()];
    let (batches, _) = measure(&Exhaustive, &space, |_| Answer::Kib(1));
    assert_eq!(
        labels(&batches[0]),
        ["toy b none", "toy a+b none", "toy b+c none", "toy a+b+c none"]
    );
}
