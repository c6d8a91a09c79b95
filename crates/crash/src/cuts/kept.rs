//! A live power cut of which the image was kept, as a log: the device contains the image, and a
//! single flush stands for all that happened, so that the state after it is looked at like any
//! other.
//!
//! Limit: what a simulated card cannot read after the power cut reads as zeros here.

use std::fs::File;
use std::os::unix::fs::FileExt;

use flashfit_host::input_file::{self, DOCUMENT_BYTES};

use crate::CrashError;
use crate::blocks::{BLOCK_BYTES, BlockId, BlockPool};
use crate::campaign::{CampaignFolder, CutRecord};
use crate::log::{CrashLog, LogEntry};
use crate::workload::LoggedOperation;

/// The log of a live power cut of this setup and round.
///
/// # Errors
/// When the image or the list of operations cannot be read.
pub(crate) fn log(
    folder: &CampaignFolder,
    setup: &str,
    round: u32,
    record: &CutRecord,
) -> Result<CrashLog, CrashError> {
    let image = folder.image_path(setup, round);
    let ledger = image.with_extension("json");
    let invalid = |reason: String| CrashError::Invalid { path: ledger.clone(), reason };
    let bytes = input_file::read_capped(&ledger, DOCUMENT_BYTES)
        .map_err(|error| CrashError::File { path: ledger.clone(), source: error.into_io() })?;
    let mut operations: Vec<LoggedOperation> =
        serde_json::from_slice(&bytes).map_err(|error| invalid(error.to_string()))?;
    // The flush comes after what was acknowledged, and before what may have been under way.
    for (number, done) in (0..).zip(&mut operations) {
        (done.begin, done.end) = (0, if number < record.acknowledged { 1 } else { 2 });
    }
    let failed = |source| CrashError::File { path: image.clone(), source };
    let file = input_file::open(&image).map_err(|error| failed(error.into_io()))?;
    let (base, pool) = contents(&file).map_err(failed)?;
    let (setup, entries) = (setup.to_owned(), vec![LogEntry::Flush]);
    Ok(CrashLog { setup, seed: 0, base, pool, entries, operations })
}

/// The blocks of an image.
fn contents(file: &File) -> std::io::Result<(Vec<BlockId>, BlockPool)> {
    let blocks = file.metadata()?.len() / BLOCK_BYTES as u64;
    let (mut pool, mut content) = (BlockPool::default(), [0; BLOCK_BYTES]);
    let mut base = Vec::new();
    for block in 0..blocks {
        file.read_exact_at(&mut content, block * BLOCK_BYTES as u64)?;
        base.push(pool.intern(&content));
    }
    Ok((base, pool))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::campaign::CampaignPlan;
    use crate::state::{CrashState, FlushFault};
    use crate::timeline::timeline;
    use crate::workload::{CrashWorkload, Operation};

    #[test]
    fn what_was_not_acknowledged_has_begun_and_not_returned() {
        let plain = tempfile::tempdir().unwrap();
        let plan = CampaignPlan {
            setups: vec!["ext4".to_owned()],
            workload: CrashWorkload::Files,
            seed: 1,
            states: None,
            unit_sectors: 8,
            flushes: FlushFault::None,
            card: None,
            kernel: None,
            board: None,
        };
        let folder = CampaignFolder::open(plain.path(), &plan).unwrap();
        let file = File::create(folder.draft_path()).unwrap();
        file.set_len(8 * BLOCK_BYTES as u64).unwrap();
        file.write_all_at(&[7; 100], 3 * BLOCK_BYTES as u64).unwrap();
        let done = |operation, number| LoggedOperation {
            operation,
            number,
            begin: 3 * number,
            end: 3 * number + 2,
            inode: None,
            error: None,
        };
        let f = || "f".to_owned();
        let operations =
            [done(Operation::Fsync { path: f() }, 0), done(Operation::Unlink { path: f() }, 1)];
        folder.keep_cut("ext4", 4, &operations).unwrap();
        let record = CutRecord { acknowledged: 1, after_ns: 1, time_ms: 1, report: None };
        let log = log(&folder, "ext4", 4, &record).unwrap();
        let zeros = log.base.iter().filter(|id| **id == BlockId::ZERO).count();
        assert_eq!((log.base.len(), zeros), (8, 7));
        let events = timeline(&log, &CrashState::complete(log.end()));
        let text: Vec<&str> = events.iter().map(|event| event.text.as_str()).collect();
        assert_eq!(
            text,
            ["0 fsync f", "1 unlink f", "flush", "0 fsync f has returned", "power cut"]
        );
    }
}
