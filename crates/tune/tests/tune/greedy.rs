//! The path that the greedy strategy takes.

use flashfit_filesystem::Setup;
use flashfit_tune::results::Standing;
use flashfit_tune::strategy::{Greedy, Strategy, best};
use flashfit_tune::{By, Purpose, Results, Space};

use crate::support::{Answer, SpaceOf, measure, measured, opt, setup};

/// The labels of the setups, batch by batch.
fn batches(space: &Space, landscape: impl Fn(&Setup) -> Answer) -> Vec<Vec<String>> {
    let label = |batch: Vec<Setup>| batch.iter().map(Setup::label).collect();
    measure(&Greedy, space, landscape).0.into_iter().map(label).collect()
}

fn winner(space: &Space, landscape: impl Fn(&Setup) -> Answer) -> String {
    let (_, results) = measure(&Greedy, space, landscape);
    best(space, &results).unwrap().0.label()
}

/// 1000 KiB/s, and the gain of each option on top.
fn additive(gains: &[(&str, i64)]) -> impl Fn(&Setup) -> Answer {
    let gains: Vec<(String, i64)> = gains.iter().map(|&(name, by)| (name.to_owned(), by)).collect();
    move |setup| {
        let has = |name: &String| setup.options.contains(name);
        let gain: i64 = gains.iter().filter(|(name, _)| has(name)).map(|(_, by)| by).sum();
        Answer::Kib((1000 + gain).unsigned_abs())
    }
}

#[test]
fn base_then_each_remaining_option_beside_the_best_until_none_gains() {
    let space = SpaceOf::filesystem("toy", &[opt("a"), opt("b"), opt("c")]).build();
    let asked = batches(&space, additive(&[("a", 10), ("b", 30), ("c", -5)]));
    assert_eq!(
        asked,
        [
            vec!["toy base none"],
            vec!["toy a none", "toy b none", "toy c none"],
            vec!["toy a+b none", "toy b+c none"],
            vec!["toy a+b+c none"],
        ]
    );
    assert_eq!(winner(&space, additive(&[("a", 10), ("b", 30), ("c", -5)])), "toy a+b none");
}

#[test]
fn it_stops_after_a_round_without_a_gain() {
    let space = SpaceOf::filesystem("toy", &[opt("a"), opt("b")]).build();
    let asked = batches(&space, additive(&[("a", -1), ("b", -1)]));
    assert_eq!(asked, [vec!["toy base none"], vec!["toy a none", "toy b none"]]);
}

#[test]
fn every_round_is_tried_under_every_scheduler() {
    let space = SpaceOf::filesystem("toy", &[opt("a")]).schedulers(&["none", "bfq"]).build();
    let bfq_likes_a = |setup: &Setup| {
        let both = setup.scheduler.name() == "bfq" && setup.options == ["a"];
        Answer::Kib(if both { 2000 } else { 1000 })
    };
    assert_eq!(
        batches(&space, bfq_likes_a),
        [vec!["toy base none", "toy base bfq"], vec!["toy a none", "toy a bfq"]]
    );
    assert_eq!(winner(&space, bfq_likes_a), "toy a bfq");
}

#[test]
fn a_setup_less_safe_than_allowed_is_measured_in_the_first_round_and_never_adopted() {
    let options = [opt("a"), opt("b"), opt("risky").risky()];
    let gains = [("a", 10), ("b", 5), ("risky", 500)];
    let space = SpaceOf::filesystem("toy", &options).build();
    let asked = batches(&space, additive(&gains));
    assert_eq!(
        asked,
        [
            vec!["toy base none"],
            vec!["toy a none", "toy b none", "toy risky none"],
            vec!["toy a+b none"],
        ]
    );
    assert_eq!(winner(&space, additive(&gains)), "toy a+b none");
    let daring = SpaceOf::filesystem("toy", &options).allowing_everything().build();
    assert_eq!(winner(&daring, additive(&gains)), "toy a+b+risky none");
}

