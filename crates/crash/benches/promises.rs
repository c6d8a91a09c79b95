//! Measures what the catalog says of every file system and option (`make crash-catalog`), and
//! writes `docs/crash-catalog.md` to standard output.
//!
//! `FLASHFIT_CRASH_STATES` is the number of states for each setup and workload; 2000 by default,
//! and a tenth of it in a virtual machine, for file systems that this kernel lacks.
//! `FLASHFIT_CRASH_ONLY` names setups, separated by commas, whose rows alone are written.

#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a benchmark prints its figures")]

mod support;

use std::collections::BTreeMap;

use flashfit_crash::CrashError;
use flashfit_crash::state::FlushFault;
use flashfit_filesystem::{Durability, FileSystem, Promise};
use support::{Bench, Measured, kernel_here, number};

const SEED: u64 = 880_000;
const WORKLOADS: [&str; 2] = ["files", "metadata"];

fn main() {
    // Cargo's test runner starts benchmarks too.
    if std::env::args().any(|argument| argument == "--test" || argument == "--list") {
        return;
    }
    let states = number("FLASHFIT_CRASH_STATES", 2000);
    let only = std::env::var("FLASHFIT_CRASH_ONLY").ok();
    let is_wanted = |label: &str| {
        only.as_ref().is_none_or(|only| only.split(',').any(|wanted| wanted == label))
    };
    let bench = match Bench::take() {
        Ok(bench) => bench,
        Err(error) => {
            eprintln!("crash-catalog: {error}; run it as root");
            std::process::exit(4);
        }
    };
    println!("# Promises of the catalog, measured\n");
    println!(
        "Written by `FLASHFIT_CRASH_STATES={states} make crash-catalog` on Linux {}: states with a \
         broken promise, for each workload ({}). File systems that this kernel lacks were mounted by \
         that of a virtual machine. [Power loss](power-loss.md) explains the words.\n",
        kernel_here(),
        WORKLOADS.join(", ")
    );
    println!("| setup | Linux | catalog | states | broken | withdrawn | verdict |");
    println!("|---|---|---|--:|---|---|---|");
    for filesystem in bench.catalog.filesystems() {
        let Ok(setup) = bench.setup(&filesystem.name) else { continue };
        let states = if bench.is_here(&setup) { states } else { states.div_ceil(10) };
        if is_wanted(&filesystem.name) {
            row(&bench, filesystem, None, states);
        }
        for option in &filesystem.options {
            // Options of the machine do not change what is written.
            let is_machine = option.mount.is_empty() && option.mkfs.is_empty();
            let is_wanted = is_wanted(&format!("{}:{}", filesystem.name, option.name));
            if is_wanted && (!is_machine || !option.mkfs_if_known.is_empty()) {
                row(&bench, filesystem, Some(&option.name), states);
            }
        }
    }
}

fn row(bench: &Bench, filesystem: &FileSystem, option: Option<&str>, states: u64) {
    let label = match option {
        None => filesystem.name.clone(),
        Some(option) => format!("{}:{option}", filesystem.name),
    };
    let rating = option.map_or(filesystem.durability, |name| {
        filesystem.option(name).expect("its own option").durability
    });
    let mut broken: BTreeMap<Promise, u64> = BTreeMap::new();
    let (mut checked, mut release) = (0, String::new());
    let mut withdrawn = filesystem.withdrawn_by(&[option.unwrap_or_default()]);
    withdrawn.retain(|promise| filesystem.promises.keeps.contains(promise));
    for workload in WORKLOADS {
        let Measured { result, kernel, .. } =
            match bench.run(&label, workload, SEED, states, (FlushFault::None, false)) {
                Ok(measured) => {
                    eprintln!("{label} {workload}: {} states an hour", measured.per_hour);
                    measured
                }
                Err(error) => {
                    let why = why(&error);
                    return println!("| {label} | | {rating} | | | | not run: {why} |");
                }
            };
        checked += result.counts.states;
        release = kernel;
        for (promise, count) in &result.counts.by_promise {
            if filesystem.promises.keeps.contains(promise) {
                *broken.entry(*promise).or_default() += count;
            }
        }
    }
    let exceptions = &filesystem.promises.exceptions;
    let is_named = |promise| withdrawn.contains(promise) || exceptions.contains(promise);
    let unexpected = broken.keys().any(|promise| !is_named(promise));
    let is_shown = broken.keys().any(|promise| withdrawn.contains(promise));
    let verdict = match (unexpected, withdrawn.is_empty(), is_shown) {
        (true, ..) => "breaks more than the catalog says",
        (false, true, _) if !broken.is_empty() => "breaks only promises that have exceptions",
        (false, true, _) if rating == Durability::Safe => "as promised",
        (false, true, _) => "as promised; its risk is none of the promises",
        (false, false, true) => "as the catalog says",
        (false, false, false) => "not shown",
    };
    let list = |promises: Vec<String>| {
        if promises.is_empty() { "-".to_owned() } else { promises.join(", ") }
    };
    let shown = list(broken.iter().map(|(promise, count)| format!("{promise} {count}")).collect());
    let withdrawn = list(withdrawn.iter().map(Promise::to_string).collect());
    let row = [label, release, rating.to_string(), checked.to_string(), shown, withdrawn];
    println!("| {} | {verdict} |", row.join(" | "));
}

/// The reason in a cell of a table.
fn why(error: &CrashError) -> String {
    error.to_string().lines().next().unwrap_or_default().replace('|', "/")
}
