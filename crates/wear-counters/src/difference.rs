//! What a counter counted between two readings, and why that cannot be determined.
//!
//! A counter that is smaller afterwards began again at 0: by its width, which is recognized when it
//! was in the last quarter of 32, 48 or 64 bits and is in the first quarter now, or for another
//! reason, which is an error. Limit: a counter that was reset and has passed its old value since
//! then is not noticed, unless the device counts its power cycles.

use flashfit_user_error::{ExitClass, Hint, UserError};
use serde::{Deserialize, Serialize};

use crate::counter::{CounterUnit, WearCounter, WearQuantity};
use crate::reading::WearReading;

/// Widths of counters, in bits.
const WIDTHS: [u32; 3] = [32, 48, 64];

/// Why two readings cannot be compared.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DifferenceError {
    #[error("{device}: `{counter}` ran backwards, from {before} to {after}")]
    Backwards { device: String, counter: String, before: u64, after: u64 },
    #[error("{device}: `{counter}` was there before and is missing now")]
    Missing { device: String, counter: String },
    #[error("{device} was switched off in between: its power cycles went from {before} to {after}")]
    PowerCycled { device: String, before: u64, after: u64 },
    #[error("{device}: `{counter}` changed its unit or its step")]
    OtherUnit { device: String, counter: String },
}

impl UserError for DifferenceError {
    fn class(&self) -> ExitClass {
        ExitClass::Io
    }

    fn hint(&self) -> Option<Hint> {
        match self {
            Self::PowerCycled { .. } => {
                Some("check the power supply and the contacts of the device".into())
            }
            Self::Backwards { .. } | Self::Missing { .. } | Self::OtherUnit { .. } => {
                Some("measure again; do not rely on that counter if it happens again".into())
            }
        }
    }
}

/// What a counter counted between two readings.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CounterDifference {
    pub id: String,
    pub measures: WearQuantity,
    pub unit: CounterUnit,
    pub step: u64,
    /// In `unit`. The true difference is less than a step away.
    pub counted: u64,
    pub source: String,
    pub is_simulated: bool,
    /// Whether the counter passed its largest value in between, and its width in bits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wrapped_bits: Option<u32>,
    /// Whether the counter was at its largest value, so that it counted no more.
    pub is_saturated: bool,
}

impl CounterDifference {
    /// Whether it counted something that a workload causes.
    pub fn is_moving(&self) -> bool {
        self.counted > 0 && !self.measures.is_of_power()
    }
}

/// What all counters counted between two readings of one device.
///
/// # Errors
/// See [`DifferenceError`].
pub fn differences(
    before: &WearReading,
    after: &WearReading,
) -> Result<Vec<CounterDifference>, DifferenceError> {
    let device = before.device.display().to_string();
    for old in before.counters.iter().filter(|one| one.measures == WearQuantity::PowerCycles) {
        if let Some(new) = after.counter(&old.id).filter(|new| new.value != old.value) {
            let (before, after) = (old.value, new.value);
            return Err(DifferenceError::PowerCycled { device, before, after });
        }
    }
    before.counters.iter().map(|old| difference(&device, old, after.counter(&old.id))).collect()
}

fn difference(
    device: &str,
    old: &WearCounter,
    new: Option<&WearCounter>,
) -> Result<CounterDifference, DifferenceError> {
    let (device, counter) = (device.to_owned(), old.id.clone());
    let Some(new) = new else { return Err(DifferenceError::Missing { device, counter }) };
    if (old.unit, old.step, old.measures) != (new.unit, new.step, new.measures) {
        return Err(DifferenceError::OtherUnit { device, counter });
    }
    let (counted, wrapped_bits) = match new.value.checked_sub(old.value) {
        Some(counted) => (counted, None),
        None => match wrapped(old, new) {
            Some((counted, bits)) => (counted, Some(bits)),
            None => {
                let (before, after) = (old.value, new.value);
                return Err(DifferenceError::Backwards { device, counter, before, after });
            }
        },
    };
    Ok(CounterDifference {
        id: counter,
        measures: old.measures,
        unit: old.unit,
        step: old.step,
        counted,
        source: old.source.clone(),
        is_simulated: old.is_simulated,
        wrapped_bits,
        is_saturated: old.is_saturated || new.is_saturated,
    })
}

