//! The run directory after a power cut: every acknowledged trial exists, and the run can be
//! resumed.

use std::path::{Path, PathBuf};

use flashfit_test_support::power_loss::{CrashDisk, CrashEffort, DiskOp, StateAfterCut};
use flashfit_tune::run_dir::RunDirError;
use flashfit_tune::{RunDir, RunHeader, StoredRun};

use crate::bed::{CrashBed, Recording};
use crate::campaign::{Campaign, Tally, check_all, is_lost_without};

const CONFIG: &str = r#"filesystems = ["ext4"]
workloads = ["sync-files"]
schedulers = ["none"]
strategy = "greedy"
confirm_rounds = 0
data_size = "4MiB"
runtime_ms = 100
[options.ext4]
exclude = ["discard", "nojournal", "fast_commit", "writeback", "nobarrier", "geometry"]
"#;
/// Two directories that do not exist yet.
const DIR: &str = "runs/first";
const TRIALS: &str = "runs/first/trials.jsonl";
const HEADER: &str = "runs/first/run.json";

struct RunCampaign {
    bed: CrashBed,
    header: RunHeader,
    /// The state at the start and the end of the recording.
    before: StateAfterCut,
    end: StateAfterCut,
    /// The text of `trials.jsonl`, including unsynced lines.
    written: Vec<u8>,
    acknowledged: Vec<u8>,
    has_begun: bool,
}

impl Campaign for RunCampaign {
    fn scenario(&self, op: Option<&DiskOp>) -> &'static str {
        let path = match op {
            Some(DiskOp::Write { path, .. } | DiskOp::Sync { path, .. }) => Some(path),
            Some(DiskOp::SetLength(path, _) | DiskOp::Open { path, .. }) => Some(path),
            _ => None,
        };
        let is_of_trials = path.is_some_and(|path| *path == self.bed.path(TRIALS));
        if is_of_trials { "trials.jsonl" } else { "other files of a run" }
    }

    fn acknowledge(&mut self, op: &DiskOp, disk: &CrashDisk) {
        let whole = disk.whole();
        self.written = whole.file(TRIALS).unwrap_or_default();
        let DiskOp::Sync { path, .. } = op else { return };
        if *path == self.bed.path(TRIALS) {
            self.acknowledged = self.written.clone();
        }
        // The run has started once the rename of its header is durable.
        self.has_begun |= *path == self.bed.path(DIR) && whole.file(HEADER).is_some();
    }

    fn check(&mut self, state: &StateAfterCut) -> Result<(), String> {
        self.bed.put(state);
        let checked = self.goes_on(state);
        self.bed.forget();
        checked
    }
}

impl RunCampaign {
    /// For the latest recording in `bed`.
    fn new(bed: CrashBed, recording: &Recording) -> Self {
        let header = StoredRun::read(&bed.path(DIR)).unwrap().header;
        Self::with_header(bed, recording, header)
    }

    fn with_header(bed: CrashBed, recording: &Recording, header: RunHeader) -> Self {
        let mut disk = (recording.before)();
        let before = disk.whole();
        recording.ops.iter().for_each(|op| disk.apply(op).unwrap());
        let written = before.file(TRIALS).unwrap_or_default();
        let whole = written.iter().rposition(|byte| *byte == b'\n').map_or(0, |last| last + 1);
        let acknowledged = written[..whole].to_vec();
        let has_begun = before.file(HEADER).is_some();
        Self { bed, header, before, end: disk.whole(), written, acknowledged, has_begun }
    }

    fn goes_on(&self, state: &StateAfterCut) -> Result<(), String> {
        let dir = self.bed.path(DIR);
        self.has_only_whole_files(state)?;
        match RunDir::resume(&dir) {
            Ok((run_dir, run)) => self.has_every_trial(state, run_dir, &run),
            Err(RunDirError::NoRun { .. }) if !self.has_begun => {
                let made = RunDir::create(&dir, &self.header);
                made.map(drop).map_err(|error| format!("a new run cannot begin: {error}"))
            }
            Err(error) => Err(format!("the run cannot go on: {error}")),
        }
    }

