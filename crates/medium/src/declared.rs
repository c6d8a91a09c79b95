//! The erase unit that a medium or the kernel declares, and where it was read.
//!
//! For SD cards the kernel takes `preferred_erase_size` from the AU_SIZE field of the SD status
//! register; for MMC from the high-capacity erase group or, failing that, it guesses from the
//! capacity (Documentation/driver-api/mmc/mmc-dev-attrs.rst). Many cards declare 4 MiB whatever
//! they are built of, so this is a claim, not a measurement. Limit: an SD status register that the
//! kernel shows in `ssr` is only used to tell a claim from a guess, its other fields are not read.

use serde::{Deserialize, Serialize};

use crate::describe::Kind;
use crate::queue::Queue;
use crate::system::System;
use crate::units::Bytes;

/// Discard granularities below this are a sector or page size, not an erase unit.
const LEAST_PLAUSIBLE: Bytes = Bytes::kib(64);

/// A declared erase unit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeclaredEraseUnit {
    /// Its size.
    pub bytes: Bytes,
    /// Where it was read.
    pub source: String,
    /// Whether the kernel made it up from the capacity.
    pub is_guess: bool,
}

/// Reads what the whole disk `disk` of this kind declares.
pub fn erase_unit(
    system: &System,
    disk: &str,
    kind: Kind,
    queue: &Queue,
) -> Option<DeclaredEraseUnit> {
    let device = system.block(disk).join("device");
    let preferred = system.number(&device.join("preferred_erase_size")).filter(|bytes| *bytes > 0);
    if let Some(bytes) = preferred {
        let status = system.attribute(&device.join("ssr"));
        let empty = status.as_deref().is_none_or(|text| text.chars().all(|c| c == '0'));
        let (source, is_guess) = match kind {
            Kind::SdCard if !empty => ("preferred_erase_size, from the SD status register", false),
            Kind::SdCard => {
                ("preferred_erase_size, a guess: the SD status register is empty", true)
            }
            _ => (
                "preferred_erase_size, the erase group or the kernel's guess from the capacity",
                true,
            ),
        };
        return Some(DeclaredEraseUnit {
            bytes: Bytes(bytes),
            source: source.to_owned(),
            is_guess,
        });
    }
    // A loop device passes on the block size of the file system below it.
    let granularity = Bytes(queue.discard_granularity_bytes);
    let plausible = kind != Kind::Loop && queue.discards && granularity >= LEAST_PLAUSIBLE;
    plausible.then(|| DeclaredEraseUnit {
        bytes: granularity,
        source: "queue/discard_granularity".to_owned(),
        is_guess: true,
    })
}
