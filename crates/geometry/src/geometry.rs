//! A geometry whose quantities record their source.

use std::fmt;

use flashfit_device::Bytes;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum QuantitySource {
    /// Given by the user on the command line or in a configuration file.
    Given,
    /// Declared by the device; the text names the register or attribute.
    Declared(String),
    /// Exact, from a card model.
    Modelled,
    /// Inferred by a timing probe.
    Probed,
    /// The most likely value of a timing probe that was not certain.
    Likeliest {
        /// Its probability.
        percent: u8,
    },
    /// Nothing is known about this device; the text says of which others it is usual.
    Usual(String),
    /// Published for another device; the text names the publication.
    Published(String),
}

impl fmt::Display for QuantitySource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Given => f.write_str("given by the user"),
            Self::Declared(place) => write!(f, "declared ({place})"),
            Self::Modelled => f.write_str("from the card model"),
            Self::Probed => f.write_str("probed"),
            Self::Likeliest { percent } => {
                write!(f, "not certain, the likeliest by the probe with {percent} %")
            }
            Self::Usual(of) => write!(f, "not known, as {of}"),
            Self::Published(place) => write!(f, "of another device ({place})"),
        }
    }
}

/// A quantity and its source.
#[derive(Debug, Clone, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
pub struct Sourced {
    pub bytes: Bytes,
    /// Where it comes from.
    pub source: QuantitySource,
}

impl Sourced {
    /// A value with its source.
    pub fn new(bytes: Bytes, source: QuantitySource) -> Self {
        Self { bytes, source }
    }
}

/// The known internal geometry of a device.
#[derive(Debug, Clone, Default, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
pub struct Geometry {
    #[serde(rename = "erase_unit")]
    pub erase_block: Option<Sourced>,
    /// Where the first whole erase block starts, from the start of the disk, also if the device is
    /// a partition; less than an erase block. Erase blocks start with the disk unless a probe found
    /// otherwise.
    #[serde(
        rename = "erase_block_offset_bytes",
        default,
        skip_serializing_if = "starts_with_the_disk"
    )]
    pub erase_block_offset: Bytes,
    /// The pages programmed together.
    pub write_unit: Option<Sourced>,
}

fn starts_with_the_disk(offset: &Bytes) -> bool {
    offset.0 == 0
}

impl Geometry {
    /// Of a device whose erase blocks start with it.
    pub fn of_sizes(erase_block: Option<Sourced>, write_unit: Option<Sourced>) -> Self {
        Self { erase_block, erase_block_offset: Bytes(0), write_unit }
    }

    /// The boundaries of its erase blocks, if their size is known.
    pub fn grid(&self) -> Option<EraseBlockGrid> {
        let erase_block = self.erase_block.as_ref()?;
        EraseBlockGrid::new(erase_block.bytes.0, self.erase_block_offset.0)
    }

    pub fn is_unknown(&self) -> bool {
        self.erase_block.is_none() && self.write_unit.is_none()
    }

    /// Fills missing quantities from `other`. The offset is that of the erase block.
    #[must_use]
    pub fn or(self, other: Self) -> Self {
        let of = if self.erase_block.is_some() { &self } else { &other };
        Self {
            erase_block_offset: of.erase_block_offset,
            erase_block: self.erase_block.or(other.erase_block),
            write_unit: self.write_unit.or(other.write_unit),
        }
    }
}

/// The boundaries of the erase blocks of a disk, in bytes from its start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EraseBlockGrid {
    block: u64,
    /// The first boundary; less than a block.
    first: u64,
}

impl EraseBlockGrid {
    /// Of blocks of this size of which one starts at `offset`. `None` for blocks of 0 bytes.
    pub fn new(block: u64, offset: u64) -> Option<Self> {
        Some(Self { block, first: offset.checked_rem(block)? })
    }

    pub fn block_bytes(self) -> u64 {
        self.block
    }

    /// Where the first whole block starts; less than a block.
    pub fn first_bytes(self) -> u64 {
        self.first
    }

    /// The same place for blocks of another size. `None` for 0 bytes.
    pub fn in_blocks_of(self, block: u64) -> Option<Self> {
        Self::new(block, self.first)
    }

    /// How far `position` lies behind a boundary; less than a block.
    pub fn bytes_past(self, position: u64) -> u64 {
        let (rest, first) = (position % self.block, self.first);
        if rest >= first { rest - first } else { self.block - (first - rest) }
    }

    pub fn is_boundary(self, position: u64) -> bool {
        self.bytes_past(position) == 0
    }

    /// The first boundary that is not before `position`. `None` beyond 64 bits.
    pub fn at_or_after(self, position: u64) -> Option<u64> {
        match self.bytes_past(position) {
            0 => Some(position),
            past => position.checked_add(self.block - past),
        }
    }

    /// The last boundary that is not behind `position`. `None` before the first.
    pub fn at_or_before(self, position: u64) -> Option<u64> {
        position.checked_sub(self.bytes_past(position))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn given_values_take_precedence_over_declared_ones() {
        let given =
            Geometry::of_sizes(Some(Sourced::new(Bytes::mib(8), QuantitySource::Given)), None);
        let known = |bytes| Some(Sourced::new(bytes, QuantitySource::Declared("SSR".into())));
        let declared = Geometry::of_sizes(known(Bytes::mib(4)), known(Bytes::kib(16)));
        let both = given.or(declared);
        assert_eq!(both.erase_block.unwrap().bytes, Bytes::mib(8));
        assert_eq!(both.write_unit.unwrap().bytes, Bytes::kib(16));
    }

    #[test]
    fn an_offset_goes_with_its_erase_block() {
        let known = |mib| Some(Sourced::new(Bytes::mib(mib), QuantitySource::Given));
        let probed =
            Geometry { erase_block_offset: Bytes::mib(2), ..Geometry::of_sizes(known(4), None) };
        let none = Geometry::default();
        assert_eq!(none.clone().or(probed.clone()).erase_block_offset, Bytes::mib(2));
        assert_eq!(probed.clone().or(none).erase_block_offset, Bytes::mib(2));
        let given = Geometry::of_sizes(known(8), None);
        assert_eq!(given.or(probed.clone()).erase_block_offset, Bytes(0));
        let json = serde_json::to_value(&probed).unwrap();
        assert_eq!(json["erase_block_offset_bytes"], 2 << 20);
        assert_eq!(serde_json::from_value::<Geometry>(json).unwrap(), probed);
        let usual = serde_json::to_value(Geometry::of_sizes(known(4), None)).unwrap();
        assert_eq!(usual.get("erase_block_offset_bytes"), None);
    }

    #[test]
    fn boundaries_count_from_the_first_one() {
        const MIB: u64 = 1 << 20;
        let grid = EraseBlockGrid::new(4 * MIB, 6 * MIB).unwrap();
        assert_eq!(grid.first_bytes(), 2 * MIB);
        assert_eq!([0, 1, 2, 5, 6].map(|mib| grid.bytes_past(mib * MIB) / MIB), [2, 3, 0, 3, 0]);
        assert_eq!([0, 2, 3].map(|mib| grid.at_or_after(mib * MIB).unwrap() / MIB), [2, 2, 6]);
        assert_eq!(grid.at_or_before(9 * MIB), Some(6 * MIB));
        assert_eq!(grid.at_or_before(MIB), None);
        assert_eq!(grid.at_or_after(u64::MAX), None);
        let odd = EraseBlockGrid::new(u64::MAX, u64::MAX - 1).unwrap();
        assert_eq!(odd.bytes_past(0), 1);
        assert_eq!(EraseBlockGrid::new(0, 512), None);
    }
}
