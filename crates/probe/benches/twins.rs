//! Twins judged by what they predict of file systems: `cargo bench -p flashfit-probe --bench twins`
//! prints a section of `docs/accuracy.md`; `-- 1000000 12` chooses the first seed and how many cards.
//!
//! Cards are drawn at random and measured as `probe --write --twin` does. A twin is fitted, and both
//! are given recorded workloads of file systems, which the twin was not fitted to. Limits: recorded
//! requests one after the other, so neither the kernel nor queues take part.

#![expect(clippy::print_stdout, reason = "it prints the section")]
#![expect(clippy::unwrap_used, reason = "a benchmark fails by panicking")]

#[path = "../../geometry/benches/accuracy/cards.rs"]
#[allow(dead_code, reason = "other benchmarks use the rest")]
mod cards;

use std::time::Instant;

use flashfit_card::{Card, CardModel, InProcessCard};
use flashfit_catalog::entries;
use flashfit_device::{BlockDev, Bytes, VirtualClock};
use flashfit_geometry::probed::NoObserver;
use flashfit_probe::patterns;
use flashfit_probe::twin::{self, RateRoom};
use flashfit_twin::fit_target::FitTarget;
use flashfit_twin::pattern::file::PatternSet;
use flashfit_twin::pattern::{Pattern, PatternPlayer, of_trace};
use flashfit_twin::search::SimulatedCounts;
use flashfit_twin::{DeviceHints, fit_to};
use flashfit_wear::RecordedTrace;

const TABLE_NS: u64 = 180_000_000_000;
const PATTERNS_NS: u64 = 420_000_000_000;
const WORKLOADS: [&str; 4] = ["small-files", "database", "logs", "recording"];

fn used(model: &CardModel) -> InProcessCard<VirtualClock> {
    let mut device = InProcessCard::new(Card::counting(model), VirtualClock::default());
    let piece = vec![0; 1 << 20];
    let capacity = device.describe().capacity_bytes;
    let mut offset = 0;
    while offset < capacity {
        let length = (capacity - offset).min(1 << 20);
        device.write(offset, &piece[..length as usize]).unwrap();
        offset += length;
    }
    device.flush().unwrap();
    device
}

/// Seconds of each held-out workload.
fn seconds(model: &CardModel, held_out: &[Pattern], span: Bytes) -> Vec<f64> {
    held_out
        .iter()
        .map(|pattern| {
            let mut device = used(model);
            let clock = device.clock().clone();
            let mut player = PatternPlayer::new(0, 3);
            player.fill(&mut device, 0, span.0).unwrap();
            let parts = pattern.parts.iter();
            let took = parts.map(|part| player.time_ns(&mut device, &clock, part).unwrap());
            took.sum::<u64>() as f64 / 1e9
        })
        .collect()
}

fn spearman(one: &[f64], other: &[f64]) -> f64 {
    let ranks = |all: &[f64]| -> Vec<f64> {
        let rank = |value: &f64| all.iter().filter(|other| *other < value).count() as f64;
        all.iter().map(rank).collect()
    };
    let (one, other) = (ranks(one), ranks(other));
    let mean = (one.len() as f64 - 1.0) / 2.0;
    let sum = |a: &[f64], b: &[f64]| -> f64 {
        a.iter().zip(b).map(|(a, b)| (a - mean) * (b - mean)).sum()
    };
    sum(&one, &other) / (sum(&one, &one) * sum(&other, &other)).sqrt().max(1e-9)
}