    fn has_every_trial(
        &self,
        state: &StateAfterCut,
        mut run_dir: RunDir,
        run: &StoredRun,
    ) -> Result<(), String> {
        let value = |header: &RunHeader| serde_json::to_value(header).unwrap();
        if value(&run.header) != value(&self.header) {
            return Err("the header differs".to_owned());
        }
        let kept = std::fs::read(self.bed.path(TRIALS)).unwrap_or_default();
        if !kept.starts_with(&self.acknowledged) {
            let (is, was) = (kept.len(), self.acknowledged.len());
            return Err(format!("of {was} bytes of acknowledged trials, {is} bytes are left"));
        }
        let lines = |text: &[u8]| text.split_inclusive(|byte| *byte == b'\n').count();
        if !whole_lines(&self.written).starts_with(&kept) || lines(&kept) != run.trials.len() {
            return Err("there are trials that were never made".to_owned());
        }
        for number in 1..=lines(&self.acknowledged) {
            let name = format!("{DIR}/fio/{number:05}-only.json");
            if state.file(&name).is_none_or(|text| text.is_empty()) {
                return Err(format!("{name} is missing, but trial {number} is kept"));
            }
        }
        let Some(last) = run.trials.last() else { return Ok(()) };
        let mut next = last.clone();
        next.key.repeat += 1000;
        run_dir
            .append(&next, &[], &[])
            .map_err(|error| format!("no trial can be added: {error}"))?;
        drop(run_dir);
        let again = StoredRun::read(&self.bed.path(DIR)).map_err(|error| error.to_string())?;
        if again.trials.len() == run.trials.len() + 1 {
            Ok(())
        } else {
            Err("an added trial is not read".to_owned())
        }
    }

    /// Temporary names of files that are renamed later.
    fn has_only_whole_files(&self, state: &StateAfterCut) -> Result<(), String> {
        for (path, entry) in &state.entries {
            let name = path.file_name().unwrap_or_default();
            let grows = ["trials.jsonl", "report.html", ".flashfit-lock"];
            let is_draft = path.extension().is_some_and(|ending| ending == "part");
            let Some(end) = self.end.entries.get(path) else { continue };
            let earlier = self.before.entries.get(path);
            let is_whole =
                [Some(end), earlier].iter().flatten().any(|it| it.hash() == entry.hash());
            if !is_draft && !grows.iter().any(|it| name == *it) && !is_whole {
                return Err(format!("{} is neither whole nor missing", path.display()));
            }
        }
        Ok(())
    }

    /// The command itself repeats or resumes the run.
    fn whole_program(&mut self, state: &StateAfterCut) -> Result<(), String> {
        self.bed.put(state);
        let (image, config) = (image(&self.bed), config(&self.bed));
        let confirm = ["--confirm", &image, "--progress", "never"];
        let resume = [&["tune", "--resume", DIR][..], &confirm].concat();
        let from_start =
            [&["tune", &image, "--config", &config, "--dir", DIR][..], &confirm].concat();
        let is_run = self.bed.path(HEADER).exists();
        let (code, text) = self.bed.run(if is_run { &resume } else { &from_start });
        self.bed.forget();
        if code != Some(0) {
            return Err(format!("the command ended with {code:?}: {text}"));
        }
        let now = std::fs::read(self.bed.path(TRIALS)).unwrap();
        // Nothing was acknowledged before the start of a run.
        let kept = state.file(TRIALS).filter(|_| is_run).unwrap_or_default();
        let whole = whole_lines(&kept);
        let last = whole.strip_suffix(b"\n").unwrap_or(whole);
        let is_torn = last.rsplit(|byte| *byte == b'\n').next().is_some_and(|it| it.contains(&0));
        if is_torn || now.starts_with(whole) { Ok(()) } else { Err("a trial was lost".to_owned()) }
    }
}

fn whole_lines(text: &[u8]) -> &[u8] {
    &text[..text.iter().rposition(|byte| *byte == b'\n').map_or(0, |last| last + 1)]
}

