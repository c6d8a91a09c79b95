//! A trace: the requests that changed a card, in the order of arrival, in a compact binary form.
//!
//! Format: [`MAGIC`], then for each request one byte with its kind and two flags, followed by its
//! place, as the signed distance in sectors from the end of the previous request unless it is 0,
//! and its length in sectors unless it is that of the previous request; both as variable-length
//! integers of 7 bits a byte, the lowest first. A request takes 1 to 4 bytes. Limits: reads and
//! times are not recorded; places and lengths are multiples of [`SECTOR_BYTES`].

use std::io::Write;

use flashfit_user_error::{ExitClass, UserError};

pub const MAGIC: &[u8; 16] = b"flashfit trace1\n";
pub const SECTOR_BYTES: u64 = 512;

const KIND_BITS: u8 = 0b11;
const CONTINUES: u8 = 0b100;
const SAME_LENGTH: u8 = 0b1000;

/// One recorded request; places and lengths in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TracedRequest {
    Write {
        offset: u64,
        length: u64,
    },
    Discard {
        offset: u64,
        length: u64,
    },
    Flush,
    /// A moment that whoever recorded marked, such as the start of a workload.
    Mark,
}

/// Why bytes are not a trace.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TraceError {
    #[error("not a recorded trace")]
    Foreign,
    #[error("the trace is damaged: request {request} at byte {byte}")]
    Damaged { request: usize, byte: usize },
}

impl UserError for TraceError {
    fn class(&self) -> ExitClass {
        ExitClass::Usage
    }
}

/// Appends requests to a writer.
#[derive(Debug)]
pub struct TraceWriter<W> {
    to: W,
    coder: Coder,
    buffer: Vec<u8>,
}

/// What the next request is encoded relative to.
#[derive(Debug, Default)]
struct Coder {
    end: u64,
    length: u64,
}

impl<W: Write> TraceWriter<W> {
    /// Writes the head of a trace.
    ///
    /// # Errors
    /// From the writer.
    pub fn new(mut to: W) -> std::io::Result<Self> {
        to.write_all(MAGIC)?;
        Ok(Self { to, coder: Coder::default(), buffer: Vec::new() })
    }

    /// # Errors
    /// From the writer.
    pub fn push(&mut self, request: TracedRequest) -> std::io::Result<()> {
        self.buffer.clear();
        match request {
            TracedRequest::Write { offset, length } => self.range(0, offset, length),
            TracedRequest::Discard { offset, length } => self.range(1, offset, length),
            TracedRequest::Flush => self.buffer.push(2),
            TracedRequest::Mark => self.buffer.push(3),
        }
        self.to.write_all(&self.buffer)
    }

    fn range(&mut self, kind: u8, offset: u64, length: u64) {
        let (sector, sectors) = (offset / SECTOR_BYTES, length / SECTOR_BYTES);
        let distance = sector.wrapping_sub(self.coder.end) as i64;
        let continues = if distance == 0 { CONTINUES } else { 0 };
        let same = if sectors == self.coder.length { SAME_LENGTH } else { 0 };
        self.buffer.push(kind | continues | same);
        if distance != 0 {
            push_number(&mut self.buffer, ((distance << 1) ^ (distance >> 63)) as u64);
        }
        if same == 0 {
            push_number(&mut self.buffer, sectors);
        }
        self.coder = Coder { end: sector + sectors, length: sectors };
    }

    /// # Errors
    /// From the writer.
    pub fn finish(mut self) -> std::io::Result<W> {
        self.to.flush()?;
        Ok(self.to)
    }
}

fn push_number(to: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        to.push((number & 0x7f) as u8 | 0x80);
        number >>= 7;
    }
    to.push(number as u8);
}

