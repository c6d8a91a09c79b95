//! The quantities that an argument of the catalog can name, and how they follow from a geometry.
//!
//! Sources: mke2fs(8) counts `stride` and `stripe_width` in file system blocks; mkfs.btrfs(8)
//! takes a node size that is a power of two from 4 KiB to 64 KiB; mkfs.f2fs(8): a segment is
//! 2 MiB; mkfs.xfs(8): `sw` is a multiple of `su`; mkfs.exfat(8) and mkfs.nilfs2(8) take powers of
//! two only. Limits: what depends on the size as well is computed by a plan.

use flashfit_device::Bytes;
use flashfit_geometry::{Geometry, Sourced};

use crate::conditions::{Conditions, OptionRequirement};

const MIN_NODE_BYTES: u64 = 4 << 10;
const MAX_NODE_BYTES: u64 = 64 << 10;
const SEGMENT_BYTES: u64 = 2 << 20;
const MIN_SEGMENT_BLOCKS: u64 = 16;

/// A quantity that an argument can name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Variable {
    /// `block_bytes`: the file system's block, as the catalog states it.
    BlockBytes,
    EraseBlockBytes,
    WriteUnitBytes,
    /// `stride_blocks`: the write unit in blocks, at least 1; where it is not known, as wide as
    /// the stripe.
    StrideBlocks,
    /// `stripe_width_blocks`: the erase block in blocks.
    StripeWidthBlocks,
    /// `node_size_bytes`: the largest power of two that divides the write unit, from 4 to 64 KiB,
    /// so that no node lies across the border of two write units where one can be avoided.
    NodeSizeBytes,
    /// `section_segments`: the erase block in f2fs segments of 2 MiB, at least 1.
    SectionSegments,
    /// `segment_blocks`: the erase block in blocks, as a segment of nilfs2: a power of two from 16.
    SegmentBlocks,
    /// `sunit_bytes`: the write unit, at least a block; where it is not known, a plan takes the
    /// erase block.
    SunitBytes,
    /// `swidth_units`: the erase block in units of `sunit_bytes`.
    SwidthUnits,
    /// `boundary_bytes`: the erase block, which must be a power of two.
    BoundaryBytes,
    /// `cluster_bytes`: the cluster of FAT or exFAT; known to a plan only.
    ClusterBytes,
    /// `cluster_sectors`: the same in sectors of the device; known to a plan only.
    ClusterSectors,
    /// `reserved_sectors`: before the first FAT, so that the data area starts on an erase block;
    /// known to a plan only.
    ReservedSectors,
    /// `vendor_reserved_sectors`: the same for the layout that vendors format; only a plan knows
    /// it.
    VendorReservedSectors,
}

/// Every quantity by its name in the catalog.
pub const VARIABLES: [(&str, Variable); 15] = [
    ("block_bytes", Variable::BlockBytes),
    ("erase_unit_bytes", Variable::EraseBlockBytes),
    ("write_unit_bytes", Variable::WriteUnitBytes),
    ("stride_blocks", Variable::StrideBlocks),
    ("stripe_width_blocks", Variable::StripeWidthBlocks),
    ("node_size_bytes", Variable::NodeSizeBytes),
    ("section_segments", Variable::SectionSegments),
    ("segment_blocks", Variable::SegmentBlocks),
    ("sunit_bytes", Variable::SunitBytes),
    ("swidth_units", Variable::SwidthUnits),
    ("boundary_bytes", Variable::BoundaryBytes),
    ("cluster_bytes", Variable::ClusterBytes),
    ("cluster_sectors", Variable::ClusterSectors),
    ("reserved_sectors", Variable::ReservedSectors),
    ("vendor_reserved_sectors", Variable::VendorReservedSectors),
];

/// Why a quantity has no value under a geometry.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum QuantityError {
    /// A quantity of the geometry is not known.
    #[error("{}", .0.unmet())]
    Missing(OptionRequirement),
    /// The geometry is known and does not fit the file system.
    #[error("{0}")]
    Odd(String),
}

