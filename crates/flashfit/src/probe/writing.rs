//! A probe that also writes: what it will cost is told and the user asked before anything is lost.

use std::time::Duration;

use flashfit_device::{Bytes, Device, DeviceLock};
use flashfit_geometry::probed::{ProbeError, Probed};
use flashfit_geometry::reading;
use flashfit_geometry::writing::{self, ProbeEstimate, QuickLook, WritingOptions};
use flashfit_host::SystemRunner;

use super::Ended;
use super::args::ProbeArgs;
use super::device::TimedDevice;
use super::document::bytes;
use super::reading::options as reading_options;
use super::subject::ProbeSubject;
use super::twin::{self, WritableRegion};
use super::watch::ProbeProgress;
use crate::command_error::CommandError;
use crate::consent;
use crate::output::note;
use crate::tune::human;
use crate::tune::subject::TuneTarget;

/// A few large reads tell how fast the device is.
const LOOKS: u64 = 8;
const LOOK_BYTES: u64 = 1 << 20;

/// What a probe would do.
pub fn announcement(
    args: &ProbeArgs,
    subject: &ProbeSubject,
    region: [u64; 2],
) -> Result<String, CommandError> {
    let mut opened = match &subject.what {
        TuneTarget::Card(model) => TimedDevice::used(model)?,
        TuneTarget::Medium(medium) => TimedDevice::read_only(medium)?,
    };
    let cost = cost(args, subject, region, &mut opened)?;
    let lost = match &subject.what {
        TuneTarget::Card(_) => "A simulated card: nothing is lost.".to_owned(),
        TuneTarget::Medium(medium) => {
            let mut text = lost(medium, region);
            text.extend(consent::would_be_refused(medium).map(|told| format!("\n{told}")));
            text
        }
    };
    let told = told(&cost, Budget::of(args, region[1]));
    Ok(format!("{lost}\n{told}\nNothing was done.\n"))
}

/// Asks, takes the device, and probes it.
pub fn probe(
    args: &ProbeArgs,
    subject: &ProbeSubject,
    region: [u64; 2],
    progress: &mut ProbeProgress,
) -> Result<Ended, CommandError> {
    let runner = SystemRunner::default();
    // Held for as long as it is written to.
    let (mut opened, _held) = match &subject.what {
        TuneTarget::Card(model) => (TimedDevice::simulated(model), None),
        TuneTarget::Medium(medium) => {
            let mut first = TimedDevice::read_only(medium)?;
            let cost = cost(args, subject, region, &mut first)?;
            drop(first);
            note(&lost(medium, region));
            note(&told(&cost, Budget::of(args, region[1])));
            let shown = match &args.shown {
                Some(shown) => shown.over(medium),
                None => medium.as_ref().clone(),
            };
            let consent = consent::for_shown(&shown, args.confirm.as_deref(), &runner)?;
            let held = DeviceLock::node(consent)?;
            (TimedDevice::writable(held.consent())?, Some(held))
        }
    };
    let (device, clock) = (opened.device.as_mut(), opened.clock.as_ref());
    let read = reading::probe(device, clock, &reading_options(args, subject, region), progress);
    let read = match read {
        Ok(read) => read,
        Err(error @ ProbeError::Interrupted) => return Ok(ended(Probed::default(), error)),
        Err(error) => return Err(error.into()),
    };
    match writing::probe(device, clock, &options(args, subject, region), Some(&read), progress) {
        Ok(mut probed) => {
            probed.notes.append(&mut opened.notes);
            if args.twin.is_none() || lacks_capacity(&probed, subject) {
                return Ok(Ended::new(probed, None));
            }
            let room = WritableRegion {
                region: region[0]..region[0] + region[1],
                left_bytes: Budget::of(args, region[1]).twin_bytes,
            };
            let declared = subject.planned.declared.erase_unit.as_ref().map(|known| known.bytes);
            let declared = declared.filter(|_| !subject.is_simulated());
            let (device, clock) = (opened.device.as_mut(), opened.clock.as_ref());
            let table = twin::measure(
                device,
                clock,
                &probed.findings,
                declared,
                room,
                progress,
                args.seed,
            )?;
            Ok(Ended { tables: vec![table], ..Ended::new(probed, None) })
        }
        Err(error @ ProbeError::Interrupted) => Ok(ended(read, error)),
        Err(error) => Err(error.into()),
    }
}

