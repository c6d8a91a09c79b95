//! Published figures about wear next to simulated ones, with the factor between them.
//!
//! Limits: the sources give few details of their workloads and devices, so a factor within the
//! published range is agreement in magnitude, not a validation.

use flashfit_card::catalog;
use flashfit_device::Bytes;
use flashfit_wear::UsedLife;
use flashfit_wear::extrapolation::{EraseRates, LifeLimit, LifeModel, Uncertainty};
use flashfit_wear::replay::{Replay, ReplayOptions, Share};
use flashfit_wear::trace_file::{self, RecordedTrace};
use flashfit_wear::{aging, replica};

const GIB: u64 = 1 << 30;
const FILE_SYSTEMS: [&str; 6] = ["ext4", "f2fs", "btrfs", "xfs", "fat32", "exfat"];
const WORKLOADS: [&str; 4] = ["database", "logs", "small-files", "recording"];
const DAY_NS: f64 = 24.0 * 3.6e12;

fn print_row(what: &str, source: &str, published: &str, simulated: &str, verdict: &str) {
    println!("| {what} | {source} | {published} | {simulated} | {verdict} |");
}

fn verdict(found: [f64; 2], published: [f64; 2]) -> String {
    if found[0] >= published[0] && found[1] <= published[1] {
        "within".to_owned()
    } else {
        format!("factors {:.2} and {:.2}", found[0] / published[0], found[1] / published[1])
    }
}

/// The least and the largest amplification by the file system over all traces of the catalog.
fn filesystem_amplification() -> [f64; 2] {
    let mut range = [f64::INFINITY, 0.0_f64];
    for filesystem in FILE_SYSTEMS {
        for workload in WORKLOADS {
            let name = trace_file::name_of(filesystem, &[], workload);
            let Some(trace) = trace_file::find(&name, None).unwrap() else { continue };
            let amplification =
                trace.device_bytes() as f64 / trace.header.written_by_programs.0 as f64;
            range = [range[0].min(amplification), range[1].max(amplification)];
        }
    }
    range
}

/// Years of blocks that are erased equally often.
fn even_years(rated: f64, erases_a_year: f64) -> f64 {
    let gib_a_day = 1.0;
    let rate = erases_a_year / rated / (gib_a_day * flashfit_wear::extrapolation::YEAR_DAYS);
    let life = LifeModel {
        courses: vec![EraseRates::new(vec![rate; 100])],
        gib_a_day,
        spare_share: 0.05,
        uncertainty: Uncertainty::default(),
        used: UsedLife::NEW,
    };
    let years = life.median_years();
    years.iter().find(|(limit, _)| *limit == LifeLimit::MeanPastRating).unwrap().1
}

fn trace(name: &str) -> RecordedTrace {
    trace_file::find(name, None).unwrap().unwrap()
}

/// Terabytes from the host until the mean block has its rated erases, and days of writing without a
/// pause until then.
fn until_rated(card: &str, capacity: u64, cycles: u64, name: &str, tiles: u32) -> (f64, f64) {
    let trace = trace(name);
    let small = trace.header.capacity.0 * 8;
    let mut model = replica::scaled(&catalog::load(card, None).unwrap(), Bytes(small)).unwrap();
    model.nand.endurance_cycles = cycles;
    let shares = [Share { trace: &trace, weight: 1, tiles }];
    let options = ReplayOptions { tiles: 8, fill_percent: 50, trim: true, seed: 1 };
    let mut replay = Replay::new(&shares, options);
    let mut aged = aging::filled(&model, &mut replay).unwrap();
    aging::replay_bytes(&mut aged, &mut replay, 3 * small).unwrap();
    let before = aged.counters().erases_per_unit.mean_thousandths;
    let counters = aging::replay_bytes(&mut aged, &mut replay, 3 * small).unwrap();
    let erases = (counters.erases_per_unit.mean_thousandths - before) as f64 / 1000.0;
    let scale = capacity as f64 / small as f64;
    let rounds = cycles as f64 / erases;
    let bytes = counters.host_written_bytes as f64 * rounds * scale;
    (bytes / 1e12, counters.busy_ns as f64 / DAY_NS * rounds * scale)
}

pub fn run() {
    println!("## Published figures\n");
    println!("| figure | source | published | simulated | verdict |");
    println!("|---|---|---|---|---|");
    let range = filesystem_amplification();
    print_row(
        "amplification by file systems",
        "arXiv 1707.08514",
        "2 to 32",
        &format!("{:.1} to {:.1}", range[0], range[1]),
        &verdict(range, [2.0, 32.0]),
    );
    let years = even_years(20_000.0, 650.0);
    print_row(
        "20,000 cycles, 650 a year",
        "DAVE, MISC-TN-017",
        "30.8 years",
        &format!("{years:.1} years"),
        &format!("factor {:.2}", years / 30.8),
    );
    let (recording, _) = until_rated("usd-a1-pagemap", 128_000_000_000, 3000, "ext4-recording", 8);
    print_row(
        "128 GB, 3000 cycles, written in order",
        "SanDisk industrial, worked example",
        "384 TB",
        &format!("{recording:.0} TB"),
        &format!("factor {:.2}", recording / 384.0),
    );
    let (database, _) = until_rated("usd-a1-pagemap", 128_000_000_000, 3000, "ext4-database", 8);
    print_row(
        "the same device under a database",
        "the same (an upper bound)",
        "at most 384 TB",
        &format!("{database:.0} TB"),
        if database <= 384.0 { "within" } else { "not reproduced" },
    );
    let (_, days) = until_rated("emmc-5.1", 16 * GIB, 3000, "ext4-database", 1);
    print_row(
        "16 GiB phone storage, written without a pause",
        "HotOS 2017 (order of magnitude)",
        "days to weeks",
        &format!("{days:.1} days"),
        if (1.0..=60.0).contains(&days) { "within" } else { "not reproduced" },
    );
    println!(
        "\nThe range of file systems is that of the {} recorded workloads, not of the authors'.\n",
        FILE_SYSTEMS.len() * WORKLOADS.len()
    );
}
