//! The bytes of a card by logical address, kept only where something was written.
//!
//! What was never written, or was discarded, reads as zeros. Limits: the bytes follow the logical
//! address, not the page that holds them, so a fault inside a page cannot be shown yet.

use std::collections::HashMap;

use crate::pieces::{in_memory, pieces};

const CHUNK_BYTES: u64 = 64 << 10;

/// A sparse image.
#[derive(Debug, Default)]
pub struct Store {
    chunks: HashMap<u64, Box<[u8]>>,
}

impl Store {
    /// Fills `buffer` from `offset`.
    pub fn read(&self, offset: u64, buffer: &mut [u8]) {
        for piece in pieces(offset, buffer.len(), CHUNK_BYTES) {
            let target = &mut buffer[piece.part];
            match self.chunks.get(&piece.unit) {
                Some(chunk) => target.copy_from_slice(&chunk[piece.inside]),
                None => target.fill(0),
            }
        }
    }

    /// Puts `data` at `offset`.
    pub fn write(&mut self, offset: u64, data: &[u8]) {
        for piece in pieces(offset, data.len(), CHUNK_BYTES) {
            let source = &data[piece.part];
            if let Some(chunk) = self.chunks.get_mut(&piece.unit) {
                chunk[piece.inside].copy_from_slice(source);
            } else if source.iter().any(|&byte| byte != 0) {
                let chunk = self.chunks.entry(piece.unit).or_insert_with(empty_chunk);
                chunk[piece.inside].copy_from_slice(source);
            }
        }
    }

    /// Makes a range read as zeros, and gives back the memory of whole chunks.
    pub fn discard(&mut self, offset: u64, length: u64) {
        let end = offset + length;
        let whole = offset.div_ceil(CHUNK_BYTES)..end / CHUNK_BYTES;
        if whole.start >= whole.end {
            self.zero(offset, end);
            return;
        }
        self.zero(offset, whole.start * CHUNK_BYTES);
        self.zero(whole.end * CHUNK_BYTES, end);
        if whole.end - whole.start > self.chunks.len() as u64 {
            self.chunks.retain(|chunk, _| !whole.contains(chunk));
        } else {
            for chunk in whole {
                self.chunks.remove(&chunk);
            }
        }
    }

    /// Zeroes less than two chunks.
    fn zero(&mut self, offset: u64, end: u64) {
        for piece in pieces(offset, in_memory(end - offset), CHUNK_BYTES) {
            if let Some(chunk) = self.chunks.get_mut(&piece.unit) {
                chunk[piece.inside].fill(0);
            }
        }
    }
}

fn empty_chunk() -> Box<[u8]> {
    vec![0; in_memory(CHUNK_BYTES)].into_boxed_slice()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_never_written_is_zero_and_takes_no_memory() {
        let mut store = Store::default();
        let mut buffer = [1; 8];
        store.read(u64::from(u32::MAX), &mut buffer);
        assert_eq!(buffer, [0; 8]);
        store.discard(0, 1 << 40);
        assert!(store.chunks.is_empty());
    }

    #[test]
    fn a_write_over_a_chunks_edge_is_read_back() {
        let mut store = Store::default();
        store.write(CHUNK_BYTES - 2, &[1, 2, 3, 4]);
        let mut buffer = [9; 6];
        store.read(CHUNK_BYTES - 3, &mut buffer);
        assert_eq!(buffer, [0, 1, 2, 3, 4, 0]);
    }

    #[test]
    fn a_discard_zeroes_exactly_its_range() {
        let mut store = Store::default();
        let length = 4 * CHUNK_BYTES as usize;
        store.write(0, &vec![7; length]);
        store.discard(100, 3 * CHUNK_BYTES);
        let mut buffer = vec![0; length];
        store.read(0, &mut buffer);
        let end = 100 + 3 * CHUNK_BYTES as usize;
        assert!(buffer[..100].iter().all(|&byte| byte == 7));
        assert!(buffer[100..end].iter().all(|&byte| byte == 0));
        assert!(buffer[end..].iter().all(|&byte| byte == 7));
        assert_eq!(store.chunks.len(), 2);
        store.discard(0, 10);
        store.read(0, &mut buffer);
        assert_eq!((buffer[9], buffer[10]), (0, 7));
    }
}
