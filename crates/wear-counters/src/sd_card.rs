//! The health of SD cards whose manufacturer documents how to read it with CMD56 (GEN_CMD).
//!
//! Sources: SD Physical Layer Simplified Specification, 4.7.4 (CMD56 with bit 0 of its argument set
//! reads one block); product manuals of SanDisk and Western Digital industrial cards and of
//! Swissbit; sdmon (Tschakalov) for the bytes. The argument and the block are the manufacturer's,
//! so the command is sent only to a card that names one of them, and is only ever a read. Limits:
//! only a native slot passes it on; most consumer cards do not answer, or answer without the
//! signature; Apacer and Kingston cards need a vendor's write command first, which is not sent.

use std::fs::File;

use flashfit_device::Device;
use flashfit_device::registers::Cid;
use flashfit_device::registers::csd::CsdFamily;
use rustix::io::Errno;

use crate::counter::{WearCounter, WearQuantity};
use crate::mmc_command::read_block;
use crate::nvme::node;
use crate::reading::{Answer, NoAnswer, SourceOutcome, SourceReport, WearSources};

const BLOCK_BYTES: usize = 512;
/// GEN_CMD of the SD specification.
const CMD56: u32 = 56;
/// Bit 0 of the argument of CMD56: the card sends the block.
const READS: u32 = 1;

/// What a manufacturer documents.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HealthBlock {
    maker: &'static str,
    /// MID and OID of the card identification register.
    manufacturer: u8,
    oem: &'static str,
    argument: u32,
    signatures: &'static [[u8; 2]],
    life: LifeByte,
}

/// Where a block has the life of the card.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LifeByte {
    /// 1 for the first percent that is used.
    Used(usize),
    /// Percent that are left.
    Left(usize),
}

const DOCUMENTED: [HealthBlock; 2] = [
    HealthBlock {
        maker: "SanDisk or Western Digital",
        manufacturer: 0x03,
        oem: "SD",
        argument: 0x0000_0001,
        signatures: &[*b"DS", *b"DW"],
        life: LifeByte::Used(8),
    },
    HealthBlock {
        maker: "Swissbit",
        manufacturer: 0x5d,
        oem: "SB",
        argument: 0x5342_0001,
        signatures: &[*b"Sw"],
        life: LifeByte::Left(80),
    },
];

pub(crate) fn read(sources: &WearSources<'_>, device: &Device) -> Answer {
    let Some(block) = device.identity.cid.as_deref().and_then(documented) else {
        let reason = "no manufacturer's command is known for this card; SD cards have no standard \
                      counter of wear";
        return Err(NoAnswer::new(SourceOutcome::NotAsked, reason));
    };
    if !sources.is_root {
        return Err(NoAnswer::needs_root());
    }
    let file = open(device).map_err(|error| NoAnswer::failed(error.to_string()))?;
    let mut bytes = [0; BLOCK_BYTES];
    // A data transfer to the card would be a vendor's write command.
    assert_eq!(block.argument & READS, READS, "CMD56 is sent as a read only");
    match read_block(&file, CMD56, block.argument, &mut bytes) {
        Ok(()) => decode(block, &bytes),
        Err(error) => Err(no_answer(block, error)),
    }
}

fn open(device: &Device) -> std::io::Result<File> {
    // The command goes to the whole card.
    match device.partition_start {
        None => device.open_for_reading(),
        Some(_) => File::open(node(&device.disk)),
    }
}

fn no_answer(block: HealthBlock, error: Errno) -> NoAnswer {
    let what = format!("the card does not answer the command of {}: {error}", block.maker);
    match error {
        Errno::PERM | Errno::ACCESS => NoAnswer::needs_root(),
        _ => NoAnswer::nothing(what),
    }
}

/// The documented block of the card with that identification register.
pub fn documented(cid: &str) -> Option<HealthBlock> {
    let cid = Cid::parse(CsdFamily::Sd, cid, None).ok()?;
    DOCUMENTED
        .into_iter()
        .find(|block| block.manufacturer == cid.manufacturer && block.oem == cid.oem)
}

/// Decodes the block that a card sent.
fn decode(block: HealthBlock, bytes: &[u8; BLOCK_BYTES]) -> Answer {
    if !block.signatures.iter().any(|signature| bytes.starts_with(signature)) {
        let reason = format!("the answer lacks the signature of {}", block.maker);
        return Err(NoAnswer::nothing(reason));
    }
    let used = match block.life {
        // Cards go on counting above 100 %.
        LifeByte::Used(place) => bytes[place].checked_sub(1),
        LifeByte::Left(place) => 100u8.checked_sub(bytes[place]),
    };
    let used = used.ok_or_else(|| NoAnswer::nothing("the card has no estimate of its life"))?;
    let source = format!("CMD56 of {}, life", block.maker);
    let percent = (u64::from(used), 1, 254);
    let counter = WearCounter::percent("sd.life_used", WearQuantity::LifeUsed, percent, &source);
    Ok(SourceReport { counters: vec![counter], ..SourceReport::default() })
}

/// Decodes a block with every documented format, for tests with arbitrary bytes.
///
/// # Errors
/// The reason, if no format fits.
pub fn decode_any(bytes: &[u8; BLOCK_BYTES]) -> Result<Vec<WearCounter>, String> {
    let mut reason = String::new();
    for block in DOCUMENTED {
        match decode(block, bytes) {
            Ok(report) => return Ok(report.counters),
            Err(answer) => reason = answer.reason,
        }
    }
    Err(reason)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block(start: &[u8], place: usize, value: u8) -> [u8; BLOCK_BYTES] {
        let mut bytes = [0; BLOCK_BYTES];
        bytes[..start.len()].copy_from_slice(start);
        bytes[place] = value;
        bytes
    }

    #[test]
    fn a_command_is_known_for_the_documented_makers_only() {
        // The first is a SanDisk card with "SN64G"; the others differ in maker or in OEM.
        let maker = |cid: &str| documented(cid).map(|block| block.maker);
        assert_eq!(maker("035344534e363447867e650771016b8d"), Some("SanDisk or Western Digital"));
        assert_eq!(maker("5d5342534e363447867e650771016b8d"), Some("Swissbit"));
        assert_eq!(maker("035054534e363447867e650771016b8d"), None);
        assert_eq!(maker("1b534d534e363447867e650771016b8d"), None);
        assert_eq!(maker("00"), None);
    }

    #[test]
    fn every_command_is_a_read() {
        assert!(DOCUMENTED.iter().all(|block| block.argument & READS == READS));
    }

    #[test]
    fn the_first_percent_is_one() {
        let used = |bytes| decode(DOCUMENTED[0], &bytes).map(|report| report.counters[0].value);
        assert_eq!(used(block(b"DS", 8, 1)), Ok(0));
        assert_eq!(used(block(b"DW", 8, 0x64)), Ok(99));
        assert!(used(block(b"DS", 8, 0)).is_err());
        assert!(used(block(b"\xff\xff", 8, 1)).is_err());
        let left = |bytes| decode(DOCUMENTED[1], &bytes).map(|report| report.counters[0].value);
        assert_eq!(left(block(b"Sw", 80, 98)), Ok(2));
        assert!(left(block(b"Sw", 80, 101)).is_err());
    }
}
