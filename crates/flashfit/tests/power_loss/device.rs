//! The device after a power cut: it is unchanged, as planned, or marked as unfinished, and its
//! original content can always be restored.

use std::path::Path;

use flashfit_apply::{ApplyJournal, ApplyTools, Backup, UnfinishedRecords, restore, unfinished};
use flashfit_device::{ConsentMethod, Device, SystemRoots, WriteConsent};
use flashfit_host::interrupt::Interrupt;
use flashfit_host::program::ScriptedRunner;
use flashfit_test_support::power_loss::{
    CrashDisk, CrashEffort, DiskOp, StateAfterCut, StateEntry, TracedDevice,
};

use crate::bed::{CrashBed, IMAGE, Recording, overwrite};
use crate::campaign::{Campaign, Tally, check_all, is_lost_without};

/// Two directories that are not there yet.
const BACKUP: &str = "saved/first";
const STATE: &str = "var/lib/flashfit";
const MIB: usize = 1 << 20;
/// Where the marker lies before a partition.
const MARKER: u64 = 24 << 10;
/// How much of each end is kept.
const END: usize = 4 * MIB;

/// A device and what is made of it.
#[derive(Debug, Clone, Copy)]
pub struct DeviceSetup {
    bytes: usize,
    /// Also where its partition starts.
    erase_block: u64,
    filesystem: &'static str,
    table: &'static str,
}

/// Kept in one piece; small, so that thousands of states are soon checked.
pub const fn small(table: &'static str) -> DeviceSetup {
    DeviceSetup { bytes: 2 * MIB, erase_block: 512 << 10, filesystem: "ext2", table }
}

/// With a file system that has a journal, and of which only both ends are kept.
pub const fn large(table: &'static str) -> DeviceSetup {
    DeviceSetup { bytes: 10 * MIB, erase_block: 1 << 20, filesystem: "ext4", table }
}

const APPLY: [&str; 7] = ["apply", "plan.json", IMAGE, "--confirm", IMAGE, "--backup", BACKUP];
const RESTORE: [&str; 5] = ["restore", BACKUP, IMAGE, "--confirm", IMAGE];

struct DeviceCampaign {
    bed: CrashBed,
    /// The device's original content, and its content at the start and end of the recording.
    original: Vec<u8>,
    original_entry: StateEntry,
    before: u64,
    after: u64,
}

impl Campaign for DeviceCampaign {
    fn scenario(&self, op: Option<&DiskOp>) -> &'static str {
        let Some(op) = op else { return "before the first write" };
        let (path, offset) = match op {
            DiskOp::Write { path, offset, .. } => (path, *offset),
            DiskOp::MakeDir(path) | DiskOp::SetLength(path, _) | DiskOp::Remove(path) => {
                (path, None)
            }
            DiskOp::Open { path, .. } | DiskOp::Sync { path, .. } => (path, None),
            DiskOp::Rename(_, to) => (to, None),
        };
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if self.is_restore() {
            "restore"
        } else if name.starts_with("apply.json") || path.starts_with(self.bed.path("var")) {
            "journal and records of apply"
        } else if path.starts_with(self.bed.path("saved")) {
            "backup"
        } else if offset.is_some_and(|offset| offset == 0 || offset == MARKER) {
            "marker of apply"
        } else {
            "device under apply"
        }
    }

    fn acknowledge(&mut self, _: &DiskOp, _: &CrashDisk) {}

    fn check(&mut self, state: &StateAfterCut) -> Result<(), String> {
        self.put(state);
        let image = state.entries.get(Path::new(IMAGE)).ok_or("the image is gone")?.hash();
        let device = self.device()?;
        let found = self.unfinished(&device)?;
        let journal =
            ApplyJournal::read(&self.bed.path(BACKUP)).map_err(|error| error.to_string())?;
        let is_untouched = !self.is_restore() && image == self.before;
        let is_known = image == self.before || image == self.after;
        if !is_known && found.as_ref().is_none_or(|it| it.stage.is_none()) {
            return Err(format!("it is changed and not named as unfinished: {found:?}"));
        }
        if found.is_some() && (journal.is_none() || found.as_ref().is_some_and(|it| !it.is_sure)) {
            return Err(format!("it is named, but nothing goes on with it: {found:?}"));
        }
        if is_untouched && found.is_none() {
            // The same command starts again.
            return Ok(());
        }
        let backup = Backup::read(&self.bed.path(BACKUP)).map_err(|error| error.to_string())?;
        let pieces = backup.contents().map_err(|error| error.to_string())?;
        let kept = |offset: usize, length: usize| &self.original[offset..offset + length];
        for (offset, bytes) in &pieces {
            if kept(usize::try_from(*offset).unwrap(), bytes.len()) != bytes {
                return Err("the backup is not of what the device held at first".to_owned());
            }
        }
        self.take_back(&device, &backup)
    }
}

