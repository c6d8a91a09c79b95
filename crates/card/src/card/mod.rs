//! The card: combines bus, cache, translation layer, NAND and contents.
//!
//! A card has its own time in nanoseconds since its creation. A request is commanded, transferred
//! and served by the layer: sequentially with queue depth 1, or as soon as the bus and the dies are
//! free with a command queue. The transfer of a page overlaps with programming the previous one.
//! State changes in order of arrival, so arrival times only affect times and background work.
//! Limits: reads are not cached; a queue does not reorder requests.

mod discard;
mod fake;
mod image;
pub mod streams;
mod transfer;

use std::fs::File;

use flashfit_device::{BlockDevError, BlockDevInfo};
use serde::{Deserialize, Serialize};

use crate::cache::WriteCache;
use crate::counters::Counters;
use crate::cut::journal::RecentWrites;
use crate::layer::{Layer, TranslationLayer};
use crate::model::CardModel;
use crate::nand::contents::RetentionPolicy;
use crate::nand::life::SpareBlocks;
use crate::nand::{BlockWear, Nand};
use crate::noise::CardNoise;
use crate::zeroed::ZeroedSectors;
use streams::Streams;

/// A request of a host. Offsets and lengths are in bytes and cover whole sectors.
#[derive(Debug)]
pub enum CardRequest<'a> {
    Read {
        offset: u64,
        buffer: &'a mut [u8],
    },
    Write {
        offset: u64,
        data: &'a [u8],
    },
    /// Writes everything so far to the NAND.
    Flush,
    /// Discards a range, which then reads as zeros. Only whole blocks of the card's discard
    /// granularity are freed in the NAND.
    Discard {
        offset: u64,
        length: u64,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Power {
    On,
    Off,
    /// It never responds again, with or without power.
    Broken,
}

/// The last write that completed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(crate) struct LastWrite {
    pub done_ns: u64,
    pub logical_page: u32,
}

#[derive(Debug, Serialize, Deserialize)]
pub struct Card {
    #[serde(with = "crate::snapshot::model_text")]
    pub(crate) model: CardModel,
    pub(crate) nand: Nand,
    pub(crate) layer: Layer,
    pub(crate) cache: Option<WriteCache>,
    pub(crate) zeroed: ZeroedSectors,
    noise: Option<CardNoise>,
    pub(crate) power: Power,
    /// When the bus is free for another command, in the card's time.
    command_free_ns: u64,
    /// When the bus is free for more data, which is transferred in the order of requests.
    bus_free_ns: u64,
    /// Start of the last request, in the card's time.
    pub(crate) last_begin_ns: u64,
    /// End of the last request.
    pub(crate) last_end_ns: u64,
    /// End of all requests so far, in the card's time.
    pub(crate) done_ns: u64,
    pub(crate) last_write: Option<LastWrite>,
    /// Where writes ended; not saved.
    #[serde(skip)]
    streams: Streams,
    #[serde(skip)]
    pub(crate) journal: RecentWrites,
    /// Host requests and their time; other counters are kept where they occur.
    pub(crate) host: Counters,
    /// The counters at the last reset.
    base: Counters,
}

impl Card {
    /// A new card: erased, without wear, powered.
    ///
    /// # Panics
    /// May panic, here or later, for a model that was not created by [`CardModel::parse`].
    pub fn new(model: &CardModel) -> Self {
        Self::with_retention(model, RetentionPolicy::InMemory)
    }

    /// A card that keeps no contents: every read returns zeros. For counts and times alone.
    ///
    /// # Panics
    /// As [`Card::new`].
    pub fn counting(model: &CardModel) -> Self {
        Self::with_retention(model, RetentionPolicy::Nothing)
    }

    /// Like [`Card::new`], but keeps the contents in an empty file, sparsely, instead of memory.
    /// The file is useless without the card; [`Card::save`] saves both.
    ///
    /// # Panics
    /// As [`Card::new`].
    pub fn in_file(model: &CardModel, file: File) -> Self {
        let mut card = Self::new(model);
        card.nand.contents_mut().keep_in(file);
        card
    }

    /// A counting card that keeps contents from now on; what was written before reads as zeros. A
    /// card with data in its cache must be flushed first.
    pub fn keep_contents(&mut self) {
        self.nand.contents_mut().keep_in_memory();
        if let Some(cache) = &mut self.cache {
            cache.keep_data();
        }
    }

