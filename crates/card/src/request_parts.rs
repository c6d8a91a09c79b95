//! Splits a request at the boundaries of blocks of equal size.

use std::ops::Range;

/// The part of a request within one block.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RequestPart {
    /// Number of the block.
    pub unit: u64,
    /// Byte range within the block.
    pub inside: Range<usize>,
    /// Byte range within the request's buffer.
    pub part: Range<usize>,
}

/// Splits `length` bytes from `offset` at multiples of `unit_bytes`.
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

/// Converts the size of a buffer that fits in memory.
pub fn in_memory(bytes: u64) -> usize {
    usize::try_from(bytes).expect("an allocated size fits in usize")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_split_at_boundaries_of_an_odd_size() {
        let found: Vec<RequestPart> = pieces(5, 6, 3).collect();
        let piece = |unit, inside, part| RequestPart { unit, inside, part };
        assert_eq!(found, [piece(1, 2..3, 0..1), piece(2, 0..3, 1..4), piece(3, 0..2, 4..6)]);
        assert_eq!(pieces(7, 0, 3).count(), 0);
    }
}
