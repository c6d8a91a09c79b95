//! The request queue: what the kernel takes the device for, and the scheduler.
//!
//! Which scheduler serves flash best is contested, so only what was made for turning disks is
//! named; the others have to be measured.

use crate::improvement::Improvement;

use super::{CheckFinding, ExaminedDevice, Severity};

const FOR_DISKS: [&str; 2] = ["cfq", "anticipatory"];
/// Schedulers that do not wait, in the order in which they are proposed.
const FOR_FLASH: [&str; 3] = ["none", "noop", "deadline"];
const SORTED: &str = "requests are sorted and held back to save seeks that flash does not have";
const WAITS: &str = "requests wait for neighbors that flash does not need";

pub(super) fn check(examined: &ExaminedDevice) -> Vec<CheckFinding> {
    let Some(queue) = &examined.queue else { return Vec::new() };
    let mut findings = Vec::new();
    let set = |attribute: &str, before: &str, value: &str, why: &str| Improvement::QueueAttribute {
        disk: examined.disk.clone(),
        attribute: attribute.to_owned(),
        before: before.to_owned(),
        value: value.to_owned(),
        why: why.to_owned(),
    };
    if queue.rotational && queue.logical_sector_bytes > 0 {
        findings.push(
            CheckFinding::new(
                "queue",
                &examined.target,
                Severity::Advice,
                "the kernel treats it as a rotating disk",
            )
            .costs(SORTED)
            .repair(set("rotational", "1", "0", SORTED)),
        );
    }
    let Some(scheduler) = &queue.scheduler else { return findings };
    if FOR_DISKS.contains(&scheduler.as_str()) {
        findings.push(
            CheckFinding::new(
                "scheduler",
                &examined.target,
                Severity::Advice,
                format!("{scheduler} is in use, which was made for rotating disks"),
            )
            .costs(WAITS)
            .repair(set("scheduler", scheduler, for_flash(&queue.schedulers), WAITS)),
        );
    } else {
        let text = format!(
            "{scheduler} is in use; only a measurement shows whether another one is faster"
        );
        findings.push(CheckFinding::new("scheduler", &examined.target, Severity::Fine, text));
    }
    findings
}

/// What the queue offers instead; kernels before 5.0 have other names.
fn for_flash(offered: &[String]) -> &'static str {
    let is_offered = |name: &&str| offered.iter().any(|offered| offered == name);
    FOR_FLASH.into_iter().find(is_offered).unwrap_or(FOR_FLASH[0])
}
