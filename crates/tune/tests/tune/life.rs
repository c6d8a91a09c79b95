//! Years of setups, and the constraint on them.

use flashfit_filesystem::Setup;
use flashfit_test_support::tempdir_in_memory;
use flashfit_testbed::BytesWritten;
use flashfit_tune::compare::ComparedRun;
use flashfit_tune::life::{EstimatedLife, GivenLife, LifeBasis, SetupLife, UnknownLife};
use flashfit_tune::{Conclusion, RunDir, RunLife, RunSpec, Space, TrialPurpose, TrialRecord};

use crate::support::{SpaceOf, header, measured, opt, setup, spec};

const WORKLOADS: [&str; 2] = ["r", "w"];

fn space() -> Space {
    SpaceOf::filesystem("x", &[opt("a"), opt("b")]).and("y", &[opt("a")]).and("z", &[]).build()
}

fn estimated(filesystem: &str, years: [u64; 3]) -> EstimatedLife {
    EstimatedLife {
        filesystem: filesystem.to_owned(),
        options: Vec::new(),
        years_thousandths: years.map(|years| years * 1000),
        limit: "most worn block past its rating".to_owned(),
    }
}

/// Default x lasts 4 to 9 years, default y 1 to 4; there is no trace of z.
fn with_life(min_years: Option<u32>) -> RunSpec {
    let life = RunLife {
        usage: "kiosk".to_owned(),
        gib_a_day_thousandths: 2000,
        device: "a card".to_owned(),
        rated_cycles: 3000,
        given: GivenLife {
            min_years_thousandths: min_years.map(|years| years * 1000),
            ..GivenLife::default()
        },
        setups: vec![estimated("x", [4, 6, 9]), estimated("y", [1, 2, 4])],
        unknown: vec![UnknownLife { filesystem: "z".to_owned(), reason: "no trace".to_owned() }],
    };
    RunSpec { life: Some(life), ..spec(&space(), &WORKLOADS) }
}

/// Trials in which the device was sent `cost` times as much as programs wrote.
fn trials(purpose: TrialPurpose, label: &str, rate: u64, cost: f64) -> Vec<TrialRecord> {
    let setup = setup(&space(), label);
    let of = |workload: &'static str, repeat: u32| {
        let mut trial = measured(purpose, &setup, workload, repeat, rate + u64::from(repeat));
        let workload_bytes = (rate as f64 * 1024.0 * cost) as u64;
        trial.written = Some(BytesWritten { trial_bytes: 0, workload_bytes });
        trial
    };
    (0..4).flat_map(|repeat| WORKLOADS.map(|workload| of(workload, repeat))).collect()
}

/// `x a` halves what is written, `x b` is the fastest and doubles it.
fn searched(purpose: TrialPurpose) -> Vec<TrialRecord> {
    [("x base none", 1000, 1.0), ("x a none", 1500, 0.5), ("x b none", 2000, 2.0)]
        .map(|(label, rate, cost)| trials(purpose, label, rate, cost))
        .concat()
}

fn all() -> Vec<TrialRecord> {
    let other = [("y base none", 800), ("y a none", 850), ("z base none", 900)]
        .map(|(label, rate)| trials(TrialPurpose::Search, label, rate, 1.0));
    [searched(TrialPurpose::Search), other.concat(), searched(TrialPurpose::Confirm)].concat()
}

fn conclusion(min_years: Option<u32>) -> Conclusion {
    Conclusion::of_run(&space(), &with_life(min_years), &all()).unwrap()
}

fn life<'a>(found: &'a Conclusion, label: &str) -> &'a SetupLife {
    let of: Setup = setup(&space(), label);
    found.lives.as_ref().unwrap().life(found.problem.candidate(&of).unwrap())
}

#[test]
fn years_follow_from_traces_and_from_the_ratio_of_costs() {
    let found = conclusion(None);
    let known = |label: &str| match life(&found, label) {
        SetupLife::Known { years, basis, .. } => (*years, *basis),
        SetupLife::Unknown(reason) => panic!("{label}: {reason}"),
    };
    let (default, basis) = known("x base none");
    assert_eq!((default.low, default.median, basis), (4.0, 6.0, LifeBasis::Recorded));
    let (halved, basis) = known("x a none");
    assert_eq!(basis, LifeBasis::Trials);
    assert!((halved.median - 12.0).abs() < 0.1, "{halved:?}");
    assert!(halved.high / halved.low > 9.0 / 4.0, "the ratio is not known exactly");
    assert!((known("x b none").0.median - 3.0).abs() < 0.1);
    assert_eq!(known("y a none").1, LifeBasis::Trials);
    // The kernel alone counted: how y writes may matter to the card.
    let SetupLife::Unknown(reason) = life(&found, "z base none") else { panic!() };
    assert_eq!(reason, "no trace");
    let SetupLife::Unknown(reason) = life(&found, "x a+b none") else { panic!() };
    assert!(reason.contains("not measured"), "{reason}");
}

