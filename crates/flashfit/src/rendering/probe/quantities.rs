//! The names of quantities for people, and the column that they need.

use flashfit_device::DeclaredFacts;
use flashfit_geometry::{GeometryFinding, GeometryFindings, QuantityVerdict};

/// The least width of the column of names.
const NAME_COLUMNS: usize = 20;

/// The quantities by their names for people, in the order of their importance.
pub fn quantities(findings: &GeometryFindings) -> [(&'static str, &GeometryFinding); 11] {
    [
        ("capacity", &findings.capacity),
        ("erase block", &findings.erase_block),
        ("first erase block at", &findings.erase_block_offset),
        ("write unit", &findings.write_unit),
        ("page", &findings.page),
        ("open erase blocks, linear", &findings.open_erase_blocks_linear),
        ("open erase blocks, random", &findings.open_erase_blocks_random),
        ("small-write log", &findings.small_write_log),
        ("special zone", &findings.special_zone),
        ("pSLC cache", &findings.pslc_cache),
        ("unwritten is faster", &findings.unwritten_is_faster),
    ]
}

/// The width of the column of names, with a blank behind the longest that is shown.
pub fn name_columns(findings: &GeometryFindings, declared: &DeclaredFacts) -> usize {
    let found = quantities(findings).into_iter();
    let shown = found.filter(|(_, finding)| finding.verdict != QuantityVerdict::NotMeasured);
    let declared = declared.facts.iter().map(|fact| fact.name.as_str());
    let widths = shown.map(|(name, _)| name).chain(declared).map(|name| name.chars().count() + 1);
    widths.max().unwrap_or_default().max(NAME_COLUMNS)
}
