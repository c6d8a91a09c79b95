//! What a card counts: the host's requests, the NAND's work, and the time of both.

use serde::{Deserialize, Serialize};

/// The counters of a card, since its start or their last reset.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Counters {
    /// Bytes that the host read.
    pub host_read_bytes: u64,
    /// Bytes that the host wrote.
    pub host_written_bytes: u64,
    /// Read requests.
    pub host_read_requests: u64,
    /// Write requests.
    pub host_write_requests: u64,
    /// Flush requests.
    pub host_flushes: u64,
    /// Bytes that the host discarded.
    pub host_discarded_bytes: u64,
    /// Bytes read from the NAND, in whole pages.
    pub nand_read_bytes: u64,
    /// Bytes programmed into the NAND, in whole pages.
    pub nand_programmed_bytes: u64,
    /// Erase units erased.
    pub erases: u64,
    /// The spread of wear; over the card's whole life, whatever was reset or subtracted.
    pub erases_per_unit: ErasesPerUnit,
    /// Merges of a block-mapped layer.
    pub merges: Merges,
    /// Erase units reclaimed by a page-mapped layer.
    pub garbage_collections: u64,
    /// Time spent in requests, in nanoseconds.
    pub busy_ns: u64,
    /// The part of it that went into merges or garbage collection, in nanoseconds.
    pub merge_ns: u64,
    /// Bytes programmed for each byte written, times 1000; `None` when nothing was written.
    pub write_amplification_thousandths: Option<u64>,
}

/// How often erase units have been erased, over all units, spare ones included.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct ErasesPerUnit {
    /// The least worn unit.
    pub least: u64,
    /// The mean, times 1000.
    pub mean_thousandths: u64,
    /// The most worn unit.
    pub most: u64,
}

/// How a block-mapped layer closed its open units.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Merges {
    /// Every page copied into a fresh unit.
    pub full: u64,
    /// The rest of an unfinished unit copied behind what was written in order.
    pub partial: u64,
    /// A unit written completely in order took the old one's place; nothing copied.
    pub switch: u64,
}

impl Counters {
    /// What was counted after `earlier`, an older state of the same card's counters.
    ///
    /// [`Counters::erases_per_unit`] stays as it is in `self`. Counters that were reset in between
    /// give 0, not a wrapped number.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        let less = u64::saturating_sub;
        Self {
            host_read_bytes: less(self.host_read_bytes, earlier.host_read_bytes),
            host_written_bytes: less(self.host_written_bytes, earlier.host_written_bytes),
            host_read_requests: less(self.host_read_requests, earlier.host_read_requests),
            host_write_requests: less(self.host_write_requests, earlier.host_write_requests),
            host_flushes: less(self.host_flushes, earlier.host_flushes),
            host_discarded_bytes: less(self.host_discarded_bytes, earlier.host_discarded_bytes),
            nand_read_bytes: less(self.nand_read_bytes, earlier.nand_read_bytes),
            nand_programmed_bytes: less(self.nand_programmed_bytes, earlier.nand_programmed_bytes),
            erases: less(self.erases, earlier.erases),
            erases_per_unit: self.erases_per_unit,
            merges: Merges {
                full: less(self.merges.full, earlier.merges.full),
                partial: less(self.merges.partial, earlier.merges.partial),
                switch: less(self.merges.switch, earlier.merges.switch),
            },
            garbage_collections: less(self.garbage_collections, earlier.garbage_collections),
            busy_ns: less(self.busy_ns, earlier.busy_ns),
            merge_ns: less(self.merge_ns, earlier.merge_ns),
            write_amplification_thousandths: None,
        }
        .with_write_amplification()
    }

    /// These counters, with the write amplification that follows from them.
    #[must_use]
    pub(crate) fn with_write_amplification(mut self) -> Self {
        let programmed = u128::from(self.nand_programmed_bytes) * 1000;
        self.write_amplification_thousandths = programmed
            .checked_div(u128::from(self.host_written_bytes))
            .map(|ratio| u64::try_from(ratio).unwrap_or(u64::MAX));
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_difference_has_its_own_write_amplification() {
        let earlier = Counters {
            host_written_bytes: 100,
            nand_programmed_bytes: 1000,
            ..Counters::default()
        };
        let later = Counters {
            host_written_bytes: 300,
            nand_programmed_bytes: 1500,
            erases_per_unit: ErasesPerUnit { least: 1, mean_thousandths: 2000, most: 3 },
            ..Counters::default()
        };
        let difference = later.since(&earlier);
        assert_eq!(difference.write_amplification_thousandths, Some(2500));
        assert_eq!(difference.erases_per_unit.most, 3);
        assert_eq!(later.since(&later).write_amplification_thousandths, None);
    }

    #[test]
    fn json_has_only_integers() {
        let json = serde_json::to_value(Counters::default().with_write_amplification()).unwrap();
        assert_eq!(json["merges"]["full"], 0);
        assert_eq!(json["write_amplification_thousandths"], serde_json::Value::Null);
    }
}
