//! Simulated years a minute at 2 GiB a day to a 32 GiB card.

use std::time::Instant;

use flashfit_card::catalog;
use flashfit_device::Bytes;
use flashfit_wear::replay::{Replay, ReplayOptions, Share};
use flashfit_wear::{aging, replica, trace_file};

const GIB: u64 = 1 << 30;
const TILES: u32 = 64;
const BYTES: u64 = 8 * GIB;

pub fn run() {
    println!("## Speed\n");
    println!(
        "Replay of ext4-database and ext4-logs in 64 tiles of a 32 GiB card at 2 GiB a day sent to \
         the card, one\nprocess; the machine was shared, so that rates are lower bounds.\n"
    );
    println!("| card | layer | simulated years a minute |");
    println!("|---|---|---|");
    for name in ["usd-a1-pagemap", "sd-c4-block", "sd-c10-log", "sd-sandisk-c4"] {
        let model = catalog::load(name, None).unwrap();
        let model = replica::scaled(&model, Bytes(32 * GIB)).unwrap();
        let traces = ["ext4-database", "ext4-logs"]
            .map(|name| trace_file::find(name, None).unwrap().unwrap());
        let shares: Vec<Share<'_>> =
            traces.iter().map(|trace| Share { trace, weight: 1, tiles: 4 }).collect();
        let options = ReplayOptions { tiles: TILES, fill_percent: 50, trim: true, seed: 1 };
        let mut replay = Replay::new(&shares, options);
        let mut card = aging::filled(&model, &mut replay).unwrap();
        let start = Instant::now();
        aging::replay_bytes(&mut card, &mut replay, BYTES).unwrap();
        let minutes = start.elapsed().as_secs_f64() / 60.0;
        let years = BYTES as f64 / (2.0 * GIB as f64) / 365.25;
        println!("| {name} | {:?} | {:.1} |", model.layer.kind, years / minutes);
    }
    println!();
}
