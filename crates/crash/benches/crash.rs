//! Writes the figures of `docs/crash.md` to standard output (`make crash-benchmark`).
//!
//! `FLASHFIT_CRASH_STATES` scales it: honest states of ext4; 1,000,000 by default.
//! `FLASHFIT_CRASH_ONLY` writes one section alone: `honest`, `rates`, `faults` or `cards`; or of
//! the cards the rows of the class that it names.

#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a benchmark prints its figures")]

#[expect(dead_code, reason = "the other benchmark has further columns")]
mod support;

use flashfit_card::EnabledFault;
use flashfit_crash::CrashError;
use flashfit_crash::campaign::{CampaignPlan, CardPlan, FaultCounts};
use flashfit_crash::state::FlushFault;
use flashfit_filesystem::Promise;
use support::{Bench, Measured, WORKERS, kernel_here, number, plan};

/// Seeds that the oracles were not made with.
const SEED: u64 = 880_000;
/// As many as a fault may take to be noticed.
const CAUGHT_WITHIN: u64 = 300;
/// How often a fault of a card is to happen, and how many power cuts it may take.
const HAPPENED: u64 = 100;
const MOST_CUTS: u64 = 6000;
const HONEST: FlushFault = FlushFault::None;

fn main() {
    // Cargo's test runner starts benchmarks too.
    if std::env::args().any(|argument| argument == "--test" || argument == "--list") {
        return;
    }
    let states = number("FLASHFIT_CRASH_STATES", 1_000_000);
    let bench = match Bench::take() {
        Ok(bench) => bench,
        Err(error) => {
            eprintln!("crash-benchmark: {error}; run it as root");
            std::process::exit(4);
        }
    };
    if let Ok(only) = std::env::var("FLASHFIT_CRASH_ONLY") {
        return match only.as_str() {
            "honest" => honest(&bench, states),
            "rates" => rates(&bench, rate_states(states)),
            "faults" => faults(&bench),
            "cards" => card_faults(&bench, None),
            class => card_faults(&bench, Some(class)),
        };
    }
    println!("# Crash states: figures\n");
    println!(
        "Written by `FLASHFIT_CRASH_STATES={states} make crash-benchmark` on Linux {}, with {WORKERS} \
         workers. [Power loss](power-loss.md) explains the words. Seeds from {SEED} on were not used \
         while the oracles were written. Rates include recording, and are lower bounds if the \
         machine had other work.\n",
        kernel_here()
    );
    honest(&bench, states);
    rates(&bench, rate_states(states));
    faults(&bench);
    card_faults(&bench, None);
}

/// For a rate: of as many as one setup is given, some.
fn rate_states(states: u64) -> u64 {
    (states / 4).min(20_000)
}

/// What faulty cards do, and who notices; of one class, if one is named.
fn card_faults(bench: &Bench, only: Option<&str>) {
    println!("\n## Faulty cards\n");
    println!(
        "Power cuts of simulated cards, until the fault has happened {HAPPENED} times or {MOST_CUTS} \
         power cuts were made. A promise was broken in those that were noticed; the oracles are \
         those that found a violation in them, promised or not. `lost-cache` and `torn-write` are \
         what correct cards do: what is noticed there is the file system's own.\n"
    );
    println!("| fault | card | setup | workload | power cuts | happened | noticed | oracles |");
    println!("|---|---|---|---|--:|--:|--:|---|");
    for (fault, card, label, workload) in [
        ("lost-cache", "usd-a2-cq", "ext4", "files"),
        ("torn-write", "usd-a1-pagemap", "ext4", "files"),
        ("torn-write", "usd-a1-pagemap", "xfs", "files"),
        ("torn-write", "usd-a1-pagemap", "btrfs", "files"),
        ("torn-sector", "usd-a1-pagemap", "ext4", "files"),
        ("torn-sector", "usd-a1-pagemap", "xfs", "files"),
        ("torn-sector", "usd-a1-pagemap", "btrfs", "files"),
        ("paired-page", "usd-a1-pagemap", "ext4", "files"),
        ("paired-page", "usd-a1-pagemap", "btrfs", "files"),
        ("rollback=50", "usd-a2-cq", "ext4", "files"),
        ("rollback=50", "usd-a2-cq", "xfs", "files"),
        ("rollback=50", "usd-a2-cq", "btrfs", "files"),
        ("rollback=50", "usd-a2-cq", "ext4", "sqlite:wal-full"),
        ("half-merge", "sd-c4-block", "ext4", "files"),
        ("half-merge", "sd-c10-linear", "ext4", "files"),
        ("folding-window", "usd-a2-cq", "ext4", "files"),
        ("weak-page", "usd-a1-pagemap", "ext4", "files"),
        ("weak-page=0", "usd-a1-pagemap", "ext4", "files"),
        ("stale-discard", "usd-a2-cq", "ext4:discard", "files"),
        ("stale-discard", "usd-a2-cq", "btrfs:discard", "files"),
        ("brick", "usd-a2-cq", "ext4", "files"),
    ] {
        if only.is_none_or(|only| fault.starts_with(only)) {
            card_fault(bench, fault, card, label, workload);
        }
    }
}

/// Power cuts of a simulated card with a fault.
fn run_card(
    bench: &Bench,
    label: &str,
    workload: &str,
    seed: u64,
    card: CardPlan,
) -> Result<Measured, CrashError> {
    let setup = bench.setup(label)?;
    let plan = plan(&setup, workload, seed, CAUGHT_WITHIN, HONEST);
    bench.run_plan(&CampaignPlan { card: Some(card), ..plan }, setup, true)
}

