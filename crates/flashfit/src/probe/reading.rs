//! A probe by reading alone.

use flashfit_device::Bytes;
use flashfit_geometry::probed::ProbeError;
use flashfit_geometry::reading::{self, ReadingOptions};

use super::Ended;
use super::args::ProbeArgs;
use super::device::TimedDevice;
use super::subject::ProbeSubject;
use super::watch::ProbeProgress;
use crate::command_error::CommandError;
use crate::tune::subject::TuneTarget;

/// What a probe would do.
pub fn announcement(subject: &ProbeSubject, [start, length]: [u64; 2]) -> String {
    format!(
        "{} would be opened for reading only, and at most {} reads of a few KiB made in {} from \
         {start}.\nNothing was done.\n",
        subject.name,
        reading::usual_reads(length),
        Bytes(length)
    )
}

/// Probes; what is known when the user interrupts is what is given.
pub fn probe(
    args: &ProbeArgs,
    subject: &ProbeSubject,
    region: [u64; 2],
    progress: &mut ProbeProgress,
) -> Result<Ended, CommandError> {
    let mut opened = match &subject.what {
        TuneTarget::Card(model) => TimedDevice::used(model)?,
        TuneTarget::Medium(medium) => TimedDevice::read_only(medium)?,
    };
    let options = options(args, subject, region);
    let probed = reading::probe(opened.device.as_mut(), opened.clock.as_ref(), &options, progress);
    match probed {
        Ok(mut probed) => {
            probed.notes.append(&mut opened.notes);
            Ok(Ended::new(probed, None))
        }
        Err(error @ ProbeError::Interrupted) => {
            Ok(Ended::new(Default::default(), Some(error.into())))
        }
        Err(error) => Err(error.into()),
    }
}

/// The options of the probe that reads.
pub fn options(
    args: &ProbeArgs,
    subject: &ProbeSubject,
    [start, length]: [u64; 2],
) -> ReadingOptions {
    ReadingOptions {
        seed: args.seed,
        region: Some(start..start + length),
        origin_bytes: subject.planned.medium.partition_start_bytes.unwrap_or(0),
        ..ReadingOptions::default()
    }
}
