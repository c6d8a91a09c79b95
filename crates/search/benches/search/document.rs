//! The document: what was played, in tables with counts and intervals.

use flashfit_search::landscape::Kind;

use super::campaign::{Case, Played, Thinking, Who};

const HEAD: &str = "\
# How well the search searches

Written by `make search-benchmark`; do not edit. Everything here is of made-up landscapes
(`crates/search/src/landscape`), whose best setup is known; no medium was measured. The first four
are made like those of earlier studies of tuning methods: four file systems with conditional
options under four schedulers (3,264 setups), eight workloads, noise of 5 to 15 % a trial by
workload (that is the standard deviation; normal, or Student's with 3 degrees of freedom), 3 % of
trials slow by 20 to 70 %, 2 % common to a visit. A short trial costs 0.4 of a full-length one, is
1.67 times as noisy, and is biased by 2 % an option and 1 % a setup.
";

/// Writes it to standard output; `plays` is how many seeds there were, and how many searches at a
/// time.
#[expect(clippy::print_stdout, reason = "the document is this program's output")]
pub fn write(cases: &[Case], results: &[Vec<Played>], thinking: &Thinking, plays: (usize, usize)) {
    let (seeds, threads) = plays;
    let all: Vec<(&Case, &Vec<Played>)> = cases.iter().zip(results).collect();
    let of = |kinds: &[Kind]| -> Vec<(&Case, &Vec<Played>)> {
        all.iter().copied().filter(|(case, _)| kinds.contains(&case.kind)).collect()
    };
    println!("{HEAD}");
    println!(
        "\"Within\" is the share of {seeds} seeds whose choice is that near the best, with Wilson's \
         95 %\ninterval. Trials are full-length trials' worth, as spent.\n"
    );
    println!("## Large spaces\n");
    table(&of(&[Kind::Smooth, Kind::SmoothGauss, Kind::Rugged, Kind::RuggedGauss]));
    println!("\n## Harder and smaller ones\n");
    println!(
        "`trap`: two options are good together and bad alone. `drift`: 15 % slower in a thousand \
         trials.\n`failing`: one setup of ten fails. `one-effect`: one option is worth 25 %. \
         `small`: 120 setups,\n6 workloads, which differ much. `grid`: 112 setups, 11 workloads, \
         noise of 3 to 10 %, as\nrecorded grids have. `tiny`: 12 setups, 1 workload.\n"
    );
    let harder = [Kind::Trap, Kind::Drift, Kind::Failing, Kind::OneEffect];
    table(&of(&[&harder[..], &[Kind::Small, Kind::Grid, Kind::Tiny]].concat()));
    println!("\n## No difference\n");
    println!("All setups are equal: how often a gain over the untuned setup is claimed.\n");
    println!("| landscape | trials | claimed | of | share |\n|---|---|---|---|---|");
    for (case, played) in of(&[Kind::Flat, Kind::TinyFlat]) {
        let claimed = played.iter().filter(|one| one.claims).count();
        println!(
            "| {} | {} | {claimed} | {} | {} |",
            case.kind.name(),
            budget(case),
            played.len(),
            share(claimed, played.len())
        );
    }
    println!("\n## Calibration\n");
    let adaptive: Vec<&Played> = all
        .iter()
        .filter(|(case, _)| case.who == Who::Adaptive)
        .flat_map(|(_, played)| played.iter())
        .collect();
    let differing: Vec<&Played> = all
        .iter()
        .filter(|(case, _)| {
            case.who == Who::Adaptive && !matches!(case.kind, Kind::Flat | Kind::TinyFlat)
        })
        .flat_map(|(_, played)| played.iter())
        .collect();
    let sure: Vec<&&Played> = differing.iter().filter(|one| one.sure).collect();
    let right = sure.iter().filter(|one| one.regret <= 0.02).count();
    println!(
        "Of {} adaptive searches above where setups differ, {} stopped because they were sure \
         (\"within\n2 % with 90 %\"); {right} of these were: {}.",
        differing.len(),
        sure.len(),
        share(right, sure.len())
    );
    let covered: Vec<bool> = adaptive.iter().filter_map(|one| one.covered).collect();
    let inside = covered.iter().filter(|covered| **covered).count();
    println!(
        "Of {} gains with a 95 % interval, {inside} had the true gain in it: {}.\n",
        covered.len(),
        share(inside, covered.len())
    );
    println!("## Thinking\n");
    println!(
        "On this machine, 3,264 setups under 8 workloads, to {} trials: a step took {} ms in the \
         median\nand {} ms at the most{}.",
        thinking.trials,
        thinking.median_ms,
        thinking.longest_ms,
        thinking.memory_kib.map_or(String::new(), |kib| format!(
            "; this whole program, {threads} searches at a time, had {} MiB at the most",
            kib / 1024
        ))
    );
}

#[expect(clippy::print_stdout, reason = "the document is this program's output")]
fn table(rows: &[(&Case, &Vec<Played>)]) {
    println!(
        "| landscape | strategy | budget | spent, median | regret %, median / 90 % | within 2 % | within 5 % |"
    );
    println!("|---|---|---|---|---|---|---|");
    for (case, played) in rows {
        let regrets: Vec<f64> = played.iter().map(|one| 100.0 * one.regret).collect();
        let spent: Vec<f64> = played.iter().map(|one| one.spent).collect();
        let within =
            |most: f64| share(played.iter().filter(|one| one.regret <= most).count(), played.len());
        println!(
            "| {} | {} | {} | {:.0} | {:.1} / {:.1} | {} | {} |",
            case.kind.name(),
            case.who.name(),
            budget(case),
            quantile(spent, 0.5),
            quantile(regrets.clone(), 0.5),
            quantile(regrets, 0.9),
            within(0.02),
            within(0.05)
        );
    }
}

fn budget(case: &Case) -> String {
    case.trials.map_or("none".to_owned(), |trials| format!("{trials:.0}"))
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    clippy::cast_sign_loss,
    reason = "places in a list of some hundred"
)]
fn quantile(mut values: Vec<f64>, share: f64) -> f64 {
    values.sort_by(f64::total_cmp);
    let at = (share * values.len() as f64).ceil() as usize;
    values[at.clamp(1, values.len()) - 1]
}

/// A share with Wilson's 95 % interval.
#[expect(clippy::cast_precision_loss, reason = "counts are small")]
fn share(count: usize, of: usize) -> String {
    if of == 0 {
        return "none".to_owned();
    }
    let (p, n, z) = (count as f64 / of as f64, of as f64, 1.96_f64);
    let middle = (p + z * z / (2.0 * n)) / (1.0 + z * z / n);
    let half = z / (1.0 + z * z / n) * (p * (1.0 - p) / n + z * z / (4.0 * n * n)).sqrt();
    let percent = |value: f64| 100.0 * value.clamp(0.0, 1.0);
    format!("{:.0} % [{:.0}, {:.0}]", percent(p), percent(middle - half), percent(middle + half))
}
