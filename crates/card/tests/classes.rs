//! The behavior of each class of card in flashbench's open-AU procedure: small models in virtual
//! time reproduce the shape of the tables measured on real cards. Source: the open-AU runs of
//! wirenboard/sdcard_benchmark (MIT license).

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use common::open_au::{Device, Order, filled, open_au};
use flashfit_card::{Card, CardModel, InProcessCard};
use flashfit_catalog::Origin;
use flashfit_device::{BlockDev, Bytes, Clock, VirtualClock};

/// A card of 64 erase blocks of 4 MiB with these keys in its `[layer]` section.
fn card(layer: &str) -> CardModel {
    let text = format!(
        "name = \"class\"\ntitle = \"t\"\nsource = \"s\"\ncapacity = \"256MiB\"\n\
         sector_bytes = 512\n[nand]\npage = \"16KiB\"\nerase_unit = \"4MiB\"\nread_ns = 60_000\n\
         program_ns = 1_450_000\ncopy_ns = 700_000\nerase_ns = 3_000_000\n\
         endurance_cycles = 3000\nspare_units = 12\n\
         [bus]\ncommand_ns = 600_000\nbytes_per_second = 20_000_000\n[layer]\n{layer}\n"
    );
    CardModel::parse(&text, &Origin::File("class.toml".into())).unwrap()
}

const BLOCKS: &str = "kind = \"block-mapped\"\nopen_units = 3\nscratch = true";
const LOG: &str = "kind = \"log-block\"\nopen_units = 3\nscratch = true\nlog_units = 4\n\
                   log_request = \"4KiB\"";
const CHUNKS: &str = "kind = \"update-log\"\nopen_units = 4\nlog_units = 2\n\
                      log_request = \"8KiB\"";

/// Rate of the second pass over the same erase blocks, in bytes per second; the first one finds
/// them unwritten.
fn rate(layer: &str, units: u64, block_kib: u64, order: Order) -> u64 {
    let mut device = filled(&card(layer));
    open_au(&mut device, units, Bytes::kib(block_kib), order);
    open_au(&mut device, units, Bytes::kib(block_kib), order)
}

/// Time per block in milliseconds.
fn block_ms(layer: &str, units: u64, block_kib: u64, order: Order) -> u64 {
    (block_kib << 10) * 1000 / rate(layer, units, block_kib, order)
}

fn linear(layer: &str, units: u64, block_kib: u64) -> u64 {
    rate(layer, units, block_kib, Order::Linear)
}

fn random(layer: &str, units: u64, block_kib: u64) -> u64 {
    rate(layer, units, block_kib, Order::Random)
}

#[test]
fn class_a_drops_to_a_merge_per_write_beyond_its_open_blocks() {
    for block_kib in [4, 64] {
        let (one, three) = (linear(BLOCKS, 1, block_kib), linear(BLOCKS, 3, block_kib));
        assert!(three * 100 >= one * 95, "{block_kib} KiB: {one} and {three} B/s");
        assert!(linear(BLOCKS, 4, block_kib) * 50 < three);
    }
    let merge_ms = 256 * (60 + 700 + 1450) / 1000;
    for order in [Order::Linear, Order::Random] {
        for block_kib in [4, 16, 64] {
            let time_ms = block_ms(BLOCKS, 4, block_kib, order);
            assert!(time_ms.abs_diff(merge_ms) * 20 < merge_ms, "{block_kib} KiB: {time_ms} ms");
        }
    }
}

#[test]
fn class_a_beyond_its_open_blocks_amplifies_small_writes_to_an_erase_block() {
    let mut device = filled(&card(BLOCKS));
    open_au(&mut device, 5, Bytes::kib(4), Order::Random);
    let counters = device.card().counters();
    let amplification = counters.write_amplification_thousandths.unwrap();
    // A page of the log for each write, and the merged block.
    let unit = 1000 * ((4 << 20) + (16 << 10)) / 4096;
    assert!(amplification.abs_diff(unit) * 100 < unit, "{amplification}");
}

