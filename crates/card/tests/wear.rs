//! The catalog's cards behave like real ones of their kind under simple patterns of writes.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use common::open_au::{Order, open_au};
use flashfit_card::{Card, CardModel, Counters, InProcessCard, catalog};
use flashfit_catalog::Origin;
use flashfit_device::{BlockDev, Bytes, Clock, VirtualClock};

const SMALL_WRITE: usize = 4096;

fn filled(model: &CardModel) -> InProcessCard<VirtualClock> {
    let mut device = InProcessCard::new(Card::new(model), VirtualClock::default());
    let data = vec![1; 512 << 10];
    for offset in (0..model.capacity.0).step_by(data.len()) {
        device.write(offset, &data).unwrap();
    }
    device.card_mut().reset_counters();
    device
}

/// The counters of small writes to `units` erase blocks in turn.
fn small_writes_in_turn(model: &CardModel, units: u64, writes: u64) -> Counters {
    let mut device = filled(model);
    for number in 0..writes {
        let unit = number % units;
        // Not from the start of the erase block, so that nothing is in order.
        let place = model.erase_block_bytes() / 2 + number / units % 64 * SMALL_WRITE as u64;
        device.write(unit * model.erase_block_bytes() + place, &[2; SMALL_WRITE]).unwrap();
    }
    device.card().counters()
}

fn block_mapped() -> CardModel {
    catalog::load("sd-c4-block", None).unwrap()
}

fn amplification(counters: &Counters) -> u64 {
    counters.write_amplification_thousandths.unwrap()
}

#[test]
fn within_the_open_blocks_a_small_write_costs_a_page() {
    let counters = small_writes_in_turn(&block_mapped(), 3, 300);
    assert_eq!(counters.merges.full, 0);
    assert_eq!(amplification(&counters), 4000);
}

#[test]
fn beyond_the_open_blocks_a_small_write_costs_an_erase_block() {
    let counters = small_writes_in_turn(&block_mapped(), 4, 300);
    assert_eq!(counters.merges.full, 297);
    let whole_unit = 1000 * ((4 << 20) + (16 << 10)) / SMALL_WRITE as u64;
    assert!(amplification(&counters) > whole_unit * 98 / 100, "{counters:?}");
    assert!(amplification(&counters) <= whole_unit);
    let mean_ns = counters.busy_ns / 300;
    // Run 5_2: 0.94 s per 4 KiB.
    assert!((850_000_000..1_000_000_000).contains(&mean_ns), "{mean_ns}");
}

#[test]
fn sequential_writes_of_the_cheap_card_match_measurements() {
    // Run 5_2, in bytes per second, with one and with four erase blocks.
    for (block_kib, within, beyond) in
        [(1024, 4_990_000, 1_220_000), (64, 5_100_000, 72_600), (16, 3_650_000, 18_100)]
    {
        for (units, measured) in [(1, within), (4, beyond)] {
            let mut device = common::open_au::filled(&block_mapped());
            open_au(&mut device, units, Bytes::kib(block_kib), Order::Linear);
            let rate = open_au(&mut device, units, Bytes::kib(block_kib), Order::Linear);
            let off = rate.abs_diff(measured);
            assert!(off * 100 < measured * 17, "{units} units, {block_kib} KiB: {rate} B/s");
        }
    }
}

#[test]
fn random_writes_of_the_cheap_card_are_slower() {
    let rate =
        |order| open_au(&mut common::open_au::filled(&block_mapped()), 3, Bytes::kib(64), order);
    assert!(rate(Order::Random) < rate(Order::Linear));
}

#[test]
fn small_requests_of_the_a1_card_match_measurements() {
    let model = catalog::load("usd-a1-pagemap", None).unwrap();
    let mut device = filled(&model);
    let start_ns = device.clock().now_ns();
    for number in 0..2000 {
        let offset = number * 7919 % (512 << 8) * SMALL_WRITE as u64;
        device.write(offset, &[1; SMALL_WRITE]).unwrap();
    }
    let writes_per_second = 2000 * 1_000_000_000 / (device.clock().now_ns() - start_ns);
    assert!((500..1500).contains(&writes_per_second), "{writes_per_second}");
}

#[test]
fn sequential_overwrites_of_a_page_mapped_card_are_not_amplified() {
    let model = catalog::load("usd-a1-pagemap", None).unwrap();
    let mut device = filled(&model);
    for offset in (0..model.capacity.0).step_by(512 << 10) {
        device.write(offset, &vec![2; 512 << 10]).unwrap();
    }
    assert_eq!(amplification(&device.card().counters()), 1000);
}

#[test]
fn erase_blocks_of_three_mebibytes_work() {
    let mut model = block_mapped();
    model.nand.erase_block = Bytes::mib(3);
    model.capacity = Bytes::mib(510);
    let text = toml::to_string(&model).unwrap();
    let model = CardModel::parse(&text, &Origin::File("three.toml".into())).unwrap();
    assert_eq!(model.pages_per_block(), 192);
    assert_eq!(small_writes_in_turn(&model, 3, 30).merges.full, 0);
    let counters = small_writes_in_turn(&model, 4, 40);
    assert_eq!(counters.merges.full, 37);
    assert!(amplification(&counters) > 700_000, "{counters:?}");
}