/// Decodes a trace. A last request that was cut off, as by a full disk, is an error.
///
/// # Errors
/// [`TraceError`].
pub fn read(bytes: &[u8]) -> Result<Vec<TracedRequest>, TraceError> {
    let mut rest = bytes.strip_prefix(MAGIC).ok_or(TraceError::Foreign)?;
    let mut coder = Coder::default();
    let mut requests = Vec::new();
    while !rest.is_empty() {
        let damaged =
            TraceError::Damaged { request: requests.len(), byte: bytes.len() - rest.len() };
        requests.push(coder.next(&mut rest).ok_or(damaged)?);
    }
    Ok(requests)
}

impl Coder {
    fn next(&mut self, rest: &mut &[u8]) -> Option<TracedRequest> {
        let (&head, after) = rest.split_first()?;
        *rest = after;
        if head & !(KIND_BITS | CONTINUES | SAME_LENGTH) != 0 {
            return None;
        }
        let kind = head & KIND_BITS;
        if kind >= 2 {
            return Some(if kind == 2 { TracedRequest::Flush } else { TracedRequest::Mark });
        }
        let distance = if head & CONTINUES != 0 { 0 } else { take_number(rest)? };
        let distance = (distance >> 1) as i64 ^ -((distance & 1) as i64);
        let sectors = if head & SAME_LENGTH != 0 { self.length } else { take_number(rest)? };
        let sector = self.end.checked_add_signed(distance)?;
        *self = Self { end: sector.checked_add(sectors)?, length: sectors };
        let offset = sector.checked_mul(SECTOR_BYTES)?;
        let length = sectors.checked_mul(SECTOR_BYTES)?;
        offset.checked_add(length)?;
        Some(match kind {
            0 => TracedRequest::Write { offset, length },
            _ => TracedRequest::Discard { offset, length },
        })
    }
}

fn take_number(rest: &mut &[u8]) -> Option<u64> {
    let mut number = 0_u64;
    for shift in (0..64).step_by(7) {
        let (&byte, after) = rest.split_first()?;
        *rest = after;
        number |= u64::from(byte & 0x7f).checked_shl(shift)?;
        if byte & 0x80 == 0 {
            return Some(number);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn written(requests: &[TracedRequest]) -> Vec<u8> {
        let mut writer = TraceWriter::new(Vec::new()).unwrap();
        requests.iter().for_each(|&request| writer.push(request).unwrap());
        writer.finish().unwrap()
    }

    fn any_request() -> impl Strategy<Value = TracedRequest> {
        let range = || (0_u64..1 << 30, 1_u64..1 << 16);
        prop_oneof![
            range().prop_map(|(sector, sectors)| TracedRequest::Write {
                offset: sector * SECTOR_BYTES,
                length: sectors * SECTOR_BYTES
            }),
            range().prop_map(|(sector, sectors)| TracedRequest::Discard {
                offset: sector * SECTOR_BYTES,
                length: sectors * SECTOR_BYTES
            }),
            Just(TracedRequest::Flush),
            Just(TracedRequest::Mark),
        ]
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(requests in prop::collection::vec(any_request(), 0..50)) {
            prop_assert_eq!(read(&written(&requests)), Ok(requests));
        }

        #[test]
        fn garbage_is_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..100)) {
            let _ = read(&[&MAGIC[..], &bytes].concat());
        }
    }

    #[test]
    fn consecutive_equal_writes_take_a_byte_each() {
        let write = |number: u64| TracedRequest::Write { offset: number * 4096, length: 4096 };
        let bytes = written(&[write(0), write(1), write(2)]);
        assert_eq!(bytes.len(), MAGIC.len() + 2 + 1 + 1);
    }

    #[test]
    fn a_foreign_and_a_truncated_file_are_refused() {
        assert_eq!(read(b"elsewhere"), Err(TraceError::Foreign));
        let bytes = written(&[TracedRequest::Write { offset: 1 << 30, length: 1 << 20 }]);
        let cut = read(&bytes[..bytes.len() - 1]);
        assert_eq!(cut, Err(TraceError::Damaged { request: 0, byte: MAGIC.len() }));
    }
}
