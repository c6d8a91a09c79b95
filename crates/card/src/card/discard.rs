//! Discards: unmaps what the layer can unmap and marks the rest as zeros.

use super::{Card, number};
use crate::layer::TranslationLayer;
use crate::request_parts::in_memory;

impl Card {
    pub(super) fn discard(&mut self, offset: u64, length: u64) {
        self.host.host_discarded_bytes += length;
        self.drop_cached(offset, length);
        let granularity = self.description().discard_granularity_bytes;
        let (page_bytes, end) = (self.nand.page_bytes(), offset + length);
        let whole = offset.next_multiple_of(granularity)..end / granularity * granularity;
        let pages = number(whole.start.div_ceil(page_bytes))..number(whole.end / page_bytes);
        if !pages.is_empty() {
            self.layer.discard(&mut self.nand, pages);
        }
        if self.nand.keeps_contents() {
            self.mark_zeroed(offset, length);
            self.journal.discarded(&(offset..end), page_bytes);
            let done_ns = self.nand.finished_ns();
            self.journal.copied(done_ns, self.nand.contents_mut().take_copies());
        }
    }

    /// Sectors of a discarded range that stay mapped must read as zeros.
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

    fn drop_cached(&mut self, offset: u64, length: u64) {
        let Some(cache) = &mut self.cache else { return };
        let (page_bytes, end) = (self.nand.page_bytes(), offset + length);
        let pages = number(offset / page_bytes)..number(end.div_ceil(page_bytes));
        for page in cache.pages_in(pages) {
            let start = u64::from(page) * page_bytes;
            let from = offset.max(start) - start;
            let to = end.min(start + page_bytes) - start;
            cache.drop_range(page, &(in_memory(from)..in_memory(to)));
        }
    }
}
