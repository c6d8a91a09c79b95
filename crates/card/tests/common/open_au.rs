//! flashbench's open-AU procedure in virtual time: writes several spaced erase blocks in turn,
//! block by block, each sequentially or in random order. Source: flashbench's README and its
//! function `try_open_au`.

use flashfit_card::{Card, CardModel, InProcessCard};
use flashfit_device::{BlockDev, Bytes, Clock, VirtualClock};

/// A card in virtual time that keeps no contents.
pub type Device = InProcessCard<VirtualClock>;

/// The order of the blocks within an erase block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    Linear,
    Random,
}

/// A card that was fully written once, with counters reset.
pub fn filled(model: &CardModel) -> Device {
    let mut device = InProcessCard::new(Card::counting(model), VirtualClock::default());
    let data = vec![1; 512 << 10];
    for offset in (0..model.capacity.0).step_by(data.len()) {
        let rest = usize::try_from(model.capacity.0 - offset).unwrap_or(usize::MAX);
        device.write(offset, &data[..data.len().min(rest)]).expect("a write within the card");
    }
    device.card_mut().reset_counters();
    device
}

/// Writes `units` erase blocks completely, one block of size `block` of each in turn; returns the
/// rate in bytes per second.
pub fn open_au(device: &mut Device, units: u64, block: Bytes, order: Order) -> u64 {
    let model = device.card().model();
    let (block_bytes, count) = (model.erase_block_bytes(), u64::from(model.capacity_blocks()));
    // Not the first ones, which can be special; odd ones, so that no two are adjacent.
    let bases: Vec<u64> = (0..units).map(|unit| (3 + 2 * unit) % count * block_bytes).collect();
    let blocks = block_bytes / block.0;
    let data = vec![2; usize::try_from(block.0).expect("a block fits memory")];
    let start_ns = device.clock().now_ns();
    for number in shuffled(blocks, order) {
        for base in &bases {
            device.write(base + number * block.0, &data).expect("a write within the card");
        }
    }
    let time_ns = u128::from(device.clock().now_ns() - start_ns);
    let bytes = u128::from(units * blocks * block.0);
    u64::try_from(bytes * 1_000_000_000 / time_ns.max(1)).unwrap_or(u64::MAX)
}

/// The numbers below `count`, shuffled with a fixed seed for random order.
fn shuffled(count: u64, order: Order) -> Vec<u64> {
    let mut numbers: Vec<u64> = (0..count).collect();
    if order == Order::Random {
        let mut state = 0x9e37_79b9_7f4a_7c15_u64;
        for at in (1..numbers.len()).rev() {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            let other = state % (at as u64 + 1);
            numbers.swap(at, usize::try_from(other).expect("below the length"));
        }
    }
    numbers
}
