//! Rankings of all file systems together, and the matrix of workloads by file systems.

use flashfit_tune::analysis::{growth, matrix, overall};
use flashfit_tune::{Criterion, MeritResults};

use crate::analysis::{labels, search, space};
use crate::support::setup;

#[test]
fn file_systems_are_ranked_together_and_compared_with_the_baseline() {
    let trials = [
        search("x base none", "r", &[1000, 1000, 1000]),
        search("x base none", "w", &[1000, 1000, 1000]),
        search("x a none", "r", &[1200, 1200, 1200]),
        search("x a none", "w", &[800, 800, 800]),
        search("y base none", "r", &[1100, 1100, 1100]),
        search("y base none", "w", &[1500, 1500, 1500]),
    ];
    let workloads = ["r", "w"].map(str::to_owned);
    let results = MeritResults::of(&trials.concat(), &workloads);
    let by = Criterion::Throughput;
    let together = overall(&results, by);
    assert_eq!(labels(&together), ["y base none", "x base none", "x a none"]);
    assert_eq!((together.filesystem.name(), together.workload), (None, None));

    let names = ["x", "y"].map(str::to_owned);
    let best: Vec<(Option<String>, Vec<String>)> = matrix(&results, &names, by)
        .into_iter()
        .map(|(workload, best)| {
            (workload, best.into_iter().map(|best| best.unwrap().setup.label()).collect())
        })
        .collect();
    let row = |workload: Option<&str>, x: &str| {
        (workload.map(str::to_owned), vec![x.to_owned(), "y base none".to_owned()])
    };
    let expected =
        [row(None, "x base none"), row(Some("r"), "x a none"), row(Some("w"), "x base none")];
    assert_eq!(best, expected);

    let [baseline, a] = ["x base none", "x a none"].map(|label| setup(&space(), label));
    let ratio = |workload: Option<&str>, weight_of_r: f64| {
        let weight = |name: &str| if name == "r" { weight_of_r } else { 1.0 };
        growth(&results, (&a, &baseline), workload, by, weight).unwrap().exp()
    };
    let close = |found: f64, wanted: f64| (found - wanted).abs() < 1e-9;
    assert!(close(ratio(Some("r"), 1.0), 1.2) && close(ratio(Some("w"), 1.0), 0.8));
    assert!(close(ratio(None, 1.0), (1.2_f64 * 0.8).sqrt()));
    assert!(close(ratio(None, 3.0), (1.2_f64.powi(3) * 0.8).powf(0.25)));
    let unknown = setup(&space(), "x b none");
    assert_eq!(growth(&results, (&unknown, &baseline), None, by, |_| 1.0), None);
}
