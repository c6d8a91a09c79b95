//! A card: bus, cache, translation layer, NAND and bytes put together.
//!
//! A card has a time of its own, in nanoseconds from when it was made. A request that arrives at
//! some time is commanded, transferred, and served by the layer; with queue depth 1 one after the
//! other, with a command queue as far as the bus and the dies are free. The transfer of a page
//! overlaps with the programming of the one before it. State changes in the order of arrival, so
//! only times depend on when requests arrive; and what is done in idle time, where the model has
//! it. Limits: reads are not cached; a queue does not reorder.

use flashfit_medium::{BlockDevError, Description};
use serde::{Deserialize, Serialize};

use crate::cache::{DirtyPage, WriteCache};
use crate::counters::Counters;
use crate::layer::{Layer, PageWrite, TranslationLayer};
use crate::model::CardModel;
use crate::nand::Nand;
use crate::nand::contents::{Content, Keep};
use crate::pieces::{Piece, in_memory, pieces};
use crate::zeroed::Zeroed;

/// What a host asks of a card. Offsets and lengths are in bytes, in whole sectors.
#[derive(Debug)]
pub enum Request<'a> {
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

/// A simulated card.
#[derive(Debug, Serialize, Deserialize)]
pub struct Card {
    model: CardModel,
    nand: Nand,
    layer: Layer,
    cache: Option<WriteCache>,
    zeroed: Zeroed,
    powered: bool,
    /// When the bus is free, in the card's time.
    bus_free_ns: u64,
    /// When the last request is done, in the card's time.
    done_ns: u64,
    /// What the host asked for and how long it took; the rest is counted where it happens.
    host: Counters,
    /// The counters at their last reset.
    base: Counters,
}

impl Card {
    /// A card as it leaves the factory: erased, without wear, powered.
    ///
    /// # Panics
    /// May panic, here or later, for a model that did not pass [`CardModel::parse`].
    pub fn new(model: &CardModel) -> Self {
        Self::keeping(model, Keep::InMemory)
    }

    /// A card that keeps no bytes: every read gives zeros. For counts and times alone.
    ///
    /// # Panics
    /// As [`Card::new`].
    pub fn counting(model: &CardModel) -> Self {
        Self::keeping(model, Keep::Nothing)
    }

    fn keeping(model: &CardModel, keep: Keep) -> Self {
        let cache = model.cache.as_ref();
        Self {
            nand: Nand::new(model, keep),
            layer: Layer::new(model),
            cache: cache
                .map(|c| WriteCache::new(c.bytes.0, model.map_unit_bytes(), model.sector_bytes)),
            zeroed: Zeroed::default(),
            powered: true,
            bus_free_ns: 0,
            done_ns: 0,
            host: Counters::default(),
            base: Counters::default(),
            model: model.clone(),
        }
    }

    /// The parameters that it was made after.
    pub fn model(&self) -> &CardModel {
        &self.model
    }

