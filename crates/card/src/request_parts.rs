//! A request cut at the borders of chunks, pages or other units of equal size.

use std::ops::Range;

/// The part of a request that lies in one unit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RequestPart {
    /// The unit's number.
    pub unit: u64,
    /// Where in the unit, in bytes.
    pub inside: Range<usize>,
    /// Where in the request's buffer, in bytes.
    pub part: Range<usize>,
}

/// Cuts `length` bytes from `offset` at the borders of units of `unit_bytes`.
pub fn pieces(offset: u64, length: usize, unit_bytes: u64) -> impl Iterator<Item = RequestPart> {
    let mut done = 0;
    std::iter::from_fn(move || {
        if done == length {
            return None;
        }
        let position = offset + done as u64;
        let start = in_memory(position % unit_bytes);
        let size = in_memory(unit_bytes - start as u64).min(length - done);
        let part = done..done + size;
        done += size;
        Some(RequestPart { unit: position / unit_bytes, inside: start..start + size, part })
    })
}

/// A size of something held in memory.
pub fn in_memory(bytes: u64) -> usize {
    usize::try_from(bytes).expect("what is held in memory fits the address space")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_over_three_units_of_an_odd_size() {
        let found: Vec<RequestPart> = pieces(5, 6, 3).collect();
        let piece = |unit, inside, part| RequestPart { unit, inside, part };
        assert_eq!(found, [piece(1, 2..3, 0..1), piece(2, 0..3, 1..4), piece(3, 0..2, 4..6)]);
        assert_eq!(pieces(7, 0, 3).count(), 0);
    }
}
