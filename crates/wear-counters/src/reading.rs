//! Everything that a device reports about its wear at one time, and what was asked.

use std::path::PathBuf;

use flashfit_device::declared::DeclaredFact;
use flashfit_device::{Device, DeviceKind, MeasuredDevice, SystemRoots};
use flashfit_host::Runner;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::ata_attributes::AtaAttributes;
use crate::counter::WearCounter;
use crate::{file_systems, kernel, mmc, nvme, sd_card, simulated, smartctl, ufs};

/// How a source answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SourceOutcome {
    Answered,
    /// It was asked, and has no counters.
    ReportsNothing,
    NeedsRoot,
    ProgramMissing,
    /// The device sleeps, and asking would wake it.
    Asleep,
    /// Asking could have changed or disturbed the device.
    NotAsked,
    Failed,
}

impl SourceOutcome {
    /// Whether the source was asked and answered, if only that it has no counters.
    pub fn is_answer(self) -> bool {
        matches!(self, Self::Answered | Self::ReportsNothing)
    }
}

#[derive(Debug, Clone, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
pub struct SourceAnswer {
    /// Program, file or command.
    pub source: String,
    pub outcome: SourceOutcome,
    /// Counters that it gave.
    pub counters: usize,
    /// Why it gave none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// What one source gave.
#[derive(Debug, Default)]
pub(crate) struct SourceReport {
    pub(crate) counters: Vec<WearCounter>,
    pub(crate) facts: Vec<DeclaredFact>,
}

impl SourceReport {
    pub(crate) fn add_fact(&mut self, name: &str, text: impl Into<String>, source: &str) {
        let (name, source) = (name.to_owned(), source.to_owned());
        self.facts.push(DeclaredFact { name, text: text.into(), source });
    }
}

/// Why a source gave nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct NoAnswer {
    pub(crate) outcome: SourceOutcome,
    pub(crate) reason: String,
}

impl NoAnswer {
    pub(crate) fn new(outcome: SourceOutcome, reason: impl Into<String>) -> Self {
        Self { outcome, reason: reason.into() }
    }

    pub(crate) fn failed(reason: impl Into<String>) -> Self {
        Self::new(SourceOutcome::Failed, reason)
    }

    pub(crate) fn nothing(reason: impl Into<String>) -> Self {
        Self::new(SourceOutcome::ReportsNothing, reason)
    }

    pub(crate) fn needs_root() -> Self {
        Self::new(SourceOutcome::NeedsRoot, "only root may ask")
    }
}

pub(crate) type Answer = Result<SourceReport, NoAnswer>;

/// How devices are asked.
pub struct WearSources<'a> {
    pub system: &'a SystemRoots,
    pub runner: &'a dyn Runner,
    pub attributes: &'a AtaAttributes,
    /// Whether commands may be sent to devices.
    pub is_root: bool,
    /// The argument of `smartctl -d`, such as `sntjmicron` for a USB bridge that smartctl does not
    /// recognize.
    pub smartctl_type: Option<&'a str>,
    /// Ask also for a vendor's log page that the drive does not list. A drive counts a refused
    /// request as an error.
    pub unlisted_logs: bool,
}

/// The counters of a device at one time.
#[derive(Debug, Clone, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
pub struct WearReading {
    pub device: PathBuf,
    pub kind: DeviceKind,
    pub counters: Vec<WearCounter>,
    /// What a device reports that is not a counter.
    pub facts: Vec<DeclaredFact>,
    /// The sources that were asked, in their order.
    pub asked: Vec<SourceAnswer>,
    /// The device, so that it is recognized; absent in documents of earlier versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub measured_device: Option<MeasuredDevice>,
    /// Seconds since 1970.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub created_unix_s: Option<u64>,
}

impl WearSources<'_> {
    /// Asks all sources of a device.
    pub fn read(&self, device: &Device) -> WearReading {
        let mut reading = WearReading {
            device: device.path.clone(),
            kind: device.kind,
            counters: Vec::new(),
            facts: Vec::new(),
            asked: Vec::new(),
            measured_device: Some(device.into()),
            created_unix_s: None,
        };
        reading.add("kernel, stat", kernel::read(self.system, &device.disk));
        for (source, answer) in file_systems::read(self.system, device) {
            reading.add(&source, answer);
        }
        match device.kind {
            DeviceKind::Emmc => {
                reading.add("EXT_CSD", mmc::read(self.system, &device.disk));
            }
            DeviceKind::SdCard => reading.add("CMD56", sd_card::read(self, device)),
            DeviceKind::Nvme => {
                let health = nvme::read_health(self, &device.disk);
                let lacks_nvme =
                    matches!(&health, Err(NoAnswer { outcome: SourceOutcome::ProgramMissing, .. }));
                reading.add("nvme smart-log", health);
                if lacks_nvme {
                    reading.add("smartctl", smartctl::read(self, &device.disk));
                } else {
                    for (source, answer) in nvme::read_logs(self, &device.disk) {
                        reading.add(source, answer);
                    }
                }
            }
            DeviceKind::Usb | DeviceKind::Ssd | DeviceKind::Disk => {
                match ufs::read(self.system, &device.disk) {
                    Some(answer) => reading.add("UFS health descriptor", answer),
                    None => reading.add("smartctl", smartctl::read(self, &device.disk)),
                }
            }
            DeviceKind::Loop => reading.add("simulated card", simulated::read(&device.path)),
            DeviceKind::Other => {
                let reason = "no command is known for this kind of block device; name the disk \
                              that is below it, if there is one";
                reading.add("device", Err(NoAnswer::new(SourceOutcome::NotAsked, reason)));
            }
            DeviceKind::Image | DeviceKind::Simulated => {}
        }
        reading
    }
}

impl WearReading {
    /// The counter of that name.
    pub fn counter(&self, id: &str) -> Option<&WearCounter> {
        self.counters.iter().find(|counter| counter.id == id)
    }

    /// Whether the device itself, and not only the kernel, reports anything about its wear.
    pub fn reports_wear(&self) -> bool {
        self.counters.iter().any(|counter| counter.measures.is_wear())
    }

    /// The sources that may have counters, but were not asked or did not answer.
    pub fn unanswered(&self) -> impl Iterator<Item = &SourceAnswer> {
        self.asked.iter().filter(|asked| !asked.outcome.is_answer())
    }

    /// The counter of used life that is furthest: an eMMC counts the life of two areas.
    pub fn life_used(&self) -> Option<&WearCounter> {
        let lives = self.counters.iter().filter(|counter| counter.measures.is_life());
        lives.max_by_key(|counter| counter.value)
    }

    fn add(&mut self, source: &str, answer: Answer) {
        let answer = match answer {
            Ok(report) if report.counters.is_empty() && report.facts.is_empty() => {
                Err(NoAnswer::nothing("it has no counters"))
            }
            other => other,
        };
        let source = source.to_owned();
        self.asked.push(match answer {
            Ok(report) => {
                let counters = report.counters.len();
                self.counters.extend(report.counters);
                self.facts.extend(report.facts);
                SourceAnswer { source, outcome: SourceOutcome::Answered, counters, reason: None }
            }
            Err(NoAnswer { outcome, reason }) => {
                SourceAnswer { source, outcome, counters: 0, reason: Some(reason) }
            }
        });
    }
}