impl Variable {
    /// Its name in the catalog and among the numbers of a plan.
    pub fn name(self) -> &'static str {
        let named = VARIABLES.iter().find(|(_, variable)| *variable == self);
        named.expect("every variable is listed").0
    }

    /// What must be known for it to have a value.
    pub fn need(self) -> Option<OptionRequirement> {
        match self {
            Self::BlockBytes => None,
            Self::EraseBlockBytes
            | Self::StripeWidthBlocks
            | Self::SectionSegments
            | Self::SegmentBlocks
            | Self::SunitBytes
            | Self::SwidthUnits
            | Self::BoundaryBytes => Some(OptionRequirement::EraseBlock),
            Self::WriteUnitBytes | Self::StrideBlocks | Self::NodeSizeBytes => {
                Some(OptionRequirement::WriteUnit)
            }
            Self::ClusterBytes
            | Self::ClusterSectors
            | Self::ReservedSectors
            | Self::VendorReservedSectors => Some(OptionRequirement::Plan),
        }
    }

    /// Its value for a file system with this block under `conditions`: what a plan has computed,
    /// or else what follows from the geometry.
    ///
    /// # Errors
    /// See [`QuantityError`].
    pub fn value_under(
        self,
        block_bytes: u64,
        conditions: &Conditions,
    ) -> Result<u64, QuantityError> {
        if let Some(planned) = conditions.planned.get(self.name()) {
            return Ok(*planned);
        }
        let value = self.value(block_bytes, &conditions.geometry);
        match (&conditions.unplanned, value) {
            (Some(reason), Ok(_) | Err(QuantityError::Missing(OptionRequirement::Plan)))
                if !self.is_of_device() =>
            {
                Err(QuantityError::Odd(reason.clone()))
            }
            (_, value) => value,
        }
    }

    /// Whether it is what it is whatever a plan computes.
    fn is_of_device(self) -> bool {
        matches!(self, Self::BlockBytes | Self::EraseBlockBytes | Self::WriteUnitBytes)
    }

    /// Its value for a file system with this block on this geometry.
    ///
    /// # Errors
    /// See [`QuantityError`].
    pub fn value(self, block_bytes: u64, geometry: &Geometry) -> Result<u64, QuantityError> {
        match self {
            Self::BlockBytes => Ok(block_bytes),
            Self::EraseBlockBytes => {
                known(geometry.erase_block.as_ref(), OptionRequirement::EraseBlock)
            }
            Self::WriteUnitBytes => {
                known(geometry.write_unit.as_ref(), OptionRequirement::WriteUnit)
            }
            Self::StrideBlocks
                if geometry.write_unit.is_none() && geometry.erase_block.is_some() =>
            {
                stripe_width(block_bytes, geometry)
            }
            Self::StrideBlocks => {
                let write_unit = known(geometry.write_unit.as_ref(), OptionRequirement::WriteUnit)?;
                stride(write_unit, block_bytes)
            }
            Self::StripeWidthBlocks => stripe_width(block_bytes, geometry),
            Self::NodeSizeBytes => {
                node_size(known(geometry.write_unit.as_ref(), OptionRequirement::WriteUnit)?)
            }
            Self::SectionSegments => {
                section(known(geometry.erase_block.as_ref(), OptionRequirement::EraseBlock)?)
            }
            Self::SegmentBlocks => segment(block_bytes, geometry),
            Self::SunitBytes => {
                let write_unit = known(geometry.write_unit.as_ref(), OptionRequirement::WriteUnit)?;
                stride(write_unit, block_bytes).map(|blocks| blocks * block_bytes)
            }
            Self::SwidthUnits => stripe_units(block_bytes, geometry),
            Self::BoundaryBytes => {
                power_of_two(known(geometry.erase_block.as_ref(), OptionRequirement::EraseBlock)?)
            }
            Self::ClusterBytes
            | Self::ClusterSectors
            | Self::ReservedSectors
            | Self::VendorReservedSectors => Err(QuantityError::Missing(OptionRequirement::Plan)),
        }
    }
}

fn known(quantity: Option<&Sourced>, need: OptionRequirement) -> Result<u64, QuantityError> {
    match quantity {
        None => Err(QuantityError::Missing(need)),
        Some(known) if known.bytes.0 == 0 => Err(QuantityError::Odd(format!("the {need} is 0"))),
        Some(known) => Ok(known.bytes.0),
    }
}

fn stride(write_unit: u64, block_bytes: u64) -> Result<u64, QuantityError> {
    if block_bytes % write_unit == 0 {
        Ok(1)
    } else if write_unit % block_bytes == 0 {
        Ok(write_unit / block_bytes)
    } else {
        Err(no_multiple("write unit", write_unit, "block", block_bytes))
    }
}

