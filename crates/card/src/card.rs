//! A card: bus, cache, translation layer, NAND and bytes put together.
//!
//! The service time of a request is its command, its transfer, and what the layer does for it, one
//! after the other. Limits: no overlap of transfer and programming, no page register that keeps the
//! last page read, no work in idle time; time passes only in requests.

use flashfit_medium::{BlockDevError, Description};

use crate::cache::{DirtyPage, WriteCache};
use crate::counters::Counters;
use crate::layer::{self, TranslationLayer};
use crate::model::{BusModel, CardModel};
use crate::nand::Nand;
use crate::pieces::pieces;
use crate::store::Store;

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
#[derive(Debug)]
pub struct Card {
    description: Description,
    bus: BusModel,
    nand: Nand,
    layer: Box<dyn TranslationLayer>,
    cache: Option<WriteCache>,
    store: Store,
    powered: bool,
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
        let page_bytes = model.write_unit_bytes();
        let cache = model.cache.as_ref();
        Self {
            description: Description {
                capacity_bytes: model.capacity.0,
                sector_bytes: model.sector_bytes,
                discard_granularity_bytes: model.discard.as_ref().map_or(0, |d| d.granularity.0),
                volatile_cache: cache.is_some(),
            },
            bus: model.bus.clone(),
            nand: Nand::new(model),
            layer: layer::new(model),
            cache: cache.map(|c| WriteCache::new(c.bytes.0, page_bytes, model.sector_bytes)),
            store: Store::default(),
            powered: true,
            host: Counters::default(),
            base: Counters::default(),
        }
    }

    /// Its fixed facts.
    pub fn description(&self) -> Description {
        self.description
    }

    /// Serves a request at once and returns the time that the card would have taken, in
    /// nanoseconds.
    ///
    /// # Errors
    /// [`BlockDevError::OutOfBounds`], [`BlockDevError::NoDiscard`], or [`BlockDevError::Gone`]
    /// while the card has no power. Then nothing has changed.
    pub fn serve(&mut self, request: Request<'_>) -> Result<u64, BlockDevError> {
        self.check(&request)?;
        let work_ns = match request {
            Request::Read { offset, buffer } => self.read(offset, buffer),
            Request::Write { offset, data } => self.write(offset, data),
            Request::Flush => self.flush(),
            Request::Discard { offset, length } => self.discard(offset, length),
        };
        let service_ns = self.bus.command_ns + work_ns;
        self.host.busy_ns += service_ns;
        Ok(service_ns)
    }

    fn check(&self, request: &Request<'_>) -> Result<(), BlockDevError> {
        if !self.powered {
            return Err(BlockDevError::Gone("the simulated card has no power".to_owned()));
        }
        let (offset, length) = match request {
            Request::Read { offset, buffer } => (*offset, buffer.len() as u64),
            Request::Write { offset, data } => (*offset, data.len() as u64),
            Request::Flush => return Ok(()),
            Request::Discard { .. } if self.description.discard_granularity_bytes == 0 => {
                return Err(BlockDevError::NoDiscard);
            }
            Request::Discard { offset, length } => (*offset, *length),
        };
        let sector = u64::from(self.description.sector_bytes);
        let end = offset.checked_add(length);
        let inside = end.is_some_and(|end| end <= self.description.capacity_bytes);
        if inside && offset % sector == 0 && length % sector == 0 {
            Ok(())
        } else {
            Err(BlockDevError::OutOfBounds { offset, length })
        }
    }

    fn read(&mut self, offset: u64, buffer: &mut [u8]) -> u64 {
        self.host.host_read_requests += 1;
        self.host.host_read_bytes += buffer.len() as u64;
        let mut time_ns = self.transfer_ns(buffer.len());
        self.store.read(offset, buffer);
        for piece in pieces(offset, buffer.len(), self.nand.page_bytes()) {
            let page = number(piece.unit);
            let part = &mut buffer[piece.part];
            let cached =
                self.cache.as_ref().is_some_and(|cache| cache.overlay(page, &piece.inside, part));
            if !cached {
                time_ns += self.layer.read(&mut self.nand, page);
            }
        }
        time_ns
    }

    fn write(&mut self, offset: u64, data: &[u8]) -> u64 {
        self.host.host_write_requests += 1;
        self.host.host_written_bytes += data.len() as u64;
        let mut time_ns = self.transfer_ns(data.len());
        let page_bytes = self.nand.page_bytes();
        if self.cache.is_none() {
            self.store.write(offset, data);
        }
        for piece in pieces(offset, data.len(), page_bytes) {
            let page = number(piece.unit);
            let whole = piece.part.len() as u64 == page_bytes;
            time_ns += match &mut self.cache {
                Some(cache) => {
                    cache.put(page, piece.inside, &data[piece.part]);
                    self.write_back_excess()
                }
                None => self.layer.write(&mut self.nand, page, whole),
            };
        }
        time_ns
    }

    fn flush(&mut self) -> u64 {
        self.host.host_flushes += 1;
        let mut time_ns = 0;
        while let Some((page, dirty)) = self.cache.as_mut().and_then(WriteCache::take_oldest) {
            time_ns += self.write_back(page, &dirty);
        }
        time_ns
    }

    fn write_back_excess(&mut self) -> u64 {
        let mut time_ns = 0;
        while let Some(cache) = self.cache.as_mut().filter(|cache| cache.is_over_full()) {
            let (page, dirty) = cache.take_oldest().expect("what is over-full is not empty");
            time_ns += self.write_back(page, &dirty);
        }
        time_ns
    }

    fn write_back(&mut self, page: u32, dirty: &DirtyPage) -> u64 {
        let start = u64::from(page) * self.nand.page_bytes();
        for (place, sector) in dirty.sectors() {
            self.store.write(start + place as u64, sector);
        }
        self.layer.write(&mut self.nand, page, dirty.is_whole())
    }

    fn discard(&mut self, offset: u64, length: u64) -> u64 {
        self.host.host_discarded_bytes += length;
        self.forget_cached(offset, length);
        self.store.discard(offset, length);
        let granularity = self.description.discard_granularity_bytes;
        let (page_bytes, end) = (self.nand.page_bytes(), offset + length);
        let whole = offset.next_multiple_of(granularity)..end / granularity * granularity;
        let pages = number(whole.start.div_ceil(page_bytes))..number(whole.end / page_bytes);
        if pages.is_empty() { 0 } else { self.layer.discard(&mut self.nand, pages) }
    }

    fn forget_cached(&mut self, offset: u64, length: u64) {
        let Some(cache) = &mut self.cache else { return };
        let (page_bytes, end) = (self.nand.page_bytes(), offset + length);
        let pages = number(offset / page_bytes)..number(end.div_ceil(page_bytes));
        for page in cache.pages_in(pages) {
            let start = u64::from(page) * page_bytes;
            let from = offset.max(start) - start;
            let to = end.min(start + page_bytes) - start;
            cache.forget(page, &(crate::pieces::in_memory(from)..crate::pieces::in_memory(to)));
        }
    }

    /// The time that data needs on the bus, rounded up to a nanosecond.
    fn transfer_ns(&self, length: usize) -> u64 {
        let time = (length as u128 * 1_000_000_000).div_ceil(self.bus.bytes_per_second.into());
        u64::try_from(time).expect("a request takes less than 584 years")
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
            nand_read_bytes: nand.pages_read * self.nand.page_bytes(),
            nand_programmed_bytes: nand.pages_programmed * self.nand.page_bytes(),
            erases: nand.erases,
            erases_per_unit: self.nand.erases_per_unit(),
            merges: layer.merges,
            garbage_collections: layer.garbage_collections,
            merge_ns: layer.merge_ns,
            ..self.host.clone()
        }
        .with_write_amplification()
    }

    /// Takes the power away: what the volatile cache holds is lost, and nothing is served.
    pub fn power_cut(&mut self) {
        self.powered = false;
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
mod tests {
    use super::*;
    use crate::model::tests::{SMALL, parse, small_but};

    const PAGE: usize = 4096;

    fn cached() -> Card {
        let cache = ("[discard]", "[cache]\nbytes = \"8KiB\"\n[discard]");
        Card::new(&small_but(&[cache]).unwrap())
    }

    fn write(card: &mut Card, offset: u64, data: &[u8]) -> u64 {
        card.serve(Request::Write { offset, data }).unwrap()
    }

    fn read(card: &mut Card, offset: u64, length: usize) -> (u64, Vec<u8>) {
        let mut buffer = vec![0xff; length];
        let time_ns = card.serve(Request::Read { offset, buffer: &mut buffer }).unwrap();
        (time_ns, buffer)
    }

    #[test]
    fn a_request_takes_command_transfer_and_nand_time() {
        let mut card = Card::new(&parse(SMALL).unwrap());
        assert_eq!(read(&mut card, 0, PAGE).0, 10 + 4096);
        assert_eq!(write(&mut card, 0, &[1; PAGE]), 10 + 4096 + 700);
        assert_eq!(write(&mut card, 512, &[2; 512]), 10 + 512 + 50 + 700);
        assert_eq!(read(&mut card, 0, PAGE).0, 10 + 4096 + 50);
        assert_eq!(card.serve(Request::Flush).unwrap(), 10);
        assert_eq!(card.counters().busy_ns, 5 * 10 + 3 * 4096 + 512 + 2 * 700 + 2 * 50);
    }

    #[test]
    fn counters_tell_what_happened_and_reset_forgets_all_but_wear() {
        let mut card = Card::new(&parse(SMALL).unwrap());
        for round in 0..3000_u64 {
            write(&mut card, round * 37 % 256 * 4096, &[1; 512]);
        }
        let counters = card.counters();
        assert_eq!(counters.host_written_bytes, 3000 * 512);
        assert_eq!(counters.host_write_requests, 3000);
        assert!(counters.write_amplification_thousandths.unwrap() >= 8000);
        assert!(counters.garbage_collections > 0 && counters.merge_ns > 0);
        card.reset_counters();
        let reset = card.counters();
        assert_eq!(reset.erases_per_unit, counters.erases_per_unit);
        assert_eq!(
            reset,
            Counters { erases_per_unit: counters.erases_per_unit, ..Counters::default() }
        );
    }

    #[test]
    fn a_cache_gathers_sectors_into_pages() {
        let mut card = cached();
        for sector in 0..8 {
            write(&mut card, sector * 512, &[3; 512]);
        }
        assert_eq!(card.counters().nand_programmed_bytes, 0);
        assert_eq!(read(&mut card, 0, PAGE), (10 + 4096, vec![3; PAGE]));
        assert_eq!(card.serve(Request::Flush).unwrap(), 10 + 700);
        assert_eq!(card.counters().write_amplification_thousandths, Some(1000));
    }

    #[test]
    fn a_cut_loses_what_was_not_flushed() {
        let mut card = cached();
        write(&mut card, 0, &[1; 512]);
        card.serve(Request::Flush).unwrap();
        write(&mut card, 0, &[2; 1024]);
        assert_eq!(read(&mut card, 0, 512).1, [2; 512]);
        card.power_cut();
        assert!(matches!(card.serve(Request::Flush), Err(BlockDevError::Gone(_))));
        card.power_on();
        assert_eq!(read(&mut card, 0, 512).1, [1; 512]);
        assert_eq!(read(&mut card, 512, 512).1, [0; 512]);
    }

    #[test]
    fn a_discard_reads_as_zeros_even_where_it_frees_nothing() {
        let mut card = cached();
        write(&mut card, 0, &[1; 2 * PAGE]);
        card.serve(Request::Flush).unwrap();
        write(&mut card, 512, &[2; 512]);
        card.serve(Request::Discard { offset: 512, length: 7680 }).unwrap();
        let (_, bytes) = read(&mut card, 0, 2 * PAGE);
        assert!(bytes[..512].iter().all(|&byte| byte == 1));
        assert!(bytes[512..].iter().all(|&byte| byte == 0));
        // Of the two pages only the second lay wholly in the range.
        assert_eq!(read(&mut card, 0, 512).0, 10 + 512 + 50);
        assert_eq!(read(&mut card, 4096, 512).0, 10 + 512);
    }

    #[test]
    fn what_lies_outside_is_refused() {
        let mut card = Card::new(&small_but(&[("[discard]\ngranularity = \"4KiB\"", "")]).unwrap());
        for (offset, length) in [(1 << 20, 512), (0, 100), (100, 512), (u64::MAX - 511, 512)] {
            let data = vec![0; length];
            let refused = card.serve(Request::Write { offset, data: &data });
            assert!(matches!(refused, Err(BlockDevError::OutOfBounds { .. })), "{offset}");
        }
        let refused = card.serve(Request::Discard { offset: 0, length: 512 });
        assert!(matches!(refused, Err(BlockDevError::NoDiscard)));
        assert_eq!(card.counters(), Counters::default());
    }
}
