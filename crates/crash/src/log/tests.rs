//! Tests of both file formats of a log.

use proptest::prelude::*;

use super::*;
use crate::blocks::BLOCK_BYTES;
use crate::workload::Operation;

const BLOCKS: u32 = 16;

/// A log with these writes: first sector, sectors, content.
fn log(requests: &[(u8, u8, u8)]) -> CrashLog {
    let mut log = CrashLog {
        setup: "ext4".to_owned(),
        seed: 7,
        base: (0..BLOCKS).map(BlockId::unwritten).collect(),
        pool: BlockPool::default(),
        entries: Vec::new(),
        operations: Vec::new(),
    };
    log.base[3] = log.pool.intern(&[0xee; BLOCK_BYTES]);
    log.base[4] = BlockId::ZERO;
    for (sector, sectors, content) in requests {
        let sector = u64::from(*sector) % 100;
        let sectors = 1 + u32::from(*sectors) % 28;
        log.entries.push(match content {
            0 => LogEntry::Flush,
            1 => LogEntry::Discard { sector, sectors },
            content => {
                let blocks = blocks_of(sector, sectors)
                    .map(|(_, within)| {
                        let mut block = [0; BLOCK_BYTES];
                        block[within.start as usize * 512..within.end as usize * 512]
                            .fill(*content);
                        log.pool.intern(&block)
                    })
                    .collect();
                let is_durable = content % 7 == 0;
                LogEntry::Write(LoggedWrite { sector, sectors, blocks, is_durable })
            }
        });
    }
    let end = log.end();
    log.operations.push(LoggedOperation {
        operation: Operation::SyncAll,
        number: 0,
        begin: 0,
        end: end / 2,
        inode: None,
        error: None,
    });
    log
}

/// Everything that decides the states of a log.
fn facts(log: &CrashLog) -> (Vec<Vec<u8>>, Vec<LogEntry>, Vec<LoggedOperation>) {
    let content = |id: &BlockId| {
        let mut content = [0; BLOCK_BYTES];
        log.pool.read(*id, &mut content);
        content.to_vec()
    };
    (log.base.iter().map(content).collect(), log.entries.clone(), log.operations.clone())
}

/// Without a mark for the start of the work.
fn all_of(bytes: &[u8]) -> Result<CrashLog, DmLogError> {
    let image: Option<&mut dyn std::io::Read> = Some(&mut std::io::empty());
    CrashLog::from_dm_log(&mut &bytes[..], DmLogStart { mark: None, image })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn a_saved_log_is_loaded(requests: Vec<(u8, u8, u8)>) {
        let log = log(&requests);
        let loaded = CrashLog::from_bytes(&log.to_bytes()).unwrap();
        prop_assert_eq!(facts(&loaded), facts(&log));
        prop_assert_eq!((loaded.setup, loaded.seed), (log.setup, log.seed));
    }

    #[test]
    fn a_damaged_log_is_refused(
        requests: Vec<(u8, u8, u8)>,
        at: prop::sample::Index,
        bit in 0_u32..8,
    ) {
        let mut bytes = log(&requests).to_bytes();
        let at = at.index(bytes.len());
        bytes[at] ^= 1_u8 << bit;
        prop_assert!(CrashLog::from_bytes(&bytes).is_err());
        prop_assert!(CrashLog::from_bytes(&bytes[..at]).is_err());
    }

    #[test]
    fn requests_survive_the_format_of_dm_log_writes(requests: Vec<(u8, u8, u8)>) {
        let log = log(&requests);
        let written = log.to_dm_log().unwrap();
        let read = CrashLog::from_dm_log(&mut &written[..], DmLogStart::default());
        prop_assume!(!log.entries.is_empty());
        let loaded = read.unwrap();
        prop_assert_eq!(loaded.entries.len(), log.entries.len());
        for (found, expected) in loaded.entries.iter().zip(&log.entries) {
            prop_assert_eq!(found.range(), expected.range());
            if let (LogEntry::Write(found), LogEntry::Write(expected)) = (found, expected) {
                prop_assert_eq!(loaded.data(found), log.data(expected));
                prop_assert_eq!(found.is_durable, expected.is_durable);
            }
        }
        prop_assert_eq!(loaded.operations[0].end, log.operations[0].end);
        let mut content = [0; BLOCK_BYTES];
        loaded.pool.read(loaded.base[3], &mut content);
        prop_assert_eq!(content[0], 0xee);
    }

    #[test]
    fn any_bytes_are_a_log_or_are_not(bytes: Vec<u8>) {
        prop_assert!(CrashLog::from_bytes(&bytes).is_err());
        let _ = all_of(&bytes);
    }
}

/// As QEMU's `blklogwrites` and the kernel write it: a flush that comes with a write.
#[test]
fn a_flush_of_an_entry_comes_before_its_write() {
    let mut bytes = vec![0_u8; 4096 * 3];
    let numbers = |at: usize, numbers: &[u64], bytes: &mut Vec<u8>| {
        for (index, number) in numbers.iter().enumerate() {
            bytes[at + index * 8..at + index * 8 + 8].copy_from_slice(&number.to_le_bytes());
        }
    };
    numbers(0, &[0x006a_7366_7773_6872, 1, 1, 4096], &mut bytes);
    numbers(4096, &[2, 1, 3, 0], &mut bytes);
    bytes[8192..].fill(9);
    let log = all_of(&bytes).unwrap();
    assert_eq!(log.entries[0], LogEntry::Flush);
    assert_eq!(log.entries[1].range(), Some((16, 8)));
    assert!(matches!(&log.entries[1], LogEntry::Write(write) if write.is_durable));
    assert_eq!(log.base.len(), 3);
}

