//! Gathers the input of the checks; only reads the device.

use std::path::{Path, PathBuf};

use flashfit_device::partitions::Partition;
use flashfit_device::{Device, SystemRoots};
use flashfit_geometry::Geometry;
use flashfit_host::mountinfo::MountEntry;
use flashfit_host::{Program, Runner, path_text};
use serde::Deserialize;

use crate::facts::{self, FileSystemFacts};
use crate::plan::units;

use super::{ExaminedDevice, MountedVolume, UnfinishedApply, Volume, gpt_header};

/// Words of sfdisk(8) that mean trouble.
const WARNING_WORDS: [&str; 5] = ["corrupt", "invalid", "overlap", "mismatch", "wrong"];

/// Where the file systems of a device are read: the device's own node, or that of a loop device
/// over an image.
#[derive(Debug, Clone)]
pub struct ExaminedNodes {
    /// The whole device; `None` where it cannot be had.
    pub disk: Option<PathBuf>,
}

impl ExaminedNodes {
    /// The node of the partition with this number, as the kernel names it.
    fn partition(&self, number: &str) -> Option<PathBuf> {
        let disk = self.disk.as_ref()?.display().to_string();
        let divider = if disk.ends_with(|c: char| c.is_ascii_digit()) { "p" } else { "" };
        Some(PathBuf::from(format!("{disk}{divider}{number}")))
    }
}

#[derive(Default, Deserialize)]
struct Document {
    partitiontable: Label,
}

#[derive(Default, Deserialize)]
struct Label {
    #[serde(default)]
    label: String,
    #[serde(default)]
    partitions: Vec<Row>,
}

#[derive(Default, Deserialize)]
struct Row {
    #[serde(rename = "type", default)]
    kind: String,
}

/// Looks at a device. Of the two geometries the first is what the user gave, the second what the
/// device declares.
pub fn examine(
    runner: &dyn Runner,
    target: &str,
    device: &Device,
    nodes: &ExaminedNodes,
    (given, declared): (&Geometry, &Geometry),
    unfinished: Option<UnfinishedApply>,
) -> ExaminedDevice {
    let (geometry, disagreements) = units::combine(given, declared);
    let Table { label: table, complaints: table_complaints, is_lost: table_is_lost } =
        match device.partition_start {
            Some(_) => Table::default(),
            None => table(runner, &device.path),
        };
    let entries = flashfit_host::mountinfo::read().unwrap_or_default();
    let mut partitions = distinct(&device.partitions);
    let repeated_entries = device.partitions.len() - partitions.len();
    if is_within_fat(runner, device, nodes) {
        partitions.clear();
    }
    let mut volumes = volumes(runner, device, &partitions, nodes, &entries);
    let has_own = |volume: &Volume| volume.facts.is_some() || !volume.mounts.is_empty();
    let is_known = |volume: &Volume| has_own(volume) || volume.unreadable.is_some();
    let is_bare = table.is_none() && device.partition_start.is_none() && partitions.is_empty();
    let kind = || facts::kind(runner, nodes.disk.as_deref().unwrap_or(&device.path)).ok();
    // Contents of a kind that is not read here, such as LUKS, would be lost by a repair.
    let is_empty = || kind().is_some_and(|kind| kind.is_none());
    let lost_header_bytes = match is_bare && !volumes.iter().any(is_known) && is_empty() {
        true => gpt_header::find(device),
        false => None,
    };
    if table_is_lost || lost_header_bytes.is_some() {
        volumes.clear();
    }
    let starts_at_zero = partitions.iter().any(|partition| partition.start.0 == 0);
    let is_optical =
        starts_at_zero && matches!(kind().flatten().as_deref(), Some("iso9660" | "udf"));
    // sfdisk takes the first sector of a FAT for an MBR without partitions.
    let table = table.filter(|_| !(partitions.is_empty() && volumes.iter().any(has_own)));
    ExaminedDevice {
        target: target.to_owned(),
        disk: device.disk.clone(),
        capacity_bytes: device.capacity.0,
        geometry: geometry.used,
        disagreements,
        table,
        table_complaints,
        table_is_lost,
        lost_header_bytes,
        repeated_entries,
        is_optical,
        volumes,
        queue: (!device.disk.is_empty()).then(|| device.queue.clone()),
        trim_timer: trim_timer(runner),
        unfinished,
        unfinished_improvement: None,
    }
}

/// What sfdisk(8) says of a table.
#[derive(Default)]
struct Table {
    label: Option<String>,
    complaints: Vec<String>,
    /// Whether there was a GPT that cannot be read any more.
    is_lost: bool,
}

