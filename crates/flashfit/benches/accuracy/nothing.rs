//! Figure 2: devices without geometry. No answer is the right one.

use std::fmt::Write;
use std::fs::File;
use std::io::Write as _;
use std::path::Path;

use flashfit_geometry::GeometryFindings;
use flashfit_host::capability;
use flashfit_host::loop_device::{LoopDevice, LoopOptions};
use serde_json::Value;

use crate::reading::{LATENCIES, probe_plain};
use crate::running;
use crate::share::Share;

/// Trials of each kind of latency, and on each real device.
const TRIALS: u64 = 10;
/// The size of real files and loop devices.
const REAL_BYTES: u64 = 256 << 20;
const SEED: u64 = 1_000_000;

/// The section, as Markdown.
pub fn section() -> String {
    let mut text = String::from(
        "\n## 2. Devices without geometry\n\nProbed by reading. Goal: no erase block, write unit or page in any trial. The first rows are simulated devices with response times as named, of \
         256 MiB to 16 GiB. The others are real.\n\n| device | trials without an answer |\n|---|---|\n",
    );
    let mut all = Share::default();
    let mut row = |name: &str, share: Share| {
        all = Share::sum([all, share]);
        writeln!(text, "| {name} | {share} |").expect("a string takes any text");
    };
    for latency in LATENCIES {
        let silent = running::of_each(SEED..SEED + TRIALS, |seed| {
            is_silent(&probe_plain(latency, (256 << 20) << (seed % 7), seed).findings)
        });
        row(&format!("times: {latency:?}"), Share::of(silent));
    }
    let folder = tempfile::tempdir().unwrap();
    let file = written(&folder.path().join("file"));
    row("a file on a disk", real(&file));
    if let (Ok(memory), None) =
        (tempfile::tempdir_in("/dev/shm"), capability::missing_for_block_devices())
    {
        let file = written(&memory.path().join("file"));
        let options = LoopOptions { direct_io: false, read_only: true, ..LoopOptions::default() };
        let device = LoopDevice::attach(&file, options).unwrap();
        row("a loop device over memory", real(device.node()));
    }
    writeln!(text, "| all | {all} |").expect("a string takes any text");
    text
}

/// A file with data in all of it.
fn written(path: &Path) -> std::path::PathBuf {
    let mut file = File::create(path).unwrap();
    let piece = vec![0x5a; 1 << 20];
    for _ in 0..REAL_BYTES / (1 << 20) {
        file.write_all(&piece).unwrap();
    }
    file.sync_all().unwrap();
    path.to_owned()
}

/// One after the other: trials at the same time would disturb each other.
fn real(target: &Path) -> Share {
    Share::of((0..TRIALS).map(|seed| is_silent_command(target, seed)))
}

/// Whether the command, reading only, says nothing about the structure of a device.
pub fn is_silent_command(target: &Path, seed: u64) -> bool {
    let (document, _) = running::probe(target, &["--seed", &seed.to_string()]);
    assert_ne!(document["erase_unit"]["verdict"], Value::Null, "{document}");
    ["erase_unit", "write_unit", "page"].iter().all(|name| document[*name]["verdict"] != "found")
}

fn is_silent(findings: &GeometryFindings) -> bool {
    let quantities = [&findings.erase_block, &findings.write_unit, &findings.page];
    quantities.into_iter().all(|finding| finding.value.is_none())
}
