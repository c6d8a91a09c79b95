//! The device with its backup, journal and records: it is as it was, as planned, or named as
//! unfinished, and what it held can always be written back.

use std::path::PathBuf;

use flashfit_apply::{ApplyJournal, ApplyTools, Backup, UnfinishedRecords, restore, unfinished};
use flashfit_device::{ConsentMethod, Device, SystemRoots, WriteConsent};
use flashfit_host::interrupt::Interrupt;
use flashfit_host::program::ScriptedRunner;
use flashfit_test_support::power_loss::{CrashDisk, CrashEffort, CrashState, DiskOp, TracedDevice};

use crate::bed::{CrashBed, Recording, overwrite};
use crate::campaign::{Campaign, Tally, check_all};

const IMAGE: &str = "image";
/// Two directories that are not there yet.
const BACKUP: &str = "saved/first";
const STATE: &str = "var/lib/flashfit";
const MIB: usize = 1 << 20;
const IMAGE_BYTES: usize = 10 * MIB;
/// How much of each end is kept.
const END: usize = 4 * MIB;
/// Where the partition of a plan for erase blocks of 1 MiB starts.
const PARTITION_START: u64 = 1 << 20;
const APPLY: [&str; 7] = ["apply", "plan.json", IMAGE, "--confirm", IMAGE, "--backup", BACKUP];
const RESTORE: [&str; 5] = ["restore", BACKUP, IMAGE, "--confirm", IMAGE];

struct DeviceCampaign {
    bed: CrashBed,
    /// What the device held at first, and at the beginning and the end of the recording.
    original: Vec<u8>,
    before: Vec<u8>,
    after: Vec<u8>,
}

impl Campaign for DeviceCampaign {
    fn acknowledge(&mut self, _: &DiskOp, _: &CrashDisk) {}

    fn check(&mut self, state: &CrashState) -> Result<(), String> {
        self.put(state);
        let image = state.file(IMAGE).ok_or("the image is gone")?;
        let medium = self.medium()?;
        let found = self.unfinished(&medium)?;
        let journal =
            ApplyJournal::read(&self.bed.path(BACKUP)).map_err(|error| error.to_string())?;
        let is_untouched = self.before == self.original && image == self.before;
        let is_known = image == self.before || image == self.after;
        if !is_known && found.as_ref().is_none_or(|it| it.stage.is_none()) {
            return Err(format!("it is changed and not named as unfinished: {found:?}"));
        }
        if found.is_some() && (journal.is_none() || found.as_ref().is_some_and(|it| !it.is_sure)) {
            return Err(format!("it is named, but nothing goes on with it: {found:?}"));
        }
        if is_untouched && found.is_none() {
            // The same command begins again.
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
        self.take_back(&medium, &backup)
    }
}

impl DeviceCampaign {
    fn put(&mut self, state: &CrashState) {
        self.bed.put(state);
        // The machine was started again since.
        let path = self.bed.path(BACKUP).join("apply.json");
        let Ok(text) = std::fs::read_to_string(&path) else { return };
        let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap();
        overwrite(&path, text.replace(boot.trim(), &boot.trim().replace('a', "b")).as_bytes());
    }

    fn medium(&self) -> Result<Device, String> {
        let image = self.bed.path(IMAGE);
        Device::from_image(&ScriptedRunner::new(), &image).map_err(|error| error.to_string())
    }

    fn records(&self) -> UnfinishedRecords {
        UnfinishedRecords::in_folder(&self.bed.path(STATE))
    }

    fn unfinished(
        &self,
        medium: &Device,
    ) -> Result<Option<flashfit_apply::UnfinishedChange>, String> {
        unfinished(&SystemRoots::default(), medium, &self.records())
            .map_err(|error| error.to_string())
    }

    fn take_back(&self, medium: &Device, backup: &Backup) -> Result<(), String> {
        let (system, runner, interrupt) =
            (SystemRoots::default(), ScriptedRunner::new(), Interrupt::new());
        let agreement = ConsentMethod::Named(medium.short_name());
        let consent = WriteConsent::ask(&system, &runner, medium, &agreement);
        let consent = consent.map_err(|error| error.to_string())?;
        let tools = ApplyTools {
            system: &system,
            runner: &runner,
            records: &self.records(),
            interrupt: &interrupt,
            tell: &|_| {},
        };
        restore(&tools, &consent, backup, false, "undo").map_err(|error| error.to_string())?;
        self.is_back()?;
        match self.unfinished(medium)? {
            None => Ok(()),
            Some(found) => Err(format!("it is written back and still named: {found:?}")),
        }
    }

