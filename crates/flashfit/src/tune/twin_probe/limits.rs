//! `flashfit tune --twin-first`: how long the probe may take, and how much it may write.

use flashfit_device::Bytes;
use flashfit_probe::ProbeRunOptions;
use flashfit_tune::RunSpec;
use flashfit_twin::pattern::file::PatternSet;

use super::super::args::TuneArgs;
use crate::command_error::CommandError;

/// The longest time of the probe.
const MAX_TIME_NS: u64 = 10 * 60 * 1_000_000_000;
/// The part of what a run may write that is left for the probe.
const SHARE_OF_WRITES: u64 = 2;

/// Keeps a part of what a run may write for the probe before it.
pub fn reserve(args: &TuneArgs, spec: &mut RunSpec) {
    if args.twin.twin_first {
        let most = &mut spec.limits.max_write_bytes;
        *most = most.map(|most| most - most / SHARE_OF_WRITES);
    }
}

/// The probe that precedes the run of `spec`, whose limit leaves as much for it.
pub fn options(spec: &RunSpec) -> Result<ProbeRunOptions, CommandError> {
    Ok(ProbeRunOptions {
        name: spec.target.clone(),
        write: true,
        region: None,
        max_write: spec.limits.max_write_bytes.map(Bytes),
        max_read_ns: None,
        max_time_ns: Some(MAX_TIME_NS),
        twin: Some(PatternSet::load(spec.catalog_dir.as_deref())?),
        seed: spec.seed,
        expected: None,
    })
}
