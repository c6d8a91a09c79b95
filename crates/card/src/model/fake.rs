//! The `[fake]` section of a card file: a card with less capacity than it claims.
//!
//! Limits: a real fake may also keep a small cache of the newest writes, or change with time.

use flashfit_device::Bytes;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FakeModel {
    /// What the card really has: whole sectors, less than `capacity`.
    pub real_capacity: Bytes,
    #[serde(default)]
    pub beyond: BeyondReal,
}

/// What becomes of writes beyond the real capacity.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum BeyondReal {
    /// They overwrite data at the start of the card.
    #[default]
    Wraps,
    /// They are dropped, and reads return zeros.
    Lost,
}

/// A part of a request with the place that it reaches: `None` for none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FakePart {
    pub place: Option<u64>,
    pub part: std::ops::Range<usize>,
}

impl FakeModel {
    /// Where a request of this length ends up.
    pub fn parts(&self, offset: u64, length: usize) -> Vec<FakePart> {
        let real = self.real_capacity.0;
        let mut parts = Vec::new();
        let mut done = 0;
        while done < length {
            let at = offset + done as u64;
            let left = real - at % real;
            let end = usize::try_from(left).map_or(length, |left| length.min(done + left));
            let place = match self.beyond {
                BeyondReal::Lost if at >= real => None,
                _ => Some(at % real),
            };
            parts.push(FakePart { place, part: done..end });
            done = end;
        }
        parts
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_wrap_at_the_real_capacity_or_are_lost() {
        let fake = |beyond| FakeModel { real_capacity: Bytes(1000), beyond };
        let part = |place, part| FakePart { place, part };
        let wraps = fake(BeyondReal::Wraps);
        assert_eq!(wraps.parts(900, 50), [part(Some(900), 0..50)]);
        assert_eq!(wraps.parts(950, 100), [part(Some(950), 0..50), part(Some(0), 50..100)]);
        assert_eq!(wraps.parts(2100, 10), [part(Some(100), 0..10)]);
        let lost = fake(BeyondReal::Lost);
        assert_eq!(lost.parts(950, 100), [part(Some(950), 0..50), part(None, 50..100)]);
    }
}
