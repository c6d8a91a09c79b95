//! Twins judged by how they rank file systems.
//!
//! Cards are drawn at random, and `probe --write --twin --max-time 10min` fits a twin. Card and
//! twin are then given recorded workloads of file systems, from the same state.
//! Limits: recorded requests come one after the other, so neither the kernel nor queues nor what
//! depends on a file system's size take part.

use std::fmt::Write;

use flashfit_card::{CardModel, InProcessCard};
use flashfit_catalog::entries;
use flashfit_device::{Bytes, Target, VirtualClock};
use flashfit_geometry::probed::NoObserver;
use flashfit_probe::{ProbeRun, ProbeRunOptions, TwinMeasurements};
use flashfit_target::{InspectedTarget, TargetSource};
use flashfit_twin::Twin;
use flashfit_twin::pattern::file::PatternSet;
use flashfit_twin::pattern::{Pattern, PatternPlayer, of_trace};
use flashfit_wear::RecordedTrace;

use super::cards;

const WORKLOADS: [&str; 4] = ["small-files", "database", "logs", "recording"];
/// What a probe has, in nanoseconds.
const PROBE_NS: u64 = 600_000_000_000;
/// How much of a trace is replayed.
const TRACE: Bytes = Bytes::mib(24);
const SIZES: std::ops::RangeInclusive<u64> = 640 << 20..=8 << 30;
/// Two file systems whose times differ by less are as good as each other.
const BEST_WITHIN: f64 = 1.05;
const LEAST_RANK: f64 = 0.8;

/// The section of the document: `count` cards with seeds from `first`.
pub fn section(first: u64, count: usize) -> String {
    let set = PatternSet::load(None).expect("the catalog is checked by tests");
    let entries = entries("traces", "toml", None).expect("the catalog is built in");
    let traces = entries
        .iter()
        .map(|entry| RecordedTrace::parse(entry).expect("the catalog is checked by tests"));
    let traces: Vec<Pattern> = traces.map(|trace| of_trace(&trace, TRACE, 1)).collect();
    let judge = Judge { set, traces };
    let mut text = format!(
        "\n## 13. Twins that rank file systems\n\n{count} cards of {} to {}, with seeds from {first} (simulated). Each is probed for at most {} s, and a twin is fitted to the rates that the probe measured, and to rates and patterns. Card and twin then get the first {TRACE} of what six file systems write under four recorded workloads, of which six of the 24 are among the patterns. A cell is Spearman's rank correlation of the six durations, and by how much the twin's best is slower than the card's best.\n\n| card | twin from | layer | {} | other traces: median ratio, largest |\n|---|---|---|---|---|---|---|---|\n",
        Bytes(*SIZES.start()),
        Bytes(*SIZES.end()),
        PROBE_NS / 1_000_000_000,
        WORKLOADS.join(" | "),
    );
    let (mut both, mut alone) = (Tally::default(), Tally::default());
    let drawn = (first..).map(cards::draw);
    let suitable = drawn.filter(|drawn| SIZES.contains(&drawn.model.capacity.0));
    for drawn in suitable.take(count) {
        let model = &drawn.model;
        let measured = judge.probe(model);
        let times = judge.seconds(model);
        let name = format!("{} ({:?})", model.name, model.layer.kind);
        for (label, with, tally) in
            [("rates", false, &mut alone), ("rates, patterns", true, &mut both)]
        {
            let line = match fit(&measured, with) {
                Ok(twin) => judge.line(&twin, &times, tally),
                Err(error) => {
                    tally.pairs += WORKLOADS.len();
                    format!("{error} | | | | |")
                }
            };
            let _ = writeln!(text, "| {name} | {label} | {line} |");
        }
    }
    let _ = writeln!(
        text,
        "\n| twins from | rank correlation at least 0.8 | best within 5 % | both |\n|---|---|---|---|"
    );
    for (label, tally) in [("rates", &alone), ("rates, patterns", &both)] {
        let of = |count: usize| super::share::Share { count, of: tally.pairs }.to_string();
        let (ranks, best, all) = (of(tally.ranked), of(tally.best), of(tally.both));
        let _ = writeln!(text, "| {label} | {ranks} | {best} | {all} |");
    }
    text
}

/// Counts over pairs of card and workload.
#[derive(Default)]
struct Tally {
    pairs: usize,
    ranked: usize,
    best: usize,
    both: usize,
}

struct Judge {
    set: PatternSet,
    traces: Vec<Pattern>,
}