fn ended(probed: Probed, error: ProbeError) -> Ended {
    Ended::new(probed, Some(error.into()))
}

fn options(args: &ProbeArgs, subject: &ProbeSubject, [start, length]: [u64; 2]) -> WritingOptions {
    WritingOptions {
        seed: args.seed,
        region: start..start + length,
        max_write_bytes: Budget::of(args, length).probe_bytes,
        check_capacity: true,
        compressible: subject.is_simulated(),
    }
}

/// The most that may be written.
#[derive(Clone, Copy)]
struct Budget {
    /// By the probe, in bytes.
    probe_bytes: u64,
    /// For a twin, in bytes.
    twin_bytes: u64,
}

impl Budget {
    /// For a region of that length. What the user allows is for both.
    fn of(args: &ProbeArgs, length: u64) -> Self {
        let wanted = if args.twin.is_some() { twin::USUAL_BYTES } else { 0 };
        match args.max_write {
            None => {
                let probe_bytes = writing::default_max_write_bytes(length);
                Self { probe_bytes, twin_bytes: wanted }
            }
            Some(Bytes(most)) => {
                let twin_bytes = wanted.min(most / 2);
                Self { probe_bytes: most - twin_bytes, twin_bytes }
            }
        }
    }
}

/// Whether it has less than it says: there is nothing to fit a twin to.
fn lacks_capacity(probed: &Probed, subject: &ProbeSubject) -> bool {
    let announced = Bytes(subject.planned.medium.capacity_bytes);
    bytes(&probed.findings.capacity).is_some_and(|real| real < announced)
}

/// What it will cost, by a first look at the device.
fn cost(
    args: &ProbeArgs,
    subject: &ProbeSubject,
    region: [u64; 2],
    opened: &mut TimedDevice,
) -> Result<ProbeEstimate, CommandError> {
    let [start, length] = region;
    let sector = subject.planned.medium.sector_bytes;
    let size = LOOK_BYTES.min(length) / sector * sector;
    let mut buffer = vec![0; usize::try_from(size).expect("at most a look")];
    let begin_ns = opened.clock.now_ns();
    for look in 0..LOOKS {
        let offset = start + (length - size) / LOOKS * look / sector * sector;
        opened.device.read(offset, &mut buffer)?;
    }
    let took_ns = (opened.clock.now_ns() - begin_ns).max(1);
    let rate = u128::from(LOOKS * size) * 1_000_000_000 / u128::from(took_ns);
    let first = QuickLook { read_bytes_per_second: u64::try_from(rate).unwrap_or(u64::MAX) };
    Ok(writing::estimate(&opened.device.describe(), &options(args, subject, region), &first))
}

fn told(cost: &ProbeEstimate, budget: Budget) -> String {
    let time = |ns| human(Duration::from_nanos(ns));
    let mut text = format!(
        "Probing writes about {} in about {}; at most {} in about {} (--max-write SIZE sets that).",
        Bytes(cost.usual_bytes),
        time(cost.usual_ns),
        Bytes(cost.most_bytes),
        time(cost.most_ns)
    );
    if budget.twin_bytes > 0 {
        text.push_str(&format!(" The twin takes at most {} more.", Bytes(budget.twin_bytes)));
    }
    text
}

/// What a user should see before agreeing.
fn lost(medium: &Device, [start, length]: [u64; 2]) -> String {
    let all = consent::what_is_lost(medium);
    if length == medium.capacity.0 {
        return all;
    }
    format!(
        "{all}\nOnly {} from byte {start} on are written to; what lies elsewhere stays.",
        Bytes(length)
    )
}
