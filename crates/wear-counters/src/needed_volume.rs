//! How much must be written until a counter is resolved.
//!
//! An error of 10 % needs ten steps of the counter. How many bytes a step is, a device tells for a
//! counter of bytes only. For erases it is the capacity, because the mean block is erased once for
//! each time that the flash is filled. For a share of the life it follows from what the device
//! wrote so far, or else from an assumed endurance. Amplification makes the true volume smaller,
//! never larger, except for the assumed endurance.

use flashfit_device::Bytes;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::counter::{CountSpan, CounterUnit, WearCounter, WearQuantity};
use crate::reading::WearReading;

/// Erase cycles that are assumed where a device does not tell: the lower end for flash with three
/// bits a cell.
pub const ASSUMED_CYCLES: u64 = 1000;
/// No flash page is larger.
const LARGEST_PAGE_BYTES: u64 = 64 << 10;
/// No erase block is larger, in the few controllers that erase one on all dies together.
const LARGEST_ERASE_BLOCK_BYTES: u64 = 64 << 20;
/// Steps of the life from which the life so far is a guide.
const STEPS_OF_HISTORY: u64 = 5;

/// What an estimate of a volume rests on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum VolumeBasis {
    Unit,
    /// The size of the device, or the largest that such units are.
    Size,
    /// What the device wrote until now for the life that it used.
    History,
    /// [`ASSUMED_CYCLES`].
    AssumedCycles,
    /// What was written for each step in this measurement.
    Measured,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
pub struct NeededVolume {
    pub bytes: u64,
    pub basis: VolumeBasis,
}

/// The volume for `steps` steps of a counter.
pub fn needed(
    counter: &WearCounter,
    reading: &WearReading,
    capacity: Bytes,
    steps: u64,
) -> NeededVolume {
    use WearQuantity as Q;
    let times =
        |step_bytes: u64, basis| NeededVolume { bytes: steps.saturating_mul(step_bytes), basis };
    match counter.unit {
        CounterUnit::Bytes => times(counter.step, VolumeBasis::Unit),
        CounterUnit::Pages => times(LARGEST_PAGE_BYTES, VolumeBasis::Size),
        CounterUnit::Percent => {
            let history = history_bytes(counter, reading);
            let (step_bytes, basis) = history.map_or_else(
                || {
                    let life = capacity.0.saturating_mul(ASSUMED_CYCLES);
                    (life / 100 * counter.step, VolumeBasis::AssumedCycles)
                },
                |bytes| (bytes, VolumeBasis::History),
            );
            times(step_bytes, basis)
        }
        CounterUnit::Count | CounterUnit::Hours => match counter.measures {
            Q::ErasesTotal => times(LARGEST_ERASE_BLOCK_BYTES, VolumeBasis::Size),
            _ => times(capacity.0, VolumeBasis::Size),
        },
    }
}

/// What the host wrote until now for each step of the life; `None` if too little life is used.
fn history_bytes(counter: &WearCounter, reading: &WearReading) -> Option<u64> {
    let steps = counter.value / counter.step;
    let written = reading
        .counters
        .iter()
        .filter(|one| one.measures == WearQuantity::HostWritten && one.since == CountSpan::Made)
        .map(|one| one.value)
        .max()?;
    (steps >= STEPS_OF_HISTORY && written > 0).then(|| written / steps)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::difference::tests::reading;

    const CAPACITY: Bytes = Bytes(32_000_000_000);

    fn volume(counters: &[(&str, WearQuantity, u64, u64)]) -> NeededVolume {
        let reading = reading(counters);
        needed(&reading.counters[0], &reading, CAPACITY, 10)
    }

    #[test]
    fn a_counter_of_bytes_needs_its_steps() {
        let volume = volume(&[("a", WearQuantity::FlashWritten, 0, 1 << 30)]);
        assert_eq!((volume.bytes, volume.basis), (10 << 30, VolumeBasis::Unit));
    }

    #[test]
    fn a_share_of_the_life_needs_the_life() {
        // Ten steps of 10 % are the whole life: 32 GB a thousand times.
        let assumed = volume(&[("a", WearQuantity::LifeUsed, 0, 10)]);
        assert_eq!(assumed.bytes, 32_000_000_000_000);
        assert_eq!(assumed.basis, VolumeBasis::AssumedCycles);
        let known = volume(&[
            ("a", WearQuantity::LifeUsed, 8, 1),
            ("w", WearQuantity::HostWritten, 16_000_000_000_000, 512),
        ]);
        assert_eq!(known, NeededVolume { bytes: 20_000_000_000_000, basis: VolumeBasis::History });
    }

    #[test]
    fn a_mean_erase_needs_the_capacity() {
        let volume = volume(&[("a", WearQuantity::ErasesMean, 7, 1)]);
        assert_eq!(volume, NeededVolume { bytes: 320_000_000_000, basis: VolumeBasis::Size });
    }
}
