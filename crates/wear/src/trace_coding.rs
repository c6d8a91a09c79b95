//! Compresses traces better than zlib: arithmetic coding, bit by bit, with probabilities that
//! several contexts predict together. The contexts are fields of requests: what kind the last
//! requests were, where they ended, how long they were. The built-in traces, a large part of the
//! program, take two thirds of what zlib makes of them.
//! Limits: two megabytes of memory; some megabytes a second. Only integers, so that every machine
//! computes the same.
//! Source: logistic mixing as in lpaq1 (M. Mahoney, Data Compression Explained, 2013, chapter 4.3).

use flashfit_card::trace::MAGIC;

const CONTEXTS: usize = 7;
const TABLE_BITS: u32 = 16;
/// A probability that has been seen so often adapts no more slowly.
const MOST_SEEN: u8 = 6;
const PROBABILITY_BITS: u32 = 12;
const LEARNING_RATE: i32 = 6;
/// Fields of a request by their byte, at most 16; and the bits of the byte so far.
const MIXERS: usize = 16 << 7;

/// The bytes of a trace, which begins with [`MAGIC`]: its length in four bytes, then the code.
pub fn encode(trace: &[u8]) -> Vec<u8> {
    let content = trace.strip_prefix(MAGIC).expect("a trace begins with its magic");
    let length = u32::try_from(content.len()).expect("a trace is smaller than 4 GiB");
    let mut code = Code { low: 0, high: u32::MAX };
    let mut model = Model::new();
    let mut packed = length.to_le_bytes().to_vec();
    for byte in content {
        for bit in (0..8).rev().map(|place| byte >> place & 1 == 1) {
            code.narrow(code.split(model.probability()), bit);
            model.learn(bit);
            while let Some(byte) = code.known_byte() {
                packed.push(byte);
            }
        }
    }
    packed.extend(code.high.to_be_bytes());
    packed
}

/// The trace; `None` if it would have more than `most` bytes. Bytes that `encode` has not made give
/// a trace that cannot be read.
pub fn decode(packed: &[u8], most: usize) -> Option<Vec<u8>> {
    let (length, packed) = packed.split_first_chunk::<4>()?;
    let length = usize::try_from(u32::from_le_bytes(*length)).ok()?;
    // A byte of code stands for at most 1420 bytes, as no probability is more than 4094 of 4096.
    if length > most || length / 2048 > packed.len() {
        return None;
    }
    let mut rest = packed.iter().copied();
    let mut next = || u32::from(rest.next().unwrap_or(0));
    let mut value = (0..4).fold(0, |value, _| value << 8 | next());
    let mut code = Code { low: 0, high: u32::MAX };
    let mut model = Model::new();
    let mut trace = MAGIC.to_vec();
    for _ in 0..length {
        let mut byte = 0;
        for _ in 0..8 {
            let split = code.split(model.probability());
            let bit = value <= split;
            code.narrow(split, bit);
            model.learn(bit);
            while code.known_byte().is_some() {
                value = value << 8 | next();
            }
            byte = byte << 1 | u8::from(bit);
        }
        trace.push(byte);
    }
    Some(trace)
}

/// The interval that the bits so far leave.
struct Code {
    low: u32,
    high: u32,
}

impl Code {
    /// Up to here, the next bit is 1.
    fn split(&self, probability: u32) -> u32 {
        let range = u64::from(self.high - self.low);
        let part = (range * u64::from(probability)) >> PROBABILITY_BITS;
        self.low + u32::try_from(part).expect("part of 32 bits")
    }

    fn narrow(&mut self, split: u32, bit: bool) {
        if bit {
            self.high = split;
        } else {
            self.low = split + 1;
        }
    }

    /// The highest byte, if it is decided; it is shifted out.
    fn known_byte(&mut self) -> Option<u8> {
        if (self.low ^ self.high) >> 24 != 0 {
            return None;
        }
        let byte = (self.high >> 24) as u8;
        self.low <<= 8;
        self.high = self.high << 8 | 0xff;
        Some(byte)
    }
}

/// The probability of a 1 after a context, in 16 bits, and how often it was seen.
#[derive(Clone, Copy)]
struct Counter {
    probability: u16,
    seen: u8,
}

struct Model {
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
    history: History,
}

impl Model {
    fn new() -> Self {
        let counter = Counter { probability: 1 << 15, seen: 0 };
        let mut model = Self {
            counters: vec![counter; CONTEXTS << TABLE_BITS],
            weights: vec![[(1 << 16) / 4; CONTEXTS]; MIXERS],
            stretch: stretches(),
            hashes: [0; CONTEXTS],
            bits: 1,
            used: [0; CONTEXTS],
            inputs: [0; CONTEXTS],
            mixer: 0,
            predicted: 0,
            history: History::default(),
        };
        model.hashes = model.history.contexts();
        model
    }

