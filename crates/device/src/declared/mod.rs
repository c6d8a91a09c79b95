//! Collects what a device or the kernel declares about the device's geometry, with sources.
//!
//! The registers of SD cards and eMMC chips are read from sysfs and debugfs (`mmc`), everything
//! else from the request queue. The kernel passes on some values and invents others
//! (Documentation/driver-api/mmc/mmc-dev-attrs.rst); invented ones are marked as guesses. Limit:
//! all of these are claims, not measurements; many cards declare 4 MiB whatever their NAND.

mod mmc;
mod product;

pub use mmc::ext_csd_text;
pub use product::DeclaredProduct;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::describe::DeviceKind;
use crate::queue::QueueAttributes;
use crate::system::SystemRoots;
use crate::units::Bytes;

/// Smaller discard granularities are a sector or page size, not an erase block.
const MIN_PLAUSIBLE: Bytes = Bytes::kib(64);

#[derive(Debug, Clone, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
pub struct DeclaredBytes {
    pub bytes: Bytes,
    /// Register field or kernel attribute.
    pub source: String,
    /// Whether the kernel invented the value, or it is only an approximation.
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

/// Any other declared property.
#[derive(Debug, Clone, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
pub struct DeclaredFact {
    /// A word or two.
    pub name: String,
    pub text: String,
    /// Register field or kernel attribute.
    pub source: String,
}

/// A register that exists but carries no usable information.
#[derive(Debug, Clone, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
pub struct RejectedRegister {
    pub register: String,
    pub reason: String,
}

/// Everything that a device declares. In each list the most trusted source comes first.
#[derive(Debug, Clone, Default, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
pub struct DeclaredFacts {
    /// Erase block (allocation unit, erase group).
    #[serde(rename = "erase_unit")]
    pub erase_block: Vec<DeclaredBytes>,
    /// Sizes that writes should be multiples of.
    pub write_unit: Vec<DeclaredBytes>,
    pub capacity: Vec<DeclaredBytes>,
    pub cache: Vec<DeclaredBytes>,
    pub facts: Vec<DeclaredFact>,
    /// The product, where a register or the USB device names it; documents of earlier versions do
    /// not have it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub product: Option<DeclaredProduct>,
    /// Registers that could not be used.
    #[serde(rename = "refused")]
    pub rejected: Vec<RejectedRegister>,
}

impl DeclaredFacts {
    /// Reads what the whole disk `disk` declares.
    pub fn read(
        system: &SystemRoots,
        disk: &str,
        kind: DeviceKind,
        queue: &QueueAttributes,
    ) -> Self {
        let mut declared = match kind {
            DeviceKind::SdCard => mmc::read_sd(system, disk),
            DeviceKind::Emmc => mmc::read_emmc(system, disk),
            DeviceKind::Usb => {
                Self { product: DeclaredProduct::of_usb(system, disk), ..Self::default() }
            }
            _ => Self::default(),
        };
        declared.add_queue(kind, queue);
        declared
    }

    /// The erase block that plans use when nothing was measured: the largest one that the device
    /// itself states, or else the first guess. Alignment to the larger size implies alignment to
    /// the smaller one, because allocation units are multiples of erase blocks.
    pub fn best_erase_block(&self) -> Option<&DeclaredBytes> {
        let stated = self.erase_block.iter().filter(|one| !one.is_guess);
        // `rev` makes `max_by_key` prefer the first of equal ones.
        let largest = stated.rev().max_by_key(|one| one.bytes);
        largest.or(self.erase_block.first())
    }

    fn add_queue(&mut self, kind: DeviceKind, queue: &QueueAttributes) {
        // A loop device reports the block size of the file system below it.
        if kind == DeviceKind::Loop {
            return;
        }
        let granularity = Bytes(queue.discard_granularity_bytes);
        if queue.discards && granularity >= MIN_PLAUSIBLE {
            let source = "queue/discard_granularity";
            self.erase_block.push(DeclaredBytes::guess(granularity, source));
        }
        let optimal = Bytes(queue.optimal_io_bytes);
        // A size that is not a multiple of 4 KiB is a transfer limit of a USB bridge.
        if optimal.0 > 0 && optimal.0 % 4096 == 0 {
            self.write_unit.push(DeclaredBytes::guess(optimal, "queue/optimal_io_size"));
        }
        let physical = Bytes(queue.physical_sector_bytes);
        if queue.physical_sector_bytes > queue.logical_sector_bytes {
            self.write_unit.push(DeclaredBytes::guess(physical, "queue/physical_block_size"));
        }
    }

    fn add_fact(&mut self, name: &str, text: impl Into<String>, source: &str) {
        let (name, source) = (name.to_owned(), source.to_owned());
        self.facts.push(DeclaredFact { name, text: text.into(), source });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with_erase_blocks(units: &[(u64, bool)]) -> DeclaredFacts {
        let one = |&(mib, is_guess): &(u64, bool)| DeclaredBytes {
            bytes: Bytes::mib(mib),
            source: format!("source of {mib}"),
            is_guess,
        };
        DeclaredFacts { erase_block: units.iter().map(one).collect(), ..DeclaredFacts::default() }
    }

    #[test]
    fn the_largest_stated_erase_block_is_preferred_to_any_guess() {
        let best = |units: &[(u64, bool)]| {
            with_erase_blocks(units).best_erase_block().map(|best| best.bytes.0 >> 20)
        };
        assert_eq!(best(&[(4, false), (8, false), (64, true)]), Some(8));
        assert_eq!(best(&[(4, true), (2, true)]), Some(4));
        assert_eq!(best(&[]), None);
    }

    #[test]
    fn values_of_the_queue_are_guesses() {
        let queue = QueueAttributes {
            logical_sector_bytes: 512,
            physical_sector_bytes: 4096,
            optimal_io_bytes: 33_553_920,
            discard_granularity_bytes: 1 << 20,
            discards: true,
            ..QueueAttributes::default()
        };
        let mut declared = DeclaredFacts::default();
        declared.add_queue(DeviceKind::Usb, &queue);
        assert_eq!(declared.erase_block[0].bytes, Bytes::mib(1));
        assert!(declared.erase_block[0].is_guess);
        assert_eq!(declared.write_unit.len(), 1, "65535 sectors are not a write unit");
        assert_eq!(declared.write_unit[0].bytes, Bytes::kib(4));
        let mut declared = DeclaredFacts::default();
        declared.add_queue(DeviceKind::Loop, &queue);
        assert_eq!(declared, DeclaredFacts::default());
    }
}
