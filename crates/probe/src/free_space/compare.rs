//! What was read instead of what was written.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;

use super::content::{BlockPlace, OtherContent};

/// Wrong blocks by kind: how many, and the first one.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct WrongBlocks(BTreeMap<WrongKind, (u64, WrongContent)>);

impl WrongBlocks {
    pub fn add(&mut self, wrong: WrongContent) {
        self.0.entry(wrong.kind).or_insert((0, wrong)).0 += 1;
    }

    /// The first block of the most frequent kind: at borders, blocks may be mixed.
    pub fn typical(&self) -> Option<&WrongContent> {
        self.0.values().max_by_key(|(count, _)| *count).map(|(_, first)| first)
    }
}

/// The first block that is not as it was written, of the most frequent kind.
#[derive(Debug, Clone, PartialEq, Eq, JsonSchema, Serialize)]
pub struct WrongContent {
    /// `other-place` (what was written elsewhere: addresses wrap), `empty` (zeros or ones: writes
    /// are dropped) or `unknown`.
    pub kind: WrongKind,
    /// The file of the test, counted from 0, and the place in it.
    pub file: u64,
    pub offset_bytes: u64,
    /// Where the content belongs that was found.
    pub found_file: Option<u64>,
    pub found_offset_bytes: Option<u64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, JsonSchema, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum WrongKind {
    OtherPlace,
    Empty,
    Unknown,
}

impl WrongContent {
    pub(super) fn new(place: BlockPlace, found: OtherContent) -> Self {
        let (kind, other) = match found {
            OtherContent::Elsewhere(other) => (WrongKind::OtherPlace, Some(other)),
            OtherContent::Empty => (WrongKind::Empty, None),
            OtherContent::Unknown => (WrongKind::Unknown, None),
        };
        Self {
            kind,
            file: place.file,
            offset_bytes: place.offset,
            found_file: other.map(|other| other.file),
            found_offset_bytes: other.map(|other| other.offset),
        }
    }

    /// What that means.
    pub fn meaning(&self) -> &'static str {
        match self.kind {
            WrongKind::OtherPlace => {
                "data that was written elsewhere was read: the device has less capacity than it \
                 claims, and its addresses wrap"
            }
            WrongKind::Empty => {
                "nothing was read where data was written: the device has less capacity than it \
                 claims, and drops the rest"
            }
            WrongKind::Unknown => {
                "other data was read than was written: the device is defective, or has less \
                 capacity than it claims"
            }
        }
    }
}
