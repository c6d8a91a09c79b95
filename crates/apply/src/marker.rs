//! The marker that names a device as unfinished, on the device itself.
//!
//! It is 4 KiB, all zeros but a few lines in the first. Between a partition table and the first
//! partition it lies where neither sfdisk nor mkfs writes (GPT takes at most 24 KiB, UEFI
//! specification section 5.3). Where there is no such gap, the place is inside the file system, and
//! mkfs may overwrite it before it is done; the journal on the machine still has the record then.

use std::path::PathBuf;

use flashfit_device::{Device, WriteConsent};
use flashfit_host::Runner;
use serde::{Deserialize, Serialize};

use crate::checksum::fnv1a;
use crate::error::ApplyError;
use crate::region;

// Part of the format of a marker.
const MAGIC: &str = "flashfit: this medium was left unfinished";
pub(crate) const LENGTH: usize = 4096;
/// The whole text fits in here, and file systems with a superblock at 1024 keep theirs when the
/// marker is removed.
const TEXT_LENGTH: usize = 1024;
/// Behind the entries of a GPT, with sectors of 512 and of 4096 bytes.
pub(crate) const GAP: u64 = 24 << 10;
/// Every place where a marker may be.
const POSSIBLE: [u64; 2] = [0, GAP];

/// What a marker says.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ApplyMarker {
    /// The machine on which the work was begun.
    pub host: String,
    /// The folder of the backup there; `None` where its name is too long or the marker is damaged.
    #[serde(default, with = "flashfit_host::path_text::optional")]
    pub backup: Option<PathBuf>,
    /// When it was begun, in seconds since 1970.
    pub unix_s: u64,
}

/// Where the marker goes, in the order in which it is written: before the partition that starts at
/// `start`, or inside the file system. A partition that leaves no gap leaves no place either.
pub(crate) fn places(start: Option<u64>, capacity: u64) -> Vec<u64> {
    let places = match start {
        None => vec![GAP, 0],
        Some(start) if start >= GAP + LENGTH as u64 => vec![GAP],
        Some(_) => vec![],
    };
    places.into_iter().filter(|offset| fits(*offset, capacity)).collect()
}

/// The place before the first partition, as a range of bytes of the device.
pub(crate) fn gap() -> (usize, usize) {
    let from = usize::try_from(GAP).expect("24 KiB");
    (from, from + LENGTH)
}

fn fits(offset: u64, capacity: u64) -> bool {
    offset + LENGTH as u64 <= capacity
}

/// The marker on a device, if there is one.
pub(crate) fn find(device: &Device) -> Result<Option<ApplyMarker>, ApplyError> {
    for offset in POSSIBLE.into_iter().filter(|offset| fits(*offset, device.capacity.0)) {
        if let Some(marker) = parse(&region::read(device, offset, LENGTH)?) {
            return Ok(Some(marker));
        }
    }
    Ok(None)
}

/// Writes the marker at `offset`.
pub(crate) fn put(
    runner: &dyn Runner,
    consent: &WriteConsent,
    offset: u64,
    marker: &ApplyMarker,
) -> Result<(), ApplyError> {
    region::write(runner, consent, offset, &bytes(marker))
}

/// Removes every marker that is left. `gap` is what lay before the first partition, where boot
/// loaders of some boards are; it takes the marker's place again.
pub(crate) fn remove(
    runner: &dyn Runner,
    consent: &WriteConsent,
    gap: Option<&[u8]>,
) -> Result<(), ApplyError> {
    let capacity = consent.device().capacity.0;
    for offset in POSSIBLE.into_iter().filter(|offset| fits(*offset, capacity)) {
        let mut block = region::read_consented(consent, offset, LENGTH)?;
        if !block.starts_with(MAGIC.as_bytes()) {
            continue;
        }
        match gap.filter(|gap| offset == GAP && !gap.starts_with(MAGIC.as_bytes())) {
            Some(gap) => block.copy_from_slice(gap),
            None => block[..TEXT_LENGTH].fill(0),
        }
        region::write(runner, consent, offset, &block)?;
    }
    Ok(())
}

fn bytes(marker: &ApplyMarker) -> Vec<u8> {
    let text = |marker: &ApplyMarker| {
        let line = serde_json::to_string(marker).expect("a marker is plain data");
        format!("{MAGIC}\n{line}\n{}\n", fnv1a(line.as_bytes()))
    };
    let mut text_bytes = text(marker).into_bytes();
    if text_bytes.len() > TEXT_LENGTH {
        text_bytes =
            text(&ApplyMarker { backup: None, host: String::new(), ..*marker }).into_bytes();
    }
    text_bytes.resize(LENGTH, 0);
    text_bytes
}

/// A marker that was not written whole is one all the same.
fn parse(block: &[u8]) -> Option<ApplyMarker> {
    let rest = block.strip_prefix(MAGIC.as_bytes())?;
    let text = String::from_utf8_lossy(rest);
    let mut lines = text.lines().skip(1);
    let (line, sum) = (lines.next().unwrap_or_default(), lines.next().unwrap_or_default());
    let whole = fnv1a(line.as_bytes()) == sum;
    let marker = whole.then(|| serde_json::from_slice(line.as_bytes()).ok()).flatten();
    Some(marker.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_written_is_read() {
        use std::os::unix::ffi::OsStrExt;
        let strange = std::ffi::OsStr::from_bytes(b"/a \"strange\"\n\xfffolder");
        let backup = Some(PathBuf::from(strange));
        let marker = ApplyMarker { host: "here".into(), backup, unix_s: 7 };
        let written = bytes(&marker);
        assert_eq!(written.len(), LENGTH);
        assert_eq!(parse(&written), Some(marker.clone()));
        let torn = [&written[..60], &[0; 4000]].concat();
        assert_eq!(parse(&torn), Some(ApplyMarker::default()), "still unfinished");
        assert_eq!(parse(&[0; LENGTH]), None);
        let long = ApplyMarker { backup: Some("x".repeat(2000).into()), ..marker };
        assert_eq!(parse(&bytes(&long)), Some(ApplyMarker { unix_s: 7, ..ApplyMarker::default() }));
    }
}
