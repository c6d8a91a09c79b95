//! Reads the partitions of a device or an image.
//!
//! Uses `sfdisk --json`, which also reads image files and table formats that the running kernel
//! does not support. Falls back to the kernel's list when sfdisk is missing or fails. If it fails
//! and the kernel has no partitions either, the guard refuses the device.

use std::path::Path;

use flashfit_host::{Program, ProgramError, Runner};
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

/// What sfdisk(8) prints for a device that it can read and that has no table.
const NO_TABLE: &str = "does not contain a recognized partition table";

/// The partitions of the device at `path`; empty when it has no partition table or that cannot be
/// read.
pub fn read(runner: &dyn Runner, path: &Path) -> Vec<Partition> {
    try_read(runner, &listing(path)).unwrap_or_default()
}

/// The program that lists the partitions of the device at `path`.
pub fn listing(path: &Path) -> Program {
    Program::new("sfdisk").arg("--json").arg(path)
}

/// The same as [`read`], by a program of [`listing`]; empty also without sfdisk.
///
/// # Errors
/// When the table cannot be read, or sfdisk is interrupted.
pub fn try_read(runner: &dyn Runner, program: &Program) -> Result<Vec<Partition>, ProgramError> {
    let outcome = match runner.run_checked(program) {
        Ok(outcome) => outcome,
        Err(ProgramError::Missing { .. }) => return Ok(Vec::new()),
        Err(ProgramError::Failed { message, .. }) if message.contains(NO_TABLE) => {
            return Ok(Vec::new());
        }
        Err(error) => return Err(error),
    };
    let document: SfdiskOutput =
        serde_json::from_str(&outcome.stdout).map_err(|error| ProgramError::Failed {
            command_line: program.command_line(),
            how: "its output is not valid".to_owned(),
            message: error.to_string(),
        })?;
    let table = document.partitiontable;
    let sector = table.sectorsize;
    let partition = |row: PartitionRow| Partition {
        name: row.node,
        start: Bytes(row.start.saturating_mul(sector)),
        size: Bytes(row.size.saturating_mul(sector)),
    };
    Ok(table.partitions.into_iter().map(partition).collect())
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
    fn a_table_that_cannot_be_read_is_not_an_absent_one() {
        let found = |code, stdout: &str, stderr: &str| {
            let (stdout, stderr) = (stdout.to_owned(), stderr.to_owned());
            let outcome =
                ProgramOutcome { code: Some(code), stdout, stderr, ..ProgramOutcome::default() };
            let runner = ScriptedRunner::new().answer("sfdisk", outcome);
            try_read(&runner, &listing(Path::new("/dev/x")))
        };
        let none = "sfdisk: /dev/x: does not contain a recognized partition table\n";
        assert_eq!(found(1, "", none).unwrap(), []);
        let error = found(1, "", "sfdisk: cannot open /dev/x: Input/output error\n").unwrap_err();
        assert!(error.to_string().contains("Input/output error"), "{error}");
        let cut = found(0, "{\"partitiontable\": {", "").unwrap_err();
        assert!(cut.to_string().contains("its output is not valid"), "{cut}");
    }
}