/// What xfstests records: the file system is made after its first mark and before the second.
#[test]
fn what_mkfs_did_is_there_before_the_work() {
    let mut bytes = Vec::new();
    let head = |numbers: [u64; 4], rest: &[u8], bytes: &mut Vec<u8>| {
        numbers.iter().for_each(|number| bytes.extend(number.to_le_bytes()));
        bytes.extend(rest);
        bytes.resize(bytes.len().next_multiple_of(512), 0);
    };
    head([0x006a_7366_7773_6872, 1, 8, 512], b"", &mut bytes);
    head([0, 0, 8, 5], b"begin", &mut bytes);
    for content in [1, 2] {
        head([0, 8, 0, 0], b"", &mut bytes);
        bytes.extend([content; 4096]);
    }
    head([0, 2, 4, 0], b"", &mut bytes);
    head([0, 0, 8, 4], b"mkfs", &mut bytes);
    head([0, 0, 8, 5], b"begun", &mut bytes);
    head([8, 1, 2, 0], b"", &mut bytes);
    bytes.extend([3; 512]);
    head([0, 0, 8, 4], b"done", &mut bytes);
    let read = |mark, image: Option<&mut dyn std::io::Read>| {
        CrashLog::from_dm_log(&mut &bytes[..], DmLogStart { mark, image })
    };
    let log = read(None, None).unwrap();
    let mut first = [0; BLOCK_BYTES];
    log.pool.read(log.base[0], &mut first);
    assert_eq!((first[1023], first[1024]), (0, 2), "the discard came after the writes");
    assert_eq!((log.base.len(), log.entries.len()), (2, 1));
    let marks: Vec<_> = log.operations.iter().map(|mark| (mark.begin, mark.end)).collect();
    assert_eq!(marks, [(0, 0), (0, 1)]);
    assert_eq!(read(Some("begin"), None).unwrap().entries.len(), 4);
    let error = read(Some("other"), None).unwrap_err().to_string();
    assert_eq!(error, "it has no mark `other`; its marks are `begin`, `mkfs`, `begun`, `done`");
    assert!(matches!(read(Some("done"), None), Err(DmLogError::Empty)));
    let mut image = &[7; 3 * BLOCK_BYTES - 1][..];
    let log = read(Some("begin"), Some(&mut image)).unwrap();
    log.pool.read(log.base[2], &mut first);
    assert_eq!((log.base.len(), first[0], first[BLOCK_BYTES - 1]), (3, 7, 0));
}

/// A check that gets another line than the one that was printed would fail.
#[test]
fn a_long_line_makes_larger_sectors_or_is_refused() {
    let with_line = |sectors: u8, bytes: usize| {
        let mut log = log(&[(8, sectors - 1, 5), (0, 0, 0)]);
        let line = format!("s{}", "é".repeat(bytes / 2));
        log.operations[0].operation = Operation::Acknowledge { line };
        log
    };
    for (sectors, bytes, sector_bytes) in
        [(3, 9, 512), (3, 479, 512), (8, 481, 1024), (8, 4063, 4096)]
    {
        let log = with_line(sectors, bytes);
        let written = log.to_dm_log().unwrap();
        assert_eq!(u64::from_le_bytes(written[24..32].try_into().unwrap()), sector_bytes);
        let read = CrashLog::from_dm_log(&mut &written[..], DmLogStart::default()).unwrap();
        assert_eq!(read.operations[0].operation, log.operations[0].operation);
        assert_eq!(read.entries[0].range(), log.entries[0].range());
        let [LogEntry::Write(found), LogEntry::Flush] = &read.entries[..] else { panic!() };
        assert_eq!(read.data(found), [5].repeat(usize::from(sectors) * 512));
    }
    // Requests of smaller sectors, and a line that no sector has room for.
    for (sectors, bytes) in [(3, 481), (8, 4065)] {
        let error = with_line(sectors, bytes).to_dm_log().unwrap_err().to_string();
        let said = format!("an acknowledged line has {bytes} bytes, too many for a mark: `séé");
        assert!(error.starts_with(&said), "{error}");
    }
}

#[test]
fn the_blocks_of_a_range() {
    let blocks: Vec<_> = blocks_of(6, 12).collect();
    assert_eq!(blocks, [(0, 6..8), (1, 0..8), (2, 0..2)]);
    assert_eq!(blocks_of(8, 8).collect::<Vec<_>>(), [(1, 0..8)]);
    assert_eq!(blocks_of(8, 0).count(), 0);
}

#[test]
fn a_damaged_file_is_named_with_how_to_go_on_without_it() {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), "FFCRLOG1, and no log").unwrap();
    let error = CrashLog::load(file.path()).unwrap_err();
    let hint = format!("a campaign continues without it: rm {}", file.path().display());
    assert_eq!(flashfit_user_error::UserError::hint(&error), Some(hint.into()));
}
