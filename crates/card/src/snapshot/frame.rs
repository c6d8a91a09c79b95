//! Reads and writes the bytes of a card file with a checksum over all of them.
//!
//! The checksum detects accidental damage only. It is a CRC-32 (IEEE 802.3); up to version 2 of the
//! format it was a sum that processed eight bytes at a time, little-endian, with multiplication and
//! shift.

use std::io::{self, Read, Write};

const FACTOR: u64 = 0x9E37_79B9_7F4A_7C15;

/// A checksum, independent of how the bytes are split into calls.
#[derive(Debug, Clone)]
enum Checksum {
    Crc32(crc32fast::Hasher),
    Words(WordSum),
}

impl Checksum {
    fn add(&mut self, bytes: &[u8]) {
        match self {
            Self::Crc32(hasher) => hasher.update(bytes),
            Self::Words(sum) => sum.add(bytes),
        }
    }

    fn finish(&self) -> u64 {
        match self {
            Self::Crc32(hasher) => hasher.clone().finalize().into(),
            Self::Words(sum) => sum.finish(),
        }
    }
}

/// The checksum of files up to version 2.
#[derive(Debug, Clone, Default)]
struct WordSum {
    sum: u64,
    length: u64,
    rest: [u8; 8],
}

impl WordSum {
    fn add(&mut self, mut bytes: &[u8]) {
        let pending = usize::try_from(self.length % 8).expect("it is below eight");
        self.length += bytes.len() as u64;
        if pending > 0 {
            let taken = bytes.len().min(8 - pending);
            self.rest[pending..pending + taken].copy_from_slice(&bytes[..taken]);
            bytes = &bytes[taken..];
            if pending + taken < 8 {
                return;
            }
            self.word(u64::from_le_bytes(self.rest));
        }
        let words = bytes.chunks_exact(8);
        let left = words.remainder();
        for word in words {
            self.word(u64::from_le_bytes(word.try_into().expect("a chunk has eight bytes")));
        }
        self.rest[..left.len()].copy_from_slice(left);
    }

    fn word(&mut self, word: u64) {
        self.sum = (self.sum ^ word).wrapping_mul(FACTOR);
        self.sum ^= self.sum >> 29;
    }

    fn finish(&self) -> u64 {
        let mut last = self.clone();
        let pending = usize::try_from(self.length % 8).expect("it is below eight");
        last.rest[pending..].fill(0);
        last.word(u64::from_le_bytes(last.rest));
        last.word(self.length);
        last.sum
    }
}

/// Writes bytes and updates the checksum.
#[derive(Debug)]
pub struct ChecksumWriter<T> {
    inner: T,
    checksum: Checksum,
}

impl<T> ChecksumWriter<T> {
    /// Uses the checksum of the current format.
    pub fn new(inner: T) -> Self {
        Self { inner, checksum: Checksum::Crc32(crc32fast::Hasher::new()) }
    }
}

impl<W: Write> ChecksumWriter<W> {
    pub fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.checksum.add(bytes);
        self.inner.write_all(bytes)
    }

    pub fn finish(mut self) -> io::Result<()> {
        self.inner.write_all(&self.checksum.finish().to_le_bytes())?;
        self.inner.flush()
    }
}

impl<R: Read> ChecksumWriter<R> {
    /// Switches to the checksum of version 2; `read` is everything read so far.
    pub fn use_word_sum(&mut self, read: &[u8]) {
        let mut sum = WordSum::default();
        sum.add(read);
        self.checksum = Checksum::Words(sum);
    }

    pub fn read(&mut self, buffer: &mut [u8]) -> io::Result<()> {
        self.inner.read_exact(buffer)?;
        self.checksum.add(buffer);
        Ok(())
    }

    /// Reads `length` bytes without allocating for a length that may be wrong.
    pub fn read_vec(&mut self, length: u64) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        (&mut self.inner).take(length).read_to_end(&mut bytes)?;
        if (bytes.len() as u64) < length {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        self.checksum.add(&bytes);
        Ok(bytes)
    }

    pub fn read_u32(&mut self) -> io::Result<u32> {
        let mut bytes = [0; 4];
        self.read(&mut bytes)?;
        Ok(u32::from_le_bytes(bytes))
    }

    pub fn read_u64(&mut self) -> io::Result<u64> {
        let mut bytes = [0; 8];
        self.read(&mut bytes)?;
        Ok(u64::from_le_bytes(bytes))
    }

    /// Reads the checksum; returns whether it is correct and nothing follows.
    pub fn ends_intact(mut self) -> io::Result<bool> {
        let mut bytes = [0; 8];
        self.inner.read_exact(&mut bytes)?;
        let right = u64::from_le_bytes(bytes) == self.checksum.finish();
        Ok(right && self.inner.read(&mut [0])? == 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_current_checksum_is_a_crc_32() {
        let mut out = Vec::new();
        let mut summing = ChecksumWriter::new(&mut out);
        // The check value of CRC-32/ISO-HDLC.
        summing.write(b"1234").unwrap();
        summing.write(b"56789").unwrap();
        summing.finish().unwrap();
        assert_eq!(out[9..], 0xCBF4_3926_u64.to_le_bytes());
    }

    #[test]
    fn only_the_bytes_matter_and_each_of_them_does() {
        let sum = |pieces: &[&[u8]]| {
            let mut checksum = WordSum::default();
            pieces.iter().for_each(|piece| checksum.add(piece));
            checksum.finish()
        };
        let all: Vec<u8> = (0..29).collect();
        let whole = sum(&[&all]);
        for cut in 0..29 {
            assert_eq!(sum(&[&all[..cut], &all[cut..]]), whole);
            let mut other = all.clone();
            other[cut] ^= 1;
            assert_ne!(sum(&[&other]), whole);
            assert_ne!(sum(&[&all[..cut]]), whole);
        }
        assert_ne!(sum(&[&[0; 8]]), sum(&[&[0; 9]]));
    }
}
