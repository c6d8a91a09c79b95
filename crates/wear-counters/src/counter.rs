//! One counter: what it measures, in which unit and steps, since when, and who says so.

use serde::{Deserialize, Serialize};

/// What a counter measures.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WearQuantity {
    /// Written by the host to the device.
    HostWritten,
    /// Read by the host.
    HostRead,
    /// Discarded by the host.
    HostDiscarded,
    /// Written by a file system to the device.
    FileSystemWritten,
    /// Programmed into the flash.
    FlashWritten,
    /// Erases of all erase blocks together.
    ErasesTotal,
    /// Erases of the average erase block.
    ErasesMean,
    /// Erases of the most worn erase block.
    ErasesMost,
    /// Erases of the least worn erase block.
    ErasesLeast,
    /// Life that is used up, according to the device.
    LifeUsed,
    /// Spare erase blocks that are used up.
    SparesUsed,
    /// Times that the device was powered on.
    PowerCycles,
    /// Power losses without notice.
    PowerLosses,
    /// Hours with power.
    PowerOnHours,
}

impl WearQuantity {
    /// In words.
    pub fn text(self) -> &'static str {
        match self {
            Self::HostWritten => "written by the host",
            Self::HostRead => "read by the host",
            Self::HostDiscarded => "discarded by the host",
            Self::FileSystemWritten => "written by the file system",
            Self::FlashWritten => "written to the flash",
            Self::ErasesTotal => "erases, all erase blocks",
            Self::ErasesMean => "erases, mean erase block",
            Self::ErasesMost => "erases, most worn erase block",
            Self::ErasesLeast => "erases, least worn erase block",
            Self::LifeUsed => "life used",
            Self::SparesUsed => "spare erase blocks used",
            Self::PowerCycles => "power cycles",
            Self::PowerLosses => "power losses without notice",
            Self::PowerOnHours => "hours with power",
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CounterUnit {
    Bytes,
    Percent,
    /// Erases, power cycles and the like.
    Count,
    Hours,
}

/// Since when a counter counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CountSpan {
    /// The device was made.
    Made,
    /// The kernel found the device.
    Attached,
    /// The file system was made.
    FileSystemMade,
}

/// A counter as it was read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WearCounter {
    /// A name that never changes, such as `kernel.written`.
    pub id: String,
    pub measures: WearQuantity,
    /// In `unit`. A counter in steps gives the lower end of the current step.
    pub value: u64,
    pub unit: CounterUnit,
    /// The smallest change that the counter can show, in `unit`.
    pub step: u64,
    pub since: CountSpan,
    /// Program or file, and field.
    pub source: String,
    /// Whether the value is the largest that the counter can show.
    pub is_saturated: bool,
    /// Whether a simulated card counted.
    pub is_simulated: bool,
    /// The value at which the counter begins again at 0, in `unit`, if it is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wraps_at: Option<u64>,
}

impl WearCounter {
    /// A counter of a real device since it was made.
    pub(crate) fn new(
        id: &str,
        measures: WearQuantity,
        (value, unit, step): (u64, CounterUnit, u64),
        source: &str,
    ) -> Self {
        Self {
            id: id.to_owned(),
            measures,
            value,
            unit,
            step,
            since: CountSpan::Made,
            source: source.to_owned(),
            is_saturated: false,
            is_simulated: false,
            wraps_at: None,
        }
    }

    pub(crate) fn since(self, since: CountSpan) -> Self {
        Self { since, ..self }
    }
}
