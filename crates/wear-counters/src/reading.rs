//! Everything that a device reports about its wear at one time, and what was asked.

use std::path::PathBuf;

use flashfit_device::{Device, DeviceKind, SystemRoots};
use serde::{Deserialize, Serialize};

use crate::counter::WearCounter;
use crate::kernel;

/// A source that was asked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SourceAnswer {
    /// Program, file or command.
    pub source: String,
    /// Counters that it gave.
    pub counters: usize,
    /// Why it gave none.
    pub reason: Option<String>,
}

/// The counters of a device at one time.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WearReading {
    pub device: PathBuf,
    pub kind: DeviceKind,
    pub counters: Vec<WearCounter>,
    /// The sources that were asked, in their order.
    pub asked: Vec<SourceAnswer>,
}

impl WearReading {
    /// Reads all sources of a device.
    pub fn of(system: &SystemRoots, device: &Device) -> Self {
        let mut reading = Self {
            device: device.path.clone(),
            kind: device.kind,
            counters: Vec::new(),
            asked: Vec::new(),
        };
        reading.add("kernel", Ok(kernel::read(system, &device.disk)));
        reading
    }

    /// Adds what a source answered.
    fn add(&mut self, source: &str, answer: Result<Vec<WearCounter>, String>) {
        let (counters, reason) = match answer {
            Ok(counters) if counters.is_empty() => {
                (counters, Some("it reports no counters".to_owned()))
            }
            Ok(counters) => (counters, None),
            Err(reason) => (Vec::new(), Some(reason)),
        };
        let source = source.to_owned();
        self.asked.push(SourceAnswer { source, counters: counters.len(), reason });
        self.counters.extend(counters);
    }
}
