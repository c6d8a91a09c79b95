//! Arguments with quantities of the geometry in them: `stride={stride_blocks}`.
//!
//! Sources: mke2fs(8) counts `stride` and `stripe_width` in file system blocks; mkfs.btrfs(8)
//! takes a node size that is a power of two from 4 KiB to 64 KiB.

use flashfit_geometry::{Geometry, Known};
use flashfit_medium::Bytes;

use crate::conditions::Need;

const LEAST_NODE_BYTES: u64 = 4 << 10;
const LARGEST_NODE_BYTES: u64 = 64 << 10;

/// A quantity that an argument can name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Variable {
    /// `block_bytes`: the file system's block, as the catalogue states it.
    BlockBytes,
    /// `erase_unit_bytes`.
    EraseUnitBytes,
    /// `write_unit_bytes`.
    WriteUnitBytes,
    /// `stride_blocks`: the write unit in blocks, at least 1.
    StrideBlocks,
    /// `stripe_width_blocks`: the erase unit in blocks.
    StripeWidthBlocks,
    /// `node_size_bytes`: the largest power of two that divides the write unit, from 4 to 64 KiB,
    /// so that no node lies across the border of two write units where one can be avoided.
    NodeSizeBytes,
}

/// Every quantity by its name in the catalogue.
pub const VARIABLES: [(&str, Variable); 6] = [
    ("block_bytes", Variable::BlockBytes),
    ("erase_unit_bytes", Variable::EraseUnitBytes),
    ("write_unit_bytes", Variable::WriteUnitBytes),
    ("stride_blocks", Variable::StrideBlocks),
    ("stripe_width_blocks", Variable::StripeWidthBlocks),
    ("node_size_bytes", Variable::NodeSizeBytes),
];

/// Why a quantity has no value under a geometry.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unfit {
    /// A quantity of the geometry is not known.
    #[error("{}", .0.lacking())]
    Missing(Need),
    /// The geometry is known and does not fit the file system.
    #[error("{0}")]
    Odd(String),
}

impl Variable {
    /// What must be known for it to have a value.
    pub fn need(self) -> Option<Need> {
        match self {
            Self::BlockBytes => None,
            Self::EraseUnitBytes | Self::StripeWidthBlocks => Some(Need::EraseUnit),
            Self::WriteUnitBytes | Self::StrideBlocks | Self::NodeSizeBytes => {
                Some(Need::WriteUnit)
            }
        }
    }

    /// Its value for a file system with this block on this geometry.
    ///
    /// # Errors
    /// As [`Unfit`] tells.
    pub fn value(self, block_bytes: u64, geometry: &Geometry) -> Result<u64, Unfit> {
        match self {
            Self::BlockBytes => Ok(block_bytes),
            Self::EraseUnitBytes => known(geometry.erase_unit.as_ref(), Need::EraseUnit),
            Self::WriteUnitBytes => known(geometry.write_unit.as_ref(), Need::WriteUnit),
            Self::StrideBlocks => {
                let write_unit = known(geometry.write_unit.as_ref(), Need::WriteUnit)?;
                stride(write_unit, block_bytes)
            }
            Self::StripeWidthBlocks => stripe_width(block_bytes, geometry),
            Self::NodeSizeBytes => node_size(known(geometry.write_unit.as_ref(), Need::WriteUnit)?),
        }
    }
}

fn known(quantity: Option<&Known>, need: Need) -> Result<u64, Unfit> {
    match quantity {
        None => Err(Unfit::Missing(need)),
        Some(known) if known.bytes.0 == 0 => Err(Unfit::Odd(format!("the {need} is 0"))),
        Some(known) => Ok(known.bytes.0),
    }
}

fn stride(write_unit: u64, block_bytes: u64) -> Result<u64, Unfit> {
    if block_bytes % write_unit == 0 {
        Ok(1)
    } else if write_unit % block_bytes == 0 {
        Ok(write_unit / block_bytes)
    } else {
        Err(no_multiple("write unit", write_unit, "block", block_bytes))
    }
}

fn stripe_width(block_bytes: u64, geometry: &Geometry) -> Result<u64, Unfit> {
    let erase_unit = known(geometry.erase_unit.as_ref(), Need::EraseUnit)?;
    if erase_unit % block_bytes != 0 {
        return Err(no_multiple("erase unit", erase_unit, "block", block_bytes));
    }
    if let Some(write_unit) = &geometry.write_unit {
        let write_unit = known(Some(write_unit), Need::WriteUnit)?;
        if erase_unit % write_unit != 0 {
            return Err(no_multiple("erase unit", erase_unit, "write unit", write_unit));
        }
    }
    let blocks = erase_unit / block_bytes;
    // A block group is as many blocks as one bitmap block has bits; ext4_get_stripe_size() in the
    // kernel's fs/ext4/super.c falls back silently when a stripe is wider.
    let group_blocks = 8 * block_bytes;
    if blocks > group_blocks {
        return Err(Unfit::Odd(format!(
            "the erase unit of {} is larger than a block group of {}",
            Bytes(erase_unit),
            Bytes(group_blocks * block_bytes),
        )));
    }
    Ok(blocks)
}