/// What a counter counted that passed its largest value, and its width.
fn wrapped(old: &WearCounter, new: &WearCounter) -> Option<(u64, u32)> {
    // A share of the life does not wrap.
    if old.unit == CounterUnit::Percent {
        return None;
    }
    let steps = |counter: &WearCounter| u128::from(counter.value / counter.step);
    let (before, after) = (steps(old), steps(new));
    let bits = WIDTHS.into_iter().find(|bits| before >> bits == 0)?;
    let end = 1u128 << bits;
    let is_wrap = before >= end / 4 * 3 && after < end / 4;
    let counted = (after + end).checked_sub(before)? * u128::from(old.step);
    is_wrap.then(|| u64::try_from(counted).ok()).flatten().map(|counted| (counted, bits))
}

#[cfg(test)]
pub(crate) mod tests {
    use flashfit_device::DeviceKind;

    use super::*;

    /// A reading with counters of bytes or percent: name, quantity, value and step.
    pub(crate) fn reading(counters: &[(&str, WearQuantity, u64, u64)]) -> WearReading {
        let counters = counters.iter().map(|(id, measures, value, step)| {
            let unit = match measures {
                WearQuantity::LifeUsed => CounterUnit::Percent,
                WearQuantity::PowerCycles | WearQuantity::ErasesMean => CounterUnit::Count,
                _ => CounterUnit::Bytes,
            };
            WearCounter::new(id, *measures, (*value, unit, *step), "test")
        });
        WearReading {
            device: "/dev/test".into(),
            kind: DeviceKind::Ssd,
            counters: counters.collect(),
            facts: Vec::new(),
            asked: Vec::new(),
            measured_device: None,
            created_unix_s: None,
        }
    }

    fn one(before: u64, after: u64, step: u64) -> Result<CounterDifference, DifferenceError> {
        let at = |value| reading(&[("a", WearQuantity::HostWritten, value, step)]);
        differences(&at(before), &at(after)).map(|mut all| all.remove(0))
    }

    #[test]
    fn counters_are_subtracted() {
        assert_eq!(one(100, 700, 1).unwrap().counted, 600);
        assert_eq!(one(5, 5, 1).unwrap().counted, 0);
    }

    #[test]
    fn a_counter_of_32_bits_wraps_in_its_steps() {
        let (before, after) = ((u64::from(u32::MAX) - 9) * 512, 20 * 512);
        let wrapped = one(before, after, 512).unwrap();
        assert_eq!((wrapped.counted, wrapped.wrapped_bits), (30 * 512, Some(32)));
        let before = (1u64 << 48) - 4;
        assert_eq!(one(before, 6, 1).unwrap().wrapped_bits, Some(48));
    }

    #[test]
    fn a_counter_that_runs_backwards_is_an_error() {
        for (before, after) in [(1000, 999), (1 << 31, 5), (u64::from(u32::MAX), 1 << 31)] {
            let error = one(before, after, 1).unwrap_err();
            assert!(matches!(error, DifferenceError::Backwards { .. }), "{before} {after}");
            assert_eq!(error.class(), ExitClass::Io);
        }
        let percent = |value| reading(&[("a", WearQuantity::LifeUsed, value, 1)]);
        assert!(differences(&percent(5), &percent(4)).is_err());
    }

    #[test]
    fn a_device_that_was_switched_off_is_recognized() {
        let at = |cycles, written| {
            reading(&[
                ("c", WearQuantity::PowerCycles, cycles, 1),
                ("a", WearQuantity::HostWritten, written, 1),
            ])
        };
        let error = differences(&at(4, 900), &at(5, 1000)).unwrap_err();
        assert!(matches!(error, DifferenceError::PowerCycled { before: 4, after: 5, .. }));
        assert!(differences(&at(4, 900), &at(4, 1000)).is_ok());
    }

    #[test]
    fn a_counter_may_not_vanish_or_change_its_unit() {
        let old = reading(&[("a", WearQuantity::HostWritten, 1, 512)]);
        let missing = differences(&old, &reading(&[])).unwrap_err();
        assert!(matches!(missing, DifferenceError::Missing { .. }));
        let other = reading(&[("a", WearQuantity::HostWritten, 2, 1 << 25)]);
        let other = differences(&old, &other).unwrap_err();
        assert!(matches!(other, DifferenceError::OtherUnit { .. }));
    }
}
