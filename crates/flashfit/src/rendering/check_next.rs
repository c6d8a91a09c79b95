//! What can be typed after a check, with its price.

use std::time::Duration;

use flashfit_check::{DeviceCheck, TestPrice, of_written_and_read};
use flashfit_device::Bytes;
use flashfit_filesystem::check::{Repair, Severity};
use flashfit_geometry::Sourced;
use flashfit_host::program::quote;
use flashfit_probe::free_space::FreeSpaceTest;
use schemars::JsonSchema;
use serde::Serialize;

use super::check::{command, geometry_argument, size_argument};
use super::duration;

/// The budget that `next` proposes.
const TUNE_BUDGET: &str = "30min";

/// A command that may follow, and what it costs.
#[derive(Debug, PartialEq, Eq, JsonSchema, Serialize)]
pub struct PricedCommand {
    pub line: String,
    pub price: String,
    /// Whether it loses the data on the device.
    pub erases: bool,
}

/// What may follow a check.
#[derive(Debug, Default, PartialEq, Eq, JsonSchema, Serialize)]
pub struct NextCommands {
    /// What improves the device without losing data.
    pub keeps_data: Vec<String>,
    /// What improves it and erases a file system.
    pub erases: Vec<String>,
    pub commands: Vec<PricedCommand>,
}

/// What may follow.
pub fn next(name: &str, checked: &DeviceCheck) -> NextCommands {
    let mut next = NextCommands::default();
    if checked.loses_data() {
        return next;
    }
    let repairs = checked.findings.iter().filter(|finding| finding.severity >= Severity::Advice);
    for finding in repairs {
        let Some(repair) = &finding.repair else { continue };
        let (list, line) = match repair {
            Repair::Replan(_) => (&mut next.erases, command(repair, checked)),
            Repair::Command(_) => (&mut next.keeps_data, command(repair, checked)),
            Repair::Improvement(_) => {
                (&mut next.keeps_data, format!("flashfit apply --keep-data {}", quote(name)))
            }
        };
        if !list.contains(&line) {
            list.push(line);
        }
    }
    // Each of the commands below leads to new contents.
    if checked.is_unreadable() || checked.examined.has_lost_table() {
        return next;
    }
    let target = quote(name);
    let known = checked.given.clone().or(checked.reading.geometry());
    let flag = |name, known: Option<Sourced>| {
        known
            .map_or_else(String::new, |known| format!(" --{name} {}", size_argument(known.bytes.0)))
    };
    let (erase_block, units) = match &checked.geometry_file {
        Some(file) => (geometry_argument(file), geometry_argument(file)),
        None => {
            let erase_block = flag("erase-block", known.erase_block);
            let units = format!("{erase_block}{}", flag("write-unit", known.write_unit));
            (erase_block, units)
        }
    };
    let mut push = |line: String, price: String, erases| {
        next.commands.push(PricedCommand { line, price, erases });
    };
    push(
        format!("flashfit plan {target}{units}"),
        "a layout that fits; takes seconds, writes nothing".to_owned(),
        false,
    );
    if let Some(price) = checked.test.as_ref().filter(|_| !checked.is_file) {
        push(
            format!("flashfit tune {target}{erase_block} --budget {TUNE_BUDGET}"),
            "the fastest setup; takes about 30 min, says what it writes before it asks, ERASES it"
                .to_owned(),
            true,
        );
        if !checked.device.mounts.is_empty() {
            if let Ok(test) = FreeSpaceTest::look(&checked.device) {
                push(
                    format!("flashfit probe {target} --capacity --keep-data"),
                    format!(
                        "genuine or fake, on its free space; {}, keeps all files",
                        free_space_price(price, test.planned_bytes())
                    ),
                    false,
                );
            }
        }
        push(
            format!("flashfit probe {target} --write"),
            format!("capacity and structure; {}, ERASES it", probe_price(price)),
            true,
        );
    }
    next
}

fn free_space_price(rates: &TestPrice, bytes: u64) -> String {
    let time = |ns| duration(Duration::from_nanos(ns));
    let [least, most] = of_written_and_read(rates, bytes);
    format!("takes about {} to {}, writes {}", time(least), time(most), Bytes(bytes))
}

fn probe_price(price: &TestPrice) -> String {
    let time = |ns| duration(Duration::from_nanos(ns));
    let takes = match price.time_limit_ns {
        Some(most_ns) => format!("{} to {}", time(price.usual_ns.min(most_ns)), time(most_ns)),
        // How long merges take is not known before.
        None => format!("{} or longer", time(price.usual_ns)),
    };
    let (usual, most) = (Bytes(price.usual_bytes), Bytes(price.most_bytes));
    format!("takes about {takes}, writes {usual} to {most}")
}
