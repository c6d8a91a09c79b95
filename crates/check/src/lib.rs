//! One read-only look at a device: what it is, how it is built, how worn it is, and whether
//! partitions and file systems fit.
//!
//! Reads for a few seconds at most, so it can leave a question open that a longer probe answers.
//! Limits: it neither tests the capacity nor measures speed, because both need writes.

mod capacity;
mod doubts;
mod price;
mod reading;
mod volumes;
mod write_price;

use std::path::{Path, PathBuf};

use flashfit_device::Device;
use flashfit_filesystem::FileSystemCatalog;
use flashfit_filesystem::check::{
    self, CheckFinding, ExaminedDevice, ExaminedNodes, Severity, UnfinishedApply, examine, verdict,
};
use flashfit_geometry::Geometry;
use flashfit_geometry::probed::ProbeObserver;
use flashfit_host::Runner;
use flashfit_probe::TestedCapacity;
use flashfit_target::{InspectedTarget, TargetSource};
use flashfit_wear_counters::{WearReading, WearSources};
use schemars::JsonSchema;
use serde::Serialize;

pub use price::{MakingPrice, TestPrice, of as price, of_making};
pub use reading::{QUICK_READ_NS, QuickReading, SkippedReading, is_file, read_quickly};
pub use volumes::VolumeNodes;
pub use write_price::{
    Price, WearPrice, of_written_and_read, rated_erases, rated_or_assumed_erases,
};

/// The target and the geometry that the user gave.
pub struct CheckRequest<'a> {
    /// The target as the user named it.
    pub name: &'a str,
    pub target: &'a InspectedTarget,
    /// The geometry that the user gave.
    pub given: Geometry,
    /// The file that it is in, if it is.
    pub geometry_file: Option<&'a Path>,
    /// What the probe that the user named found of the capacity.
    pub capacity: TestedCapacity,
    /// Where the file systems are read.
    pub nodes: &'a ExaminedNodes,
    /// Why its beginning cannot be read, if that is known.
    pub unreadable: Option<String>,
    pub unfinished: Option<UnfinishedApply>,
    /// What an interrupted change that keeps the files left.
    pub unfinished_improvement: Option<UnfinishedApply>,
    /// Who is asked about the wear of the flash.
    pub wear: &'a WearSources<'a>,
    /// The longest time for timed reads, in nanoseconds.
    pub max_read_ns: u64,
}

#[derive(Debug, JsonSchema, Serialize)]
pub struct DeviceCheck {
    pub verdict: Severity,
    #[serde(skip)]
    pub findings: Vec<CheckFinding>,
    /// The geometry that the user gave.
    #[serde(skip)]
    pub given: Geometry,
    /// The file with the erase block that the user gave.
    #[serde(skip)]
    pub geometry_file: Option<PathBuf>,
    #[serde(rename = "medium")]
    pub examined: ExaminedDevice,
    /// What the device reports about itself.
    pub device: Device,
    /// Which of that cannot be trusted, a sentence each.
    pub doubts: Vec<String>,
    pub reading: QuickReading,
    /// Whether it is a file on another disk, without its own erase blocks.
    pub is_file: bool,
    /// What the device reports about its wear; `None` for a file.
    pub wear: Option<WearReading>,
    /// What a test that writes costs; `None` for a file, or if the device cannot be read.
    pub test: Option<TestPrice>,
}

impl DeviceCheck {
    /// Whether its reads fail, so that nothing should be written to it.
    pub fn is_unreadable(&self) -> bool {
        let QuickReading::Skipped { reason } = &self.reading else { return false };
        matches!(reason, SkippedReading::Unreadable { .. })
    }

    /// What a test of its capacity found, if there was one.
    pub fn capacity(&self) -> Option<&CheckFinding> {
        self.findings.iter().find(|finding| finding.check == capacity::CHECK)
    }

    /// Whether that test lost what it wrote.
    pub fn loses_data(&self) -> bool {
        self.capacity().is_some_and(|tested| tested.severity == Severity::Bad)
    }
}

/// Looks at a device or an image. `None` for a card model, which starts empty.
pub fn look(
    request: CheckRequest<'_>,
    runner: &dyn Runner,
    catalog: &FileSystemCatalog,
    observer: &mut dyn ProbeObserver,
) -> Option<DeviceCheck> {
    let TargetSource::Device(device) = &request.target.source else { return None };
    let declared = request.target.declared_geometry();
    let CheckRequest { name, target, max_read_ns, .. } = request;
    let reading = match request.unreadable {
        Some(message) => QuickReading::Skipped { reason: SkippedReading::Unreadable { message } },
        None => read_quickly(name, target, &request.given, max_read_ns, observer),
    };
    let is_file = reading::is_file(device);
    let test = match reading {
        QuickReading::Skipped {
            reason: SkippedReading::CannotOpen { .. } | SkippedReading::Unreadable { .. },
        } => None,
        _ if is_file => None,
        _ => price::of(request.target),
    };
    let wear = (!is_file).then(|| request.wear.read(device));
    let given = request.given;
    let geometry_file = request.geometry_file.filter(|_| given.erase_block.is_some());
    let known = given.clone().or(reading.geometry());
    let mut examined = examine(
        runner,
        request.name,
        device,
        request.nodes,
        (&known, &declared),
        request.unfinished,
    );
    examined.unfinished_improvement = request.unfinished_improvement;
    let mut findings = check::check(&examined, catalog);
    if let QuickReading::Skipped { reason: SkippedReading::Unreadable { message } } = &reading {
        // The worst comes first.
        findings.insert(0, unreadable(name, message));
    }
    match capacity::finding(name, &request.capacity) {
        Some(finding) if finding.severity == Severity::Bad => findings.insert(0, finding),
        tested => findings.extend(tested),
    }
    Some(DeviceCheck {
        verdict: verdict(&findings),
        findings,
        given,
        geometry_file: geometry_file.map(Path::to_owned),
        examined,
        doubts: doubts::of(device),
        device: device.as_ref().clone(),
        reading,
        is_file,
        wear,
        test,
    })
}

fn unreadable(name: &str, message: &str) -> CheckFinding {
    CheckFinding {
        check: "readable",
        subject: name.to_owned(),
        severity: Severity::Bad,
        evidence: format!("reads fail: {message}; the kernel's messages may say more: dmesg"),
        cost: "it may be failing: save its files elsewhere before anything else".to_owned(),
        repair: None,
    }
}
