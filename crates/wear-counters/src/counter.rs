//! One counter: what it measures, in which unit and steps, since when, and who says so.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What a counter measures.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, JsonSchema, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WearQuantity {
    HostWritten,
    HostRead,
    HostDiscarded,
    /// Written by a file system to the device since it was made.
    FileSystemWritten,
    /// Programmed into the flash, for the host and for the controller's own work.
    FlashWritten,
    /// The part of it that the host asked for.
    FlashWrittenForHost,
    /// The part of it that the controller added.
    FlashWrittenByController,
    /// Erases of all erase blocks together.
    ErasesTotal,
    ErasesMean,
    /// Erases of the most worn erase block.
    ErasesMost,
    /// Erases of the least worn erase block.
    ErasesLeast,
    /// Life that is used up, according to the device.
    LifeUsed,
    /// The same for the cells with one bit, or the area that is used as such.
    LifeUsedA,
    /// The same for the cells with several bits.
    LifeUsedB,
    SparesUsed,
    PowerCycles,
    /// Power losses without notice.
    PowerLosses,
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
            Self::FlashWrittenForHost => "written to the flash for the host",
            Self::FlashWrittenByController => "written to the flash by the controller",
            Self::ErasesTotal => "erases, sum",
            Self::ErasesMean => "erases, mean erase block",
            Self::ErasesMost => "erases, most worn block",
            Self::ErasesLeast => "erases, least worn block",
            Self::LifeUsed => "life used",
            Self::LifeUsedA => "life used, A (SLC)",
            Self::LifeUsedB => "life used, B (MLC, TLC)",
            Self::SparesUsed => "spare blocks used",
            Self::PowerCycles => "power cycles",
            Self::PowerLosses => "power losses",
            Self::PowerOnHours => "hours with power",
        }
    }

    /// Whether it counts power cycles and the like, whatever is written.
    pub fn is_of_power(self) -> bool {
        matches!(self, Self::PowerCycles | Self::PowerLosses | Self::PowerOnHours)
    }

    /// Whether it is a share of the life that the device is made for.
    pub fn is_life(self) -> bool {
        matches!(self, Self::LifeUsed | Self::LifeUsedA | Self::LifeUsedB)
    }

    /// Whether it grows with the wear of the flash.
    pub fn is_wear(self) -> bool {
        self.is_life()
            || matches!(
                self,
                Self::FlashWritten
                    | Self::FlashWrittenForHost
                    | Self::FlashWrittenByController
                    | Self::ErasesTotal
                    | Self::ErasesMean
                    | Self::ErasesMost
            )
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CounterUnit {
    Bytes,
    /// Flash pages of a size that the device does not report.
    Pages,
    Percent,
    Count,
    Hours,
}

/// Since when a counter counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
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
#[derive(Debug, Clone, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
pub struct WearCounter {
    /// A name that never changes, such as `kernel.written`.
    pub id: String,
    pub measures: WearQuantity,
    /// In `unit`. A counter in steps gives the lower end of the current step.
    pub value: u64,
    pub unit: CounterUnit,
    /// The smallest change that the counter can show, in `unit`; at least 1.
    pub step: u64,
    pub since: CountSpan,
    /// Program or file, and field.
    pub source: String,
    /// Whether the value is the largest that the counter can show.
    pub is_saturated: bool,
    /// Whether a simulated card counted.
    pub is_simulated: bool,
}

impl WearCounter {
    /// A counter of a real device since the device was made.
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
            step: step.max(1),
            since: CountSpan::Made,
            source: source.to_owned(),
            is_saturated: false,
            is_simulated: false,
        }
    }

    /// A counter of `raw` steps of `step_bytes`; `None` if it cannot be held.
    pub(crate) fn bytes(
        id: &str,
        measures: WearQuantity,
        raw: u128,
        step_bytes: u64,
        source: &str,
    ) -> Option<Self> {
        let bytes = raw.checked_mul(u128::from(step_bytes))?;
        let bytes = u64::try_from(bytes).ok()?;
        Some(Self::new(id, measures, (bytes, CounterUnit::Bytes, step_bytes), source))
    }

    /// A counter in steps of one; `None` if it cannot be held.
    pub(crate) fn count(id: &str, measures: WearQuantity, raw: u128, source: &str) -> Option<Self> {
        let count = u64::try_from(raw).ok()?;
        Some(Self::new(id, measures, (count, CounterUnit::Count, 1), source))
    }

    /// A share of life or spares in steps of `step` percent; `most` is the largest value that the
    /// counter can show.
    pub(crate) fn percent(
        id: &str,
        measures: WearQuantity,
        (percent, step, most): (u64, u64, u64),
        source: &str,
    ) -> Self {
        let counter = Self::new(id, measures, (percent, CounterUnit::Percent, step), source);
        Self { is_saturated: percent >= most, ..counter }
    }

    pub(crate) fn since(self, since: CountSpan) -> Self {
        Self { since, ..self }
    }
}