    /// Its fixed facts.
    pub fn description(&self) -> Description {
        let model = &self.model;
        Description {
            capacity_bytes: model.capacity.0,
            sector_bytes: model.sector_bytes,
            discard_granularity_bytes: model.discard.as_ref().map_or(0, |d| d.granularity.0),
            volatile_cache: model.cache.is_some(),
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
    /// [`BlockDevError::OutOfBounds`], [`BlockDevError::NoDiscard`], or [`BlockDevError::Gone`]
    /// while the card has no power. Then nothing has changed.
    pub fn serve(&mut self, request: Request<'_>) -> Result<u64, BlockDevError> {
        let arrival_ns = self.done_ns;
        Ok(self.submit(arrival_ns, request)? - arrival_ns)
    }

    /// Serves a request that arrives at `arrival_ns` of the card's time and returns when it is
    /// done. Requests are submitted in the order of their arrival; one that is submitted as
    /// earlier than it can be begun waits, as on a busy card.
    ///
    /// # Errors
    /// As [`Card::serve`].
    pub fn submit(&mut self, arrival_ns: u64, request: Request<'_>) -> Result<u64, BlockDevError> {
        self.check(&request)?;
        self.idle_until(arrival_ns);
        let queued = self.model.queue.depth > 1;
        let begin_ns = arrival_ns.max(if queued { self.bus_free_ns } else { self.done_ns });
        // The bus is taken for the command; what data needs is added where it passes.
        self.bus_free_ns = begin_ns + self.model.bus.command_ns;
        self.nand.begin(self.bus_free_ns);
        match request {
            Request::Read { offset, buffer } => self.read(offset, buffer),
            Request::Write { offset, data } => self.write(offset, data),
            Request::Flush => self.flush(),
            Request::Discard { offset, length } => self.discard(offset, length),
        }
        let end_ns = self.nand.finished_ns().max(self.bus_free_ns);
        self.host.busy_ns += end_ns - begin_ns;
        self.done_ns = self.done_ns.max(end_ns);
        Ok(end_ns)
    }

    /// Lets the time until `now_ns` of the card's time pass without a request.
    pub fn idle_until(&mut self, now_ns: u64) {
        let Some(background) = &self.model.background else { return };
        let mut begin_ns = self.done_ns.saturating_add(background.after_ns);
        while self.powered && begin_ns <= now_ns {
            self.nand.begin(begin_ns);
            if !self.layer.work_in_background(&mut self.nand) {
                return;
            }
            let end_ns = self.nand.finished_ns();
            assert!(end_ns > begin_ns, "work in the background takes time");
            self.host.background_ns += end_ns - begin_ns;
            self.done_ns = end_ns;
            begin_ns = end_ns;
        }
    }

    fn check(&self, request: &Request<'_>) -> Result<(), BlockDevError> {
        if !self.powered {
            return Err(BlockDevError::Gone("the simulated card has no power".to_owned()));
        }
        let (offset, length) = match request {
            Request::Read { offset, buffer } => (*offset, buffer.len() as u64),
            Request::Write { offset, data } => (*offset, data.len() as u64),
            Request::Flush => return Ok(()),
            Request::Discard { .. } if self.model.discard.is_none() => {
                return Err(BlockDevError::NoDiscard);
            }
            Request::Discard { offset, length } => (*offset, *length),
        };
        let sector = u64::from(self.model.sector_bytes);
        let end = offset.checked_add(length);
        let inside = end.is_some_and(|end| end <= self.model.capacity.0);
        if inside && offset % sector == 0 && length % sector == 0 {
            Ok(())
        } else {
            Err(BlockDevError::OutOfBounds { offset, length })
        }
    }

    fn read(&mut self, offset: u64, buffer: &mut [u8]) {
        self.host.host_read_requests += 1;
        self.host.host_read_bytes += buffer.len() as u64;
        for piece in pieces(offset, buffer.len(), self.nand.page_bytes()) {
            let page = number(piece.unit);
            let part = &mut buffer[piece.part];
            if !self.cache.as_ref().is_some_and(|cache| cache.covers(page, &piece.inside)) {
                let found = self.layer.read(&mut self.nand, page);
                if self.nand.keeps_contents() {
                    self.bytes_of(page, found, &piece.inside, part);
                }
            }
            if let Some(cache) = &self.cache {
                cache.overlay(page, &piece.inside, part);
            }
        }
        if !self.nand.keeps_contents() {
            buffer.fill(0);
        }
        let read_ns = self.nand.finished_ns();
        self.bus_free_ns = self.bus_free_ns.max(read_ns) + self.transfer_ns(buffer.len());
    }

    /// The bytes at `inside` of a logical page, as the NAND has them.
    fn bytes_of(
        &self,
        logical_page: u32,
        found: Option<u32>,
        inside: &std::ops::Range<usize>,
        part: &mut [u8],
    ) {
        let Some(page) = found else { return part.fill(0) };
        self.nand.content(page).read(inside.start, part);
        if !self.zeroed.is_empty() {
            let sector_bytes = self.model.sector_bytes as usize;
            self.zeroed.apply(logical_page, inside.start / sector_bytes, sector_bytes, part);
        }
    }

    fn write(&mut self, offset: u64, data: &[u8]) {
        self.host.host_write_requests += 1;
        self.host.host_written_bytes += data.len() as u64;
        for piece in pieces(offset, data.len(), self.nand.page_bytes()) {
            self.bus_free_ns += self.transfer_ns(piece.part.len());
            self.nand.not_before(self.bus_free_ns);
            let part = &data[piece.part.clone()];
            if let Some(cache) = &mut self.cache {
                cache.put(number(piece.unit), piece.inside, part);
                self.write_back_excess();
            } else {
                self.program(&piece, part, data.len() as u64);
            }
        }
        self.layer.settle(&mut self.nand);
    }

    fn program(&mut self, piece: &Piece, part: &[u8], request_bytes: u64) {
        let logical_page = number(piece.unit);
        let whole = part.len() as u64 == self.nand.page_bytes();
        if self.nand.keeps_contents() {
            let content = if whole {
                Content::from_bytes(part)
            } else {
                let mut bytes = self.whole_page(logical_page);
                bytes[piece.inside.clone()].copy_from_slice(part);
                Content::from_bytes(&bytes)
            };
            self.nand.load(content);
        }
        self.layer.write(&mut self.nand, PageWrite { logical_page, whole, request_bytes });
        self.zeroed.clear(logical_page);
    }

    fn whole_page(&self, logical_page: u32) -> Vec<u8> {
        let mut bytes = vec![0; in_memory(self.nand.page_bytes())];
        let found = self.layer.locate(&self.nand, logical_page);
        self.bytes_of(logical_page, found, &(0..bytes.len()), &mut bytes);
        bytes
    }

    fn flush(&mut self) {
        self.host.host_flushes += 1;
        while let Some((page, dirty)) = self.cache.as_mut().and_then(WriteCache::take_oldest) {
            self.write_back(page, &dirty);
        }
        self.layer.settle(&mut self.nand);
        if let Some(cache) = &self.model.cache {
            self.nand.wait(cache.flush_ns);
        }
    }

    fn write_back_excess(&mut self) {
        while let Some(cache) = self.cache.as_mut().filter(|cache| cache.is_over_full()) {
            let (page, dirty) = cache.take_oldest().expect("what is over-full is not empty");
            self.write_back(page, &dirty);
        }
    }

    fn write_back(&mut self, logical_page: u32, dirty: &DirtyPage) {
        if self.nand.keeps_contents() {
            let mut bytes = self.whole_page(logical_page);
            for (place, sector) in dirty.sectors() {
                bytes[place..place + sector.len()].copy_from_slice(sector);
            }
            self.nand.load(Content::from_bytes(&bytes));
        }
        let (whole, request_bytes) = (dirty.is_whole(), dirty.bytes());
        self.layer.write(&mut self.nand, PageWrite { logical_page, whole, request_bytes });
        self.zeroed.clear(logical_page);
    }

    fn discard(&mut self, offset: u64, length: u64) {
        self.host.host_discarded_bytes += length;
        self.forget_cached(offset, length);
        let granularity = self.description().discard_granularity_bytes;
        let (page_bytes, end) = (self.nand.page_bytes(), offset + length);
        let whole = offset.next_multiple_of(granularity)..end / granularity * granularity;
        let pages = number(whole.start.div_ceil(page_bytes))..number(whole.end / page_bytes);
        if !pages.is_empty() {
            self.layer.discard(&mut self.nand, pages);
        }
        if self.nand.keeps_contents() {
            self.mark_zeroed(offset, length);
        }
    }

    /// Whatever is still mapped of a discarded range reads as zeros.
    fn mark_zeroed(&mut self, offset: u64, length: u64) {
        let (page_bytes, sector_bytes) = (self.nand.page_bytes(), self.model.sector_bytes as usize);
        let sectors = in_memory(page_bytes) / sector_bytes;
        for page in number(offset / page_bytes)..number((offset + length).div_ceil(page_bytes)) {
            if self.layer.locate(&self.nand, page).is_none() {
                self.zeroed.clear(page);
                continue;
            }
            let start = u64::from(page) * page_bytes;
            let from = in_memory(offset.max(start) - start) / sector_bytes;
            let to = in_memory((offset + length).min(start + page_bytes) - start) / sector_bytes;
            self.zeroed.mark(page, from..to, sectors);
        }
    }

    fn forget_cached(&mut self, offset: u64, length: u64) {
        let Some(cache) = &mut self.cache else { return };
        let (page_bytes, end) = (self.nand.page_bytes(), offset + length);
        let pages = number(offset / page_bytes)..number(end.div_ceil(page_bytes));
        for page in cache.pages_in(pages) {
            let start = u64::from(page) * page_bytes;
            let from = offset.max(start) - start;
            let to = end.min(start + page_bytes) - start;
            cache.forget(page, &(in_memory(from)..in_memory(to)));
        }
    }

    /// The time that data needs on the bus, rounded up to a nanosecond.
    fn transfer_ns(&self, length: usize) -> u64 {
        (length as u64 * 1_000_000_000).div_ceil(self.model.bus.bytes_per_second)
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

    /// Takes the power away: what the volatile cache holds is lost, and nothing is served.
    pub fn power_cut(&mut self) {
        self.powered = false;
        self.host.power_cuts += 1;
        if let Some(cache) = &mut self.cache {
            cache.drop_everything();
        }
    }

    /// Gives the power back.
    pub fn power_on(&mut self) {
        self.powered = true;
    }
}

/// A page's number.
fn number(page: u64) -> u32 {
    u32::try_from(page).expect("a checked model has fewer than 2^32 pages")
}

#[cfg(test)]
mod tests;
