//! What a probe found out about a device besides its open-block tables.

use flashfit_device::BlockDevInfo;
use flashfit_geometry::findings::{CandidateValue, SURE};
use flashfit_geometry::flashbench::Imported;
use flashfit_geometry::flashbench::inference::align_step;
use flashfit_geometry::{GeometryFinding, GeometryFindings, QuantityValue};
use serde::{Deserialize, Serialize};

/// What is known about a device besides its open-block tables. Sizes are in bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeviceHints {
    /// Additional time of a read that crosses an erase block boundary, in nanoseconds.
    pub lookup_ns: u64,
    /// The erase block that was found; the open-block tables may have assumed another one.
    pub erase_block_bytes: Option<u64>,
    pub open_erase_blocks: Option<u32>,
    pub open_erase_blocks_random: Option<u32>,
    pub write_unit_bytes: Option<u64>,
    /// A write unit that is likely, but does not explain all that was measured.
    pub likely_write_unit_bytes: Option<u64>,
    /// The largest write that goes to a separate log.
    pub log_request_bytes: Option<u64>,
    /// The size that some rates show, if it is not known.
    pub possible_log_request_bytes: Option<u64>,
    /// The specially mapped zone at the start.
    pub zone_bytes: Option<u64>,
    /// What the device reports about itself; files have it elsewhere.
    #[serde(skip)]
    pub device: Option<BlockDevInfo>,
}

impl DeviceHints {
    /// What the findings of a probe say.
    pub fn from_probe(findings: &GeometryFindings) -> Self {
        let count = |finding: &GeometryFinding| match finding.value {
            Some(QuantityValue::Count(count)) => Some(count),
            _ => None,
        };
        let bytes = |finding: &GeometryFinding| match finding.value {
            Some(QuantityValue::Bytes(bytes)) => Some(bytes),
            _ => None,
        };
        let is_likely = |of: &&CandidateValue| of.probability >= SURE;
        let likely = findings.write_unit.candidates.first().filter(is_likely).map(|of| of.value);
        let log = &findings.small_write_log;
        let possible = log.candidates.first().filter(|_| log.value.is_none()).map(|of| of.value);
        Self {
            lookup_ns: 0,
            erase_block_bytes: bytes(&findings.erase_block),
            open_erase_blocks: count(&findings.open_erase_blocks_linear),
            open_erase_blocks_random: count(&findings.open_erase_blocks_random),
            write_unit_bytes: bytes(&findings.write_unit),
            likely_write_unit_bytes: match likely {
                Some(QuantityValue::Bytes(bytes)) => Some(bytes),
                _ => None,
            },
            log_request_bytes: bytes(log),
            possible_log_request_bytes: match possible {
                Some(QuantityValue::Bytes(bytes)) => Some(bytes),
                _ => None,
            },
            zone_bytes: bytes(&findings.special_zone),
            device: None,
        }
    }

    /// What imported tables and their findings say.
    pub fn from_findings(imported: &Imported, findings: &GeometryFindings) -> Self {
        let found = Self::from_probe(findings);
        let Some(unit) = found.erase_block_bytes else { return found };
        let rows = align_step::pool(&imported.align);
        let level = |above: bool| {
            let extra = rows.iter().filter(|row| (row.align.0 >= unit) == above);
            flashfit_geometry::belief::median(&extra.map(|row| row.extra_ns).collect::<Vec<_>>())
        };
        let rise = level(true) - level(false);
        Self { lookup_ns: if rise > 0.0 { rise as u64 } else { 0 }, ..found }
    }
}
