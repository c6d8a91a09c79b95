//! The directory of a campaign: its plan, the records of what was checked, and the logs.
//!
//! `campaign.json` is the plan, `records.jsonl` has one line for each batch of states, synced
//! before the next batch begins; a line that a kill has cut short is ignored and overwritten.
//! `logs/` has the logs.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use flashfit_device::Bytes;
use flashfit_host::dir::DirHandle;
use flashfit_host::durable;
use flashfit_host::file_lock::FileLock;
use flashfit_host::free_space::free_bytes;
use flashfit_host::input_file::DOCUMENT_BYTES;
use rustix::fs::OFlags;

use super::CampaignPlan;
use super::batch::StateBatch;
use super::summary::SetupResult;
use crate::CrashError;
use crate::log::CrashLog;
use crate::workload::LoggedOperation;

const PLAN: &str = "campaign.json";
/// Left by a kill before the plan was renamed.
const PLAN_DRAFT: &str = "campaign.json.part";
const RECORDS: &str = "records.jsonl";
const LOGS: &str = "logs";

#[derive(Debug)]
pub struct CampaignFolder {
    path: PathBuf,
    records: Mutex<Records>,
    /// Whether this process began the campaign, and whether it made the directory.
    began: Option<Began>,
    _lock: FileLock,
}

#[derive(Debug)]
struct Records {
    file: File,
    /// When the last record was made by this process, or its first work began.
    last: Instant,
}

/// What was there before a campaign began.
#[derive(Debug, Clone, Copy)]
struct Began {
    made_dir: bool,
}

impl CampaignFolder {
    /// Opens the directory of a campaign, or begins one; a campaign that is there continues.
    ///
    /// # Errors
    /// When it cannot be written, or has a campaign with another plan.
    pub fn open(path: &Path, plan: &CampaignPlan) -> Result<Self, CrashError> {
        let made_dir = !path.exists();
        let dir = DirHandle::create(path, 0o755)?;
        let mut began = None;
        match dir.read(PLAN, DOCUMENT_BYTES)? {
            Some(bytes) => {
                let known = serde_json::from_slice::<CampaignPlan>(&bytes).map_err(|error| {
                    let how = format!("its {PLAN} cannot be read: {error}");
                    CrashError::OtherCampaign { path: path.to_owned(), how }
                })?;
                plan.check_continues(&known, path)?;
            }
            None => {
                // The plan is written before anything else, so only its draft can precede it.
                if dir.names()?.iter().any(|name| name != PLAN_DRAFT) {
                    let reason = "it is not empty, and has no campaign".to_owned();
                    return Err(CrashError::Invalid { path: path.to_owned(), reason });
                }
                let text = serde_json::to_string_pretty(plan).expect("plain data");
                dir.write(PLAN, (text + "\n").as_bytes(), 0o644)?;
                began = Some(Began { made_dir });
            }
        }
        let mut folder = Self::attach(&dir)?;
        folder.began = began;
        Ok(folder)
    }

    /// Removes a campaign that this process began and that has no records, so that a corrected
    /// command can use the same directory. What cannot be removed is left.
    pub fn abandon_without_records(&self) {
        let Some(began) = self.began else { return };
        if !self.batches().is_ok_and(|batches| batches.is_empty()) {
            return;
        }
        let logs = self.path.join(LOGS);
        for entry in fs::read_dir(&logs).into_iter().flatten().flatten() {
            let _ = fs::remove_file(entry.path());
        }
        let _ = fs::remove_dir(&logs);
        for name in [RECORDS, PLAN] {
            let _ = fs::remove_file(self.path.join(name));
        }
        if began.made_dir {
            let _ = fs::remove_dir(&self.path);
        }
    }

    /// Whether there is a campaign in a directory.
    pub fn has_campaign(path: &Path) -> bool {
        path.join(PLAN).is_file()
    }

    /// When the last batch of states was recorded, in seconds since 1970.
    pub fn last_recorded_unix_s(path: &Path) -> Option<u64> {
        let modified = std::fs::symlink_metadata(path.join(RECORDS)).ok()?.modified().ok()?;
        Some(modified.duration_since(std::time::UNIX_EPOCH).ok()?.as_secs())
    }

