//! Transfers data between the host, the cache and the NAND.

use flashfit_device::BlockDevError;

use super::{Card, LastWrite, number};
use crate::cache::{DirtyPage, WriteCache};
use crate::cut::journal::ProgrammedPage;
use crate::layer::{PageWrite, TranslationLayer};
use crate::model::CacheOrder;
use crate::nand::contents::PageContent;
use crate::request_parts::{RequestPart, pieces};

impl Card {
    pub(super) fn read(&mut self, offset: u64, buffer: &mut [u8]) -> Result<(), BlockDevError> {
        self.host.host_read_requests += 1;
        self.host.host_read_bytes += buffer.len() as u64;
        let mut unreadable = None;
        let mut unit = offset / self.model.erase_block_bytes();
        for piece in pieces(offset, buffer.len(), self.nand.page_bytes()) {
            let reached = (offset + piece.part.start as u64) / self.model.erase_block_bytes();
            let lookup_ns = self.model.layer.lookup_ns;
            if std::mem::replace(&mut unit, reached) != reached && lookup_ns > 0 {
                self.nand.wait(lookup_ns);
            }
            if self.read_piece(&piece, &mut buffer[piece.part.clone()]).is_err() {
                unreadable.get_or_insert(piece);
            }
        }
        if !self.nand.keeps_contents() {
            buffer.fill(0);
        }
        let read_ns = self.nand.finished_ns();
        self.bus_free_ns = self.bus_free_ns.max(read_ns) + self.transfer_ns(buffer.len());
        match unreadable {
            None => Ok(()),
            Some(piece) => Err(unreadable_at(offset + piece.part.start as u64, piece.part.len())),
        }
    }

    fn read_piece(
        &mut self,
        piece: &RequestPart,
        part: &mut [u8],
    ) -> Result<(), crate::nand::contents::Unreadable> {
        let page = number(piece.unit);
        if self.cache.as_ref().is_some_and(|cache| cache.covers(page, &piece.inside)) {
            self.overlay(page, piece, part);
            return Ok(());
        }
        let found = self.layer.read(&mut self.nand, page);
        if !self.nand.keeps_contents() {
            return Ok(());
        }
        if let Some(found) = found {
            self.nand.contents_mut().wear_by_reading(found);
        }
        let content = self.in_nand(page, found);
        if matches!(content, PageContent::Damaged(_)) {
            return self.over_cached(page, content).read(piece.inside.start, part);
        }
        content.read(piece.inside.start, part)?;
        self.overlay(page, piece, part);
        Ok(())
    }

    fn overlay(&self, page: u32, piece: &RequestPart, part: &mut [u8]) {
        if let Some(cache) = &self.cache {
            cache.overlay(page, &piece.inside, part);
        }
    }

    fn over_cached(&self, page: u32, content: PageContent) -> PageContent {
        match &self.cache {
            Some(cache) => cache.over(page, content),
            None => content,
        }
    }

    /// The content of a logical page in the NAND, at physical page `found`.
    pub(crate) fn in_nand(&self, logical_page: u32, found: Option<u32>) -> PageContent {
        let Some(page) = found else { return PageContent::Zeros };
        let (page_bytes, sector_bytes) = (self.nand.page_bytes(), self.model.sector_bytes as usize);
        self.zeroed.over(logical_page, self.nand.content(page), page_bytes, sector_bytes)
    }

    /// A logical page as a host would read it.
    pub(crate) fn visible(&self, logical_page: u32) -> PageContent {
        let found = self.layer.locate(&self.nand, logical_page);
        self.over_cached(logical_page, self.in_nand(logical_page, found))
    }

    pub(super) fn write(&mut self, offset: u64, data: &[u8]) -> Result<(), BlockDevError> {
        self.host.host_write_requests += 1;
        self.host.host_written_bytes += data.len() as u64;
        self.bus_free_ns += self.streams.switch_cost_ns(&self.model, offset, data.len() as u64);
        let mut last = None;
        for piece in pieces(offset, data.len(), self.nand.page_bytes()) {
            self.bus_free_ns += self.transfer_ns(piece.part.len());
            self.nand.not_before(self.bus_free_ns);
            let part = &data[piece.part.clone()];
            last = Some(number(piece.unit));
            if self.model.cache.as_ref().is_some_and(|cache| cache.undeclared) {
                self.gather(&piece, part, data.len() as u64);
            } else if let Some(cache) = &mut self.cache {
                cache.put(number(piece.unit), &piece.inside, part);
                self.write_back_excess();
            } else {
                self.program(&piece, part, data.len() as u64);
            }
        }
        self.layer.settle(&mut self.nand);
        if let Some(logical_page) = last {
            let done_ns = self.nand.finished_ns().max(self.bus_free_ns);
            self.last_write = Some(LastWrite { done_ns, logical_page });
        }
        self.check_contents(offset, data.len())
    }