fn stripe_width(block_bytes: u64, geometry: &Geometry) -> Result<u64, QuantityError> {
    let erase_block = known(geometry.erase_block.as_ref(), OptionRequirement::EraseBlock)?;
    if erase_block % block_bytes != 0 {
        return Err(no_multiple("erase block", erase_block, "block", block_bytes));
    }
    if let Some(write_unit) = &geometry.write_unit {
        let write_unit = known(Some(write_unit), OptionRequirement::WriteUnit)?;
        if erase_block % write_unit != 0 {
            return Err(no_multiple("erase block", erase_block, "write unit", write_unit));
        }
    }
    let blocks = erase_block / block_bytes;
    // A block group is as many blocks as one bitmap block has bits; ext4_get_stripe_size() in the
    // kernel's fs/ext4/super.c falls back silently when a stripe is wider.
    let group_blocks = 8 * block_bytes;
    if blocks > group_blocks {
        return Err(QuantityError::Odd(format!(
            "the erase block of {} is larger than a block group of {}",
            Bytes(erase_block),
            Bytes(group_blocks * block_bytes),
        )));
    }
    Ok(blocks)
}

fn node_size(write_unit: u64) -> Result<u64, QuantityError> {
    let divisor = 1 << write_unit.trailing_zeros();
    if write_unit > MIN_NODE_BYTES && divisor < MIN_NODE_BYTES {
        return Err(no_multiple("write unit", write_unit, "least node", MIN_NODE_BYTES));
    }
    Ok(divisor.clamp(MIN_NODE_BYTES, MAX_NODE_BYTES))
}

fn section(erase_block: u64) -> Result<u64, QuantityError> {
    if SEGMENT_BYTES % erase_block == 0 {
        Ok(1)
    } else if erase_block % SEGMENT_BYTES == 0 {
        Ok(erase_block / SEGMENT_BYTES)
    } else {
        Err(no_multiple("erase block", erase_block, "segment", SEGMENT_BYTES))
    }
}

fn segment(block_bytes: u64, geometry: &Geometry) -> Result<u64, QuantityError> {
    let erase_block =
        power_of_two(known(geometry.erase_block.as_ref(), OptionRequirement::EraseBlock)?)?;
    let blocks = erase_block / block_bytes;
    if blocks < MIN_SEGMENT_BLOCKS {
        return Err(QuantityError::Odd(format!(
            "the erase block of {} is less than a segment of {MIN_SEGMENT_BLOCKS} blocks",
            Bytes(erase_block)
        )));
    }
    Ok(blocks)
}

fn stripe_units(block_bytes: u64, geometry: &Geometry) -> Result<u64, QuantityError> {
    let erase_block = known(geometry.erase_block.as_ref(), OptionRequirement::EraseBlock)?;
    let unit = Variable::SunitBytes.value(block_bytes, geometry)?;
    if erase_block % unit == 0 {
        Ok(erase_block / unit)
    } else {
        Err(no_multiple("erase block", erase_block, "write unit", unit))
    }
}

fn power_of_two(erase_block: u64) -> Result<u64, QuantityError> {
    if erase_block.is_power_of_two() {
        Ok(erase_block)
    } else {
        Err(QuantityError::Odd(format!(
            "the erase block of {} is not a power of two",
            Bytes(erase_block)
        )))
    }
}

fn no_multiple(large: &str, large_bytes: u64, small: &str, small_bytes: u64) -> QuantityError {
    QuantityError::Odd(format!(
        "the {large} of {large_bytes} bytes is not a multiple of the {small} of {small_bytes} bytes"
    ))
}

#[cfg(test)]
mod tests {
    use flashfit_geometry::QuantitySource;

    use super::*;
    use crate::template::Template;

    fn geometry(erase_block: u64, write_unit: u64) -> Geometry {
        let known = |bytes| Some(Sourced::new(Bytes(bytes), QuantitySource::Given));
        Geometry { erase_block: known(erase_block), ..Geometry::default() }
            .or(Geometry { write_unit: known(write_unit), ..Geometry::default() })
    }

    fn fill(text: &str, geometry: &Geometry) -> Result<String, QuantityError> {
        let conditions = Conditions { geometry: geometry.clone(), ..Conditions::default() };
        Template::parse(text).unwrap().fill(4096, &conditions)
    }