    fn is_back(&self) -> Result<(), String> {
        let now = std::fs::read(self.bed.path(IMAGE)).unwrap();
        let last = IMAGE_BYTES - END;
        if now[..END] == self.original[..END] && now[last..] == self.original[last..] {
            Ok(())
        } else {
            Err("the ends of the device are not as they were".to_owned())
        }
    }

    /// The command itself applies the plan and then takes it back.
    fn whole_program(&mut self, state: &CrashState) -> Result<(), String> {
        self.put(state);
        self.bed.forget();
        let medium = self.medium()?;
        let is_done = state.file(IMAGE).is_some_and(|image| image != self.before)
            && self.unfinished(&medium)?.is_none();
        let is_restore = self.before != self.original;
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
        self.is_back()
    }
}

/// An image whose every sector differs from every other, and a plan for it.
fn prepared(table: &str) -> (CrashBed, Vec<u8>) {
    let bed = CrashBed::new();
    let words = 0..IMAGE_BYTES as u64 / 8;
    let original: Vec<u8> = words.flat_map(|at| (at | 1 << 63).to_le_bytes()).collect();
    std::fs::write(bed.path(IMAGE), &original).unwrap();
    let geometry = ["--erase-block", "1MiB", "--write-unit", "16KiB", "--fs", "ext4"];
    let output = ["--table", table, "--output", "plan.json"];
    bed.succeed(&[&["plan", IMAGE][..], &geometry, &output].concat());
    (bed, original)
}

fn device(bed: &CrashBed) -> Option<TracedDevice> {
    Some(TracedDevice { image: bed.path(IMAGE), partition_start: PARTITION_START })
}

fn applied(table: &str) -> (DeviceCampaign, Recording) {
    let (bed, original) = prepared(table);
    let recording = bed.record(&format!("apply, {table}"), &APPLY, &[], device(&bed));
    let after = std::fs::read(bed.path(IMAGE)).unwrap();
    (DeviceCampaign { bed, before: original.clone(), original, after }, recording)
}

fn restored(table: &str) -> (DeviceCampaign, Recording) {
    let (bed, original) = prepared(table);
    bed.succeed(&APPLY);
    let before = std::fs::read(bed.path(IMAGE)).unwrap();
    let recording = bed.record(&format!("restore, {table}"), &RESTORE, &[], device(&bed));
    let after = std::fs::read(bed.path(IMAGE)).unwrap();
    (DeviceCampaign { bed, original, before, after }, recording)
}

/// Checks all states, and so many of each recording with the command itself.
pub fn tally(effort: CrashEffort, whole_program: usize, tables: &[&str]) -> Tally {
    let mut together = Tally::default();
    for table in tables {
        for (mut campaign, recording) in [applied(table), restored(table)] {
            let mut states = Vec::new();
            // Of all states the blocks that differ are in memory; every tenth is enough.
            let mut count = 0;
            let mut keep = |state: &CrashState| {
                count += 1;
                if count % 10 == 3 {
                    states.push(state.clone());
                }
            };
            let mut tally = check_all(&recording, effort, &[], &mut campaign, &mut keep);
            let every = (states.len() / whole_program.max(1)).max(1);
            for state in states.iter().skip(every / 2).step_by(every).take(whole_program) {
                tally.whole_program += 1;
                if let Err(why) = campaign.whole_program(state) {
                    tally.lose(format!("{}: {why}", recording.name));
                }
            }
            together.add(tally);
        }
    }
    together
}

/// Without the last sync of any part of the backup before the first write to the device, a state
/// is lost.
pub fn every_sync_before_the_device_is_needed() {
    let (mut campaign, recording) = applied("none");
    let image = campaign.bed.path(IMAGE);
    let writes = |op: &DiskOp| matches!(op, DiskOp::Write { path, .. } if *path == image);
    let first = recording.ops.iter().position(writes).unwrap();
    let names = ["first.img", "last.img", "manifest.json", "apply.json.part"];
    let paths: Vec<PathBuf> =
        names.iter().map(|name| campaign.bed.path(BACKUP).join(name)).collect();
    for wanted in paths {
        let is_sync = |op: &DiskOp| matches!(op, DiskOp::Sync { path, .. } if *path == wanted);
        let sync = recording.ops[..first].iter().rposition(is_sync);
        let sync = sync.unwrap_or_else(|| panic!("{} is not synced", wanted.display()));
        let effort = CrashEffort { singles: 4, random: 0, seed: 1 };
        let tally = check_all(&recording, effort, &[sync], &mut campaign, &mut |_| {});
        let wanted = wanted.display();
        assert!(tally.lost > 0, "nothing is lost without the sync of {wanted}: {tally}");
        campaign.bed.forget();
    }
}