fn main() {
    let numbers: Vec<u64> = std::env::args().filter_map(|word| word.parse().ok()).collect();
    let (first, count) =
        (numbers.first().copied().unwrap_or(0), numbers.get(1).copied().unwrap_or(12));
    let with_patterns = !std::env::args().any(|word| word == "table");
    let verbose = std::env::args().any(|word| word == "verbose");
    let set = PatternSet::load(None).unwrap();
    let known: Vec<&str> = set.patterns.iter().map(|pattern| pattern.name.as_str()).collect();
    let traces: Vec<RecordedTrace> = entries("traces", "toml", None)
        .unwrap()
        .iter()
        .map(|e| RecordedTrace::parse(e).unwrap())
        .collect();
    let held_out: Vec<Pattern> =
        traces.iter().map(|trace| of_trace(trace, Bytes::mib(24), 1)).collect();
    let mut all = Vec::new();
    let mut medians = Vec::new();
    let mut seed = first;
    let mut made = 0;
    while made < count {
        let drawn = cards::draw(seed);
        seed += 1;
        if drawn.model.capacity.0 < 640 << 20 || drawn.model.capacity.0 > 8 << 30 {
            continue;
        }
        made += 1;
        let begin = Instant::now();
        let mut device = used(&drawn.model);
        let clock = device.clock().clone();
        let capacity = drawn.model.capacity.0;
        let room = |left_bytes, elapsed_ns| RateRoom {
            region: 0..capacity,
            left_bytes,
            elapsed_ns,
            max_time_ns: Some(PATTERNS_NS),
        };
        let unit = Some(drawn.model.nand.erase_block);
        let filled_s = clock_seconds(&clock);
        let table = twin::measure(
            &mut device,
            &clock,
            unit,
            RateRoom { max_time_ns: Some(TABLE_NS), ..room(twin::USUAL_BYTES, 0) },
            &mut NoObserver,
            1,
        )
        .unwrap();
        let table_s = clock_seconds(&clock) - filled_s;
        let spent = room(patterns::USUAL_BYTES, 0);
        let measured =
            patterns::measure(&mut device, &clock, &set, spent, &mut NoObserver, 1).unwrap();
        let patterns_s = clock_seconds(&clock) - table_s - filled_s;
        let Some(target) = FitTarget::from_tables(&[table]) else {
            println!("{} no table", drawn.model.name);
            continue;
        };
        let parts = measured.iter().map(|of| of.measured.len()).sum::<usize>();
        let measured = measured.filter(|_| with_patterns);
        let target = target.with_patterns(measured.clone(), device.describe().volatile_cache);
        let measuring = begin.elapsed().as_secs_f64();
        let fitted = fit_to(
            &target,
            &mut SimulatedCounts::default(),
            DeviceHints::default(),
            ("twin", "drawn"),
            &mut NoObserver,
        )
        .unwrap();
        let fitting = begin.elapsed().as_secs_f64() - measuring;
        if let Ok(folder) = std::env::var("FLASHFIT_DUMP") {
            let name = &drawn.model.name;
            std::fs::write(format!("{folder}/{name}.toml"), &drawn.toml).unwrap();
            let mut twin = fitted.clone();
            twin.model.capacity = Bytes(
                drawn.model.capacity.0 / twin.model.nand.erase_block.0
                    * twin.model.nand.erase_block.0,
            );
            std::fs::write(format!("{folder}/{name}-twin.toml"), twin.to_toml().unwrap()).unwrap();
        }
        let card = seconds(&drawn.model, &held_out, set.span);
        let mut as_large = fitted.model.clone();
        let unit = as_large.nand.erase_block.0;
        as_large.capacity = Bytes(as_large.capacity.0.max(set.span.0.div_ceil(unit) * unit));
        let twin = seconds(&as_large, &held_out, set.span);
        let mut line = String::new();
        for workload in WORKLOADS {
            let of: Vec<usize> =
                (0..held_out.len()).filter(|&at| held_out[at].name.ends_with(workload)).collect();
            let pick = |from: &[f64]| of.iter().map(|&at| from[at]).collect::<Vec<f64>>();
            let (card, twin) = (pick(&card), pick(&twin));
            let rho = spearman(&card, &twin);
            let best = |from: &[f64]| {
                (0..from.len()).min_by(|&a, &b| from[a].total_cmp(&from[b])).unwrap()
            };
            let loss = card[best(&twin)] / card[best(&card)] - 1.0;
            all.push((rho, loss));
            line.push_str(&format!(" {rho:5.2}/{:3.0}%", loss * 100.0));
        }
        let mut ratios: Vec<f64> = (0..held_out.len())
            .filter(|&at| !known.contains(&held_out[at].name.as_str()))
            .map(|at| (twin[at] / card[at]).ln().abs().exp())
            .collect();
        ratios.sort_by(f64::total_cmp);
        medians.push(ratios[ratios.len() / 2]);
        println!(
            "{:12} {:?}->{:?} {} parts {parts} table {table_s:.0}s patterns {patterns_s:.0}s fit {fitting:.0}s total {:.0}s; table {:.2}/{:.2}; ratio {:.2}/{:.2};{line}",
            drawn.model.name,
            drawn.model.layer.kind,
            fitted.structure.kind,
            if device.describe().volatile_cache { "cache" } else { "" },
            begin.elapsed().as_secs_f64(),
            fitted.comparison.median_error_thousandths as f64 / 1e3,
            fitted.comparison.ninth_decile_error_thousandths as f64 / 1e3,
            ratios[ratios.len() / 2],
            ratios[ratios.len() * 9 / 10],
        );
        if verbose {
            println!("{}\n{:?}\n{}", drawn.toml, fitted.structure, toml_of(&fitted.model));
            if let Some(measured) = &measured {
                let mut at = 0;
                for of in &measured.measured {
                    let line: Vec<String> = of
                        .parts_ns
                        .iter()
                        .map(|&ns| {
                            at += 1;
                            format!(
                                "{:.3}s*{:.2}",
                                ns as f64 / 1e9,
                                fitted.parts_ns[at - 1] as f64 / ns as f64
                            )
                        })
                        .collect();
                    println!("  {:20} {}", of.pattern.name, line.join(" "));
                }
            }
            for (at, pattern) in held_out.iter().enumerate() {
                println!("  {:20} {:.3} {:.3}", pattern.name, card[at], twin[at]);
            }
        }
    }
    let n = all.len() as f64;
    println!(
        "ratio {:.3}; mean rho {:.3}; rho >= 0.8: {:.0} %; best within 5 %: {:.0} %; both {:.0} %",
        (medians.iter().map(|of: &f64| of.ln()).sum::<f64>() / medians.len() as f64).exp(),
        all.iter().map(|(rho, _)| rho).sum::<f64>() / n,
        100.0 * all.iter().filter(|(rho, _)| *rho >= 0.8).count() as f64 / n,
        100.0 * all.iter().filter(|(_, loss)| *loss <= 0.05).count() as f64 / n,
        100.0 * all.iter().filter(|(rho, loss)| *rho >= 0.8 && *loss <= 0.05).count() as f64 / n,
    );
}

fn clock_seconds(clock: &VirtualClock) -> f64 {
    use flashfit_device::Clock;
    clock.now_ns() as f64 / 1e9
}

fn toml_of(model: &CardModel) -> String {
    format!("{:?}", model)
}
