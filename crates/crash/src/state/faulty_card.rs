//! Power cuts of a simulated card, which decides by its faults what a log leaves on it.
//!
//! The requests of the log are served one after another, without their timing; the power is cut
//! during the last one, or after it where an operation had returned by then. One seed gives one
//! state. Limits: blocks that were never written read as zeros; one request at a time, whatever the
//! card's queue.

use std::sync::Arc;

use flashfit_card::cut::{CutMoment, CutOptions};
use flashfit_card::{Card, CardRequest, CutReport};
use flashfit_device::BlockDevError;

use super::BuiltState;
use crate::CrashError;
use crate::blocks::{BLOCK_BYTES, BlockId, BlockPool, SECTOR_BYTES};
use crate::campaign::CardPlan;
use crate::device::DiskContents;
use crate::log::{CrashLog, LogEntry, blocks_of};

/// Cuts the power of one log's card.
#[derive(Debug)]
pub struct FaultyCard {
    plan: CardPlan,
    /// The card before the first request.
    base: Vec<u8>,
    /// Of the device, for whoever asks for its size.
    blocks: Arc<Vec<BlockId>>,
}

impl FaultyCard {
    /// A card with what the log begins with.
    ///
    /// # Errors
    /// When the card cannot have this size.
    pub fn new(plan: &CardPlan, log: &CrashLog) -> Result<Self, CrashError> {
        let model = plan.of_size(log.device_bytes())?;
        let mut card = Card::new(&model);
        let mut content = [0; BLOCK_BYTES];
        for (block, id) in (0..).zip(&log.base) {
            if *id == BlockId::ZERO || *id == BlockId::unwritten(block) {
                continue;
            }
            log.pool.read(*id, &mut content);
            let offset = u64::from(block) * BLOCK_BYTES as u64;
            served(card.serve(CardRequest::Write { offset, data: &content }));
        }
        served(card.serve(CardRequest::Flush));
        let blocks = Arc::new(log.base.clone());
        Ok(Self { plan: plan.clone(), base: saved(&card), blocks })
    }

    /// The card after a power cut at `position`, and what happened.
    pub fn cut(&self, log: &CrashLog, position: u32, seed: u64) -> (Card, CutReport) {
        let mut card = Card::load(&self.base[..]).expect("saved by this process");
        card.record_history(self.plan.history_ms());
        for entry in &log.entries[..position as usize] {
            serve(&mut card, &log.pool, entry);
        }
        let is_after = log.operations.iter().any(|done| done.end == position);
        let moment = if is_after { CutMoment::Now } else { CutMoment::DuringLast };
        let faults = self.plan.faults.clone();
        let report = card.power_cut(&CutOptions { seed, moment, faults });
        (card, report)
    }

    /// The state after a power cut.
    pub fn build(&self, log: &CrashLog, position: u32, seed: u64) -> BuiltState {
        let (card, report) = self.cut(log, position, seed);
        let contents = DiskContents {
            base: Arc::clone(&self.blocks),
            card: Some(Arc::new(saved(&card))),
            ..DiskContents::default()
        };
        let happened = report.happened.iter().map(|damage| damage.class).collect();
        BuiltState { contents, fingerprint: u128::from(seed), happened }
    }
}

fn saved(card: &Card) -> Vec<u8> {
    let mut bytes = Vec::new();
    card.save(&mut bytes).expect("memory takes any card");
    bytes
}

fn serve(card: &mut Card, pool: &BlockPool, entry: &LogEntry) {
    match entry {
        LogEntry::Write(write) => {
            let mut data = Vec::with_capacity(write.sectors as usize * SECTOR_BYTES);
            let mut content = [0; BLOCK_BYTES];
            for ((_, sectors), id) in blocks_of(write.sector, write.sectors).zip(&write.blocks) {
                pool.read(*id, &mut content);
                let bytes =
                    sectors.start as usize * SECTOR_BYTES..sectors.end as usize * SECTOR_BYTES;
                data.extend_from_slice(&content[bytes]);
            }
            let offset = write.sector * SECTOR_BYTES as u64;
            served(card.serve(CardRequest::Write { offset, data: &data }));
            if write.is_durable {
                served(card.serve(CardRequest::Flush));
            }
        }
        LogEntry::Discard { sector, sectors } => {
            let (offset, length) = (*sector, u64::from(*sectors));
            let (offset, length) = (offset * SECTOR_BYTES as u64, length * SECTOR_BYTES as u64);
            match card.serve(CardRequest::Discard { offset, length }) {
                Err(BlockDevError::NoDiscard) => {}
                other => served(other),
            }
        }
        LogEntry::Flush => served(card.serve(CardRequest::Flush)),
    }
}

fn served(result: Result<u64, BlockDevError>) {
    result.expect("a card with power serves requests within its size");
}

#[cfg(test)]
mod tests {
    use flashfit_card::FaultClass;

    use super::*;
    use crate::log::LoggedWrite;
    use crate::workload::{LoggedOperation, Operation};

    /// Block 1 is written and flushed, then block 2.
    fn log() -> CrashLog {
        let mut pool = BlockPool::default();
        let mut write = |block: u64, value: u8| {
            let blocks = vec![pool.intern(&[value; BLOCK_BYTES])];
            let (sector, sectors) = (block * 8, 8);
            LogEntry::Write(LoggedWrite { sector, sectors, blocks, is_durable: false })
        };
        let entries = vec![write(1, 7), LogEntry::Flush, write(2, 8)];
        let line = "durable".to_owned();
        let done = LoggedOperation {
            operation: Operation::Acknowledge { line },
            number: 0,
            begin: 0,
            end: 2,
            inode: None,
            error: None,
        };
        let base = (0..(64 << 20) / BLOCK_BYTES as u32).map(BlockId::unwritten).collect();
        let setup = "none".to_owned();
        CrashLog { setup, seed: 1, base, pool, entries, operations: vec![done] }
    }

    fn first_bytes(
        log: &CrashLog,
        fault: &[&str],
        position: u32,
        seed: u64,
    ) -> ([u8; 2], CutReport) {
        let model = flashfit_card::catalog::load("usd-a2-cq", None).unwrap();
        let faults = fault.iter().map(|fault| fault.parse().unwrap()).collect();
        let card = FaultyCard::new(&CardPlan { model, faults }, log).unwrap();
        let (card, report) = card.cut(log, position, seed);
        let byte = |block: u64| {
            let mut buffer = [0; 512];
            card.peek(block * BLOCK_BYTES as u64, &mut buffer).map_or(0xff, |()| buffer[0])
        };
        ([byte(1), byte(2)], report)
    }

    #[test]
    fn a_correct_card_keeps_what_was_flushed_and_may_lose_the_rest() {
        let log = log();
        let mut lost = 0;
        for seed in 0..20 {
            assert_eq!(first_bytes(&log, &[], 2, seed).0, [7, 0]);
            let (bytes, report) = first_bytes(&log, &[], 3, seed);
            assert!(bytes == [7, 0] || bytes == [7, 8], "{bytes:?}");
            assert!(report.is_honest());
            lost += usize::from(bytes == [7, 0]);
            assert_eq!(first_bytes(&log, &[], 3, seed).0, bytes, "one seed, one state");
        }
        assert!((1..20).contains(&lost), "{lost}");
    }

    #[test]
    fn a_fault_that_happens_is_reported() {
        let log = log();
        let (bytes, report) = first_bytes(&log, &["rollback"], 2, 1);
        assert_eq!((bytes, report.count(FaultClass::Rollback)), ([0, 0], 1));
    }
}
