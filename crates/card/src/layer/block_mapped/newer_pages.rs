//! Pages that are newer than what a block-mapped layer has of them: those in a log for small
//! writes, where the layer has one.

use std::ops::Range;

/// What is newer than the units of a layer.
pub trait NewerPages {
    /// Where the newest of a logical page is, when it is here.
    fn page_of(&self, logical_page: u32) -> Option<u32>;

    /// Calls `take` with each logical page of the range that is here, in ascending order, and with
    /// where it is.
    fn each_in(&self, logical_pages: Range<u32>, take: impl FnMut(u32, u32));

    /// What is here of a range is needed no more: something newer is elsewhere.
    fn forget(&mut self, logical_pages: Range<u32>);
}

/// No log for small writes.
#[derive(Debug)]
pub struct NoSmallLog;

impl NewerPages for NoSmallLog {
    fn page_of(&self, _logical_page: u32) -> Option<u32> {
        None
    }

    fn each_in(&self, _logical_pages: Range<u32>, _take: impl FnMut(u32, u32)) {}

    fn forget(&mut self, _logical_pages: Range<u32>) {}
}
