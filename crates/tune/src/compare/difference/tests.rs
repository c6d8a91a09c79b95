//! The statistic on runs with known differences.

use flashfit_filesystem::Scheduler;
use flashfit_numbers::SplitMix64;

use super::*;

/// Sessions that only differ in what their trials differ.
const STEADY: SessionSpread = SessionSpread::NONE;

fn key(workload: &str, option: &str) -> ComparedCell {
    let setup = Setup {
        filesystem: "ext4".to_owned(),
        options: vec![option.to_owned()],
        scheduler: Scheduler::new("none"),
    };
    ComparedCell::new(workload, &setup, MeasurementLength::Full)
}

fn normal(random: &mut SplitMix64) -> f64 {
    let mut uniform = || ((random.next_u64() >> 11) as f64 + 0.5) / (1u64 << 53) as f64;
    (-2.0 * uniform().ln()).sqrt() * (std::f64::consts::TAU * uniform()).cos()
}

/// A run with `repeats` rounds of four setups under two workloads, shifted by `shift`.
fn run(seed: u64, repeats: u32, shift: f64, trial_sd: f64, round_sd: f64) -> RunCells {
    let mut random = SplitMix64::new(seed);
    let mut cells = RunCells::new();
    for number in 0..repeats {
        let common = round_sd * normal(&mut random);
        for workload in ["database", "sync-files"] {
            for (index, option) in ["a", "b", "c", "d"].into_iter().enumerate() {
                let log = index as f64 + shift + common + trial_sd * normal(&mut random);
                let round = Round { purpose: TrialPurpose::Search, number };
                cells.entry(key(workload, option)).or_default().push(CellSample { log, round });
            }
        }
    }
    cells
}

fn overall(a: &RunCells, b: &RunCells) -> RunDifference {
    difference(a, b, |_| true, |_| 1.0).unwrap()
}

#[test]
fn one_cell_is_the_test_of_welch() {
    let sample = |log: f64| {
        let round = Round { purpose: TrialPurpose::Search, number: (log * 1000.0) as u32 };
        CellSample { log, round }
    };
    let cells = |logs: &[f64]| {
        RunCells::from([(key("database", "a"), logs.iter().copied().map(sample).collect())])
    };
    let a = cells(&[0.1, 0.4, 0.2, 0.7, 0.3]);
    let b = cells(&[0.9, 1.4, 0.7, 2.0, 1.1, 0.3]);
    // scipy.stats.ttest_ind(b, a, equal_var=False): df 6.85, difference 0.72667
    let found = overall(&a, &b);
    let error = found.error.unwrap();
    assert!((found.log - 0.726_667).abs() < 1e-5, "{found:?}");
    let variance = |logs: &[f64]| {
        let mean = logs.iter().sum::<f64>() / logs.len() as f64;
        let squares: f64 = logs.iter().map(|log| (log - mean).powi(2)).sum();
        squares / (logs.len() - 1) as f64 / logs.len() as f64
    };
    let (u, v) = (variance(&[0.1, 0.4, 0.2, 0.7, 0.3]), variance(&[0.9, 1.4, 0.7, 2.0, 1.1, 0.3]));
    assert!((error.log - (u + v).sqrt()).abs() < 1e-9, "{error:?}");
    let freedom = (u + v).powi(2) / (u * u / 4.0 + v * v / 5.0);
    assert!((error.freedom - freedom).abs() < 1e-9, "{error:?} {freedom}");
    assert_eq!((found.trials, found.rounds, found.setups), ([5, 6], [5, 6], 1));
}

#[test]
fn the_same_run_twice_has_no_difference() {
    for repeats in [1, 2, 5] {
        let a = run(1, repeats, 0.0, 0.05, 0.05);
        let found = overall(&a, &a);
        assert!(found.log.abs() < SAME, "{found:?}");
        assert_eq!(found.verdict(0.95), RunVerdict::NoDifference);
        assert!(!found.is_surely_worse_by(0.0, STEADY, 0.05));
    }
}

#[test]
fn a_slowdown_of_20_percent_is_found() {
    for repeats in [1, 2, 3, 6] {
        let (a, b) = (run(1, repeats, 0.0, 0.03, 0.0), run(2, repeats, 0.8_f64.ln(), 0.03, 0.0));
        let found = overall(&a, &b);
        assert_eq!(found.verdict(0.95), RunVerdict::Worse, "{repeats}: {found:?}");
        assert!(found.is_surely_worse_by(-(0.95_f64.ln()), STEADY, 0.05), "{repeats}: {found:?}");
        assert!(!found.is_surely_worse_by(-(0.75_f64.ln()), STEADY, 0.05), "{repeats}: {found:?}");
    }
}

