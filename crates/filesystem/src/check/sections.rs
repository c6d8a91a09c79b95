//! Whether the sections of F2FS and the segments of NILFS2 fit the erase unit: both are written
//! from start to end and freed as a whole.

use flashfit_medium::Bytes;

use super::{Examined, Finding, Severity, Volume};

pub(super) fn check(examined: &Examined, volume: &Volume) -> Option<Finding> {
    let unit = examined.erase_unit()?;
    let facts = volume.facts.as_ref()?;
    let what = match facts.kind.as_str() {
        "f2fs" => "section",
        "nilfs2" => "segment",
        _ => return None,
    };
    let bytes = facts.number("section_bytes").or_else(|| facts.number("segment_bytes"))?;
    let both = format!("a {what} is {}, an erase unit {}", Bytes(bytes), Bytes(unit));
    if bytes > 0 && bytes % unit == 0 {
        return Some(Finding::new("section", &volume.name, Severity::Fine, both));
    }
    let mend = examined.plan_anew(Some(&facts.kind));
    let finding = if bytes > 0 && unit % bytes == 0 {
        Finding::new("section", &volume.name, Severity::Advice, both).costs(format!(
            "what is freed together is a part of an erase unit; a larger {what} costs capacity, \
             which the plan tells"
        ))
    } else {
        Finding::new("section", &volume.name, Severity::Bad, both)
            .costs(format!("a {what} that is freed leaves parts of erase units behind"))
    };
    Some(finding.mend(mend))
}