impl DeviceCampaign {
    fn new(bed: CrashBed, original: Vec<u8>, before: &[u8]) -> Self {
        let after = std::fs::read(bed.path(IMAGE)).unwrap();
        let hash = |bytes: &[u8]| StateEntry::of_bytes(bytes).hash();
        let (before, after) = (hash(before), hash(&after));
        Self { bed, original_entry: StateEntry::of_bytes(&original), original, before, after }
    }

    /// Whether the recording is of a device that was changed before.
    fn is_restore(&self) -> bool {
        self.before != self.original_entry.hash()
    }

    fn put(&mut self, state: &StateAfterCut) {
        self.bed.put(state);
        // The machine was rebooted.
        let path = self.bed.path(BACKUP).join("apply.json");
        let Ok(text) = std::fs::read_to_string(&path) else { return };
        let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap();
        overwrite(&path, text.replace(boot.trim(), &boot.trim().replace('a', "b")).as_bytes());
    }

    fn device(&self) -> Result<Device, String> {
        let image = self.bed.path(IMAGE);
        Device::from_image(&ScriptedRunner::new(), &image).map_err(|error| error.to_string())
    }

    fn records(&self) -> UnfinishedRecords {
        UnfinishedRecords::in_folder(&self.bed.path(STATE))
    }

    fn unfinished(
        &self,
        device: &Device,
    ) -> Result<Option<flashfit_apply::UnfinishedChange>, String> {
        unfinished(&SystemRoots::default(), device, &self.records())
            .map_err(|error| error.to_string())
    }

    fn take_back(&mut self, device: &Device, backup: &Backup) -> Result<(), String> {
        let (system, runner, interrupt) =
            (SystemRoots::default(), ScriptedRunner::new(), Interrupt::new());
        let agreement = ConsentMethod::Named(device.short_name());
        let consent = WriteConsent::ask(&system, &runner, device, &agreement);
        let consent = consent.map_err(|error| error.to_string())?;
        let tools = ApplyTools {
            system: &system,
            runner: &runner,
            records: &self.records(),
            interrupt: &interrupt,
            on_event: &|_| {},
        };
        self.bed.changed(IMAGE, None);
        restore(&tools, &consent, backup, false, "undo").map_err(|error| error.to_string())?;
        self.is_back()?;
        match self.unfinished(device)? {
            None => Ok(()),
            Some(found) => Err(format!("it is written back and still named: {found:?}")),
        }
    }

    fn is_back(&mut self) -> Result<(), String> {
        let now = std::fs::read(self.bed.path(IMAGE)).unwrap();
        if now == self.original {
            self.bed.changed(IMAGE, Some(&self.original_entry));
            return Ok(());
        }
        // Between its ends, a large device keeps what was written there.
        let last = self.original.len().saturating_sub(END);
        let are_ends_back = last >= END
            && now.len() == self.original.len()
            && now[..END] == self.original[..END]
            && now[last..] == self.original[last..];
        if are_ends_back { Ok(()) } else { Err("the device is not as it was".to_owned()) }
    }

    /// The command itself applies the plan and then restores.
    fn whole_program(&mut self, state: &StateAfterCut) -> Result<(), String> {
        self.put(state);
        self.bed.forget();
        let device = self.device()?;
        let is_changed =
            state.entries.get(Path::new(IMAGE)).is_some_and(|it| it.hash() != self.before);
        let is_done = is_changed && self.unfinished(&device)?.is_none();
        let is_restore = self.is_restore();
        let run = |args: &[&str]| match self.bed.run(args) {
            (Some(0), text) => Ok(text),
            (code, text) => Err(format!("{args:?} ended with {code:?}: {text}")),
        };
        if !is_done && !is_restore {
            run(&APPLY)?;
            if run(&["check", IMAGE])?.contains("unfinished") {
                return Err("it is applied and still named as unfinished".to_owned());
            }
        }
        run(&RESTORE)?;
        self.bed.forget();
        self.is_back()
    }
}