impl Judge {
    /// What a probe measures for a twin.
    fn probe(&self, model: &CardModel) -> TwinMeasurements {
        let target = InspectedTarget {
            target: Target::Simulated(model.name.clone()),
            source: TargetSource::Card(Box::new(model.clone())),
        };
        let options = ProbeRunOptions {
            max_time_ns: Some(PROBE_NS),
            twin: Some(self.set.clone()),
            ..ProbeRunOptions::usual(&model.name, true)
        };
        let run = ProbeRun::new(&target, options).expect("the options are valid");
        let mut agree = |_: &_, _: &_| unreachable!("a simulated card loses no one's data");
        let probed = run.run(&mut agree, &mut NoObserver);
        probed.expect("a simulated card does not fail").twin
    }

    /// Seconds of each trace, each on a card that was filled before.
    fn seconds(&self, model: &CardModel) -> Vec<f64> {
        let time = |pattern: &Pattern| {
            let mut device = used(model);
            let clock = device.clock().clone();
            let mut player = PatternPlayer::new(0, 3);
            player.fill(&mut device, 0, self.set.span.0).expect("a simulated card does not fail");
            let parts = pattern.parts.iter().map(|part| {
                player.time_ns(&mut device, &clock, part).expect("a simulated card does not fail")
            });
            parts.sum::<u64>() as f64 / 1e9
        };
        self.traces.iter().map(time).collect()
    }

    fn line(&self, twin: &Twin, card: &[f64], tally: &mut Tally) -> String {
        let simulated = self.seconds(&twin.model);
        let mut line = format!("{:?} |", twin.structure.kind);
        for workload in WORKLOADS {
            let of: Vec<usize> = (0..self.traces.len())
                .filter(|&at| self.traces[at].name.ends_with(workload))
                .collect();
            let pick = |from: &[f64]| of.iter().map(|&at| from[at]).collect::<Vec<f64>>();
            let (card, twin) = (pick(card), pick(&simulated));
            let rank = spearman(&card, &twin);
            let loss = card[least(&twin)] / card[least(&card)];
            let (is_ranked, is_best) = (rank >= LEAST_RANK, loss <= BEST_WITHIN);
            tally.pairs += 1;
            tally.ranked += usize::from(is_ranked);
            tally.best += usize::from(is_best);
            tally.both += usize::from(is_ranked && is_best);
            let _ = write!(line, " {rank:.2}, {:.0} % |", (loss - 1.0) * 100.0);
        }
        let is_fitted =
            |at: &usize| self.set.patterns.iter().any(|known| known.name == self.traces[*at].name);
        let mut ratios: Vec<f64> = (0..self.traces.len())
            .filter(|at| !is_fitted(at))
            .map(|at| (simulated[at] / card[at]).ln().abs().exp())
            .collect();
        ratios.sort_by(f64::total_cmp);
        let (median, most) = (ratios[ratios.len() / 2], ratios[ratios.len() - 1]);
        format!("{line} {median:.2}, {most:.1}")
    }
}

fn fit(measured: &TwinMeasurements, with_patterns: bool) -> Result<Twin, String> {
    let patterns = measured.patterns.clone().filter(|_| with_patterns);
    let name = ("twin", "a card");
    flashfit_twin::fit(&measured.tables, patterns, measured.hints, name, &mut NoObserver)
        .map_err(|error| error.to_string())
}

fn used(model: &CardModel) -> InProcessCard<VirtualClock> {
    flashfit_twin::counts::precondition(model).expect("a simulated card does not fail")
}

/// The position of the smallest.
fn least(all: &[f64]) -> usize {
    let order = |&one: &usize, &other: &usize| all[one].total_cmp(&all[other]);
    (0..all.len()).min_by(order).expect("there are six file systems")
}

fn spearman(one: &[f64], other: &[f64]) -> f64 {
    let ranks = |all: &[f64]| -> Vec<f64> {
        let rank = |value: &f64| all.iter().filter(|other| *other < value).count() as f64;
        all.iter().map(rank).collect()
    };
    let (one, other) = (ranks(one), ranks(other));
    let mean = (one.len() as f64 - 1.0) / 2.0;
    let product = |a: &[f64], b: &[f64]| -> f64 {
        a.iter().zip(b).map(|(a, b)| (a - mean) * (b - mean)).sum()
    };
    product(&one, &other) / (product(&one, &one) * product(&other, &other)).sqrt().max(1e-9)
}
