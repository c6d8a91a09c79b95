//! Translation layers: how logical pages are kept in pages that cannot be written over.
//!
//! A layer decides which NAND operations a page costs; the [`Nand`] counts them and knows how long
//! they take. The unit of a layer is the mapped unit of the card model, called page; smaller writes
//! arrive as `whole == false` and cost the reading of the old page first.

mod block_mapped;
mod free_units;
mod page_mapped;
#[cfg(test)]
mod stamp_tests;

use std::ops::Range;

use serde::{Deserialize, Serialize};

pub use block_mapped::BlockMapped;
pub use page_mapped::PageMapped;

use crate::counters::LayerCounters;
use crate::model::{CardModel, LayerKind};
use crate::nand::Nand;

/// A page that is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PageWrite {
    /// Which.
    pub logical_page: u32,
    /// Whether all of it is written.
    pub whole: bool,
    /// The size of the request that it belongs to, in bytes. What comes from a cache is a request
    /// of its own for each run of adjoining pages.
    pub request_bytes: u64,
}

impl PageWrite {
    /// A request that writes just this page, wholly.
    pub fn whole(logical_page: u32, page_bytes: u64) -> Self {
        Self { logical_page, whole: true, request_bytes: page_bytes }
    }
}

/// A translation layer over a [`Nand`].
///
/// The content of a page that is written was loaded into the NAND's register before
/// ([`Nand::load`]); the layer programs it exactly once, before it copies anything behind it.
pub trait TranslationLayer: std::fmt::Debug + Send {
    /// Writes a page, wholly or in part.
    fn write(&mut self, nand: &mut Nand, write: PageWrite);

    /// What was written so far must be in the NAND: the end of a request, or of the writing back of
    /// a cache.
    fn settle(&mut self, nand: &mut Nand) {
        nand.close_write_unit();
    }

    /// Forgets the pages of a range, as far as the layer can.
    fn discard(&mut self, nand: &mut Nand, logical_pages: Range<u32>);

    /// Where a page is; `None` when it was never written, or discarded.
    fn locate(&self, nand: &Nand, logical_page: u32) -> Option<u32>;

    /// Does one piece of the work that can wait for idle time; `false` when there is none.
    fn work_in_background(&mut self, _nand: &mut Nand) -> bool {
        false
    }

    /// What it has counted.
    fn counters(&self) -> LayerCounters;

    /// Reads a page, and returns where it is. A page that is nowhere takes no time.
    fn read(&mut self, nand: &mut Nand, logical_page: u32) -> Option<u32> {
        let page = self.locate(nand, logical_page)?;
        let held = nand.logical_page(page);
        assert_eq!(held, Some(logical_page), "the layer lost track of a page");
        nand.read(page);
        Some(page)
    }
}

/// The layer of a card.
#[derive(Debug, Serialize, Deserialize)]
pub enum Layer {
    /// See [`BlockMapped`].
    BlockMapped(BlockMapped),
    /// See [`PageMapped`].
    PageMapped(PageMapped),
}

impl Layer {
    /// The layer that a model asks for.
    pub fn new(model: &CardModel) -> Self {
        match model.layer.kind {
            LayerKind::BlockMapped | LayerKind::LogBlock | LayerKind::UpdateLog => {
                Self::BlockMapped(BlockMapped::new(model))
            }
            LayerKind::PageMapped => Self::PageMapped(PageMapped::new(model)),
        }
    }
}

/// Calls a method of whichever layer it is.
macro_rules! of_each {
    ($self:ident, $layer:ident => $call:expr) => {
        match $self {
            Self::BlockMapped($layer) => $call,
            Self::PageMapped($layer) => $call,
        }
    };
}

impl TranslationLayer for Layer {
    fn write(&mut self, nand: &mut Nand, write: PageWrite) {
        of_each!(self, layer => layer.write(nand, write));
    }

    fn settle(&mut self, nand: &mut Nand) {
        of_each!(self, layer => layer.settle(nand));
    }

    fn discard(&mut self, nand: &mut Nand, logical_pages: Range<u32>) {
        of_each!(self, layer => layer.discard(nand, logical_pages));
    }

    fn locate(&self, nand: &Nand, logical_page: u32) -> Option<u32> {
        of_each!(self, layer => layer.locate(nand, logical_page))
    }

    fn work_in_background(&mut self, nand: &mut Nand) -> bool {
        of_each!(self, layer => layer.work_in_background(nand))
    }

    fn counters(&self) -> LayerCounters {
        of_each!(self, layer => layer.counters())
    }

    fn read(&mut self, nand: &mut Nand, logical_page: u32) -> Option<u32> {
        of_each!(self, layer => layer.read(nand, logical_page))
    }
}