fn node_size(write_unit: u64) -> Result<u64, Unfit> {
    let divisor = 1 << write_unit.trailing_zeros();
    if write_unit > LEAST_NODE_BYTES && divisor < LEAST_NODE_BYTES {
        return Err(no_multiple("write unit", write_unit, "least node", LEAST_NODE_BYTES));
    }
    Ok(divisor.clamp(LEAST_NODE_BYTES, LARGEST_NODE_BYTES))
}

fn no_multiple(large: &str, large_bytes: u64, small: &str, small_bytes: u64) -> Unfit {
    Unfit::Odd(format!(
        "the {large} of {large_bytes} bytes is no multiple of the {small} of {small_bytes} bytes"
    ))
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Piece {
    Text(String),
    Quantity(Variable),
}

/// An argument, with or without quantities in braces.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Template(Vec<Piece>);

impl Template {
    /// Reads an argument as the catalogue writes it.
    ///
    /// # Errors
    /// A text for the user, when a name in braces is unknown or a brace has no partner.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut pieces = Vec::new();
        let mut rest = text;
        while let Some((before, after)) = rest.split_once('{') {
            let (name, behind) =
                after.split_once('}').ok_or_else(|| format!("`{text}` has a `{{` without `}}`"))?;
            if !before.is_empty() {
                pieces.push(Piece::Text(before.to_owned()));
            }
            pieces.push(Piece::Quantity(lookup(name)?));
            rest = behind;
        }
        if rest.contains('}') {
            return Err(format!("`{text}` has a `}}` without `{{`"));
        }
        if !rest.is_empty() {
            pieces.push(Piece::Text(rest.to_owned()));
        }
        Ok(Self(pieces))
    }

    /// What must be known for it to be filled.
    pub fn needs(&self) -> impl Iterator<Item = Need> + '_ {
        self.0.iter().filter_map(|piece| match piece {
            Piece::Text(_) => None,
            Piece::Quantity(variable) => variable.need(),
        })
    }

    /// The argument for a file system with this block on this geometry.
    ///
    /// # Errors
    /// As [`Unfit`] tells.
    pub fn fill(&self, block_bytes: u64, geometry: &Geometry) -> Result<String, Unfit> {
        self.0
            .iter()
            .map(|piece| match piece {
                Piece::Text(text) => Ok(text.clone()),
                Piece::Quantity(variable) => {
                    variable.value(block_bytes, geometry).map(|value| value.to_string())
                }
            })
            .collect()
    }
}

fn lookup(name: &str) -> Result<Variable, String> {
    let names = || VARIABLES.iter().map(|(known, _)| *known);
    VARIABLES.iter().find(|(known, _)| *known == name).map(|(_, variable)| *variable).ok_or_else(
        || match flashfit_catalogue::nearest(name, names()) {
            Some(nearest) => {
                format!("unknown quantity `{{{name}}}`; did you mean `{{{nearest}}}`?")
            }
            None => format!(
                "unknown quantity `{{{name}}}`; known are {}",
                names().collect::<Vec<_>>().join(", ")
            ),
        },
    )
}

#[cfg(test)]
mod tests {
    use flashfit_geometry::Source;

    use super::*;

    fn geometry(erase_unit: u64, write_unit: u64) -> Geometry {
        let known = |bytes| Some(Known::new(Bytes(bytes), Source::Given));
        Geometry { erase_unit: known(erase_unit), ..Geometry::default() }
            .or(Geometry { write_unit: known(write_unit), ..Geometry::default() })
    }

    fn fill(text: &str, geometry: &Geometry) -> Result<String, Unfit> {
        Template::parse(text).unwrap().fill(4096, geometry)
    }

    #[test]
    fn stride_and_stripe_width_count_blocks() {
        let text = "stride={stride_blocks},stripe_width={stripe_width_blocks}";
        for (erase_unit, write_unit, filled) in [
            (8 << 20, 8 << 10, "stride=2,stripe_width=2048"),
            (4 << 20, 16 << 10, "stride=4,stripe_width=1024"),
            (12 << 20, 48 << 10, "stride=12,stripe_width=3072"),
            (512 << 10, 2048, "stride=1,stripe_width=128"),
            (128 << 20, 64 << 10, "stride=16,stripe_width=32768"),
        ] {
            assert_eq!(fill(text, &geometry(erase_unit, write_unit)).as_deref(), Ok(filled));
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
        let odd = |text, erase_unit, write_unit| {
            matches!(fill(text, &geometry(erase_unit, write_unit)), Err(Unfit::Odd(_)))
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
        assert_eq!(missing, Err(Unfit::Missing(Need::WriteUnit)));
    }

    #[test]
    fn a_wrong_name_gets_the_nearest_one() {
        let error = Template::parse("stride={stride_block}").unwrap_err();
        assert!(error.contains("`{stride_blocks}`"), "{error}");
        assert!(Template::parse("a{").is_err());
        assert!(Template::parse("a}").is_err());
    }
}
