//! What `flashbench -a` measures on a drawn card, to compare what probes cost.
//!
//! With its defaults: reads of 16 KiB before, across and behind places that lie as far apart as the
//! largest alignment, which is at least a seventh of the device, and wrap at its end; each place 8
//! times, of which the shortest counts; the mean over 7 places. Its tables go through the inference
//! that imported ones go through. Limits: one read each, without the empty read that follows;
//! times are not cut to three digits. Source: flashbench, `try_align` in flashbench.c.

use flashfit_card::InProcessCard;
use flashfit_device::{BlockDev, Bytes, Clock, VirtualClock};
use flashfit_geometry::flashbench::inference::infer;
use flashfit_geometry::flashbench::{AlignRow, AlignTable, Imported};
use flashfit_geometry::{QuantityValue, QuantityVerdict};

use super::cards::DrawnCard;
use super::reading::in_use;

/// Length of a read, in bytes.
const BLOCK: u64 = 16 << 10;
const PLACES: u64 = 7;
const REPEATS: u32 = 8;
/// The most runs that are pooled.
pub const MAX_RUNS: usize = 8;

/// The number of pooled runs of flashbench -a from which the erase block is inferred, up to
/// [`MAX_RUNS`].
pub fn runs_needed(drawn: &DrawnCard, seed: u64) -> Option<usize> {
    let (mut card, clock) = in_use(drawn, seed);
    let mut imported = Imported::default();
    (1..=MAX_RUNS).find(|_| {
        imported.align.push(run(&mut card, &clock));
        let found = infer(&imported).findings.erase_block;
        found.verdict == QuantityVerdict::Found
            && found.value == Some(QuantityValue::Bytes(drawn.model.erase_block_bytes()))
    })
}

fn run(card: &mut InProcessCard<VirtualClock>, clock: &VirtualClock) -> AlignTable {
    let capacity = card.describe().capacity_bytes;
    let mut largest = 2 * BLOCK;
    while largest < capacity / PLACES {
        largest *= 2;
    }
    let mut rows = Vec::new();
    let mut align = largest;
    while align >= 2 * BLOCK {
        let mut mean_ns = |before: u64| {
            let places = 0..PLACES;
            let least = places.map(|place| {
                let start = (place * largest + align - before) % capacity;
                let start = start.min(capacity - BLOCK);
                (0..REPEATS).map(|_| read(card, clock, start)).min().expect("eight repeats")
            });
            least.map(as_float).sum::<f64>() / as_float(PLACES)
        };
        let (pre_ns, on_ns, post_ns) = (mean_ns(BLOCK), mean_ns(BLOCK / 2), mean_ns(0));
        rows.push(AlignRow { align: Bytes(align), pre_ns, on_ns, post_ns });
        align /= 2;
    }
    AlignTable { rows }
}

/// The time of a read, in nanoseconds.
fn read(card: &mut InProcessCard<VirtualClock>, clock: &VirtualClock, start: u64) -> u64 {
    let begin_ns = clock.now_ns();
    let mut buffer = [0; BLOCK as usize];
    card.read(start, &mut buffer).expect("the card answers");
    clock.now_ns() - begin_ns
}

fn as_float(number: u64) -> f64 {
    number as f64
}
