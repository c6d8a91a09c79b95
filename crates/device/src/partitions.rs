//! Reads the partitions of a device or an image.
//!
//! Uses `sfdisk --json`, which also reads image files and table formats that the running kernel
//! does not support. Falls back to the kernel's list when sfdisk is missing.

use std::path::Path;

use flashfit_host::{Program, Runner};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::system::SystemRoots;
use crate::units::{Bytes, SECTOR_BYTES};

#[derive(Debug, Clone, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
pub struct Partition {
    /// Device node, or the name sfdisk prints.
    pub name: String,
    /// Offset from the start of the device.
    pub start: Bytes,
    pub size: Bytes,
}

impl Partition {
    pub fn starts_on(&self, unit: Bytes) -> bool {
        unit.0 > 0 && self.start.0 % unit.0 == 0
    }
}

#[derive(Deserialize)]
struct SfdiskOutput {
    partitiontable: PartitionTable,
}

#[derive(Deserialize)]
struct PartitionTable {
    #[serde(default = "default_sector")]
    sectorsize: u64,
    #[serde(default)]
    partitions: Vec<PartitionRow>,
}

#[derive(Deserialize)]
struct PartitionRow {
    node: String,
    start: u64,
    size: u64,
}

fn default_sector() -> u64 {
    SECTOR_BYTES
}

/// The partitions of the device at `path`; empty when it has no partition table.
pub fn read(runner: &dyn Runner, path: &Path) -> Vec<Partition> {
    let program = Program::new("sfdisk").arg("--json").arg(path);
    let document = runner
        .run_checked(&program)
        .ok()
        .and_then(|outcome| serde_json::from_slice::<SfdiskOutput>(outcome.stdout.as_bytes()).ok());
    let Some(SfdiskOutput { partitiontable: table }) = document else { return Vec::new() };
    let sector = table.sectorsize;
    table
        .partitions
        .into_iter()
        .map(|row| Partition {
            name: row.node,
            start: Bytes(row.start.saturating_mul(sector)),
            size: Bytes(row.size.saturating_mul(sector)),
        })
        .collect()
}

/// The partitions of the whole disk `disk` according to sysfs.
pub fn read_from_sysfs(system: &SystemRoots, disk: &str) -> Vec<Partition> {
    let sectors = |name: &str, attribute: &str| {
        Bytes(system.number(&system.block(name).join(attribute)).unwrap_or(0) * SECTOR_BYTES)
    };
    system
        .partitions_of(disk)
        .into_iter()
        .map(|name| Partition {
            start: sectors(&name, "start"),
            size: sectors(&name, "size"),
            name: format!("/dev/{name}"),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use flashfit_host::ProgramOutcome;
    use flashfit_host::program::ScriptedRunner;

    use super::*;

    #[test]
    fn the_output_of_sfdisk_is_parsed() {
        let json = r#"{"partitiontable": {"label":"dos","sectorsize":512,"partitions": [
            {"node": "/dev/x1", "start": 16384, "size": 127647744, "type": "83"},
            {"node": "/dev/x2", "start": 127664128, "size": 2095104, "type": "82"},
            {"node": "/dev/x3", "start": 1, "size": 7, "type": "83"}]}}"#;
        let outcome =
            ProgramOutcome { code: Some(0), stdout: json.into(), ..ProgramOutcome::default() };
        let runner = ScriptedRunner::new().answer("sfdisk --json", outcome);
        let found = read(&runner, Path::new("/dev/x"));
        let aligned: Vec<bool> = found.iter().map(|p| p.starts_on(Bytes::mib(8))).collect();
        assert_eq!(aligned, [true, true, false]);
    }

    #[test]
    fn a_table_with_impossible_numbers_is_read_without_overflow() {
        let json = r#"{"partitiontable": {"partitions": [
            {"node": "/dev/x1", "start": 9223372036854775808, "size": 1}]}}"#;
        let outcome =
            ProgramOutcome { code: Some(0), stdout: json.into(), ..ProgramOutcome::default() };
        let runner = ScriptedRunner::new().answer("sfdisk", outcome);
        assert_eq!(read(&runner, Path::new("/dev/x"))[0].start, Bytes(u64::MAX));
    }

    #[test]
    fn a_device_without_a_table_has_no_partitions() {
        let outcome = ProgramOutcome { code: Some(1), ..ProgramOutcome::default() };
        let runner = ScriptedRunner::new().answer("sfdisk", outcome);
        assert!(read(&runner, Path::new("/dev/x")).is_empty());
    }
}
