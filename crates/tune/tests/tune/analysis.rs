//! Rankings.

use flashfit_bench::MeasurementLength;
use flashfit_tune::analysis::{Ranking, rankings};
use flashfit_tune::{Criterion, MeritResults, Space, TrialPurpose, TrialRecord};

use crate::support::{SpaceOf, failed, measured, opt, setup};

pub fn space() -> Space {
    SpaceOf::filesystem("x", &[opt("a"), opt("b")]).and("y", &[]).build()
}

pub fn search(label: &str, workload: &str, rates: &[u64]) -> Vec<TrialRecord> {
    let setup = setup(&space(), label);
    let trial = |(repeat, &rate)| measured(TrialPurpose::Search, &setup, workload, repeat, rate);
    (0..).zip(rates).map(trial).collect()
}

fn ranked(trials: &[TrialRecord], workloads: &[&str], by: Criterion) -> Vec<Ranking> {
    let workloads: Vec<String> = workloads.iter().map(|&name| name.to_owned()).collect();
    let results = MeritResults::of(trials, &workloads);
    rankings(&results, &["x".to_owned(), "y".to_owned()], by)
}

pub fn labels(ranking: &Ranking) -> Vec<String> {
    ranking.rows.iter().map(|row| row.setup.label()).collect()
}

#[test]
fn the_whole_device_comes_first_then_each_workload_by_file_system() {
    let trials = [search("x base none", "r", &[1, 2]), search("y base none", "w", &[1, 2])];
    let found = ranked(&trials.concat(), &["r", "w"], Criterion::Throughput);
    let subjects: Vec<(Option<&str>, &str)> =
        found.iter().map(|r| (r.workload.as_deref(), r.filesystem.as_str())).collect();
    let expected = [None, Some("r"), Some("w")].into_iter().flat_map(|w| [(w, "x"), (w, "y")]);
    assert_eq!(subjects, expected.collect::<Vec<_>>());
    assert_eq!(found[2].rows.len(), 1);
    assert!(found[3].rows.is_empty() && found[4].rows.is_empty());
}

#[test]
fn setups_are_ranked_best_first_with_ties_by_interval() {
    let trials = [
        search("x base none", "w", &[1000, 1010, 1005]),
        search("x a none", "w", &[1008, 1002, 1012]),
        search("x b none", "w", &[500, 501, 502]),
    ];
    let found = ranked(&trials.concat(), &["w"], Criterion::Throughput);
    for ranking in [&found[0], &found[2]] {
        assert_eq!(labels(ranking), ["x a none", "x base none", "x b none"]);
        let ties: Vec<bool> = ranking.rows.iter().map(|row| row.ties_with_first).collect();
        assert_eq!(ties, [true, true, false]);
    }
}

#[test]
fn without_an_interval_everything_is_tied() {
    let trials = [search("x base none", "w", &[1000]), search("x a none", "w", &[9000])];
    let found = ranked(&trials.concat(), &["w"], Criterion::Throughput);
    assert_eq!(labels(&found[0]), ["x a none", "x base none"]);
    assert!(found[0].rows[1].ties_with_first);
}

#[test]
fn the_merit_of_the_device_is_the_sum_over_workloads() {
    let trials = [search("x base none", "r", &[1000, 3000]), search("x base none", "w", &[10, 20])];
    let found = ranked(&trials.concat(), &["r", "w"], Criterion::Throughput);
    let sums = [1000f64.ln() + 10f64.ln(), 3000f64.ln() + 20f64.ln()];
    let merit = found[0].rows[0].merit;
    assert!((merit.middle - 1000.0 * f64::midpoint(sums[0], sums[1])).abs() < 1e-6);
    assert_eq!(merit.count, 2);
}

#[test]
fn setups_without_all_workloads_are_ranked_by_workload_only() {
    let trials = [
        search("x base none", "r", &[10, 10]),
        search("x base none", "w", &[10, 10]),
        search("x a none", "r", &[99, 99]),
    ];
    let found = ranked(&trials.concat(), &["r", "w"], Criterion::Throughput);
    assert_eq!(labels(&found[0]), ["x base none"]);
    assert_eq!(labels(&found[2]), ["x a none", "x base none"]);
}

#[test]
fn a_failed_setup_is_not_in_the_ranking_of_the_device() {
    let fails = failed(TrialPurpose::Search, &setup(&space(), "x a none"), "w", 1);
    let trials =
        [search("x base none", "w", &[10, 10]), search("x a none", "w", &[99]), vec![fails]];
    let found = ranked(&trials.concat(), &["w"], Criterion::Throughput);
    assert_eq!(labels(&found[0]), ["x base none"]);
}

#[test]
fn by_latency_the_shortest_worst_case_comes_first() {
    // The longest operation of a trial takes as long as one at that rate.
    let trials = [search("x base none", "w", &[10, 10]), search("x a none", "w", &[20, 20])];
    let found = ranked(&trials.concat(), &["w"], Criterion::Latency);
    assert_eq!(labels(&found[0]), ["x a none", "x base none"]);
    assert!((found[0].rows[0].merit.middle - 20.0).abs() < 1e-6);
}

#[test]
fn full_length_trials_of_any_purpose_count_and_short_ones_do_not() {
    let confirming = measured(TrialPurpose::Confirm, &setup(&space(), "x a none"), "w", 0, 20);
    let mut short = measured(TrialPurpose::Search, &setup(&space(), "x a none"), "w", 1, 1_000_000);
    short.key.length = MeasurementLength::Short;
    let trials = [search("x a none", "w", &[20]), vec![confirming, short]];
    let found = ranked(&trials.concat(), &["w"], Criterion::Latency);
    assert_eq!(found[0].rows[0].merit.count, 2);
    assert!((found[0].rows[0].merit.middle - 20.0).abs() < 1e-6);
}