/// An image whose every sector differs from every other, and a plan for it.
fn prepared(setup: DeviceSetup) -> (CrashBed, Vec<u8>) {
    let bed = CrashBed::new();
    let words = 0..setup.bytes as u64 / 8;
    let original: Vec<u8> = words.flat_map(|at| (at | 1 << 63).to_le_bytes()).collect();
    std::fs::write(bed.path(IMAGE), &original).unwrap();
    let erase_block = setup.erase_block.to_string();
    let geometry = ["--erase-block", &erase_block, "--write-unit", "16KiB"];
    let output = ["--fs", setup.filesystem, "--table", setup.table, "--output", "plan.json"];
    bed.succeed(&[&["plan", IMAGE][..], &geometry, &output].concat());
    (bed, original)
}

fn traced(bed: &CrashBed, setup: DeviceSetup) -> Option<TracedDevice> {
    Some(TracedDevice { image: bed.path(IMAGE), partition_start: setup.erase_block })
}

fn applied(setup: DeviceSetup) -> (DeviceCampaign, Recording) {
    let (bed, original) = prepared(setup);
    let name = format!("apply, {}, {} MiB", setup.table, setup.bytes / MIB);
    let recording = bed.record(&name, &APPLY, &[], traced(&bed, setup));
    let before = original.clone();
    (DeviceCampaign::new(bed, original, &before), recording)
}

fn restored(setup: DeviceSetup) -> (DeviceCampaign, Recording) {
    let (bed, original) = prepared(setup);
    bed.succeed(&APPLY);
    let before = std::fs::read(bed.path(IMAGE)).unwrap();
    let name = format!("restore, {}, {} MiB", setup.table, setup.bytes / MIB);
    let recording = bed.record(&name, &RESTORE, &[], traced(&bed, setup));
    (DeviceCampaign::new(bed, original, &before), recording)
}

#[derive(Debug, Clone, Copy)]
pub enum DeviceScenario {
    Apply(DeviceSetup),
    Restore(DeviceSetup),
}

/// Checks all states, and so many of them with the command itself.
pub fn tally(effort: CrashEffort, scenario: DeviceScenario, whole_program: usize) -> Tally {
    let (mut campaign, recording) = match scenario {
        DeviceScenario::Apply(setup) => applied(setup),
        DeviceScenario::Restore(setup) => restored(setup),
    };
    let mut states = Vec::new();
    // Each keeps the blocks that differ in memory; every tenth is enough.
    let mut count = 0;
    let mut keep = |state: &StateAfterCut| {
        count += 1;
        if count % 10 == 3 {
            states.push(state.clone());
        }
    };
    let mut tally = check_all(&recording, effort, &mut campaign, &mut keep);
    let every = (states.len() / whole_program.max(1)).max(1);
    for state in states.iter().skip(every / 2).step_by(every).take(whole_program) {
        tally.whole_program += 1;
        if let Err(why) = campaign.whole_program(state) {
            tally.lose(format!("{}: {why}", recording.name));
        }
    }
    tally
}

/// Without the last sync of any part of the backup before the first write to the device, a state
/// is lost.
pub fn every_sync_before_the_device_is_needed() {
    let (mut campaign, recording) = applied(large("none"));
    let image = campaign.bed.path(IMAGE);
    let writes = |op: &DiskOp| matches!(op, DiskOp::Write { path, .. } if *path == image);
    let first = recording.ops.iter().position(writes).unwrap();
    for name in ["first.img.part", "last.img.part", "manifest.json.part", "apply.json.part"] {
        let wanted = campaign.bed.path(BACKUP).join(name);
        let is_sync = |op: &DiskOp| matches!(op, DiskOp::Sync { path, .. } if *path == wanted);
        let sync = recording.ops[..first].iter().rposition(is_sync);
        let sync = sync.unwrap_or_else(|| panic!("{name} is not synced"));
        let effort = CrashEffort { singles: 4, random: 0, seed: 1 };
        let is_lost = is_lost_without(&recording, effort, &[sync], &mut campaign);
        assert!(is_lost, "nothing is lost without the sync of {name}");
        campaign.bed.forget();
    }
}
