//! Replay of the first quarter of each recording, compared with the whole recording.

use flashfit_card::trace::TracedRequest;
use flashfit_card::{Card, CardModel, Counters, catalog};
use flashfit_catalog::{CatalogEntry, entries, read};
use flashfit_device::Bytes;
use flashfit_wear::replay::{Replay, ReplayOptions, Share};
use flashfit_wear::{RecordedTrace, aging};

const PART: usize = 4;
const SEEDS: u64 = 3;
/// Wear of fewer erases is not compared: one erase would be more than 15 %.
const LEAST_ERASES: u64 = 7;

/// The small card of the recordings, with erase blocks that wear visibly.
fn model() -> CardModel {
    let mut model = catalog::load("usd-a1-pagemap", None).unwrap();
    model.nand.erase_block = Bytes::mib(1);
    model.nand.spare_units *= 4;
    model
}

fn before(model: &CardModel, trace: &RecordedTrace) -> Card {
    let mut card = Card::counting(model);
    for &(offset, length) in &trace.initial {
        aging::serve(&mut card, TracedRequest::Write { offset, length }).unwrap();
    }
    card.reset_counters();
    card
}

fn whole(model: &CardModel, trace: &RecordedTrace) -> Counters {
    let mut card = before(model, trace);
    trace.requests.iter().for_each(|&request| aging::serve(&mut card, request).unwrap());
    card.counters()
}

/// The recorded requests again and again, as they are.
fn repeated(model: &CardModel, short: &RecordedTrace, bytes: u64) -> Counters {
    let mut card = before(model, short);
    let mut written = 0;
    for &request in short.requests.iter().cycle() {
        if written >= bytes {
            break;
        }
        if let TracedRequest::Write { length, .. } = request {
            written += length;
        }
        aging::serve(&mut card, request).unwrap();
    }
    card.counters()
}

fn replayed(model: &CardModel, short: &RecordedTrace, bytes: u64, seed: u64) -> Counters {
    let shares = [Share { trace: short, weight: 1, tiles: 1 }];
    let options = ReplayOptions { tiles: 1, fill_percent: 1, trim: true, seed };
    let mut replay = Replay::new(&shares, options);
    let mut card = aging::filled(model, &mut replay).unwrap();
    aging::replay_bytes(&mut card, &mut replay, bytes).unwrap()
}

fn amplification(counters: &Counters) -> f64 {
    counters.write_amplification_thousandths.unwrap() as f64 / 1000.0
}

fn deviation(found: f64, expected: f64) -> f64 {
    (found / expected - 1.0) * 100.0
}

/// Compares the traces of the catalog, and longer ones in `files`.
pub fn run(files: &[String]) {
    println!("## Replay\n");
    println!(
        "The whole recording of each workload (the truth) against the first quarter of it, \
         continued to the same\nlength: repeated as it is, and replayed with varied places \
         (median of {SEEDS} seeds). Card: 512 MiB, erase\nblocks of 1 MiB. `-` where the most worn \
         block has fewer than {LEAST_ERASES} erases.\n"
    );
    compare(&entries("traces", "toml", None).unwrap());
    if !files.is_empty() {
        println!(
            "Longer recordings of the same kind (`flashfit wear record --volume 160MiB` for logs, \
             384MiB for small-files,\n1GiB for database, 2GiB for recording, `--fill-percent 55`), \
             which wear the card more:\n"
        );
        let entries = files.iter().map(|file| read(file.as_ref()).unwrap());
        compare(&entries.collect::<Vec<_>>());
    }
}

fn compare(traces: &[CatalogEntry]) {
    println!("| trace | true WA | repeated | replayed | true most | repeated | replayed |");
    println!("|---|---|---|---|---|---|---|");
    let model = model();
    let (mut within, mut all) = (0, 0);
    for entry in traces {
        let trace = RecordedTrace::parse(entry).unwrap();
        let truth = whole(&model, &trace);
        let mut short = trace.clone();
        short.requests.truncate(trace.requests.len() / PART);
        let bytes = trace.device_bytes();
        let plain = repeated(&model, &short, bytes);
        let mut ours: Vec<Counters> =
            (1..=SEEDS).map(|seed| replayed(&model, &short, bytes, seed)).collect();
        ours.sort_by_key(|counters| counters.erases_per_unit.most);
        let ours = &ours[ours.len() / 2];
        let wa = |counters| deviation(amplification(counters), amplification(&truth));
        let most = |counters: &Counters| {
            deviation(counters.erases_per_unit.most as f64, truth.erases_per_unit.most as f64)
        };
        let mut figures = vec![wa(ours)];
        let worn = truth.erases_per_unit.most >= LEAST_ERASES;
        if worn {
            figures.push(most(ours));
        }
        all += figures.len();
        within += figures.iter().filter(|figure| figure.abs() <= 15.0).count();
        let shown = |value: f64| if worn { format!("{value:+.0} %") } else { "-".to_owned() };
        println!(
            "| {} | {:.2} | {:+.0} % | {:+.0} % | {} | {} | {} |",
            entry.name,
            amplification(&truth),
            wa(&plain),
            wa(ours),
            truth.erases_per_unit.most,
            shown(most(&plain)),
            shown(most(ours)),
        );
    }
    println!("\n{within} of {all} compared figures are within 15 %.\n");
}
