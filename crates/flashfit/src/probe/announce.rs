//! What a probe will do and cost, shown before it begins.

use std::time::Duration;

use flashfit_device::{Bytes, Device};
use flashfit_probe::{ProbeRun, WriteEstimate};
use flashfit_target::InspectedTarget;

use crate::command_error::CommandError;
use crate::consent;
use crate::rendering::duration;

/// What a probe would do, with nothing done.
pub fn dry_run(
    name: &str,
    write: bool,
    target: &InspectedTarget,
    probe: &ProbeRun<'_>,
) -> Result<String, CommandError> {
    let region @ [start, length] = probe.region();
    if !write {
        return Ok(format!(
            "{name} would be opened for reading only, and at most {} reads of a few KiB made in {} \
             from {start}.\nNothing was done.\n",
            probe.most_reads(),
            Bytes(length)
        ));
    }
    let Some(device) = target.device() else {
        let cost = cost(&probe.estimate()?);
        return Ok(format!("A simulated card: nothing is lost.\n{cost}\nNothing was done.\n"));
    };
    let (first, cost) = match (consent::would_be_refused(device), probe.estimate()) {
        (None, estimate) => (String::new(), cost(&estimate?)),
        (Some(refusal), Ok(estimate)) => (format!("{refusal}\n"), cost(&estimate)),
        // What is refused may also be unreadable, and that is not the reason.
        (Some(refusal), Err(error)) => {
            (format!("{refusal}\n"), format!("The cost of the probe is unknown: {error}."))
        }
    };
    Ok(format!("{first}{}\n{cost}\nNothing was done.\n", lost(device, region)))
}

pub fn cost(estimate: &WriteEstimate) -> String {
    let WriteEstimate { probe, budget } = estimate;
    let time = |ns| duration(Duration::from_nanos(ns));
    let mut text = format!(
        "Probing writes about {} in about {}; at most {} in about {} (--max-write SIZE sets that).",
        Bytes(probe.usual_bytes),
        time(probe.usual_ns),
        Bytes(probe.most_bytes),
        time(probe.most_ns)
    );
    if budget.twin_bytes > 0 {
        text.push_str(&format!(" The twin takes at most {} more.", Bytes(budget.twin_bytes)));
    }
    text
}

/// What a user should see before agreeing.
pub fn lost(device: &Device, [start, length]: [u64; 2]) -> String {
    let all = consent::what_is_lost(device);
    if length == device.capacity.0 {
        return all;
    }
    format!("{all}\nOnly {} from byte {start} on are overwritten.", Bytes(length))
}
