//! Whether a card shows a quantity to writes: measured on the card without noise, with its true
//! geometry, and not by the probe.

use flashfit_card::model::LayerKind;
use flashfit_card::{Card, CardModel, InProcessCard};
use flashfit_device::{BlockDev, Clock, VirtualClock};
use flashfit_geometry::belief::median;

/// Cards skip the first bytes, where zones are.
const SKIPPED: u64 = 128 << 20;
/// Further erase blocks that are begun beyond the open ones.
const BEYOND: u64 = 3;
/// Log ratio that counts as visible.
const LEAST_BEYOND: f64 = 0.1;
const LEAST_SHIFTED: f64 = 0.05;
const TIMES: usize = 40;

struct QuietCard {
    device: InProcessCard<VirtualClock>,
    clock: VirtualClock,
    unit: u64,
    first: u64,
    units: u64,
    data: Vec<u8>,
}

impl QuietCard {
    /// The card without noise, with up to this many erase blocks written once.
    fn new(model: &CardModel, wanted: u64) -> Self {
        let mut model = model.clone();
        model.noise = None;
        let (unit, capacity) = (model.erase_block_bytes(), model.capacity.0);
        let first = SKIPPED.min(capacity / 4).div_ceil(unit) * unit;
        let clock = VirtualClock::default();
        let device = InProcessCard::new(Card::counting(&model), clock.clone());
        let units = ((capacity - first) / unit).min(wanted);
        let mut card = Self { device, clock, unit, first, units, data: vec![0; 1 << 20] };
        for number in 0..units {
            let mut at = 0;
            while at < unit {
                let length = (unit - at).min(card.data.len() as u64);
                card.write(number, at, length);
                at += length;
            }
        }
        card
    }

    /// The time of a write, in nanoseconds.
    fn write(&mut self, number: u64, at: u64, length: u64) -> f64 {
        let begin_ns = self.clock.now_ns();
        let mut done = 0;
        while done < length {
            let part = (length - done).min(self.data.len() as u64);
            let offset = self.first + number * self.unit + at + done;
            let part_of = usize::try_from(part).expect("it is held in memory");
            self.device.write(offset, &self.data[..part_of]).expect("a card that works");
            done += part;
        }
        if self.device.describe().volatile_cache {
            self.device.flush().expect("a card that works");
        }
        (self.clock.now_ns() - begin_ns) as f64
    }

    /// The typical time of consecutive writes of a size behind one of `shift` bytes.
    fn run_ns(&mut self, shift: u64, size: u64) -> f64 {
        let mut times = Vec::new();
        for number in (0..self.units).cycle().take(4 * TIMES) {
            let mut at = shift;
            self.write(number, 0, shift);
            for _ in 0..12 {
                if at + size >= self.unit || times.len() == TIMES {
                    break;
                }
                times.push(self.write(number, at, size));
                at += size;
            }
        }
        median(&times)
    }
}

/// Whether beginning three erase blocks more than can be open takes a tenth longer for each than
/// for the open ones.
pub fn shows_open_erase_blocks(model: &CardModel) -> bool {
    let Some(open) = model.layer.open_erase_blocks.map(u64::from) else { return false };
    if model.layer.kind == LayerKind::PageMapped {
        return false;
    }
    let begun = open + BEYOND;
    let mut card = QuietCard::new(model, begun + 2);
    let log = model.layer.log_request.map_or(0, |log| log.0);
    let part = card.unit / 16;
    let size = (1..16).step_by(2).map(|parts| parts * part).find(|size| *size > log);
    let (Some(size), true) = (size, card.units >= begun) else { return false };
    let times: Vec<f64> = (0..begun).map(|number| card.write(number, 0, size)).collect();
    let (within, beyond) = times.split_at(usize::try_from(open).expect("a few"));
    (median(beyond) / median(within)).ln() >= LEAST_BEYOND
}

/// Whether writes of a write unit, or of one on each die, take a twentieth longer when they are
/// shifted by half of it than when they are shifted by all of it.
pub fn shows_write_unit(model: &CardModel) -> bool {
    let unit = model.write_unit_bytes();
    // Shifts are whole sectors.
    if unit % (2 * u64::from(model.sector_bytes)) != 0 {
        return false;
    }
    let mut card = QuietCard::new(model, 16);
    [unit, unit * u64::from(model.nand.dies)].into_iter().any(|size| {
        let (shifted, whole) = (card.run_ns(unit / 2, size), card.run_ns(unit, size));
        (shifted / whole).ln() >= LEAST_SHIFTED
    })
}