    fn with_retention(model: &CardModel, keep: RetentionPolicy) -> Self {
        let cache = model.cache.as_ref();
        Self {
            nand: Nand::new(model, keep),
            layer: Layer::new(model),
            cache: cache
                .map(|cache| WriteCache::new(model, cache, keep != RetentionPolicy::Nothing)),
            zeroed: ZeroedSectors::default(),
            noise: model.noise.as_ref().map(CardNoise::new),
            power: Power::On,
            command_free_ns: 0,
            bus_free_ns: 0,
            last_begin_ns: 0,
            last_end_ns: 0,
            done_ns: 0,
            last_write: None,
            streams: Streams::default(),
            journal: RecentWrites::default(),
            host: Counters::default(),
            base: Counters::default(),
            model: model.clone(),
        }
    }

    pub fn model(&self) -> &CardModel {
        &self.model
    }

    /// Whether the card has power; a bricked card never has power again.
    pub fn is_powered(&self) -> bool {
        self.power == Power::On
    }

    /// Whether a power cut has bricked the card.
    pub fn is_bricked(&self) -> bool {
        self.power == Power::Broken
    }

    pub fn description(&self) -> BlockDevInfo {
        let model = &self.model;
        BlockDevInfo {
            capacity_bytes: model.capacity.0,
            sector_bytes: model.sector_bytes,
            discard_granularity_bytes: model.discard.as_ref().map_or(0, |d| d.granularity.0),
            volatile_cache: model.declares_cache(),
        }
    }

    /// The card's time when all requests so far are complete.
    pub fn done_ns(&self) -> u64 {
        self.done_ns
    }

    /// Serves a request that arrives when the previous one is complete; returns its duration in
    /// nanoseconds.
    ///
    /// # Errors
    /// [`BlockDevError::OutOfBounds`], [`BlockDevError::NoDiscard`], or
    /// [`BlockDevError::Disconnected`] if the card has no power or is broken; the card is then
    /// unchanged; [`BlockDevError::WornOut`] for a change of a card whose spare blocks are used up.
    /// [`BlockDevError::Io`] if flash cannot be read or the contents file cannot be
    /// written.
    pub fn serve(&mut self, request: CardRequest<'_>) -> Result<u64, BlockDevError> {
        let arrival_ns = self.done_ns;
        Ok(self.submit(arrival_ns, request)? - arrival_ns)
    }

    /// Serves a request that arrives at `arrival_ns` of the card's time and returns its completion
    /// time. Requests must be submitted in order of arrival; a request that arrives while the card
    /// is busy waits.
    ///
    /// # Errors
    /// As [`Card::serve`].
    pub fn submit(
        &mut self,
        arrival_ns: u64,
        request: CardRequest<'_>,
    ) -> Result<u64, BlockDevError> {
        self.check(&request)?;
        self.idle_until(arrival_ns);
        self.journal.drop_before(arrival_ns);
        // A flush waits for the program operations of earlier requests.
        let queued = self.model.queue.depth > 1 && !matches!(request, CardRequest::Flush);
        let begin_ns = arrival_ns.max(if queued { self.command_free_ns } else { self.done_ns });
        self.last_begin_ns = begin_ns;
        // While data waits for the flash, a bus with a queue accepts further commands.
        self.command_free_ns = begin_ns + self.model.bus.command_ns;
        self.bus_free_ns = self.bus_free_ns.max(self.command_free_ns);
        self.nand.begin(self.command_free_ns);
        let served = match request {
            CardRequest::Read { offset, buffer } => self.read_claimed(offset, buffer),
            CardRequest::Write { offset, data } => self.write_claimed(offset, data),
            CardRequest::Flush => self.flush(),
            CardRequest::Discard { offset, length } => {
                self.discard_claimed(offset, length);
                Ok(())
            }
        };
        let end_ns = self.nand.finished_ns().max(self.bus_free_ns);
        let end_ns = self.with_noise(begin_ns, end_ns);
        self.host.busy_ns += end_ns - begin_ns;
        self.last_end_ns = end_ns;
        self.done_ns = self.done_ns.max(end_ns);
        served.map(|()| end_ns)
    }

