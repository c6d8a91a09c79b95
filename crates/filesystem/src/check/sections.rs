//! Whether the sections of F2FS and the segments of NILFS2 fit the erase block: both are written
//! from start to end and freed as a whole.

use flashfit_device::Bytes;

use crate::facts::FileSystemFacts;
use crate::plan::numbers::PlacementNumbers;

use super::{CheckFinding, ExaminedDevice, Severity, Volume};

/// The segment of F2FS.
const SEGMENT_BYTES: u64 = 2 << 20;

pub(super) fn check(examined: &ExaminedDevice, volume: &Volume) -> Option<CheckFinding> {
    let unit = examined.erase_block()?;
    let facts = volume.facts.as_ref()?;
    let what = match facts.kind.as_str() {
        "f2fs" => "section",
        "nilfs2" => "segment",
        _ => return None,
    };
    let bytes = facts.number("section_bytes").or_else(|| facts.number("segment_bytes"))?;
    let both = format!("a {what} is {}, an erase block {}", Bytes(bytes), Bytes(unit));
    if bytes > 0 && bytes % unit == 0 {
        return Some(CheckFinding::new("section", &volume.name, Severity::Fine, both));
    }
    if examined.planned(volume).is_some_and(|fitted| section_bytes(&fitted, facts) == Some(bytes)) {
        let text = format!("{both}, and a plan would use the same {what} here");
        let finding = CheckFinding::new("section", &volume.name, Severity::Advice, text);
        return Some(finding.costs("what is freed together is not a whole erase block"));
    }
    let repair = examined.replan(volume, examined.starts_on_boundary(volume));
    let finding = if bytes > 0 && unit % bytes == 0 {
        CheckFinding::new("section", &volume.name, Severity::Advice, both).costs(format!(
            "what is freed together is a part of an erase block; a larger {what} costs capacity, \
             as the plan shows"
        ))
    } else {
        CheckFinding::new("section", &volume.name, Severity::Bad, both)
            .costs(format!("a {what} that is freed leaves parts of erase blocks behind"))
    };
    Some(finding.repair(repair))
}

/// The section or the segment that a plan would make, in bytes.
fn section_bytes(fitted: &PlacementNumbers, facts: &FileSystemFacts) -> Option<u64> {
    let number = |name: &str| fitted.planned.get(name).copied();
    match number("section_segments") {
        Some(segments) => Some(segments * SEGMENT_BYTES),
        None => Some(number("segment_blocks")? * facts.block_bytes),
    }
}