fn card_fault(bench: &Bench, fault: &str, card: &str, label: &str, workload: &str) {
    let enabled: EnabledFault = fault.parse().expect("a fault of cards");
    let model = flashfit_card::catalog::load(card, None).expect("a card of the catalog");
    let (mut cuts, mut counts) = (0, FaultCounts::default());
    for round in 0.. {
        let plan = CardPlan { model: model.clone(), faults: vec![enabled] };
        let seed = SEED + 3000 + round;
        match run_card(bench, label, workload, seed, plan) {
            Err(error) => {
                let why = error.to_string();
                println!("| {fault} | {card} | {label} | {workload} | not run: {why} | | | |");
                return;
            }
            Ok(Measured { result, .. }) => {
                cuts += result.counts.states;
                if let Some(found) = result.counts.faults.get(&enabled.class) {
                    counts.add(found);
                }
            }
        }
        if counts.happened >= HAPPENED || cuts >= MOST_CUTS {
            break;
        }
    }
    let by: Vec<String> =
        counts.by_oracle.iter().map(|(oracle, n)| format!("{} {n}", oracle.name())).collect();
    let by = if by.is_empty() { "-".to_owned() } else { by.join(", ") };
    println!(
        "| {fault} | {card} | {label} | {workload} | {cuts} | {} | {} | {by} |",
        counts.happened, counts.noticed
    );
}

fn honest(bench: &Bench, states: u64) {
    println!("## Honest devices\n");
    println!(
        "States of a device that keeps its promises, and those in which a promise was broken.\n"
    );
    println!(
        "| setup | workload | logs | states | mounted | same bytes | same reads | rechecked | of these different | broken | at most (95 %) |"
    );
    println!("|---|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|");
    let tenth = (states / 10).max(100);
    for (label, workload, states) in [
        ("ext4", "files", states),
        ("ext4", "metadata", tenth),
        ("ext4", "sqlite:wal-full", tenth / 5),
        ("ext4", "sqlite:delete-extra", tenth / 5),
        ("xfs", "files", tenth),
        ("xfs", "metadata", tenth / 5),
        ("btrfs", "files", tenth),
        ("btrfs", "metadata", tenth / 5),
    ] {
        row(bench, label, workload, states.max(100));
    }
    println!("\nA broken promise of btrfs is explained in [power loss](power-loss.md).\n");
}

fn row(bench: &Bench, label: &str, workload: &str, states: u64) {
    match bench.run(label, workload, SEED, states, (HONEST, false)) {
        Err(error) => println!("| {label} | {workload} | not run: {error} |"),
        Ok(Measured { result, .. }) => {
            let counts = &result.counts;
            println!(
                "| {label} | {workload} | {} | {} | {} | {} | {} | {} | {} | {} | {:.4} % |",
                result.rounds,
                counts.states,
                counts.mounted,
                counts.same_bytes,
                counts.same_reads,
                counts.rechecked,
                counts.mismatched,
                counts.broken,
                result.upper_bound() * 100.0
            );
        }
    }
}

fn rates(bench: &Bench, states: u64) {
    println!("## Rates\n");
    println!("States an hour: mount, read everything, write and sync a file, unmount, fsck.\n");
    println!("| setup | every state mounted | with equivalence |");
    println!("|---|--:|--:|");
    for label in ["ext4", "xfs", "btrfs"] {
        let all = bench.run(label, "files", SEED + 1000, (states / 5).max(100), (HONEST, true));
        let some = bench.run(label, "files", SEED + 1000, states, (HONEST, false));
        match (all, some) {
            (Ok(all), Ok(some)) => println!("| {label} | {} | {} |", all.per_hour, some.per_hour),
            (Err(error), _) | (_, Err(error)) => println!("| {label} | not run: {error} | |"),
        }
    }
    println!("\nCrashMonkey (OSDI 2018) checked about 1,640 workloads an hour on one machine.\n");
}

fn faults(bench: &Bench) {
    println!("## What is noticed\n");
    println!("Broken states among {CAUGHT_WITHIN} or a few more.\n");
    println!("| fault | setup | workload | promise | states | broken |");
    println!("|---|---|---|---|--:|--:|");
    let (one, all) = (FlushFault::One, FlushFault::All);
    for (fault, label, workload, flushes, promise) in [
        ("a flush ignored once", "ext4", "files", one, Promise::Synced),
        ("a flush ignored once", "btrfs", "files", one, Promise::Synced),
        ("all flushes ignored", "ext4", "files", all, Promise::Synced),
        ("all flushes ignored", "ext4", "sqlite:wal-full", all, Promise::Synced),
        ("all flushes ignored", "ext4", "sqlite:delete-extra", all, Promise::Synced),
        ("barrier=0", "ext4:nobarrier", "files", HONEST, Promise::Synced),
        ("nobarrier", "btrfs:nobarrier", "files", HONEST, Promise::Synced),
        ("data=writeback", "ext4:writeback+nodelalloc", "files", HONEST, Promise::OwnData),
        ("noauto_da_alloc", "ext4:noauto_da_alloc", "files", HONEST, Promise::ReplaceNotEmpty),
        ("no journal, no fsck", "ext4:nojournal", "files", HONEST, Promise::Consistent),
        ("replace without fsync", "btrfs", "files", HONEST, Promise::ReplaceNotEmpty),
    ] {
        match bench.run(label, workload, SEED + 2000, CAUGHT_WITHIN, (flushes, false)) {
            Err(error) => {
                println!("| {fault} | {label} | {workload} | {promise} | not run: {error} | |")
            }
            Ok(Measured { result, .. }) => {
                let broken = result.counts.by_promise.get(&promise).copied().unwrap_or(0);
                let states = result.counts.states;
                println!("| {fault} | {label} | {workload} | {promise} | {states} | {broken} |");
            }
        }
    }
}
