//! Compresses traces better than zlib: arithmetic coding, bit by bit, with probabilities that
//! several contexts predict together (`model`, `history`). The built-in traces, a large part of the
//! program, take half of what zlib makes of them.
//! Limits: four megabytes of memory; about a megabyte a second on a PC, less where the program is
//! built for size. Only integers, so that every machine computes the same.
//! Source: logistic mixing as in lpaq1 (M. Mahoney, Data Compression Explained, 2013, chapter 4.3).

mod history;
mod model;

use flashfit_card::trace::MAGIC;

use model::BitModel;

/// Of a probability.
const PROBABILITY_BITS: u32 = 12;

/// The bytes of a trace, which begins with [`MAGIC`]: its length in four bytes, then the code.
pub fn encode(trace: &[u8]) -> Vec<u8> {
    let content = trace.strip_prefix(MAGIC).expect("a trace begins with its magic");
    let length = u32::try_from(content.len()).expect("a trace is smaller than 4 GiB");
    let mut code = Code { low: 0, high: u32::MAX };
    let mut model = BitModel::new();
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
    let mut model = BitModel::new();
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
