//! The request queue: what the kernel takes the device for, and the scheduler.
//!
//! Which scheduler serves flash best is contested, so only what was made for turning disks is
//! named; the others have to be measured.

use super::{CheckFinding, ExaminedDevice, Severity};

const FOR_DISKS: [&str; 2] = ["cfq", "anticipatory"];

pub(super) fn check(examined: &ExaminedDevice) -> Vec<CheckFinding> {
    let Some(queue) = &examined.queue else { return Vec::new() };
    let mut findings = Vec::new();
    let name = &examined.disk;
    if queue.rotational && queue.logical_sector_bytes > 0 {
        findings.push(
            CheckFinding::new(
                "queue",
                &examined.target,
                Severity::Advice,
                "the kernel treats it as a rotating disk",
            )
            .costs("requests are sorted and held back to save seeks that flash does not have")
            .repair(format!("echo 0 > /sys/block/{name}/queue/rotational")),
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
            .costs("requests wait for neighbors that flash does not need")
            .repair(format!("echo none > /sys/block/{name}/queue/scheduler")),
        );
    } else {
        let text = format!(
            "{scheduler} is in use; only a measurement shows whether another one is faster"
        );
        findings.push(CheckFinding::new("scheduler", &examined.target, Severity::Fine, text));
    }
    findings
}
