//! Chooses the geometry of a plan if the given and the declared one disagree.
//!
//! What lies on the grid of a common multiple lies on both grids, so where two sources disagree
//! the common multiple is safe whichever is right. A register often declares the least that its
//! standard allows, and a probe can be fooled; neither is proof against the other.

use flashfit_device::Bytes;
use flashfit_geometry::{Geometry, QuantitySource, Sourced};

use super::arithmetic::lcm;
use super::document::PlannedGeometry;

/// A common multiple that is this many times the larger of two units is not taken: the smaller
/// source is then more likely wrong than right.
const MAX_TIMES: u64 = 8;

/// Puts the two together; the texts tell where they disagree.
pub fn combine(given: &Geometry, declared: &Geometry) -> (PlannedGeometry, Vec<String>) {
    let mut warnings = Vec::new();
    let mut one = |what: &str, given: &Option<Sourced>, declared: &Option<Sourced>| {
        let (used, warning) = agree(what, given.as_ref(), declared.as_ref());
        warnings.extend(warning);
        used
    };
    let sizes = Geometry::of_sizes(
        one("erase block", &given.erase_block, &declared.erase_block),
        one("write unit", &given.write_unit, &declared.write_unit),
    );
    // Only a probe finds where they start; what is declared is a size.
    let offset_of = if given.erase_block.is_some() { given } else { declared };
    let used = Geometry { erase_block_offset: offset_of.erase_block_offset, ..sizes };
    let geometry = PlannedGeometry { given: given.clone(), declared: declared.clone(), used };
    (geometry, warnings)
}

fn agree(
    what: &str,
    given: Option<&Sourced>,
    declared: Option<&Sourced>,
) -> (Option<Sourced>, Option<String>) {
    let (Some(a), Some(b)) = (given, declared) else {
        return (given.or(declared).cloned(), None);
    };
    if a.bytes == b.bytes || b.bytes.0 == 0 {
        let is_certain = !matches!(a.source, QuantitySource::Likeliest { .. });
        let surer = if is_certain || b.bytes.0 == 0 { a } else { b };
        return (Some(surer.clone()), None);
    }
    let both = format!("the {what} is {} {}, but {} {}", a.bytes, a.source, b.bytes, b.source);
    let larger = a.bytes.max(b.bytes);
    match lcm(a.bytes.0, b.bytes.0) {
        Some(common) if common <= larger.0.saturating_mul(MAX_TIMES) => {
            let source = if common == b.bytes.0 { b.source.clone() } else { a.source.clone() };
            let how = if common == larger.0 { "the larger" } else { "a common multiple" };
            let known = Sourced::new(Bytes(common), source);
            let text = format!("{both}; {} is used, {how}, which is safe for both", Bytes(common));
            (Some(known), Some(text))
        }
        _ => {
            let text = format!("{both}; they have no common multiple of use, so the first is used");
            (Some(a.clone()), Some(text))
        }
    }
}

/// A size that the user gave.
pub fn given(bytes: Option<Bytes>) -> Option<Sourced> {
    bytes.map(|bytes| Sourced::new(bytes, QuantitySource::Given))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn erase_block(mib: u64, source: QuantitySource) -> Geometry {
        let erase_block = Some(Sourced::new(Bytes::mib(mib), source));
        Geometry { erase_block, ..Geometry::default() }
    }

    fn used(given_mib: u64, declared_mib: u64) -> (u64, usize) {
        let declared = erase_block(declared_mib, QuantitySource::Declared("SSR".into()));
        let (geometry, warnings) =
            combine(&erase_block(given_mib, QuantitySource::Given), &declared);
        (geometry.used.erase_block.unwrap().bytes.0 >> 20, warnings.len())
    }

    #[test]
    fn where_two_sources_disagree_the_safe_side_is_taken_and_told() {
        assert_eq!(used(4, 4), (4, 0));
        assert_eq!(used(4, 8), (8, 1));
        assert_eq!(used(8, 4), (8, 1));
        assert_eq!(used(4, 6), (12, 1));
        assert_eq!(used(15, 16), (15, 1));
    }

    #[test]
    fn the_measured_start_of_erase_blocks_counts_also_for_a_declared_size() {
        let declared = erase_block(8, QuantitySource::Declared("SSR".into()));
        let probed = Geometry {
            erase_block_offset: Bytes::mib(2),
            ..erase_block(4, QuantitySource::Probed)
        };
        let (geometry, _) = combine(&probed, &declared);
        assert_eq!(geometry.used.erase_block.unwrap().bytes, Bytes::mib(8));
        assert_eq!(geometry.used.erase_block_offset, Bytes::mib(2));
    }

    #[test]
    fn one_source_is_taken_as_it_is() {
        let declared = erase_block(4, QuantitySource::Declared("SSR".into()));
        let (geometry, warnings) = combine(&Geometry::default(), &declared);
        assert_eq!(geometry.used, declared);
        assert!(warnings.is_empty());
    }
}