#[test]
fn counters_of_the_card_allow_a_comparison_with_another_file_system() {
    let mut trials = all();
    for trial in &mut trials {
        let nand_programmed_bytes = trial.written.unwrap().workload_bytes * 3;
        trial.counters = Some(flashfit_card::Counters {
            nand_programmed_bytes,
            ..flashfit_card::Counters::default()
        });
    }
    let found = Conclusion::of_run(&space(), &with_life(None), &trials).unwrap();
    let SetupLife::Known { years, basis, .. } = life(&found, "z base none") else { panic!() };
    assert_eq!(*basis, LifeBasis::OtherFileSystem);
    assert!((years.median - 6.0).abs() < 0.1 && years.high / years.low > 3.0, "{years:?}");
}

#[test]
fn a_setup_must_be_shown_to_last() {
    let label = |found: &Conclusion| found.recommendation.as_ref().map(|r| r.winner.label());
    assert_eq!(label(&conclusion(None)).as_deref(), Some("x b none"));
    let found = conclusion(Some(7));
    assert_eq!(label(&found).as_deref(), Some("x a none"), "x b is faster, but too short-lived");
    // Default x lasts 4 to 9 years.
    let recommended = found.recommendation.unwrap();
    assert!(!recommended.baseline_is_allowed && !recommended.baseline_violates);
    let mut spec = with_life(Some(7));
    spec.life.as_mut().unwrap().setups[0] = estimated("x", [4, 5, 6]);
    spec.life
        .as_mut()
        .unwrap()
        .setups
        .push(EstimatedLife { options: vec!["a".into()], ..estimated("x", [8, 9, 10]) });
    let recommended = Conclusion::of_run(&space(), &spec, &all()).unwrap().recommendation.unwrap();
    assert!(!recommended.baseline_is_allowed && recommended.baseline_violates);
    let mut found = conclusion(Some(50));
    assert!(found.recommendation.is_none() && !found.is_any_shown_to_last());
    let longest = found.longest_lasting().unwrap();
    assert_eq!(found.problem.setups[longest].label(), "x a none");
    // As if it were riskier than the run allows.
    found.choosable[longest] = false;
    assert_ne!(found.longest_lasting(), Some(longest));
}

#[test]
fn setups_without_a_chance_are_not_searched() {
    let found = conclusion(Some(7));
    let excluded = found.lives.as_ref().unwrap().cannot_be_shown();
    let is_out =
        |label: &str| excluded.contains(&found.problem.candidate(&setup(&space(), label)).unwrap());
    // Options can lengthen the life of y by three at most, and x a+b was not measured.
    assert!(is_out("x base none") && is_out("x b none") && is_out("y a none"));
    assert!(!is_out("x a none") && !is_out("x a+b none"));
    // Nothing is known about z, and trials cannot change that.
    assert!(is_out("z base none"));
}

#[test]
fn the_pareto_front_compares_years() {
    let front = |found: &Conclusion| -> Vec<String> {
        let on = found.profiles.iter().filter(|profile| profile.on_front);
        on.map(|profile| profile.setup.label()).collect()
    };
    assert_eq!(front(&conclusion(None)), ["x b none", "x a none"]);
    // A trace says that x a is the worse of the two.
    let mut spec = with_life(None);
    let worse = EstimatedLife { options: vec!["a".into()], ..estimated("x", [1, 2, 3]) };
    spec.life.as_mut().unwrap().setups.push(worse);
    let found = Conclusion::of_run(&space(), &spec, &all()).unwrap();
    assert!(!front(&found).contains(&"x a none".to_owned()), "{:?}", front(&found));
}

/// Batches are shuffled, so the baseline need not be recorded first.
#[test]
fn a_comparison_shows_the_years_of_an_analysis() {
    let mut spec = with_life(None);
    spec.weights_thousandths.insert("w".to_owned(), 9000);
    let mut trials = all();
    trials.reverse();
    for (trial, number) in trials.iter_mut().zip(1u32..) {
        trial.number = number;
        // The two workloads have different ratios between setups.
        let is_cheap = trial.key.workload == "r" && trial.key.setup.label() != "x base none";
        let nand_programmed_bytes =
            trial.written.unwrap().workload_bytes * if is_cheap { 2 } else { 3 };
        trial.counters = Some(flashfit_card::Counters {
            nand_programmed_bytes,
            ..flashfit_card::Counters::default()
        });
    }
    let dir = tempdir_in_memory().unwrap();
    drop(RunDir::create(dir.path(), &header(&space(), &spec)).unwrap());
    let lines = trials.iter().map(|trial| serde_json::to_string(trial).unwrap() + "\n");
    std::fs::write(dir.path().join("trials.jsonl"), lines.collect::<String>()).unwrap();
    let analyzed = Conclusion::of_run(&space(), &spec, &trials).unwrap();
    let compared = ComparedRun::read(dir.path()).unwrap().lives();
    assert_eq!(compared.len(), 6);
    for (setup, found) in compared {
        assert_eq!(found, *life(&analyzed, &setup.label()), "{}", setup.label());
    }
}