#[test]
fn a_failed_setup_is_out_and_its_option_is_tried_again_beside_others() {
    let space = SpaceOf::filesystem("toy", &[opt("a"), opt("b")]).build();
    let alone_fails = |setup: &Setup| match setup.options_label().as_str() {
        "b" => Answer::Fails,
        "a+b" => Answer::Kib(1200),
        "a" => Answer::Kib(1100),
        _ => Answer::Kib(1000),
    };
    assert_eq!(batches(&space, alone_fails).last().unwrap(), &["toy a+b none"]);
    assert_eq!(winner(&space, alone_fails), "toy a+b none");
    let both_fail = |setup: &Setup| match setup.options_label().as_str() {
        "b" | "a+b" => Answer::Fails,
        "a" => Answer::Kib(1100),
        _ => Answer::Kib(1000),
    };
    assert_eq!(winner(&space, both_fail), "toy a none");
}

#[test]
fn a_file_system_whose_base_fails_is_given_up() {
    let space = SpaceOf::filesystem("bad", &[opt("a")]).and("good", &[opt("a")]).build();
    let bad_fails = |setup: &Setup| match setup.filesystem.as_str() {
        "bad" => Answer::Fails,
        _ => Answer::Kib(1000),
    };
    assert_eq!(
        batches(&space, bad_fails),
        [vec!["bad base none", "good base none"], vec!["good a none"]]
    );
}

#[test]
fn of_equal_ones_the_earlier_is_kept() {
    let space = SpaceOf::filesystem("toy", &[opt("a"), opt("b")]).build();
    assert_eq!(winner(&space, additive(&[])), "toy base none");
    // Both gain the same, so the one that comes first in the catalogue is adopted.
    let clash = SpaceOf::filesystem("toy", &[opt("b"), opt("a").excluding(&["b"])]).build();
    let asked = batches(&clash, additive(&[("a", 10), ("b", 10)]));
    assert_eq!(asked, [vec!["toy base none"], vec!["toy b none", "toy a none"]]);
    let three = SpaceOf::filesystem("toy", &[opt("b"), opt("a"), opt("c")]).build();
    let asked = batches(&three, additive(&[("a", 10), ("b", 10)]));
    assert_eq!(asked[2], ["toy b+a none", "toy b+c none"]);
}

#[test]
fn options_that_exclude_an_adopted_one_are_not_tried_with_it() {
    let space =
        SpaceOf::filesystem("toy", &[opt("a"), opt("b").excluding(&["a"]), opt("c")]).build();
    let asked = batches(&space, additive(&[("a", 10), ("b", 5), ("c", 1)]));
    assert_eq!(asked[2..], [vec!["toy a+c none"]]);
}

#[test]
fn file_systems_go_from_round_to_round_together() {
    let space = SpaceOf::filesystem("x", &[opt("a")]).and("y", &[opt("a"), opt("b")]).build();
    let mut results = Results::of(&[], &["w".to_owned()], 1, By::Throughput);
    results.add(&measured(Purpose::Search, &setup(&space, "x base none"), "w", 0, 1000));
    // Whether a run stopped here or goes on, what comes next is the same.
    assert_eq!(Greedy.next(&space, &results), [setup(&space, "y base none")]);
    results.add(&measured(Purpose::Search, &setup(&space, "y base none"), "w", 0, 1000));
    assert_eq!(Greedy.next(&space, &results).len(), 3);
}

#[test]
fn it_goes_by_the_sum_of_the_workloads_medians() {
    let space = SpaceOf::filesystem("toy", &[opt("a")]).build();
    let workloads = ["read".to_owned(), "write".to_owned()];
    let mut results = Results::of(&[], &workloads, 3, By::Throughput);
    let base = setup(&space, "toy base none");
    for (repeat, rate) in [(0, 1000), (1, 1000), (2, 50)] {
        for workload in &workloads {
            assert_eq!(results.standing(&base), Standing::Incomplete);
            results.add(&measured(Purpose::Search, &base, workload, repeat, rate));
        }
    }
    assert_eq!(results.standing(&base), Standing::Score(2.0 * 1000.0 * 1000f64.ln()));
}