    /// Of a 1, in 12 bits.
    fn probability(&mut self) -> u32 {
        self.mixer = (self.history.field & 15) << 7 | (self.bits as usize & 127);
        let weights = &self.weights[self.mixer];
        let mut sum = 0_i64;
        for (context, weight) in weights.iter().enumerate() {
            let hash = mixed(self.hashes[context], context as u32, self.bits);
            let place = context << TABLE_BITS | (hash >> (32 - TABLE_BITS)) as usize;
            self.used[context] = place;
            self.inputs[context] = self.stretch[usize::from(self.counters[place].probability >> 4)];
            sum += i64::from(self.inputs[context]) * i64::from(*weight);
        }
        let sum = (sum >> 16).clamp(-2047, 2047) as i32;
        self.predicted = squash(sum).clamp(1, 4094);
        self.predicted as u32
    }

    fn learn(&mut self, bit: bool) {
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

/// What is known when a byte begins, by the format of [`flashfit_card::trace`].
#[derive(Default)]
struct History {
    /// 0: the head; 1 to 7: the place; from 8: the length.
    field: usize,
    bytes: [u32; 3],
    heads: [u32; 3],
    /// Of the field so far.
    number: u64,
    shift: u32,
    distance: u64,
    lengths: [u64; 2],
    /// In sectors.
    end: u64,
}

impl History {
    fn contexts(&self) -> [u32; CONTEXTS] {
        let [last, before, first] = self.bytes;
        let field = self.field as u32;
        let so_far = (self.number as u32).wrapping_mul(0x9E37_79B1) ^ field;
        let base = field.wrapping_mul(131).wrapping_add(self.heads[0] << 16).wrapping_add(so_far);
        let with =
            |number: u64, factor: u32| base.wrapping_add((number as u32).wrapping_mul(factor));
        [
            field,
            field << 8 | last,
            last << 16 | before << 8 | first,
            base.wrapping_add(self.heads[1] * 257 + self.heads[2]),
            with(self.distance, 40503),
            with(self.lengths[0], 40503).wrapping_add((self.lengths[1] as u32).wrapping_mul(977)),
            with(self.end, 0x9E37_79B1),
        ]
    }

    fn push(&mut self, byte: u8) {
        self.bytes = [u32::from(byte), self.bytes[0], self.bytes[1]];
        let is_whole = match self.field {
            0 => {
                self.heads = [u32::from(byte), self.heads[0], self.heads[1]];
                self.distance_of_this(byte)
            }
            field => {
                self.number |= u64::from(byte & 127).checked_shl(self.shift).unwrap_or(0);
                self.shift += 7;
                if byte & 128 != 0 && self.field != 7 && self.field != 15 {
                    self.field += 1;
                    return;
                }
                let number = std::mem::take(&mut self.number);
                self.shift = 0;
                if field < 8 {
                    self.distance = number;
                    self.field = if self.heads[0] & 8 == 0 { 8 } else { 0 };
                } else {
                    self.lengths = [number, self.lengths[0]];
                    self.field = 0;
                }
                self.field == 0
            }
        };
        if is_whole && self.heads[0] & 2 == 0 {
            let continues = self.heads[0] & 4 != 0;
            let distance = if continues { 0 } else { self.distance };
            let signed = (distance >> 1) ^ (distance & 1).wrapping_neg();
            self.end = self.end.wrapping_add(signed).wrapping_add(self.lengths[0]);
        }
    }

    /// Sets the field after a head; whether there is none.
    fn distance_of_this(&mut self, head: u8) -> bool {
        self.field = match (head & 2, head & 4, head & 8) {
            (0, 0, _) => 1,
            (0, _, 0) => 8,
            _ => 0,
        };
        self.field == 0
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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn trace(content: &[u8]) -> Vec<u8> {
        [&MAGIC[..], content].concat()
    }

    proptest! {
        #[test]
        fn what_is_encoded_is_decoded(content in prop::collection::vec(any::<u8>(), 0..2000)) {
            let whole = trace(&content);
            prop_assert_eq!(decode(&encode(&whole), content.len()), Some(whole));
        }

        #[test]
        fn any_bytes_are_decoded_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = decode(&bytes, 1 << 16);
        }
    }

    #[test]
    fn repeated_requests_take_almost_nothing_and_a_limit_holds() {
        let whole = trace(&[0, 20, 8].repeat(10_000));
        let packed = encode(&whole);
        assert!(packed.len() < 300, "{}", packed.len());
        assert_eq!(decode(&packed, 30_000), Some(whole));
        assert_eq!(decode(&packed, 29_999), None);
        assert_eq!(decode(&u32::MAX.to_le_bytes(), usize::MAX), None);
    }
}
