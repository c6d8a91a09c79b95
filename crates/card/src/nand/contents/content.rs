//! The bytes of one page, and which of its sectors are unreadable.

use std::ops::Range;
use std::sync::Arc;

use crate::request_parts::in_memory;

/// Granularity of damage: the smallest sector size.
pub const DAMAGE_BYTES: usize = 512;

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum PageContent {
    #[default]
    Zeros,
    Bytes(Arc<[u8]>),
    /// Partly unreadable.
    Damaged(Arc<Damaged>),
}

/// A partly unreadable page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Damaged {
    /// The readable bytes.
    pub bytes: Box<[u8]>,
    /// For each [`DAMAGE_BYTES`], whether they are lost.
    pub lost: Box<[bool]>,
}

/// Some of the requested sectors are unreadable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Unreadable;

impl PageContent {
    /// Creates content from the bytes of a page.
    pub fn from_bytes(bytes: &[u8]) -> Self {
        if is_zero(bytes) { Self::Zeros } else { Self::Bytes(bytes.into()) }
    }

    /// A completely unreadable page.
    pub fn lost(page_bytes: u64) -> Self {
        let bytes = vec![0; in_memory(page_bytes)].into_boxed_slice();
        let lost = vec![true; bytes.len().div_ceil(DAMAGE_BYTES)].into();
        Self::Damaged(Arc::new(Damaged { bytes, lost }))
    }

    /// Copies bytes from offset `start` to `buffer`.
    ///
    /// # Errors
    /// [`Unreadable`] if any sector of them is lost; `buffer` is then undefined.
    pub fn read(&self, start: usize, buffer: &mut [u8]) -> Result<(), Unreadable> {
        let end = start + buffer.len();
        match self {
            Self::Zeros => buffer.fill(0),
            Self::Bytes(bytes) => buffer.copy_from_slice(&bytes[start..end]),
            Self::Damaged(damaged) => {
                if damaged.lost[sectors(&(start..end))].contains(&true) {
                    return Err(Unreadable);
                }
                buffer.copy_from_slice(&damaged.bytes[start..end]);
            }
        }
        Ok(())
    }

    /// A copy with `part` written at byte range `inside`.
    #[must_use]
    pub fn with(&self, page_bytes: u64, inside: Range<usize>, part: &[u8]) -> Self {
        self.with_all(page_bytes, std::iter::once((inside.start, part)))
    }

    /// A copy with each part written at its offset.
    #[must_use]
    pub fn with_all<'a>(
        &self,
        page_bytes: u64,
        parts: impl IntoIterator<Item = (usize, &'a [u8])>,
    ) -> Self {
        let mut damage = match self {
            Self::Damaged(damaged) => Some(damaged.lost.clone()),
            Self::Zeros | Self::Bytes(_) => None,
        };
        let mut bytes = self.to_arc(page_bytes);
        let target = Arc::get_mut(&mut bytes).expect("nobody else has seen it yet");
        for (place, part) in parts {
            let inside = place..place + part.len();
            target[inside.clone()].copy_from_slice(part);
            if let Some(lost) = &mut damage {
                lost[sectors(&inside)].fill(false);
            }
        }
        match damage {
            Some(lost) if lost.contains(&true) => {
                Self::Damaged(Arc::new(Damaged { bytes: bytes[..].into(), lost }))
            }
            _ if is_zero(&bytes) => Self::Zeros,
            _ => Self::Bytes(bytes),
        }
    }

    /// The bytes, with zeros for lost sectors.
    pub fn to_vec(&self, page_bytes: u64) -> Vec<u8> {
        match self {
            Self::Zeros => vec![0; in_memory(page_bytes)],
            Self::Bytes(bytes) => bytes.to_vec(),
            Self::Damaged(damaged) => damaged.bytes.to_vec(),
        }
    }

    /// Number of lost sectors of [`DAMAGE_BYTES`].
    pub fn lost_sectors(&self) -> usize {
        match self {
            Self::Damaged(damaged) => damaged.lost.iter().filter(|&&lost| lost).count(),
            Self::Zeros | Self::Bytes(_) => 0,
        }
    }

    fn to_arc(&self, page_bytes: u64) -> Arc<[u8]> {
        match self {
            Self::Zeros => std::iter::repeat_n(0, in_memory(page_bytes)).collect(),
            Self::Bytes(bytes) => Arc::from(&bytes[..]),
            Self::Damaged(damaged) => Arc::from(&damaged.bytes[..]),
        }
    }
}

fn sectors(inside: &Range<usize>) -> Range<usize> {
    inside.start / DAMAGE_BYTES..inside.end.div_ceil(DAMAGE_BYTES)
}

/// Whether all bytes are zero, in a form that the compiler vectorizes.
pub fn is_zero(bytes: &[u8]) -> bool {
    bytes.chunks(64).all(|chunk| chunk.iter().fold(0, |all, &byte| all | byte) == 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_replace_the_old_content() {
        let page = PageContent::from_bytes(&[3; 1024]).with(1024, 512..1024, &[4; 512]);
        let mut buffer = [0; 1024];
        page.read(0, &mut buffer).unwrap();
        assert_eq!((buffer[511], buffer[512]), (3, 4));
        assert_eq!(page.with(1024, 0..1024, &[0; 1024]), PageContent::Zeros);
        assert_eq!(PageContent::Zeros.with(1024, 0..512, &[0; 512]), PageContent::Zeros);
    }

    #[test]
    fn lost_sectors_stay_lost_until_they_are_rewritten() {
        let lost = PageContent::lost(1024);
        assert_eq!(lost.lost_sectors(), 2);
        assert_eq!(lost.read(0, &mut [0; 512]), Err(Unreadable));
        let half = lost.with(1024, 0..512, &[7; 512]);
        assert_eq!(half.read(0, &mut [0; 512]), Ok(()));
        assert_eq!(half.read(0, &mut [0; 1024]), Err(Unreadable));
        let whole = half.with(1024, 512..1024, &[7; 512]);
        assert_eq!(whole, PageContent::from_bytes(&[7; 1024]));
    }
}