    /// Puts a partial page into the controller's buffer until the page is complete or something
    /// else is written; complete pages bypass the buffer.
    fn gather(&mut self, piece: &RequestPart, part: &[u8], request_bytes: u64) {
        let page = number(piece.unit);
        let cache = self.cache.as_ref().expect("a model with a buffer has a cache");
        if !cache.is_empty() && !cache.continues_at(page, piece.inside.start) {
            while self.write_back_run() {}
        }
        let page_bytes = self.nand.page_bytes();
        let cache = self.cache.as_mut().expect("a model with a buffer has a cache");
        if cache.is_empty() && part.len() as u64 == page_bytes {
            return self.program(piece, part, request_bytes);
        }
        cache.put(page, &piece.inside, part);
        if piece.inside.end as u64 == page_bytes {
            while self.write_back_run() {}
        }
    }

    /// The failure of the contents file, if any.
    fn check_contents(&mut self, offset: u64, length: usize) -> Result<(), BlockDevError> {
        match self.nand.contents_mut().take_failure() {
            None => Ok(()),
            Some(source) => Err(BlockDevError::Io { offset, length: length as u64, source }),
        }
    }

    fn program(&mut self, piece: &RequestPart, part: &[u8], request_bytes: u64) {
        let page_bytes = self.nand.page_bytes();
        let whole = part.len() as u64 == page_bytes;
        let write = PageWrite { logical_page: number(piece.unit), whole, request_bytes };
        self.put_page(write, |before| {
            if whole {
                PageContent::from_bytes(part)
            } else {
                before.with(page_bytes, piece.inside.clone(), part)
            }
        });
    }

    /// Writes a page through the layer, merging a partial write with the previous content.
    pub(crate) fn put_page(
        &mut self,
        write: PageWrite,
        content: impl FnOnce(&PageContent) -> PageContent,
    ) {
        let logical_page = write.logical_page;
        if !self.nand.keeps_contents() {
            self.layer.write(&mut self.nand, write);
            return;
        }
        let found = self.layer.locate(&self.nand, logical_page);
        let before = self.in_nand(logical_page, found);
        self.nand.load(content(&before));
        self.layer.write(&mut self.nand, write);
        self.zeroed.clear(logical_page);
        let done_ns = self.nand.finished_ns();
        // The layer may have programmed further pages after this one.
        let last = self.nand.contents().last_programmed();
        let page = match self.nand.logical_page(last) {
            Some(held) if held == logical_page => last,
            _ => self.layer.locate(&self.nand, logical_page).unwrap_or(last),
        };
        let write_unit = page / self.nand.pages_per_write_unit();
        self.journal.programmed(ProgrammedPage { done_ns, logical_page, page, write_unit, before });
        self.journal.copied(done_ns, self.nand.contents_mut().take_copies());
    }

    pub(super) fn flush(&mut self) -> Result<(), BlockDevError> {
        self.host.host_flushes += 1;
        match &mut self.cache {
            Some(cache) if cache.order() == CacheOrder::Barrier => cache.begin_epoch(),
            _ => while self.write_back_run() {},
        }
        self.layer.settle(&mut self.nand);
        if let Some(cache) = &self.model.cache {
            self.nand.wait(cache.flush_ns);
        }
        self.check_contents(0, 0)
    }

    /// Performs one piece of background work; `false` if there is none.
    pub(super) fn work_in_background(&mut self) -> bool {
        if self.write_back_run() {
            self.layer.settle(&mut self.nand);
            return true;
        }
        let worked = self.layer.work_in_background(&mut self.nand);
        let done_ns = self.nand.finished_ns();
        self.journal.copied(done_ns, self.nand.contents_mut().take_copies());
        worked
    }

    /// Makes room in the cache. Writes back as much at a time as the dies can program together, so
    /// that small writes share write units.
    fn write_back_excess(&mut self) {
        let together = self.nand.write_unit_bytes() * u64::from(self.model.nand.dies);
        while self.cache.as_ref().is_some_and(WriteCache::exceeds_capacity) {
            let before = self.cached_bytes();
            while before - self.cached_bytes() < together && self.write_back_run() {}
        }
    }

    fn cached_bytes(&self) -> u64 {
        self.cache.as_ref().map_or(0, WriteCache::dirty_bytes)
    }

    /// Writes back the oldest data and adjacent data; `false` if the cache is empty.
    fn write_back_run(&mut self) -> bool {
        let run = self.cache.as_mut().map(WriteCache::take_run).unwrap_or_default();
        let request_bytes = run.iter().map(DirtyPage::bytes).sum();
        for dirty in &run {
            self.write_back(dirty, request_bytes);
        }
        !run.is_empty()
    }

    pub(crate) fn write_back(&mut self, dirty: &DirtyPage, request_bytes: u64) {
        let page_bytes = self.nand.page_bytes();
        let write = PageWrite { logical_page: dirty.page, whole: dirty.is_whole(), request_bytes };
        self.put_page(write, |before| match dirty.whole_data() {
            Some(data) => PageContent::from_bytes(data),
            None => before.with_all(page_bytes, dirty.parts()),
        });
    }

    /// Transfer time on the bus, rounded up.
    fn transfer_ns(&self, length: usize) -> u64 {
        (length as u64 * 1_000_000_000).div_ceil(self.model.bus.bytes_per_second)
    }
}

pub(super) fn unreadable_at(offset: u64, length: usize) -> BlockDevError {
    let source = std::io::Error::other("the simulated flash cannot be read there any more");
    BlockDevError::Io { offset, length: length as u64, source }
}
