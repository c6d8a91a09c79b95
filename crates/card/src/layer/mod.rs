//! Translation layers: how logical pages are kept in pages that cannot be written over.
//!
//! A layer decides which NAND operations a page costs. Times are returned, operations are counted
//! by the [`Nand`]. The unit of a layer is the effective page; smaller writes arrive as
//! `whole == false` and cost the reading of the old page first.

mod block_mapped;
mod free_units;
mod page_mapped;
#[cfg(test)]
mod stamp_tests;

use std::ops::Range;

pub use block_mapped::BlockMapped;
pub use page_mapped::PageMapped;

use crate::counters::Merges;
use crate::model::{CardModel, LayerKind};
use crate::nand::Nand;

/// No page, or no unit, in a table of them.
const NONE: u32 = u32::MAX;

/// What a layer counts itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LayerCounters {
    /// Merges of a block-mapped layer.
    pub merges: Merges,
    /// Erase units reclaimed by a page-mapped layer.
    pub garbage_collections: u64,
    /// Time in either, in nanoseconds.
    pub merge_ns: u64,
}

/// A translation layer over a [`Nand`].
pub trait TranslationLayer: std::fmt::Debug + Send {
    /// Writes a page, wholly or in part; returns the time it takes, in nanoseconds.
    fn write(&mut self, nand: &mut Nand, logical_page: u32, whole: bool) -> u64;

    /// Forgets the pages of a range, as far as the layer can; returns the time it takes.
    fn discard(&mut self, nand: &mut Nand, logical_pages: Range<u32>) -> u64;

    /// Where a page is; `None` when it was never written, or discarded.
    fn locate(&self, nand: &Nand, logical_page: u32) -> Option<u32>;

    /// What it has counted.
    fn counters(&self) -> LayerCounters;

    /// Reads a page; returns the time it takes. A page that is nowhere takes none.
    fn read(&mut self, nand: &mut Nand, logical_page: u32) -> u64 {
        let Some(page) = self.locate(nand, logical_page) else { return 0 };
        let stamp = nand.stamp(page).expect("a page that is somewhere was programmed");
        assert_eq!(stamp.logical_page, logical_page, "the layer lost track of a page");
        nand.read(page)
    }
}

/// The layer that a model asks for.
pub fn new(model: &CardModel) -> Box<dyn TranslationLayer> {
    match model.layer.kind {
        LayerKind::BlockMapped => Box::new(BlockMapped::new(model)),
        LayerKind::PageMapped => Box::new(PageMapped::new(model)),
    }
}
