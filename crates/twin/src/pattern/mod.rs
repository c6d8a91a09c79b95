//! Patterns: series of reads, writes and flushes whose duration tells the layers of cards apart.
//!
//! A table of open erase blocks does not show what file systems meet: small synced writes, flushes,
//! a log for small writes, reads. Patterns are made of `catalog/patterns` ([`mod@file`]) and timed
//! in parts, on a device and on the candidates alike. Limits: one request at a time, so queues do
//! not show; no discards; no idle time in between.

pub mod file;
mod made;
mod ratio;
mod recorded;

use flashfit_device::random::Random;
use flashfit_device::{BlockDev, BlockDevError, Clock};
use serde::{Deserialize, Serialize};

pub use ratio::PatternRatio;
pub use recorded::of_trace;

/// Longer writes and reads are made in pieces of this size, in bytes.
pub const LONGEST_REQUEST_BYTES: u64 = 512 << 10;

/// Offsets are relative to the start of a region; all values in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PatternRequest {
    Read { offset: u64, length: u64 },
    Write { offset: u64, length: u64 },
    Flush,
}

/// Requests that are timed together.
pub type PatternPart = Vec<PatternRequest>;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pattern {
    pub name: String,
    /// What it does, as part of a sentence.
    pub what: String,
    pub parts: Vec<PatternPart>,
}

/// A pattern and how long its parts took on a device, in nanoseconds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MeasuredPattern {
    pub pattern: Pattern,
    /// One for each part.
    pub parts_ns: Vec<u64>,
}

impl Pattern {
    /// The same within the first `bytes`: what lies behind them begins at 0 again. Places that were
    /// apart may coincide, on a device and on its twin alike.
    #[must_use]
    pub fn folded_into(&self, bytes: u64) -> Self {
        let fold = |request: &PatternRequest| request.folded_into(bytes);
        let parts = self.parts.iter().map(|part| part.iter().map(fold).collect()).collect();
        Self { parts, ..self.clone() }
    }

    /// Bytes that all parts write.
    pub fn written_bytes(&self) -> u64 {
        self.parts.iter().flatten().map(PatternRequest::written_bytes).sum()
    }
}

impl PatternRequest {
    /// Offset and length of the writes that a device gets.
    pub fn written_pieces(&self) -> impl Iterator<Item = (u64, u64)> + use<> {
        let (offset, length) = match *self {
            Self::Write { offset, length } => (offset, length),
            Self::Read { .. } | Self::Flush => (0, 0),
        };
        (0..length.div_ceil(LONGEST_REQUEST_BYTES)).map(move |at| {
            let done = at * LONGEST_REQUEST_BYTES;
            (offset + done, (length - done).min(LONGEST_REQUEST_BYTES))
        })
    }

    fn folded_into(&self, bytes: u64) -> Self {
        let fold = |offset: u64, length: u64| {
            let length = length.min(bytes);
            ((offset % bytes).min(bytes - length), length)
        };
        match *self {
            Self::Read { offset, length } => {
                let (offset, length) = fold(offset, length);
                Self::Read { offset, length }
            }
            Self::Write { offset, length } => {
                let (offset, length) = fold(offset, length);
                Self::Write { offset, length }
            }
            Self::Flush => Self::Flush,
        }
    }

    pub fn written_bytes(&self) -> u64 {
        match self {
            Self::Write { length, .. } => *length,
            Self::Read { .. } | Self::Flush => 0,
        }
    }
}

/// Makes the requests of patterns on a device, from `start_bytes` on.
pub struct PatternPlayer {
    start_bytes: u64,
    data: Vec<u8>,
    read: Vec<u8>,
}

impl PatternPlayer {
    /// `seed` determines the data that is written, which no device can compress.
    pub fn new(start_bytes: u64, seed: u64) -> Self {
        let mut random = Random::new(seed);
        let longest = usize::try_from(LONGEST_REQUEST_BYTES).expect("a request is in memory");
        let mut data = vec![0; longest];
        for word in data.chunks_mut(8) {
            word.copy_from_slice(&random.next_u64().to_le_bytes()[..word.len()]);
        }
        Self { start_bytes, data, read: vec![0; longest] }
    }

    /// Writes `length` bytes once, as the state that patterns begin with; `offset` is in bytes.
    ///
    /// # Errors
    /// From the device.
    pub fn fill(
        &mut self,
        device: &mut (impl BlockDev + ?Sized),
        offset: u64,
        length: u64,
    ) -> Result<(), BlockDevError> {
        self.request(device, PatternRequest::Write { offset, length })?;
        device.flush()
    }

