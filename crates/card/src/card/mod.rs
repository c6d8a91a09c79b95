//! A card: bus, cache, translation layer, NAND and bytes put together.
//!
//! A card has a time of its own, in nanoseconds from when it was made. A request that arrives at
//! some time is commanded, transferred, and served by the layer; with queue depth 1 one after the
//! other, with a command queue as far as the bus and the dies are free. The transfer of a page
//! overlaps with the programming of the one before it. State changes in the order of arrival, so
//! only times depend on when requests arrive; and what is done in idle time, where the model has
//! it. Limits: reads are not cached; a queue does not reorder.

mod discard;
mod image;
mod streams;
mod transfer;

use std::fs::File;

use flashfit_device::{BlockDevError, BlockDevInfo};
use serde::{Deserialize, Serialize};

use crate::cache::WriteCache;
use crate::counters::Counters;
use crate::cut::journal::RecentWrites;
use crate::layer::{Layer, TranslationLayer};
use crate::model::CardModel;
use crate::nand::Nand;
use crate::nand::contents::RetentionPolicy;
use crate::noise::CardNoise;
use crate::zeroed::ZeroedSectors;
use streams::Streams;

/// What a host asks of a card. Offsets and lengths are in bytes, in whole sectors.
#[derive(Debug)]
pub enum CardRequest<'a> {
    /// Fill the buffer.
    Read {
        /// From where.
        offset: u64,
        /// Into what.
        buffer: &'a mut [u8],
    },
    /// Write the data.
    Write {
        /// Where.
        offset: u64,
        /// What.
        data: &'a [u8],
    },
    /// Bring everything written so far to the NAND.
    Flush,
    /// Forget a range: it reads as zeros afterwards. Only whole units of the card's discard
    /// granularity free anything in the NAND.
    Discard {
        /// From where.
        offset: u64,
        /// How much.
        length: u64,
    },
}

/// Whether a card can be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Power {
    On,
    Off,
    /// It answers nothing any more, with or without power.
    Broken,
}

/// The write that was done last.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(crate) struct LastWrite {
    pub done_ns: u64,
    pub logical_page: u32,
}

/// A simulated card.
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
    /// When it is free for more data, which passes in the order of the requests.
    bus_free_ns: u64,
    /// When the last request began, in the card's time.
    pub(crate) last_begin_ns: u64,
    /// When it was done.
    pub(crate) last_end_ns: u64,
    /// When everything asked so far is done, in the card's time.
    pub(crate) done_ns: u64,
    pub(crate) last_write: Option<LastWrite>,
    /// Where writes ended; nothing is known of it when a saved card goes on.
    #[serde(skip)]
    streams: Streams,
    #[serde(skip)]
    pub(crate) journal: RecentWrites,
    /// What the host asked for and how long it took; the rest is counted where it happens.
    pub(crate) host: Counters,
    /// The counters at their last reset.
    base: Counters,
}

impl Card {
    /// A card as it leaves the factory: erased, without wear, powered.
    ///
    /// # Panics
    /// May panic, here or later, for a model that did not pass [`CardModel::parse`].
    pub fn new(model: &CardModel) -> Self {
        Self::keeping(model, RetentionPolicy::InMemory)
    }

    /// A card that keeps no bytes: every read gives zeros. For counts and times alone.
    ///
    /// # Panics
    /// As [`Card::new`].
    pub fn counting(model: &CardModel) -> Self {
        Self::keeping(model, RetentionPolicy::Nothing)
    }

    /// A card as [`Card::new`] that keeps its bytes in an empty file, sparse, instead of memory.
    /// The file means nothing without the card; [`Card::save`] is for keeping both.
    ///
    /// # Panics
    /// As [`Card::new`].
    pub fn in_file(model: &CardModel, file: File) -> Self {
        let mut card = Self::new(model);
        card.nand.contents_mut().keep_in(file);
        card
    }

    fn keeping(model: &CardModel, keep: RetentionPolicy) -> Self {
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

    /// The parameters that it was made after.
    pub fn model(&self) -> &CardModel {
        &self.model
    }

    /// Whether it has power; one that a cut has bricked never has it again.
    pub fn is_powered(&self) -> bool {
        self.power == Power::On
    }

    /// Its fixed facts.
    pub fn description(&self) -> BlockDevInfo {
        let model = &self.model;
        BlockDevInfo {
            capacity_bytes: model.capacity.0,
            sector_bytes: model.sector_bytes,
            discard_granularity_bytes: model.discard.as_ref().map_or(0, |d| d.granularity.0),
            volatile_cache: model.declares_cache(),
        }
    }

    /// The card's time when everything asked so far is done.
    pub fn done_ns(&self) -> u64 {
        self.done_ns
    }

    /// Serves a request that arrives when the one before it is done, and returns how long it
    /// takes, in nanoseconds.
    ///
    /// # Errors
    /// [`BlockDevError::OutOfBounds`], [`BlockDevError::NoDiscard`], or [`BlockDevError::Disconnected`]
    /// while the card has no power or is broken; then nothing has changed. [`BlockDevError::Io`]
    /// where flash cannot be read, or where the file that keeps the bytes cannot take them.
    pub fn serve(&mut self, request: CardRequest<'_>) -> Result<u64, BlockDevError> {
        let arrival_ns = self.done_ns;
        Ok(self.submit(arrival_ns, request)? - arrival_ns)
    }

    /// Serves a request that arrives at `arrival_ns` of the card's time and returns when it is
    /// done. Requests are submitted in the order of their arrival; one that is submitted as
    /// earlier than it can be begun waits, as on a busy card.
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
        self.journal.forget_before(arrival_ns);
        // A flush waits for what other requests before it let the dies do.
        let queued = self.model.queue.depth > 1 && !matches!(request, CardRequest::Flush);
        let begin_ns = arrival_ns.max(if queued { self.command_free_ns } else { self.done_ns });
        self.last_begin_ns = begin_ns;
        // While data waits for the flash, a bus with a queue takes the commands that follow.
        self.command_free_ns = begin_ns + self.model.bus.command_ns;
        self.bus_free_ns = self.bus_free_ns.max(self.command_free_ns);
        self.nand.begin(self.command_free_ns);
        let served = match request {
            CardRequest::Read { offset, buffer } => self.read(offset, buffer),
            CardRequest::Write { offset, data } => self.write(offset, data),
            CardRequest::Flush => self.flush(),
            CardRequest::Discard { offset, length } => {
                self.discard(offset, length);
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
            // While it stalls, a card takes no other request either.
            self.command_free_ns = end_ns;
            self.bus_free_ns = end_ns;
        }
        end_ns
    }

    /// Lets the time until `now_ns` of the card's time pass without a request.
    pub fn idle_until(&mut self, now_ns: u64) {
        let Some(background) = &self.model.background else { return };
        let mut begin_ns = self.done_ns.saturating_add(background.after_ns);
        while self.power == Power::On && begin_ns <= now_ns {
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
        self.check_range(offset, length)
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

    /// What was counted since the card was made, or since the last reset.
    pub fn counters(&self) -> Counters {
        self.totals().since(&self.base)
    }

    /// Lets all counters begin at 0 again, but for the wear, which no card forgets.
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

/// The error of a card that answers nothing any more.
pub(crate) fn broken() -> BlockDevError {
    BlockDevError::Disconnected(
        "the simulated card is broken and answers nothing any more".to_owned(),
    )
}

/// A page's number.
pub(crate) fn number(page: u64) -> u32 {
    u32::try_from(page).expect("a checked model has fewer than 2^32 pages")
}

#[cfg(test)]
mod tests;