/// How many of 1000 pairs without a difference have an interval that excludes 0.
fn false_alarms(repeats: u32, trial_sd: f64, round_sd: f64) -> usize {
    let is_alarm = |seed: &u64| {
        let (a, b) = (
            run(2 * seed, repeats, 0.0, trial_sd, round_sd),
            run(2 * seed + 1, repeats, 0.0, 2.0 * trial_sd, round_sd),
        );
        overall(&a, &b).verdict(0.95) != RunVerdict::NoDifference
    };
    (0..1000).filter(is_alarm).count()
}

#[test]
fn intervals_have_their_coverage_also_where_rounds_are_shared() {
    for (repeats, trial_sd, round_sd, most) in
        [(1, 0.05, 0.0, 70), (3, 0.05, 0.0, 70), (6, 0.05, 0.0, 70), (6, 0.05, 0.1, 120)]
    {
        let alarms = false_alarms(repeats, trial_sd, round_sd);
        assert!(alarms <= most, "{repeats} {trial_sd} {round_sd}: {alarms}");
        assert!(alarms >= 10 || round_sd == 0.0, "the interval is not far too wide: {alarms}");
    }
}

/// Setups that a search left after one short trial are compared with the noise of short trials,
/// whatever repeats of full-length trials say.
#[test]
fn short_trials_are_not_judged_by_the_noise_of_full_ones() {
    let run = |seed: u64| {
        let mut random = SplitMix64::new(seed);
        let mut cells = RunCells::new();
        let mut add = |option: &str, is_short: bool, sd: f64, trials: u32| {
            let cell = ComparedCell { is_short, ..key("database", option) };
            for number in 0..trials {
                let round = Round { purpose: TrialPurpose::Search, number };
                let log = sd * normal(&mut random);
                cells.entry(cell.clone()).or_default().push(CellSample { log, round });
            }
        };
        add("best", false, 0.02, 20);
        add("baseline", true, 0.1, 4);
        for option in ["a", "b", "c", "d", "e", "f", "g", "h"] {
            add(option, true, 0.1, 1);
        }
        cells
    };
    let mut alarms = 0;
    for seed in 0..200 {
        let (a, b) = (run(2 * seed), run(2 * seed + 1));
        for option in ["a", "b", "c", "d", "e", "f", "g", "h"] {
            let of = |cell: &ComparedCell| cell.setup == key("database", option).setup;
            let found = difference(&a, &b, of, |_| 1.0).unwrap();
            alarms += usize::from(found.is_surely_worse_by(0.0, STEADY, 0.05));
        }
    }
    assert!((10..130).contains(&alarms), "{alarms} of 1600 at 5 %");
}

#[test]
fn measured_once_has_no_interval_and_proves_nothing() {
    let mut a = run(1, 1, 0.0, 0.01, 0.0);
    let mut b = run(2, 1, -1.0, 0.01, 0.0);
    for cells in [&mut a, &mut b] {
        cells.retain(|cell, _| *cell == key("database", "a"));
    }
    let found = overall(&a, &b);
    assert_eq!((found.error, found.verdict(0.95)), (None, RunVerdict::Unknown));
    assert!(!found.is_surely_worse_by(0.0, STEADY, 0.05));
    let other = RunCells::from([(key("database", "other"), a[&key("database", "a")].clone())]);
    assert!(difference(&a, &other, |_| true, |_| 1.0).is_none());
}

#[test]
fn a_workload_without_weight_does_not_count() {
    let a = run(1, 3, 0.0, 0.01, 0.0);
    let mut b = run(1, 3, 0.0, 0.01, 0.0);
    for (cell, samples) in &mut b {
        let shift = if cell.workload == "database" { -1.0 } else { 0.0 };
        samples.iter_mut().for_each(|sample| sample.log += shift);
    }
    let of = |database: f64| {
        let weight = move |name: &str| if name == "database" { database } else { 1.0 };
        difference(&a, &b, |_| true, weight).unwrap().log
    };
    assert!(of(0.0).abs() < 1e-9 && (of(1.0) + 0.5).abs() < 1e-9 && (of(3.0) + 0.75).abs() < 1e-9);
}
