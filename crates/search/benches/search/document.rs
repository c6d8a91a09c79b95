//! Writes the benchmark document: tables with counts and intervals.

use flashfit_search::landscape::LandscapeKind;

use super::campaign::{Case, SearchResult, StepTimes, StrategyKind, Subject};

const HEAD: &str = "\
# Search quality

Written by `make search-benchmark`; do not edit. The tables before *Recorded grids* use simulated
landscapes (`crates/search/src/landscape`) with a known best setup; no device was measured. The
first four resemble those in studies of tuning methods: four file systems with conditional options
under four schedulers (3,264 setups), and eight workloads. A trial has a noise of 5 to 15 %
(standard deviation, by workload; normal, or Student's t with 3 degrees of freedom). In addition,
3 % of the trials are 20 to 70 % slower, and all trials of a setup in one batch share 2 %. A short
trial costs 0.4 of a full-length one, has 1.67 times the noise, and a bias of 2 % per option and 1
% per setup.
";

/// Writes to standard output; `runs` is the number of seeds and of concurrent searches.
#[expect(clippy::print_stdout, reason = "the document is this program's output")]
pub fn write(
    cases: &[Case],
    results: &[Vec<SearchResult>],
    step_times: Option<StepTimes>,
    plays: (usize, usize),
) {
    let (seeds, threads) = plays;
    let all: Vec<(&Case, &Vec<SearchResult>)> = cases.iter().zip(results).collect();
    let of = |kinds: &[LandscapeKind]| -> Vec<(&Case, &Vec<SearchResult>)> {
        let wanted = |subject| matches!(subject, Subject::Kind(kind) if kinds.contains(&kind));
        all.iter().copied().filter(|(case, _)| wanted(case.subject)).collect()
    };
    let with = |wanted: fn(Subject) -> bool| -> Vec<(&Case, &Vec<SearchResult>)> {
        all.iter().copied().filter(|(case, _)| wanted(case.subject)).collect()
    };
    println!("{HEAD}");
    println!(
        "\"Within\" is the share of {seeds} seeds whose recommended setup is this close to the best, with a 95 % Wilson interval. The recommended setup is the baseline unless a gain over it was shown or is likely (docs/tuning.md). *Regret* is how far it is below the best, and *choice* how far the best setup according to the search is. The other strategies confirm nothing here, so both are the choice. *Spent* counts trials; a short trial counts as a fraction.\n"
    );
    println!("## Large spaces\n");
    table(&of(&[
        LandscapeKind::Smooth,
        LandscapeKind::SmoothGauss,
        LandscapeKind::Rugged,
        LandscapeKind::RuggedGauss,
    ]));
    println!("\n## Harder and smaller spaces\n");
    println!(
        "`trap`: two options that are good together and bad alone. `drift`: 15 % slower over a thousand trials.\n`failing`: one setup in ten fails. `one-effect`: one option that gains 25 %. \
         `small`: 120 setups,\n6 very different workloads. `grid`: 112 setups, 11 workloads, \
         noise of 3 to 10 %, similar to the recorded grids. `tiny`: 12 setups, 1 workload.\n"
    );
    let harder = [
        LandscapeKind::Trap,
        LandscapeKind::Drift,
        LandscapeKind::Failing,
        LandscapeKind::OneEffect,
    ];
    table(&of(
        &[&harder[..], &[LandscapeKind::Small, LandscapeKind::Grid, LandscapeKind::Tiny]].concat()
    ));
    println!("\n## Small spaces\n");
    println!(
        "Two setups that differ by 3, 5 or 8 % with a noise of 10 %, and 2 to 48 setups with random \
         effects\nand a noise of 3 to 12 %. *Sure* counts the searches that stopped because they were \
         confident, and\n*right* those of them whose recommended setup is within 2 % of the best.\n"
    );
    let small = with(|subject| {
        let pair = matches!(subject, Subject::Pair { .. });
        pair || matches!(subject, Subject::Space { .. } | Subject::OneNoisyWorkload)
    });
    println!(
        "| space | budget | spent, median | sure | right | regret %, median / 90 % | within 2 % |"
    );
    println!("|---|---|---|---|---|---|---|");
    for (case, results) in &small {
        let sure: Vec<&SearchResult> = results.iter().filter(|one| one.confident).collect();
        let right = sure.iter().filter(|one| one.regret <= 0.02).count();
        let regrets: Vec<f64> = results.iter().map(|one| 100.0 * one.regret).collect();
        let near = results.iter().filter(|one| one.regret <= 0.02).count();
        println!(
            "| {} | {} | {:.0} | {} | {} | {:.1} / {:.1} | {} |",
            case.subject.name(),
            budget(case),
            quantile(results.iter().map(|one| one.spent).collect(), 0.5),
            sure.len(),
            share(right, sure.len()),
            quantile(regrets.clone(), 0.5),
            quantile(regrets, 0.9),
            share(near, results.len())
        );
    }
    println!("\n## Tables with one objective\n");
    println!(
        "100 to 1,000 setups like published configuration tables, one objective, a noise of 3 %; see\n\
         `crates/search/src/landscape/tables.rs`. The Gaussian process has a Hamming kernel and\nexpected \
         improvement, and spends nothing on confirming.\n"
    );
    table(&with(|subject| matches!(subject, Subject::Table(_))));
    println!("\n## No difference\n");
    println!(
        "All setups are equal. The table shows how often a gain over the baseline is claimed, and how\n\
         often a setup is recommended because a gain is likely that is not shown.\n"
    );
    println!("| landscape | trials | of | claimed | likely |\n|---|---|---|---|---|");
    for (case, results) in of(&[LandscapeKind::Flat, LandscapeKind::TinyFlat]) {
        let claimed = results.iter().filter(|one| one.claims).count();
        println!(
            "| {} | {} | {} | {} | {} |",
            case.subject.name(),
            budget(case),
            results.len(),
            share(claimed, results.len()),
            share(results.iter().filter(|one| one.likely.is_some()).count(), results.len())
        );
    }
    println!("\n## Calibration\n");
    let adaptive: Vec<&SearchResult> = all
        .iter()
        .filter(|(case, _)| case.strategy == StrategyKind::Adaptive)
        .flat_map(|(_, results)| results.iter())
        .collect();
    let differing: Vec<&SearchResult> = all
        .iter()
        .filter(|(case, _)| {
            case.strategy == StrategyKind::Adaptive
                && !matches!(
                    case.subject,
                    Subject::Kind(LandscapeKind::Flat | LandscapeKind::TinyFlat)
                )
        })
        .flat_map(|(_, results)| results.iter())
        .collect();
    let confident: Vec<&&SearchResult> = differing.iter().filter(|one| one.confident).collect();
    let right = confident.iter().filter(|one| one.regret <= 0.02).count();
    println!(
        "Of {} adaptive searches above with differing setups, {} stopped because they were confident \
         (\"within\n2 % with 90 %\"); {right} of these were right: {}.",
        differing.len(),
        confident.len(),
        share(right, confident.len())
    );
    let covered: Vec<bool> = adaptive.iter().filter_map(|one| one.covered).collect();
    let inside = covered.iter().filter(|covered| **covered).count();
    let likely: Vec<f64> = differing.iter().filter_map(|one| one.likely).collect();
    println!(
        "{} of these searches recommended a setup because a gain over the baseline was likely, although\n\
         fresh trials did not show it. The setup is better in {}; its true gain is {} at the median.",
        likely.len(),
        share(likely.iter().filter(|gain| **gain > 0.0).count(), likely.len()),
        match likely.is_empty() {
            true => "unknown".to_owned(),
            false => format!("{:.0} %", 100.0 * quantile(likely, 0.5).exp_m1()),
        }
    );
    println!(
        "Of {} gains with a 95 % interval, {inside} contained the true gain: {}.\n",
        covered.len(),
        share(inside, covered.len())
    );
    println!(
        "How often searches with a budget stopped because they were confident, and how often they were right:\n"
    );
    println!("| landscape | budget | searches | sure | right |\n|---|---|---|---|---|");
    for (case, results) in &all {
        let is_flat =
            matches!(case.subject, Subject::Kind(LandscapeKind::Flat | LandscapeKind::TinyFlat));
        if case.strategy != StrategyKind::Adaptive || is_flat {
            continue;
        }
        let sure: Vec<&SearchResult> = results.iter().filter(|one| one.confident).collect();
        let right = sure.iter().filter(|one| one.regret <= 0.02).count();
        let (name, count) = (case.subject.label(), sure.len());
        println!(
            "| {name} | {} | {} | {count} | {right}: {} |",
            budget(case),
            results.len(),
            share(right, count)
        );
    }
    let Some(step_times) = step_times else { return };
    println!("\n## Computing time\n");
    println!(
        "On this machine, with 3,264 setups under 8 workloads and up to {} trials, a step took {} ms (median) and {} ms at most{}.",
        step_times.trials,
        step_times.median_ms,
        step_times.longest_ms,
        step_times.memory_kib.map_or(String::new(), |kib| format!(
            "; the benchmark with {threads} searches at a time used {} MiB at most",
            kib / 1024
        ))
    );
}

#[expect(clippy::print_stdout, reason = "the document is this program's output")]
fn table(rows: &[(&Case, &Vec<SearchResult>)]) {
    println!(
        "| landscape | strategy | budget | spent, median | regret %, median / 90 % | choice %, median / 90 % | within 2 % | within 5 % |"
    );
    println!("|---|---|---|---|---|---|---|---|");
    for (case, results) in rows {
        let regrets: Vec<f64> = results.iter().map(|one| 100.0 * one.regret).collect();
        let choices: Vec<f64> = results.iter().map(|one| 100.0 * one.regret_of_choice).collect();
        let spent: Vec<f64> = results.iter().map(|one| one.spent).collect();
        let within = |most: f64| {
            share(results.iter().filter(|one| one.regret <= most).count(), results.len())
        };
        println!(
            "| {} | {} | {} | {:.0} | {:.1} / {:.1} | {:.1} / {:.1} | {} | {} |",
            case.subject.name(),
            case.strategy.name(),
            budget(case),
            quantile(spent, 0.5),
            quantile(regrets.clone(), 0.5),
            quantile(regrets, 0.9),
            quantile(choices.clone(), 0.5),
            quantile(choices, 0.9),
            within(0.02),
            within(0.05)
        );
    }
}

fn budget(case: &Case) -> String {
    case.trials.map_or("none".to_owned(), |trials| format!("{trials:.0}"))
}

fn quantile(mut values: Vec<f64>, share: f64) -> f64 {
    values.sort_by(f64::total_cmp);
    let at = (share * values.len() as f64).ceil() as usize;
    values[at.clamp(1, values.len()) - 1]
}

/// A share with its 95 % Wilson interval.
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