#[test]
fn a_card_without_out_of_order_blocks_is_unusable_for_small_random_writes() {
    let layer = "kind = \"block-mapped\"\nopen_units = 3\nopen_units_random = 0\nscratch = true";
    assert!(linear(layer, 3, 4) > 1_000_000);
    assert!(random(layer, 1, 4096) > 10_000_000);
    let small = random(layer, 1, 4);
    assert!((4_000..12_000).contains(&small), "{small} B/s");
}

#[test]
fn class_b_keeps_its_speed_only_at_4_kib() {
    let (three, four, seven) = (random(LOG, 3, 4), random(LOG, 4, 4), random(LOG, 7, 4));
    assert!(four * 100 >= three * 80 && seven * 100 >= three * 50, "{three}, {four}, {seven} B/s");
    for block_kib in [16, 64] {
        let (within, beyond) = (linear(LOG, 3, block_kib), linear(LOG, 4, block_kib));
        assert!(beyond * 50 < within, "{block_kib} KiB: {within} and {beyond} B/s");
        assert!(beyond < four, "the larger request is slower");
    }
}

#[test]
fn the_log_overhead_makes_small_writes_constant() {
    let layer = format!("{LOG}\nlog_ns = 17_000_000");
    let rates: Vec<u64> = [2, 3, 4, 5].map(|units| random(&layer, units, 4)).into();
    // Runs 21 and 6_2: 0.19 MB/s with any number of erase blocks.
    assert!(rates.iter().all(|rate| (170_000..210_000).contains(rate)), "{rates:?}");
}

#[test]
fn class_c_slows_down_gradually() {
    let within = linear(CHUNKS, 4, 64);
    assert!(within * 100 >= linear(CHUNKS, 1, 64) * 95);
    let mut before = within;
    for units in 5..8 {
        let beyond = linear(CHUNKS, units, 64);
        assert!(beyond < before && beyond * 4 > within, "{units}: {within} and {beyond} B/s");
        before = beyond;
    }
}

#[test]
fn class_c_is_slowest_between_the_log_and_the_chunk() {
    let rates = [4, 8, 16, 64, 256, 1024].map(|block_kib| random(CHUNKS, 1, block_kib));
    assert!(rates[0] > 900_000 && rates[1] > 4 * rates[2], "{rates:?}");
    assert!(rates[5] > 9_000_000, "{rates:?}");
    for block_kib in [16, 64, 256] {
        // On a real card: 68, 61 and 60 ms.
        let time_ms = block_ms(CHUNKS, 1, block_kib, Order::Random);
        assert!((50..80).contains(&time_ms), "{block_kib} KiB: {time_ms} ms");
    }
}

#[test]
fn class_d_does_not_slow_down() {
    let layer = "kind = \"page-mapped\"";
    for block_kib in [4, 64] {
        let (one, seven) = (random(layer, 1, block_kib), random(layer, 7, block_kib));
        assert!(seven * 100 >= one * 70, "{block_kib} KiB: {one} and {seven} B/s");
    }
}

#[test]
fn unwritten_and_discarded_data_reads_faster() {
    for layer in [BLOCKS, LOG, CHUNKS, "kind = \"page-mapped\""] {
        let layer = format!("{layer}\n[discard]\ngranularity = \"4MiB\"");
        let mut device = filled(&card(&layer));
        let read_ns = |device: &mut Device, offset| {
            let start_ns = device.clock().now_ns();
            device.read(offset, &mut [0; 16 << 10]).unwrap();
            device.clock().now_ns() - start_ns
        };
        let (near, far) = (5 << 20, 90 << 20);
        let (written, other) = (read_ns(&mut device, near), read_ns(&mut device, far));
        assert_eq!(written, other);
        device.discard(4 << 20, 8 << 20).unwrap();
        assert_eq!(read_ns(&mut device, near) + 60_000, written, "{layer}");
        assert_eq!(read_ns(&mut device, far), written);
        let mut new = InProcessCard::new(Card::counting(&card(&layer)), VirtualClock::default());
        assert_eq!(read_ns(&mut new, near) + 60_000, written, "{layer}");
    }
}