    fn with_noise(&mut self, begin_ns: u64, end_ns: u64) -> u64 {
        let Some(noise) = &mut self.noise else { return end_ns };
        let delay = noise.delay(end_ns - begin_ns);
        let end_ns = end_ns.saturating_add(delay.delay_ns);
        if delay.stalled {
            self.host.stalls += 1;
            // A stalled card accepts no other request either.
            self.command_free_ns = end_ns;
            self.bus_free_ns = end_ns;
        }
        end_ns
    }

    /// Advances the card's time to `now_ns` without a request; background work runs.
    pub fn idle_until(&mut self, now_ns: u64) {
        let Some(background) = &self.model.background else { return };
        let mut begin_ns = self.done_ns.saturating_add(background.after_ns);
        while self.power == Power::On && begin_ns <= now_ns && !self.nand.is_worn_out() {
            self.nand.begin(begin_ns);
            if !self.work_in_background() {
                return;
            }
            let end_ns = self.nand.finished_ns();
            assert!(end_ns > begin_ns, "work in the background takes time");
            self.host.background_ns += end_ns - begin_ns;
            self.done_ns = end_ns;
            begin_ns = end_ns;
        }
    }

    fn check(&self, request: &CardRequest<'_>) -> Result<(), BlockDevError> {
        match self.power {
            Power::On => {}
            Power::Off => {
                return Err(BlockDevError::Disconnected(
                    "the simulated card has no power".to_owned(),
                ));
            }
            Power::Broken => return Err(broken()),
        }
        let (offset, length) = match request {
            CardRequest::Read { offset, buffer } => (*offset, buffer.len() as u64),
            CardRequest::Write { offset, data } => (*offset, data.len() as u64),
            CardRequest::Flush => return Ok(()),
            CardRequest::Discard { .. } if self.model.discard.is_none() => {
                return Err(BlockDevError::NoDiscard);
            }
            CardRequest::Discard { offset, length } => (*offset, *length),
        };
        self.check_range(offset, length)?;
        let is_change = !matches!(request, CardRequest::Read { .. });
        if is_change && self.nand.is_worn_out() {
            return Err(BlockDevError::WornOut);
        }
        Ok(())
    }

    fn check_range(&self, offset: u64, length: u64) -> Result<(), BlockDevError> {
        let sector = u64::from(self.model.sector_bytes);
        let end = offset.checked_add(length);
        let inside = end.is_some_and(|end| end <= self.model.capacity.0);
        if inside && offset % sector == 0 && length % sector == 0 {
            Ok(())
        } else {
            Err(BlockDevError::OutOfBounds { offset, length })
        }
    }

    /// Counters since creation or the last reset.
    pub fn counters(&self) -> Counters {
        self.totals().since(&self.base)
    }

    /// How many open erase blocks were closed because another was written, since the card was made
    /// or loaded.
    pub fn evictions(&self) -> u64 {
        self.layer.evictions()
    }

    /// The spare erase blocks; `None` if blocks of this model never fail.
    pub fn spare_blocks(&self) -> Option<SpareBlocks> {
        self.nand.spare_blocks()
    }

    /// The wear of each good erase block, in ascending order of blocks.
    pub fn wear_by_block(&self) -> Vec<BlockWear> {
        self.nand.wear().collect()
    }

    /// Resets all counters except wear.
    pub fn reset_counters(&mut self) {
        self.base = self.totals();
    }

    fn totals(&self) -> Counters {
        let nand = self.nand.counters();
        let layer = self.layer.counters();
        Counters {
            nand_read_bytes: nand.reads * self.nand.write_unit_bytes(),
            nand_programmed_bytes: nand.programs * self.nand.write_unit_bytes(),
            erases: nand.erases,
            erases_per_unit: self.nand.erases_per_unit(),
            units_beyond_rating: self.nand.units_beyond_rating(),
            merges: layer.merges,
            garbage_collections: layer.garbage_collections,
            folds: layer.folds,
            wear_levelling_moves: layer.wear_levelling_moves,
            map_reads: layer.map_reads,
            map_writes: layer.map_writes,
            merge_ns: layer.merge_ns,
            ..self.host.clone()
        }
        .with_write_amplification()
    }
}

/// The error of a card that does not respond.
pub(crate) fn broken() -> BlockDevError {
    BlockDevError::Disconnected(
        "the simulated card is broken and answers nothing any more".to_owned(),
    )
}

/// Converts a page number.
pub(crate) fn number(page: u64) -> u32 {
    u32::try_from(page).expect("a checked model has fewer than 2^32 pages")
}

#[cfg(test)]
mod tests;
