//! What a card counts: the host's requests, the NAND's work, and the time of both.

use serde::{Deserialize, Serialize};

/// What a card counted. Everything but the wear of its units can begin again.
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
    /// Bytes read from the NAND.
    pub nand_read_bytes: u64,
    /// Bytes programmed in the NAND, in whole write units.
    pub nand_programmed_bytes: u64,
    /// Erase blocks erased.
    pub erases: u64,
    /// How these are spread; over the card's whole life.
    pub erases_per_unit: ErasesPerBlock,
    /// Erase blocks that were erased more often than they are rated for; over the card's whole
    /// life.
    #[serde(default)]
    pub units_beyond_rating: u64,
    /// Merges of a block-mapped layer.
    pub merges: Merges,
    /// Erase blocks reclaimed by a page-mapped layer.
    pub garbage_collections: u64,
    /// Erase blocks copied from the pSLC area to cells of several bits.
    #[serde(default)]
    pub folds: u64,
    /// Erase blocks moved for the sake of even wear.
    #[serde(default)]
    pub wear_levelling_moves: u64,
    /// Pieces of the map read because they were not in memory.
    #[serde(default)]
    pub map_reads: u64,
    /// Pieces of the map written to make room for others.
    #[serde(default)]
    pub map_writes: u64,
    /// Time in requests, in nanoseconds.
    pub busy_ns: u64,
    /// Of that, time in merges and garbage collection, in nanoseconds.
    pub merge_ns: u64,
    /// Time of work between requests, in nanoseconds.
    #[serde(default)]
    pub background_ns: u64,
    /// Requests that were held up by a stall of the noise model.
    #[serde(default)]
    pub stalls: u64,
    /// Losses of power.
    #[serde(default)]
    pub power_cuts: u64,
    /// Bytes programmed by bytes that the host wrote, in thousandths; `None` where it wrote none.
    pub write_amplification_thousandths: Option<u64>,
}

/// What a translation layer counts itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct LayerCounters {
    /// As in [`Counters`].
    pub merges: Merges,
    /// As in [`Counters`].
    pub garbage_collections: u64,
    /// As in [`Counters`].
    pub folds: u64,
    /// As in [`Counters`].
    pub wear_levelling_moves: u64,
    /// As in [`Counters`].
    pub map_reads: u64,
    /// As in [`Counters`].
    pub map_writes: u64,
    /// As in [`Counters`].
    pub merge_ns: u64,
}

/// How wear is spread over the erase blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct ErasesPerBlock {
    /// Of the least worn unit.
    pub least: u64,
    /// On average, in thousandths.
    pub mean_thousandths: u64,
    /// Of the most worn unit.
    pub most: u64,
}

/// Merges by kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Merges {
    /// Every page was copied.
    pub full: u64,
    /// The rest was copied behind what was written in order.
    pub partial: u64,
    /// Nothing was copied.
    pub switch: u64,
    /// The log for small writes gave a unit back.
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
    /// What was counted after `earlier`; the wear of the units is that of the whole life.
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
    fn json_has_only_integers() {
        let json = serde_json::to_value(Counters::default().with_write_amplification()).unwrap();
        assert_eq!(json["merges"]["full"], 0);
        assert_eq!(json["write_amplification_thousandths"], serde_json::Value::Null);
    }
}
