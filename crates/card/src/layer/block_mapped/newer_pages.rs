//! Pages that are newer than those of a block-mapped layer: those in a log for small writes.

use std::ops::Range;

pub trait NewerPages {
    /// The physical page of the newest version of a logical page, if it is here.
    fn page_of(&self, logical_page: u32) -> Option<u32>;

    /// Calls `take` with each logical page of the range that is here, in ascending order, and its
    /// physical page.
    fn each_in(&self, logical_pages: Range<u32>, take: impl FnMut(u32, u32));

    /// Removes a range: a newer version is elsewhere.
    fn forget(&mut self, logical_pages: Range<u32>);
}

/// For layers without a log for small writes.
#[derive(Debug)]
pub struct NoSmallLog;

impl NewerPages for NoSmallLog {
    fn page_of(&self, _logical_page: u32) -> Option<u32> {
        None
    }

    fn each_in(&self, _logical_pages: Range<u32>, _take: impl FnMut(u32, u32)) {}

    fn forget(&mut self, _logical_pages: Range<u32>) {}
}