    /// Makes the requests of a part and returns their duration in nanoseconds. A device without a
    /// volatile cache gets no flushes, as from a kernel.
    ///
    /// # Errors
    /// From the device.
    pub fn time_ns(
        &mut self,
        device: &mut (impl BlockDev + ?Sized),
        clock: &(impl Clock + ?Sized),
        part: &[PatternRequest],
    ) -> Result<u64, BlockDevError> {
        self.time_within_ns(device, clock, part, u64::MAX).map(|(took_ns, _)| took_ns)
    }

    /// Like [`Self::time_ns`], but makes no further request after `longest_ns`; also returns how
    /// many requests were made.
    ///
    /// # Errors
    /// From the device.
    pub fn time_within_ns(
        &mut self,
        device: &mut (impl BlockDev + ?Sized),
        clock: &(impl Clock + ?Sized),
        part: &[PatternRequest],
        longest_ns: u64,
    ) -> Result<(u64, usize), BlockDevError> {
        let flushes = device.describe().volatile_cache;
        let begin_ns = clock.now_ns();
        let mut made = 0;
        for &request in part {
            if clock.now_ns() - begin_ns >= longest_ns {
                break;
            }
            if request != PatternRequest::Flush || flushes {
                self.request(device, request)?;
            }
            made += 1;
        }
        Ok((clock.now_ns() - begin_ns, made))
    }

    fn request(
        &mut self,
        device: &mut (impl BlockDev + ?Sized),
        request: PatternRequest,
    ) -> Result<(), BlockDevError> {
        let (begin, end) = match request {
            PatternRequest::Flush => return device.flush(),
            PatternRequest::Read { offset, length } | PatternRequest::Write { offset, length } => {
                (self.start_bytes + offset, self.start_bytes + offset + length)
            }
        };
        // Recorded on 512-byte sectors; other devices get the sectors that contain the request.
        let sector_bytes = u64::from(device.describe().sector_bytes);
        let offset = begin / sector_bytes * sector_bytes;
        let length = end.next_multiple_of(sector_bytes) - offset;
        let mut done = 0;
        while done < length {
            let piece = (length - done).min(LONGEST_REQUEST_BYTES);
            let bytes = usize::try_from(piece).expect("a request is in memory");
            match request {
                PatternRequest::Read { .. } => {
                    device.read(offset + done, &mut self.read[..bytes])?;
                }
                _ => device.write(offset + done, &self.data[..bytes])?,
            }
            done += piece;
        }
        Ok(())
    }
}

/// Divides requests into `parts` of about the same number of bytes, and at most one each.
fn divided(requests: Vec<PatternRequest>, parts: u32) -> Vec<PatternPart> {
    let size = |request: &PatternRequest| match request {
        PatternRequest::Read { length, .. } | PatternRequest::Write { length, .. } => *length,
        PatternRequest::Flush => 0,
    };
    let total: u64 = requests.iter().map(size).sum();
    let each = (total / u64::from(parts.max(1))).max(1);
    let mut divided: Vec<PatternPart> = Vec::new();
    let (mut part, mut bytes) = (Vec::new(), 0);
    for request in requests {
        // A flush belongs to what it follows.
        if bytes >= each && request != PatternRequest::Flush {
            divided.push(std::mem::take(&mut part));
            bytes = 0;
        }
        bytes += size(&request);
        part.push(request);
    }
    match divided.last_mut() {
        // A short rest would be a noisy part.
        Some(last) if bytes < each / 2 => last.extend(part),
        _ => divided.push(part),
    }
    divided
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folded_pattern_lies_within_its_bytes() {
        let write = |offset, length| PatternRequest::Write { offset, length };
        let part = vec![write(10, 5), PatternRequest::Flush, write(230, 5), write(298, 5)];
        let pattern = Pattern { name: String::new(), what: String::new(), parts: vec![part] };
        let folded = vec![write(10, 5), PatternRequest::Flush, write(30, 5), write(95, 5)];
        assert_eq!(pattern.folded_into(100).parts, [folded]);
        assert_eq!(pattern.folded_into(1000), pattern);
        let [short] = &pattern.folded_into(4).parts[..] else { panic!("one part") };
        assert_eq!(short[0], write(0, 4));
    }
}