    #[test]
    fn stride_and_stripe_width_count_blocks() {
        let text = "stride={stride_blocks},stripe_width={stripe_width_blocks}";
        for (erase_block, write_unit, filled) in [
            (8 << 20, 8 << 10, "stride=2,stripe_width=2048"),
            (4 << 20, 16 << 10, "stride=4,stripe_width=1024"),
            (12 << 20, 48 << 10, "stride=12,stripe_width=3072"),
            (512 << 10, 2048, "stride=1,stripe_width=128"),
            (128 << 20, 64 << 10, "stride=16,stripe_width=32768"),
        ] {
            assert_eq!(fill(text, &geometry(erase_block, write_unit)).as_deref(), Ok(filled));
        }
    }

    #[test]
    fn a_node_never_lies_across_two_write_units() {
        for (write_unit, node) in [
            (2 << 10, "4096"),
            (8 << 10, "8192"),
            (16 << 10, "16384"),
            (48 << 10, "16384"),
            (256 << 10, "65536"),
        ] {
            let filled = fill("{node_size_bytes}", &geometry(1, write_unit));
            assert_eq!(filled.as_deref(), Ok(node), "{write_unit}");
        }
    }

    #[test]
    fn an_odd_geometry_is_told_and_never_panics() {
        let odd = |text, erase_block, write_unit| {
            matches!(fill(text, &geometry(erase_block, write_unit)), Err(QuantityError::Odd(_)))
        };
        assert!(odd("{stripe_width_blocks}", 1_000_000, 4096));
        assert!(odd("{stripe_width_blocks}", 4 << 20, 48 << 10));
        assert!(odd("{stripe_width_blocks}", 256 << 20, 4096));
        assert!(odd("{stripe_width_blocks}", 0, 4096));
        assert!(odd("{stripe_width_blocks}", 4096, 0));
        assert!(odd("{stride_blocks}", 1 << 20, 6000));
        assert!(odd("{node_size_bytes}", 1 << 20, 6000));
        assert!(odd("{node_size_bytes}", 1 << 20, 0));
        for bytes in [u64::MAX, 1 << 63, 1, 3] {
            for (_, variable) in VARIABLES {
                let _ = variable.value(4096, &geometry(bytes, bytes));
            }
        }
    }

    #[test]
    fn what_is_not_known_is_named() {
        let missing = fill("{stride_blocks}", &Geometry::default());
        assert_eq!(missing, Err(QuantityError::Missing(OptionRequirement::WriteUnit)));
    }

    #[test]
    fn f2fs_nilfs2_and_xfs_count_the_erase_block_in_their_own_units() {
        for (text, erase_block, write_unit, filled) in [
            ("{section_segments}", 12 << 20, 4096, "6"),
            ("{section_segments}", 512 << 10, 4096, "1"),
            ("{segment_blocks}", 8 << 20, 4096, "2048"),
            ("su={sunit_bytes},sw={swidth_units}", 12 << 20, 48 << 10, "su=49152,sw=256"),
            ("su={sunit_bytes},sw={swidth_units}", 4 << 20, 2048, "su=4096,sw=1024"),
            ("{boundary_bytes}", 4 << 20, 4096, "4194304"),
        ] {
            assert_eq!(fill(text, &geometry(erase_block, write_unit)).as_deref(), Ok(filled));
        }
        for (text, erase_block) in [
            ("{section_segments}", 3 << 20),
            ("{segment_blocks}", 12 << 20),
            ("{segment_blocks}", 32 << 10),
            ("{boundary_bytes}", 24 << 20),
            ("{swidth_units}", 10_000),
        ] {
            assert!(matches!(fill(text, &geometry(erase_block, 4096)), Err(QuantityError::Odd(_))));
        }
    }

    #[test]
    fn what_a_plan_has_computed_goes_first() {
        let text = Template::parse("{reserved_sectors} {stride_blocks}").unwrap();
        let mut conditions =
            Conditions { geometry: geometry(4 << 20, 8 << 10), ..Conditions::default() };
        assert_eq!(
            text.fill(4096, &conditions),
            Err(QuantityError::Missing(OptionRequirement::Plan))
        );
        conditions.planned.insert("reserved_sectors".into(), 6000);
        assert_eq!(text.fill(4096, &conditions).as_deref(), Ok("6000 2"));
        conditions.planned.insert("stride_blocks".into(), 4);
        assert_eq!(text.fill(4096, &conditions).as_deref(), Ok("6000 4"));
    }

    #[test]
    fn every_quantity_is_listed_once() {
        for (name, variable) in VARIABLES {
            assert_eq!(variable.name(), name);
        }
    }
}
