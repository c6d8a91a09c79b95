//! The reading probe with a short time limit, where the target has its own flash.
//!
//! An image, a loop device over one, or a device that is composed of others is not read
//! ([`Remapped`]): the times of its reads say nothing about erase blocks.

use flashfit_device::Device;
use flashfit_geometry::Geometry;
use flashfit_geometry::GeometryFindings;
use flashfit_geometry::probed::{ProbeError, ProbeObserver};
use flashfit_probe::{ProbeRun, ProbeRunError, ProbeRunOptions, Remapped};
use flashfit_target::InspectedTarget;
use flashfit_user_error::{ExitClass, UserError as _};
use schemars::JsonSchema;
use serde::Serialize;

/// What timed reads showed.
#[derive(Debug, JsonSchema, Serialize)]
#[serde(tag = "outcome", rename_all = "kebab-case")]
pub enum QuickReading {
    Made {
        reads: u64,
        read_bytes: u64,
        elapsed_ns: u64,
        findings: Box<GeometryFindings>,
    },
    Skipped {
        #[serde(flatten)]
        reason: SkippedReading,
    },
}

/// Why there were no timed reads.
#[derive(Debug, PartialEq, Eq, JsonSchema, Serialize)]
#[serde(tag = "reason", rename_all = "kebab-case")]
pub enum SkippedReading {
    /// The target is a file on another disk, and so are its erase blocks.
    IsFile,
    /// The target consists of parts of other devices, as with a device mapper.
    IsComposed,
    /// The user gave the erase block.
    Given,
    TooSmall,
    CannotOpen {
        message: String,
    },
    /// The device fails to read, or vanished.
    Unreadable {
        message: String,
    },
    /// The user interrupted, or the computer cannot do it.
    Failed {
        message: String,
    },
}

impl QuickReading {
    /// What was found, as a geometry.
    pub fn geometry(&self) -> Geometry {
        let Self::Made { findings, .. } = self else { return Geometry::default() };
        findings.geometry()
    }

    /// What was found, or else is the likeliest.
    pub fn likeliest_geometry(&self) -> Geometry {
        let Self::Made { findings, .. } = self else { return Geometry::default() };
        findings.likeliest_geometry()
    }
}

/// The usual longest time for timed reads: long enough for most cards, short enough to wait for.
pub const QUICK_READ_NS: u64 = 2_500_000_000;

/// Times reads of a target for `max_read_ns` at most, unless `given` has the erase block.
pub fn read_quickly(
    name: &str,
    target: &InspectedTarget,
    given: &Geometry,
    max_read_ns: u64,
    observer: &mut dyn ProbeObserver,
) -> QuickReading {
    match read_or_reason(name, target, given, max_read_ns, observer) {
        Ok(made) => made,
        Err(reason) => QuickReading::Skipped { reason },
    }
}

fn read_or_reason(
    name: &str,
    target: &InspectedTarget,
    given: &Geometry,
    max_read_ns: u64,
    observer: &mut dyn ProbeObserver,
) -> Result<QuickReading, SkippedReading> {
    match Remapped::of(target.device().ok_or(SkippedReading::IsFile)?) {
        Some(Remapped::ByFileSystem) => return Err(SkippedReading::IsFile),
        Some(Remapped::ByMapper) => return Err(SkippedReading::IsComposed),
        None => {}
    }
    if given.erase_block.is_some() {
        return Err(SkippedReading::Given);
    }
    let options =
        ProbeRunOptions { max_read_ns: Some(max_read_ns), ..ProbeRunOptions::usual(name, false) };
    let failed = |error: &ProbeRunError| {
        let message = error.to_string();
        match error.class() {
            ExitClass::Io => SkippedReading::Unreadable { message },
            _ => SkippedReading::Failed { message },
        }
    };
    let probe = ProbeRun::new(target, options).map_err(|error| failed(&error))?;
    let mut no_consent = |_: &Device, _: &_| unreachable!("a reading probe asks for no consent");
    match probe.run(&mut no_consent, observer) {
        Ok(outcome) => match outcome.failure {
            Some(error) => Err(failed(&error)),
            None => Ok(QuickReading::Made {
                reads: outcome.probed.reads,
                read_bytes: outcome.probed.read_bytes,
                elapsed_ns: outcome.probed.elapsed_ns,
                findings: Box::new(outcome.probed.findings),
            }),
        },
        Err(ProbeRunError::Open(error)) => {
            Err(SkippedReading::CannotOpen { message: error.to_string() })
        }
        Err(ProbeRunError::Probe(ProbeError::TooSmall { .. })) => Err(SkippedReading::TooSmall),
        Err(error) => Err(failed(&error)),
    }
}

/// Whether what is read are the extents of a file.
pub fn is_file(device: &Device) -> bool {
    Remapped::of(device) == Some(Remapped::ByFileSystem)
}
