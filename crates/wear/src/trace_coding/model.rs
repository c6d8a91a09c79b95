//! Predicts the next bit of a trace: each context has counted what followed it, and weights that
//! are learned, by field and bit, mix what the counters say.
//! Source: logistic mixing as in lpaq1 (M. Mahoney, Data Compression Explained, 2013, chapter 4.3).

use super::PROBABILITY_BITS;
use super::history::{CONTEXTS, RequestHistory};

const TABLE_BITS: u32 = 16;
/// A probability that has been seen so often adapts no more slowly.
const MOST_SEEN: u8 = 8;
const LEARNING_RATE: i32 = 6;
/// In 16 bits after the point.
const FIRST_WEIGHT: i32 = (1 << 16) / 6;
/// Fields of a request by their byte, at most 16; and the bits of the byte so far.
const MIXERS: usize = 16 << 7;

/// The probability of a 1 after a context, in 16 bits, and how often it was seen.
#[derive(Clone, Copy)]
struct Counter {
    probability: u16,
    seen: u8,
    /// Low bits of the context's hash. They tell contexts with the same counter apart.
    check: u8,
}

impl Counter {
    const NEW: Self = Self { probability: 1 << 15, seen: 0, check: 0 };
}

pub struct BitModel {
    counters: Vec<Counter>,
    weights: Vec<[i32; CONTEXTS]>,
    stretch: Vec<i32>,
    /// Of the byte, without its bits so far.
    hashes: [u32; CONTEXTS],
    /// The bits of the byte so far, after a 1.
    bits: u32,
    /// What the last prediction was made from.
    used: [usize; CONTEXTS],
    inputs: [i32; CONTEXTS],
    mixer: usize,
    predicted: i32,
    history: RequestHistory,
}

impl BitModel {
    pub fn new() -> Self {
        let mut model = Self {
            counters: vec![Counter::NEW; CONTEXTS << TABLE_BITS],
            weights: vec![[FIRST_WEIGHT; CONTEXTS]; MIXERS],
            stretch: stretches(),
            hashes: [0; CONTEXTS],
            bits: 1,
            used: [0; CONTEXTS],
            inputs: [0; CONTEXTS],
            mixer: 0,
            predicted: 0,
            history: RequestHistory::default(),
        };
        model.hashes = model.history.contexts();
        model
    }

    /// Of a 1, in 12 bits.
    pub fn probability(&mut self) -> u32 {
        self.mixer = (self.history.field & 15) << 7 | (self.bits as usize & 127);
        let weights = &self.weights[self.mixer];
        let mut sum = 0_i64;
        for (context, weight) in weights.iter().enumerate() {
            let hash = mixed(self.hashes[context], context as u32, self.bits);
            let place = context << TABLE_BITS | (hash >> (32 - TABLE_BITS)) as usize;
            let check = hash as u8;
            if self.counters[place].check != check {
                self.counters[place] = Counter { check, ..Counter::NEW };
            }
            self.used[context] = place;
            self.inputs[context] = self.stretch[usize::from(self.counters[place].probability >> 4)];
            sum += i64::from(self.inputs[context]) * i64::from(*weight);
        }
        let sum = (sum >> 16).clamp(-2047, 2047) as i32;
        self.predicted = squash(sum).clamp(1, 4094);
        self.predicted as u32
    }

    pub fn learn(&mut self, bit: bool) {
        let error = ((i32::from(bit) << PROBABILITY_BITS) - self.predicted) * LEARNING_RATE;
        let weights = &mut self.weights[self.mixer];
        for (context, weight) in weights.iter_mut().enumerate() {
            let change = (self.inputs[context] * error + 0x2000) >> 14;
            *weight = (*weight + change).clamp(-(1 << 20), 1 << 20);
            let counter = &mut self.counters[self.used[context]];
            let goal = if bit { i32::from(u16::MAX) } else { 0 };
            let now = i32::from(counter.probability);
            let changed = now + (goal - now) * 2 / (2 * i32::from(counter.seen) + 3);
            counter.probability = changed as u16;
            counter.seen = (counter.seen + 1).min(MOST_SEEN);
        }
        self.bits = self.bits << 1 | u32::from(bit);
        if self.bits >= 256 {
            self.history.push((self.bits & 255) as u8);
            self.hashes = self.history.contexts();
            self.bits = 1;
        }
    }
}

fn mixed(hash: u32, context: u32, bits: u32) -> u32 {
    let mut hash = hash.wrapping_add(context.wrapping_mul(0x9E37_79B9)).wrapping_mul(0x2545_F491);
    hash = hash.wrapping_add(bits.wrapping_mul(0x9E37_79B1));
    hash ^= hash >> 15;
    hash = hash.wrapping_mul(0x85EB_CA6B);
    hash ^ hash >> 13
}

/// 4096 / (1 + e^(-x / 256)), interpolated.
fn squash(x: i32) -> i32 {
    const AT: [i32; 33] = [
        1, 2, 3, 6, 10, 16, 27, 45, 73, 120, 194, 310, 488, 747, 1101, 1546, 2047, 2549, 2994,
        3348, 3607, 3785, 3901, 3975, 4022, 4050, 4068, 4079, 4085, 4089, 4092, 4093, 4094,
    ];
    let part = x & 127;
    let index = ((x >> 7) + 16) as usize;
    (AT[index] * (128 - part) + AT[(index + 1).min(32)] * part + 64) >> 7
}

/// The inverse of [`squash`].
fn stretches() -> Vec<i32> {
    let mut table = vec![2047; 4096];
    let mut next = 0;
    for x in -2047..=2047 {
        let probability = squash(x) as usize;
        if probability >= next {
            table[next..=probability].fill(x);
            next = probability + 1;
        }
    }
    table
}
