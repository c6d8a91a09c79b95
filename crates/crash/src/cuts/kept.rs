//! A live power cut of which the image was kept, as a log: the device contains the image, and two
//! flushes stand for the requests, so that the state between them is looked at like any other.
//!
//! Limit: what a simulated card cannot read after the power cut reads as zeros here.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use flashfit_host::input_file::{self, DOCUMENT_BYTES};

use crate::CrashError;
use crate::blocks::{BLOCK_BYTES, BlockId, BlockPool};
use crate::campaign::{CampaignFolder, CutRecord};
use crate::log::{CrashLog, LogEntry, MOST_BLOCKS};
use crate::state::CrashState;
use crate::workload::LoggedOperation;

/// The log of a live power cut of this setup and round, and its state.
///
/// # Errors
/// When the image or the list of operations cannot be read, or they cannot be of a power cut.
pub(crate) fn load(
    folder: &CampaignFolder,
    setup: &str,
    round: u32,
    record: &CutRecord,
) -> Result<(CrashLog, CrashState), CrashError> {
    let image = folder.image_path(setup, round);
    let ledger = image.with_extension("json");
    let invalid = |reason: String| CrashError::Invalid { path: ledger.clone(), reason };
    let bytes = input_file::read_capped(&ledger, DOCUMENT_BYTES)
        .map_err(|error| CrashError::File { path: ledger.clone(), source: error.into_io() })?;
    let mut operations: Vec<LoggedOperation> =
        serde_json::from_slice(&bytes).map_err(|error| invalid(error.to_string()))?;
    // What was acknowledged had returned before the first flush; what may have been under way
    // returns after the second.
    for (number, done) in (0..).zip(&mut operations) {
        (done.begin, done.end) = (0, if number < record.acknowledged { 0 } else { 2 });
    }
    let failed = |source| CrashError::File { path: image.clone(), source };
    let file = input_file::open(&image).map_err(|error| failed(error.into_io()))?;
    let (base, pool) = contents(&file).map_err(failed)?;
    let (setup, entries) = (setup.to_owned(), vec![LogEntry::Flush; 2]);
    let log = CrashLog { setup, seed: 0, base, pool, entries, operations };
    log.check().map_err(invalid)?;
    Ok((log, CrashState::complete(1)))
}

/// The blocks of an image.
fn contents(file: &File) -> io::Result<(Vec<BlockId>, BlockPool)> {
    let blocks = file.metadata()?.len() / BLOCK_BYTES as u64;
    if blocks > u64::from(MOST_BLOCKS) {
        return Err(io::Error::new(
            io::ErrorKind::FileTooLarge,
            "larger than any card of a campaign",
        ));
    }
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
    use crate::timeline::timeline;
    use crate::workload::Operation;

    #[test]
    fn what_was_not_acknowledged_has_begun_and_not_returned() {
        let plain = tempfile::tempdir().unwrap();
        let plan = CampaignPlan::sample();
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
        let record =
            CutRecord { acknowledged: 1, after_ns: 1, elapsed_ns: None, time_ms: 1, report: None };
        let (log, state) = load(&folder, "ext4", 4, &record).unwrap();
        let zeros = log.base.iter().filter(|id| **id == BlockId::ZERO).count();
        assert_eq!((log.base.len(), zeros), (8, 7));
        let events = timeline(&log, &state);
        let text: Vec<&str> = events.iter().map(|event| event.text.as_str()).collect();
        assert_eq!(
            text,
            ["0 fsync f", "0 fsync f has returned", "1 unlink f", "flush", "power cut"]
        );
        // Only one operation can have been under way.
        let none = CutRecord { acknowledged: 0, ..record };
        assert!(matches!(load(&folder, "ext4", 4, &none), Err(CrashError::Invalid { .. })));
    }
}
