//! What a device or the kernel declares of how the device is built, and where it was read.
//!
//! The registers of SD cards and eMMC chips are read from sysfs and debugfs (`mmc`), everything
//! else from the request queue. The kernel passes on some values and makes others up
//! (Documentation/driver-api/mmc/mmc-dev-attrs.rst); what it made up is marked as a guess. Many
//! cards declare 4 MiB whatever they are built of, so all of this is claims, not measurements.

mod mmc;

use serde::{Deserialize, Serialize};

use crate::describe::DeviceKind;
use crate::queue::QueueAttributes;
use crate::system::SystemRoots;
use crate::units::Bytes;

/// Discard granularities below this are a sector or page size, not an erase block.
const LEAST_PLAUSIBLE: Bytes = Bytes::kib(64);

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeclaredBytes {
    pub bytes: Bytes,
    /// Where it was read.
    pub source: String,
    /// Whether the kernel made it up, or passes on something that only comes near.
    pub is_guess: bool,
}

impl DeclaredBytes {
    fn stated(bytes: Bytes, source: &str) -> Self {
        Self { bytes, source: source.to_owned(), is_guess: false }
    }

    fn guess(bytes: Bytes, source: &str) -> Self {
        Self { bytes, source: source.to_owned(), is_guess: true }
    }
}

/// Something else that is declared.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeclaredFact {
    /// What it is, in a word or two.
    pub name: String,
    /// What is said, for people.
    pub text: String,
    /// Where it was read.
    pub source: String,
}

/// A register that is there and says nothing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RefusedRegister {
    pub register: String,
    /// Why it is not believed.
    pub reason: String,
}

/// All that is declared of a device; every value with its source, the most trusted first.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeclaredFacts {
    /// The erase block (allocation unit, erase group).
    pub erase_unit: Vec<DeclaredBytes>,
    /// What writes should be multiples of.
    pub write_unit: Vec<DeclaredBytes>,
    pub capacity: Vec<DeclaredBytes>,
    pub cache: Vec<DeclaredBytes>,
    /// What else is said.
    pub facts: Vec<DeclaredFact>,
    /// Registers that are not believed.
    pub refused: Vec<RefusedRegister>,
}

impl DeclaredFacts {
    /// Reads what the whole disk `disk` of this kind declares.
    pub fn read(
        system: &SystemRoots,
        disk: &str,
        kind: DeviceKind,
        queue: &QueueAttributes,
    ) -> Self {
        let mut declared = match kind {
            DeviceKind::SdCard => mmc::sd(system, disk),
            DeviceKind::Emmc => mmc::emmc(system, disk),
            _ => Self::default(),
        };
        declared.queue(kind, queue);
        declared
    }

    /// The erase block that a plan uses where only declared ones are known: the largest that the
    /// device itself states, or else the first guess. Being on the larger grid is being on a
    /// smaller one too, since allocation units are multiples of erase blocks.
    pub fn best_erase_unit(&self) -> Option<&DeclaredBytes> {
        let stated = self.erase_unit.iter().filter(|one| !one.is_guess);
        // The first of several that are equal.
        let largest = stated.rev().max_by_key(|one| one.bytes);
        largest.or(self.erase_unit.first())
    }

    fn queue(&mut self, kind: DeviceKind, queue: &QueueAttributes) {
        // A loop device passes on the block size of the file system below it.
        if kind == DeviceKind::Loop {
            return;
        }
        let granularity = Bytes(queue.discard_granularity_bytes);
        if queue.discards && granularity >= LEAST_PLAUSIBLE {
            let source = "queue/discard_granularity";
            self.erase_unit.push(DeclaredBytes::guess(granularity, source));
        }
        let optimal = Bytes(queue.optimal_io_bytes);
        // What is no multiple of a sector's power of two is a limit of a bridge, not a unit.
        if optimal.0 > 0 && optimal.0 % 4096 == 0 {
            self.write_unit.push(DeclaredBytes::guess(optimal, "queue/optimal_io_size"));
        }
        let physical = Bytes(queue.physical_sector_bytes);
        if queue.physical_sector_bytes > queue.logical_sector_bytes {
            self.write_unit.push(DeclaredBytes::guess(physical, "queue/physical_block_size"));
        }
    }

    fn fact(&mut self, name: &str, text: impl Into<String>, source: &str) {
        let (name, source) = (name.to_owned(), source.to_owned());
        self.facts.push(DeclaredFact { name, text: text.into(), source });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn erase_units(units: &[(u64, bool)]) -> DeclaredFacts {
        let one = |&(mib, is_guess): &(u64, bool)| DeclaredBytes {
            bytes: Bytes::mib(mib),
            source: format!("source of {mib}"),
            is_guess,
        };
        DeclaredFacts { erase_unit: units.iter().map(one).collect(), ..DeclaredFacts::default() }
    }

    #[test]
    fn the_largest_that_the_medium_states_goes_before_any_guess() {
        let best = |units: &[(u64, bool)]| {
            erase_units(units).best_erase_unit().map(|best| best.bytes.0 >> 20)
        };
        assert_eq!(best(&[(4, false), (8, false), (64, true)]), Some(8));
        assert_eq!(best(&[(4, true), (2, true)]), Some(4));
        assert_eq!(best(&[]), None);
    }

    #[test]
    fn a_queue_is_only_good_for_guesses() {
        let queue = QueueAttributes {
            logical_sector_bytes: 512,
            physical_sector_bytes: 4096,
            optimal_io_bytes: 33_553_920,
            discard_granularity_bytes: 1 << 20,
            discards: true,
            ..QueueAttributes::default()
        };
        let mut declared = DeclaredFacts::default();
        declared.queue(DeviceKind::Usb, &queue);
        assert_eq!(declared.erase_unit[0].bytes, Bytes::mib(1));
        assert!(declared.erase_unit[0].is_guess);
        assert_eq!(declared.write_unit.len(), 1, "65535 sectors are no unit");
        assert_eq!(declared.write_unit[0].bytes, Bytes::kib(4));
        let mut declared = DeclaredFacts::default();
        declared.queue(DeviceKind::Loop, &queue);
        assert_eq!(declared, DeclaredFacts::default());
    }
}
