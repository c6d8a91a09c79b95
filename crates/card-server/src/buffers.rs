//! Buffers that are used again: allocating and zeroing a megabyte for each read would take longer
//! than serving it.

use std::ops::{Deref, DerefMut};
use std::sync::{Arc, Mutex, PoisonError};

/// As many as a command queue is deep.
const MOST_KEPT: usize = 32;
/// Larger ones are given back to the system.
const LARGEST_KEPT_BYTES: usize = 1 << 20;

/// Buffers that are free. Clones share them.
#[derive(Debug, Clone, Default)]
pub struct Buffers(Arc<Mutex<Vec<Vec<u8>>>>);

impl Buffers {
    /// A buffer of that length, with anything in it.
    pub fn take(&self, length: usize) -> Buffer {
        let free = self.0.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let mut bytes = free.unwrap_or_default();
        if bytes.len() < length {
            bytes.resize(length, 0);
        }
        Buffer { bytes, length, home: self.clone() }
    }
}

/// A buffer that goes back to where it came from when it is dropped.
#[derive(Debug)]
pub struct Buffer {
    bytes: Vec<u8>,
    length: usize,
    home: Buffers,
}

impl Deref for Buffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes[..self.length]
    }
}

impl DerefMut for Buffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.bytes[..self.length]
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        let mut free = self.home.0.lock().unwrap_or_else(PoisonError::into_inner);
        if free.len() < MOST_KEPT && self.bytes.len() <= LARGEST_KEPT_BYTES {
            free.push(std::mem::take(&mut self.bytes));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_buffer_has_the_length_asked_for_and_is_used_again() {
        let buffers = Buffers::default();
        buffers.take(4096).fill(7);
        let smaller = buffers.take(512);
        assert_eq!((smaller.len(), smaller[0]), (512, 7));
        drop(smaller);
        assert_eq!(buffers.take(8192).len(), 8192);
        drop(buffers.take(LARGEST_KEPT_BYTES + 1));
        assert_eq!(buffers.0.lock().unwrap().len(), 0);
    }
}
