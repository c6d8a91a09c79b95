//! Simulated years in a minute of processor time at 2 GiB a day to a 32 GiB card.

use std::time::Duration;

use flashfit_card::catalog;
use flashfit_device::Bytes;
use flashfit_wear::replay::{Replay, ReplayOptions, Share};
use flashfit_wear::{aging, replica, trace_file};
use rustix::time::{ClockId, clock_gettime};

const GIB: u64 = 1 << 30;
const TILES: u32 = 64;
const BYTES: u64 = 8 * GIB;

pub fn run() {
    println!("## Speed\n");
    println!(
        "Replay of ext4-database and ext4-logs in 64 tiles of a 32 GiB card at 2 GiB a day sent to \
         the card, by the\nprocessor time of one process.\n"
    );
    println!("| card | layer | simulated years a minute of processor time | peak memory, MiB |");
    println!("|---|---|---|---|");
    for name in ["usd-a1-pagemap", "sd-c4-block", "sd-c10-log", "sd-sandisk-c4"] {
        reset_peak_memory();
        let model = catalog::load(name, None).unwrap();
        let model = replica::scaled(&model, Bytes(32 * GIB)).unwrap();
        let traces = ["ext4-database", "ext4-logs"]
            .map(|name| trace_file::find(name, None).unwrap().unwrap());
        let shares: Vec<Share<'_>> =
            traces.iter().map(|trace| Share { trace, weight: 1, tiles: 4 }).collect();
        let options = ReplayOptions { tiles: TILES, fill_percent: 50, trim: true, seed: 1 };
        let mut replay = Replay::new(&shares, options);
        let mut card = aging::filled(&model, &mut replay).unwrap();
        let before = processor_time();
        aging::replay_bytes(&mut card, &mut replay, BYTES).unwrap();
        let minutes = (processor_time() - before).as_secs_f64() / 60.0;
        let years = BYTES as f64 / (2.0 * GIB as f64) / 365.25;
        println!(
            "| {name} | {:?} | {:.1} | {:.0} |",
            model.layer.kind,
            years / minutes,
            peak_memory_mib()
        );
    }
    println!();
}

/// Not the time on a clock: other processes do not count.
fn processor_time() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// proc_pid_clear_refs(5).
fn reset_peak_memory() {
    std::fs::write("/proc/self/clear_refs", "5").unwrap();
}

/// The largest resident memory of this process since it was reset.
fn peak_memory_mib() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    peak.trim().trim_end_matches(" kB").parse::<f64>().unwrap() / 1024.0
}