    /// Opens the directory of a campaign that is there.
    ///
    /// # Errors
    /// When there is none.
    pub fn existing(path: &Path) -> Result<(Self, CampaignPlan), CrashError> {
        let (dir, path) = (DirHandle::open(path)?, path.join(PLAN));
        let Some(bytes) = dir.read(PLAN, DOCUMENT_BYTES)? else {
            return Err(CrashError::File { path, source: io::ErrorKind::NotFound.into() });
        };
        let plan = serde_json::from_slice(&bytes)
            .map_err(|error| CrashError::Invalid { path, reason: error.to_string() })?;
        Ok((Self::attach(&dir)?, plan))
    }

    fn attach(dir: &DirHandle) -> Result<Self, CrashError> {
        let path = dir.path();
        // Logs and images are written by name; a link in their place would lead elsewhere.
        for folder in [dir, &dir.create_dir(LOGS)?] {
            for name in folder.names()? {
                let file = folder.path().join(name);
                if file.is_symlink() {
                    let reason = "it is a symbolic link; links are not followed".to_owned();
                    return Err(CrashError::Invalid { path: file, reason });
                }
            }
        }
        let file = path.join(RECORDS);
        let failed = |source| CrashError::File { path: file.clone(), source };
        let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
        let flags = i32::try_from(flags.bits()).expect("flags of open(2) are an int");
        let records = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .custom_flags(flags)
            .open(&file)
            .map_err(failed)?;
        durable::sync_folder(path).map_err(failed)?;
        let lock = records.try_clone().and_then(FileLock::try_on).map_err(failed)?;
        let lock = lock.ok_or_else(|| CrashError::InUse { path: path.to_owned() })?;
        let records = Mutex::new(Records { file: records, last: Instant::now() });
        let path = path.to_owned();
        Ok(Self { path, records, began: None, _lock: lock })
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Checks that there is room for as many bytes, so that no work is lost for want of it.
    ///
    /// # Errors
    /// [`CrashError::NoRoom`].
    pub fn check_room(&self, needed: Bytes) -> Result<(), CrashError> {
        match free_bytes(&self.path) {
            Some(free) if free < needed.0 => {
                let (path, free) = (self.path.clone(), Bytes(free));
                Err(CrashError::NoRoom { path, needed, free })
            }
            _ => Ok(()),
        }
    }

    /// Appends a batch, durably, with the time since the last.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn append(&self, batch: &mut StateBatch) -> Result<(), CrashError> {
        let mut records = self.records.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        let elapsed = now.duration_since(std::mem::replace(&mut records.last, now));
        batch.elapsed_ns = u64::try_from(elapsed.as_nanos()).ok();
        let mut line = serde_json::to_vec(batch).expect("plain data");
        line.push(b'\n');
        let file = &mut records.file;
        let end = whole_length(file);
        end.and_then(|end| file.seek(SeekFrom::Start(end)).and_then(|_| file.set_len(end)))
            .and_then(|()| file.write_all(&line))
            .and_then(|()| file.sync_data())
            .map_err(|source| self.failed(source))
    }

    /// All batches in the order of their records.
    ///
    /// # Errors
    /// When they cannot be read.
    pub fn batches(&self) -> Result<Vec<StateBatch>, CrashError> {
        let mut records = self.records.lock().unwrap_or_else(PoisonError::into_inner);
        let (file, mut text) = (&mut records.file, String::new());
        file.rewind()
            .and_then(|()| file.read_to_string(&mut text))
            .map_err(|source| self.failed(source))?;
        let whole = text.rfind('\n').map_or("", |end| &text[..end]);
        let parse = |(line, text): (usize, &str)| {
            serde_json::from_slice(text.as_bytes()).map_err(|error| CrashError::Invalid {
                path: self.path.join(RECORDS),
                reason: format!("line {}: {error}", line + 1),
            })
        };
        whole.lines().enumerate().map(parse).collect()
    }