fn image(bed: &CrashBed) -> String {
    bed.outside("image").display().to_string()
}

fn config(bed: &CrashBed) -> String {
    bed.outside("config.toml").display().to_string()
}

/// Mount points and files that the run does not need later.
fn ignored(bed: &CrashBed) -> Vec<PathBuf> {
    ["mnt", ".flashfit-scratch"].iter().map(|name| bed.path(DIR).join(name)).collect()
}

fn prepared(repeats: usize) -> CrashBed {
    let bed = CrashBed::new();
    let file = std::fs::File::create(bed.outside("image")).unwrap();
    file.set_len(64 << 20).unwrap();
    std::fs::write(bed.outside("config.toml"), format!("repeats = {repeats}\n{CONFIG}")).unwrap();
    bed
}

fn fresh(repeats: usize) -> (CrashBed, Recording) {
    let bed = prepared(repeats);
    let (image, config) = (image(&bed), config(&bed));
    let args = ["tune", &image, "--config", &config, "--dir", DIR, "--confirm", &image];
    let args = [&args[..], &["--progress", "never"]].concat();
    let recording = bed.record("tune", &args, &ignored(&bed), None);
    (bed, recording)
}

/// Resumes a run with an incomplete last line.
fn resumed(repeats: usize) -> (CrashBed, Recording) {
    let (bed, _) = fresh(repeats);
    let text = std::fs::read(bed.path(TRIALS)).unwrap();
    let first = text.iter().position(|byte| *byte == b'\n').unwrap() + 1;
    std::fs::write(bed.path(TRIALS), &text[..first + 700]).unwrap();
    let image = image(&bed);
    let args = ["tune", "--resume", DIR, "--confirm", &image, "--progress", "never"];
    let recording = bed.record("tune --resume", &args, &ignored(&bed), None);
    (bed, recording)
}

#[derive(Debug, Clone, Copy)]
pub enum RunScenario {
    Fresh,
    Resumed,
}

/// Checks all states, and so many of them with the command itself.
pub fn tally(
    effort: CrashEffort,
    scenario: RunScenario,
    repeats: usize,
    whole_program: usize,
) -> Tally {
    let (bed, recording) = match scenario {
        RunScenario::Fresh => fresh(repeats),
        RunScenario::Resumed => resumed(repeats),
    };
    let mut campaign = RunCampaign::new(bed, &recording);
    let mut states = Vec::new();
    let mut keep = |state: &StateAfterCut| states.push(state.clone());
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

/// Without the sync of a trial's line, of its raw output, or of the directory, a state is lost.
pub fn every_sync_of_a_result_is_needed() {
    let (bed, recording) = fresh(1);
    let is_sync =
        |op: &DiskOp, wanted: &Path| matches!(op, DiskOp::Sync { path, .. } if path == wanted);
    let trial = recording.ops.iter().position(|op| is_sync(op, &bed.path(TRIALS))).unwrap();
    // Later syncs of the directories are for the report.
    let last = |name: &str| {
        let until = if name == DIR { trial } else { recording.ops.len() };
        let ops = recording.ops[..until].iter().enumerate();
        let syncs = ops.filter(|(_, op)| is_sync(op, &bed.path(name))).map(|(number, _)| number);
        let mut syncs: Vec<usize> = syncs.collect();
        syncs.drain(..syncs.len().saturating_sub(1));
        syncs
    };
    let names = [TRIALS, "runs/first/fio/00001-only.json.part", "runs/first/fio", DIR];
    let syncs = names.map(|name| (name, last(name)));
    let mut campaign = RunCampaign::new(bed, &recording);
    for (name, without) in syncs {
        assert!(!without.is_empty(), "{name} is not synced");
        let effort = CrashEffort { singles: 10, random: 0, seed: 1 };
        let is_lost = is_lost_without(&recording, effort, &without, &mut campaign);
        assert!(is_lost, "nothing is lost without the sync of {name}");
        campaign = RunCampaign::with_header(campaign.bed, &recording, campaign.header);
    }
}
