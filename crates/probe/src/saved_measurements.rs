//! The file of what a twin is fitted to, for a fit that is repeated without another probe.

use std::path::Path;

use flashfit_device::{BlockDevInfo, Bytes};
use flashfit_geometry::flashbench::OpenBlockTable;
use flashfit_host::input_file::{DOCUMENT_BYTES, read_text};
use flashfit_twin::DeviceHints;
use flashfit_twin::fit_target::MeasuredPatterns;
use serde::{Deserialize, Serialize};

use crate::error::ProbeFileError;
use crate::stalls::Stalls;
use crate::twin::TwinMeasurements;

const SCHEMA: &str = "flashfit.twin-measurements";
const SCHEMA_VERSION: u32 = 1;

#[derive(Serialize, Deserialize)]
struct MeasurementsFile {
    schema: String,
    schema_version: u32,
    tables: Vec<OpenBlockTable>,
    patterns: Option<MeasuredPatterns>,
    hints: DeviceHints,
    device: Option<DeviceInfo>,
    stalls: Option<Stalls>,
    lacked_bytes: Option<Bytes>,
}

#[derive(Serialize, Deserialize)]
struct DeviceInfo {
    capacity_bytes: u64,
    sector_bytes: u32,
    discard_granularity_bytes: u64,
    volatile_cache: bool,
}

impl TwinMeasurements {
    /// Their file. It begins with the name of its schema.
    ///
    /// # Panics
    /// Never: they are plain data.
    pub fn text(&self) -> String {
        let Self { tables, patterns, hints, stalls, lacked_bytes } = self;
        let file = MeasurementsFile {
            schema: SCHEMA.to_owned(),
            schema_version: SCHEMA_VERSION,
            tables: tables.clone(),
            patterns: patterns.clone(),
            hints: *hints,
            device: hints.device.map(|device| DeviceInfo {
                capacity_bytes: device.capacity_bytes,
                sector_bytes: device.sector_bytes,
                discard_granularity_bytes: device.discard_granularity_bytes,
                volatile_cache: device.volatile_cache,
            }),
            stalls: stalls.clone(),
            lacked_bytes: *lacked_bytes,
        };
        serde_json::to_string(&file).expect("measurements are plain data") + "\n"
    }

    /// Reads their file.
    ///
    /// # Errors
    /// If it cannot be read, or is something else.
    pub fn read(path: &Path) -> Result<Self, ProbeFileError> {
        let text = read_text(path, DOCUMENT_BYTES)?;
        let invalid = |error| ProbeFileError::Invalid { path: path.to_owned(), error };
        let file: MeasurementsFile = serde_json::from_str(&text).map_err(invalid)?;
        let (schema, version) = (file.schema, file.schema_version);
        if schema != SCHEMA || version != SCHEMA_VERSION {
            return Err(invalid(serde::de::Error::custom(format!("it is `{schema}` {version}"))));
        }
        let device = file.device.map(|device| BlockDevInfo {
            capacity_bytes: device.capacity_bytes,
            sector_bytes: device.sector_bytes,
            discard_granularity_bytes: device.discard_granularity_bytes,
            volatile_cache: device.volatile_cache,
        });
        Ok(Self {
            tables: file.tables,
            patterns: file.patterns,
            hints: DeviceHints { device, ..file.hints },
            stalls: file.stalls,
            lacked_bytes: file.lacked_bytes,
        })
    }
}

#[cfg(test)]
mod tests {
    use flashfit_geometry::flashbench::{AccessOrder, TableCell};
    use flashfit_twin::pattern::{MeasuredPattern, Pattern, PatternRequest};

    use super::*;

    #[test]
    fn what_was_measured_is_read_as_it_was_written() {
        let cell = TableCell {
            units: 3,
            access: AccessOrder::Random,
            write: Bytes(12_345),
            bytes_per_second: u64::MAX,
        };
        let requests = vec![
            PatternRequest::Write { offset: 1, length: 4096 },
            PatternRequest::Flush,
            PatternRequest::Read { offset: 512, length: 3 },
        ];
        let pattern =
            Pattern { name: "p".to_owned(), what: "writes".to_owned(), parts: vec![requests] };
        let device = BlockDevInfo {
            capacity_bytes: 1 << 30,
            sector_bytes: 4096,
            discard_granularity_bytes: 512,
            volatile_cache: true,
        };
        let measured = TwinMeasurements {
            tables: vec![OpenBlockTable { cells: vec![cell] }],
            patterns: Some(MeasuredPatterns {
                filled: Bytes(7),
                measured: vec![MeasuredPattern { pattern, parts_ns: vec![9] }],
            }),
            hints: DeviceHints {
                lookup_ns: 5,
                open_erase_blocks: Some(4),
                device: Some(device),
                ..DeviceHints::default()
            },
            stalls: Some(Stalls { stall_ns: 1, every: 2, difference_ns: vec![-3, 4] }),
            lacked_bytes: Some(Bytes(8)),
        };
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("measured.json");
        std::fs::write(&path, measured.text()).unwrap();
        assert_eq!(TwinMeasurements::read(&path).unwrap(), measured);
        std::fs::write(&path, measured.text().replace("twin-measurements", "probe")).unwrap();
        let text = TwinMeasurements::read(&path).unwrap_err().to_string();
        assert!(text.contains("it is `flashfit.probe` 1"), "{text}");
    }
}