fn table(runner: &dyn Runner, path: &Path) -> Table {
    let program = Program::new("sfdisk").arg("--json").arg(path);
    let Ok(outcome) = runner.run(&program) else { return Table::default() };
    let is_complaint =
        |line: &&str| WARNING_WORDS.iter().any(|word| line.to_ascii_lowercase().contains(word));
    let complaints = outcome.stderr.lines().filter(is_complaint).map(str::to_owned).collect();
    let found = serde_json::from_slice::<Document>(outcome.stdout.as_bytes()).unwrap_or_default();
    let Label { label, partitions } = found.partitiontable;
    // The one partition of a protective MBR; sfdisk shows the GPT's own where it can read them.
    let is_lost = label == "dos" && partitions.iter().any(|row| row.kind == "ee");
    Table { label: (!label.is_empty()).then_some(label), complaints, is_lost }
}

/// Whether the only partition is that of an MBR in the first sector of a FAT on the whole device.
/// For systems that expect one, mkfs.fat(8) makes it.
fn is_within_fat(runner: &dyn Runner, device: &Device, nodes: &ExaminedNodes) -> bool {
    let [only] = device.partitions.as_slice() else { return false };
    only.start.0 == 0
        && device.mounts.iter().all(|mount| Path::new(&mount.node) == device.path)
        && read(runner, nodes.disk.as_deref()).0.is_some_and(|facts| facts.kind == "vfat")
}

/// The partitions without those at the place of an earlier one: the entries of a chain of logical
/// partitions that leads back to itself have no end.
fn distinct(partitions: &[Partition]) -> Vec<&Partition> {
    let mut kept: Vec<&Partition> = Vec::new();
    for partition in partitions {
        let is_same =
            |other: &&Partition| (other.start, other.size) == (partition.start, partition.size);
        if !kept.iter().any(is_same) {
            kept.push(partition);
        }
    }
    kept
}

fn volumes(
    runner: &dyn Runner,
    device: &Device,
    partitions: &[&Partition],
    nodes: &ExaminedNodes,
    entries: &[MountEntry],
) -> Vec<Volume> {
    let whole = || {
        let start_bytes = device.partition_start.map_or(0, |start| start.0);
        let name = path_text::to_text(&device.path);
        let is_partition = device.partition_start.is_some();
        let node = nodes.disk.clone();
        volume(runner, name, (start_bytes, device.capacity.0), is_partition, node, entries)
    };
    if partitions.is_empty() {
        return vec![whole()];
    }
    let one = |partition: &&Partition| {
        let node = number(&partition.name).and_then(|number| nodes.partition(&number));
        let place = (partition.start.0, partition.size.0);
        volume(runner, partition.name.clone(), place, true, node, entries)
    };
    partitions.iter().map(one).collect()
}

/// The digits at the end of a partition's name.
fn number(name: &str) -> Option<String> {
    let head = name.trim_end_matches(|c: char| c.is_ascii_digit());
    (head.len() < name.len()).then(|| name[head.len()..].to_owned())
}

fn volume(
    runner: &dyn Runner,
    name: String,
    (start_bytes, size_bytes): (u64, u64),
    is_partition: bool,
    node: Option<PathBuf>,
    entries: &[MountEntry],
) -> Volume {
    let (facts, unreadable) = read(runner, node.as_deref());
    let mounts = node.map_or_else(Vec::new, |node| mounts(entries, &node));
    Volume { name, start_bytes, size_bytes, is_partition, facts, unreadable, mounts }
}

fn read(runner: &dyn Runner, node: Option<&Path>) -> (Option<FileSystemFacts>, Option<String>) {
    let Some(node) = node else {
        return (None, Some("it is not attached, so its file system was not read".to_owned()));
    };
    if !node.exists() {
        return (None, Some(format!("the kernel does not show {}", node.display())));
    }
    match facts::read(runner, node) {
        Ok(facts) => (facts, None),
        Err(error) => (None, Some(error.to_string())),
    }
}

fn mounts(entries: &[MountEntry], node: &Path) -> Vec<MountedVolume> {
    let system = SystemRoots::default();
    let number = flashfit_device::system::device_number(node);
    let name = number.and_then(|number| system.name_of(number));
    let is_of = |entry: &&MountEntry| {
        if entry.device.0 == 0 {
            name.as_ref().is_some_and(|name| entry.source == Path::new("/dev").join(name))
        } else {
            Some(entry.device) == number
        }
    };
    let one = |entry: &MountEntry| {
        let words = entry.options.split(',').chain(entry.super_options.split(','));
        let mut options: Vec<String> = Vec::new();
        for word in words.filter(|word| !word.is_empty()) {
            if !options.iter().any(|known| known == word) {
                options.push(word.to_owned());
            }
        }
        MountedVolume {
            point: entry.point.display().to_string(),
            kind: entry.kind.clone(),
            options,
        }
    };
    entries.iter().filter(is_of).map(one).collect()
}

/// Whether systemd trims once a week.
fn trim_timer(runner: &dyn Runner) -> Option<bool> {
    let program = Program::new("systemctl").args(["is-enabled", "fstrim.timer"]);
    let outcome = runner.run(&program).ok()?;
    match outcome.stdout.trim() {
        "enabled" => Some(true),
        "disabled" | "static" | "masked" => Some(false),
        _ => None,
    }
}
