//! Counters of a card: host requests, NAND operations, and their time.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Counters of a card. A reset clears everything except wear.
#[derive(Debug, Clone, PartialEq, Eq, Default, JsonSchema, Serialize, Deserialize)]
pub struct Counters {
    pub host_read_bytes: u64,
    pub host_written_bytes: u64,
    pub host_read_requests: u64,
    pub host_write_requests: u64,
    pub host_flushes: u64,
    pub host_discarded_bytes: u64,
    pub nand_read_bytes: u64,
    /// Bytes programmed, in whole write units.
    pub nand_programmed_bytes: u64,
    pub erases: u64,
    /// Distribution of erase counts over the life of the card.
    pub erases_per_unit: ErasesPerBlock,
    /// Erase blocks beyond their rated endurance, over the life of the card.
    #[serde(default)]
    pub units_beyond_rating: u64,
    /// Merges of block-mapped layers.
    pub merges: Merges,
    /// Erase blocks reclaimed by page-mapped layers.
    pub garbage_collections: u64,
    /// Erase blocks folded from the pSLC area into multi-bit cells.
    #[serde(default)]
    pub folds: u64,
    /// Erase blocks moved by static wear leveling.
    #[serde(default)]
    pub wear_levelling_moves: u64,
    /// Pieces of the map read because they were not cached.
    #[serde(default)]
    pub map_reads: u64,
    /// Pieces of the map written on eviction.
    #[serde(default)]
    pub map_writes: u64,
    /// Time spent in requests, in nanoseconds.
    pub busy_ns: u64,
    /// Part of `busy_ns` spent in merges and garbage collection.
    pub merge_ns: u64,
    /// Time of background work between requests, in nanoseconds.
    #[serde(default)]
    pub background_ns: u64,
    /// Requests delayed by a stall of the noise model.
    #[serde(default)]
    pub stalls: u64,
    #[serde(default)]
    pub power_cuts: u64,
    /// Programmed bytes per written byte, in thousandths; `None` if the host wrote nothing.
    pub write_amplification_thousandths: Option<u64>,
}

/// Counters of a translation layer; the fields are those of [`Counters`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct LayerCounters {
    pub merges: Merges,
    pub garbage_collections: u64,
    pub folds: u64,
    pub wear_levelling_moves: u64,
    pub map_reads: u64,
    pub map_writes: u64,
    pub merge_ns: u64,
}

/// Distribution of wear over the erase blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, JsonSchema, Serialize, Deserialize)]
pub struct ErasesPerBlock {
    /// Erase count of the least worn block.
    pub least: u64,
    /// Average erase count, in thousandths.
    pub mean_thousandths: u64,
    /// Erase count of the most worn block.
    pub most: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, JsonSchema, Serialize, Deserialize)]
pub struct Merges {
    /// All pages were copied.
    pub full: u64,
    /// The remaining pages were copied after those written in order.
    pub partial: u64,
    /// No page was copied.
    pub switch: u64,
    /// A block of the log for small writes was reclaimed.
    #[serde(default)]
    pub log: u64,
}

impl Merges {
    fn since(self, earlier: Self) -> Self {
        let less = u64::saturating_sub;
        Self {
            full: less(self.full, earlier.full),
            partial: less(self.partial, earlier.partial),
            switch: less(self.switch, earlier.switch),
            log: less(self.log, earlier.log),
        }
    }
}

impl Counters {
    /// The difference to `earlier`; wear is that of the whole life.
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
            units_beyond_rating: self.units_beyond_rating,
            merges: self.merges.since(earlier.merges),
            garbage_collections: less(self.garbage_collections, earlier.garbage_collections),
            folds: less(self.folds, earlier.folds),
            wear_levelling_moves: less(self.wear_levelling_moves, earlier.wear_levelling_moves),
            map_reads: less(self.map_reads, earlier.map_reads),
            map_writes: less(self.map_writes, earlier.map_writes),
            busy_ns: less(self.busy_ns, earlier.busy_ns),
            merge_ns: less(self.merge_ns, earlier.merge_ns),
            background_ns: less(self.background_ns, earlier.background_ns),
            stalls: less(self.stalls, earlier.stalls),
            power_cuts: less(self.power_cuts, earlier.power_cuts),
            write_amplification_thousandths: None,
        }
        .with_write_amplification()
    }

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
            erases_per_unit: ErasesPerBlock { least: 1, mean_thousandths: 2000, most: 3 },
            units_beyond_rating: 4,
            ..Counters::default()
        };
        let difference = later.since(&earlier);
        assert_eq!(difference.write_amplification_thousandths, Some(2500));
        assert_eq!((difference.erases_per_unit.most, difference.units_beyond_rating), (3, 4));
        assert_eq!(later.since(&later).write_amplification_thousandths, None);
    }

    #[test]
    fn counters_serialize_as_integers() {
        let json = serde_json::to_value(Counters::default().with_write_amplification()).unwrap();
        assert_eq!(json["merges"]["full"], 0);
        assert_eq!(json["write_amplification_thousandths"], serde_json::Value::Null);
    }
}