    /// The time that all commands took up to their last record. Of records of earlier versions, it
    /// has the time of the workers.
    ///
    /// # Errors
    /// When the records cannot be read.
    pub fn spent(&self) -> Result<Duration, CrashError> {
        let of_cut = |batch: &StateBatch| batch.cut.as_ref().and_then(|cut| cut.elapsed_ns);
        let took = |batch: &StateBatch| match batch.elapsed_ns.or_else(|| of_cut(batch)) {
            Some(elapsed_ns) => Duration::from_nanos(elapsed_ns),
            None => Duration::try_from_secs_f64(batch.counts.seconds).unwrap_or_default(),
        };
        Ok(self.batches()?.iter().map(took).sum())
    }

    /// The results of everything that is recorded.
    ///
    /// # Errors
    /// When the records cannot be read.
    pub fn results(&self, plan: &CampaignPlan) -> Result<Vec<SetupResult>, CrashError> {
        let batches = self.batches()?;
        let of = |label: &String| {
            SetupResult::new(label, batches.iter().filter(|batch| batch.setup == *label))
        };
        Ok(plan.setups.iter().map(of).collect())
    }

    /// Saves the log of a round.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn save_log(&self, label: &str, round: u32, log: &CrashLog) -> Result<(), CrashError> {
        Ok(log.save(&self.log_path(label, round))?)
    }

    /// # Errors
    /// When there is no log of the round, or it is damaged.
    pub fn load_log(&self, label: &str, round: u32) -> Result<CrashLog, CrashError> {
        Ok(CrashLog::load(&self.log_path(label, round))?)
    }

    pub fn has_log(&self, label: &str, round: u32) -> bool {
        self.log_path(label, round).exists()
    }

    /// Removes the log of a round; one that cannot be removed only takes space.
    pub fn remove_log(&self, label: &str, round: u32) {
        let _ = fs::remove_file(self.log_path(label, round));
    }

    /// Where the image of a live power cut is, or will be.
    pub fn image_path(&self, label: &str, round: u32) -> PathBuf {
        self.log_path(label, round).with_extension("img")
    }

    /// Where the image of the present power cut is kept until it is judged.
    pub fn draft_path(&self) -> PathBuf {
        self.path.join(LOGS).join("draft.img")
    }

    /// Keeps the image of the present power cut, and what was acknowledged before it.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn keep_cut(
        &self,
        label: &str,
        round: u32,
        operations: &[LoggedOperation],
    ) -> Result<(), CrashError> {
        self.keep_ledger(label, round, operations)?;
        let image = self.image_path(label, round);
        fs::rename(self.draft_path(), &image)
            .map_err(|source| CrashError::File { path: image, source })
    }

    /// Keeps what was acknowledged before a power cut.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn keep_ledger(
        &self,
        label: &str,
        round: u32,
        operations: &[LoggedOperation],
    ) -> Result<(), CrashError> {
        let ledger = self.image_path(label, round).with_extension("json");
        let text = serde_json::to_string_pretty(operations).expect("plain data");
        let failed = |source| CrashError::File { path: ledger.clone(), source };
        durable::write(&ledger, (text + "\n").as_bytes()).map_err(failed)
    }

    fn log_path(&self, label: &str, round: u32) -> PathBuf {
        let plain = label.replace([':', '+', '/'], "-");
        self.path.join(LOGS).join(format!("{plain}-{round}.crashlog"))
    }

    fn failed(&self, source: io::Error) -> CrashError {
        CrashError::File { path: self.path.join(RECORDS), source }
    }
}

/// The length without a line that was cut short.
fn whole_length(file: &mut File) -> io::Result<u64> {
    const PIECE: u64 = 4096;
    let mut end = file.seek(SeekFrom::End(0))?;
    while end > 0 {
        let start = end.saturating_sub(PIECE);
        let mut piece = vec![0; usize::try_from(end - start).expect("a piece")];
        file.seek(SeekFrom::Start(start))?;
        file.read_exact(&mut piece)?;
        if let Some(at) = piece.iter().rposition(|byte| *byte == b'\n') {
            return Ok(start + at as u64 + 1);
        }
        end = start;
    }
    Ok(0)
}
