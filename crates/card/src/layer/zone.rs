//! The specially mapped zone at the start of a card, for a file allocation table.
//!
//! On many cards the first one or two erase blocks accept small random writes cheaply, as the table
//! requires, whatever the rest of the card does: here they are page-mapped over their own erase
//! blocks and spare blocks. No blocks are opened or closed in the zone, and reads take
//! `extra_read_ns` longer per page. Limits: nothing is collected in idle time; wear is leveled
//! within the zone only. Sources: flashbench's README, `--find-fat`; Arnd Bergmann, "Optimizing
//! Linux with cheap flash drives" (LWN, 2011).

use std::ops::Range;

use serde::{Deserialize, Serialize};

use super::{PageMapped, PageWrite, TranslationLayer};
use crate::counters::LayerCounters;
use crate::model::{CardModel, LayerKind, LayerModel, Replacement, ZoneModel};
use crate::nand::Nand;

#[derive(Debug, Serialize, Deserialize)]
pub struct Zone {
    layer: PageMapped,
    end: u32,
    extra_read_ns: u64,
}

impl Zone {
    /// The zone of a new card; takes its erase blocks from the end of `units`.
    pub fn new(model: &CardModel, zone: &ZoneModel, units: &mut Vec<u32>) -> Self {
        let rest = units.len() - (zone.units + zone.spare_units) as usize;
        let own = units.split_off(rest);
        let mut within = model.clone();
        within.layer = LayerModel {
            kind: LayerKind::PageMapped,
            open_erase_blocks: None,
            open_erase_blocks_random: None,
            replacement: Replacement::default(),
            close_ns: 0,
            random_pages: None,
            scratch: false,
            log_units: None,
            log_request: None,
            log_ns: None,
            chunk: None,
            map_unit: model.layer.map_unit,
            map_cache: None,
            collection: None,
            wear_spread: None,
            lookup_ns: 0,
            jump_ns: 0,
            switch_ns: 0,
        };
        // The total stays the same, so that block numbers do not change.
        let pslc = within.nand.pslc.take();
        within.nand.spare_units += pslc.map_or(0, |pslc| pslc.units);
        Self {
            layer: PageMapped::over(&within, zone.units, &own),
            end: zone.units * model.pages_per_block(),
            extra_read_ns: zone.extra_read_ns,
        }
    }

    /// The first logical page after the zone.
    pub fn end(&self) -> u32 {
        self.end
    }

    /// Adds the zone's counters to those of the rest of the card.
    pub fn add_to(&self, mut counters: LayerCounters) -> LayerCounters {
        let own = self.layer.counters();
        counters.garbage_collections += own.garbage_collections;
        counters.merge_ns += own.merge_ns;
        counters
    }

    pub fn write(&mut self, nand: &mut Nand, write: PageWrite) {
        self.layer.write(nand, write);
    }

    pub fn settle(&mut self, nand: &mut Nand) {
        self.layer.settle(nand);
    }

    pub fn discard(&mut self, nand: &mut Nand, logical_pages: Range<u32>) {
        self.layer.discard(nand, logical_pages);
    }

    pub fn locate(&self, nand: &Nand, logical_page: u32) -> Option<u32> {
        self.layer.locate(nand, logical_page)
    }

    /// Reads a page and returns its physical page.
    pub fn read(&mut self, nand: &mut Nand, logical_page: u32) -> Option<u32> {
        let page = self.layer.read(nand, logical_page)?;
        nand.wait(self.extra_read_ns);
        Some(page)
    }
}

#[cfg(test)]
mod tests {
    use super::super::Layer;
    use super::*;
    use crate::model::tests::small_with;
    use crate::nand::contents::RetentionPolicy;

    const UNIT: u32 = 16;

    /// One open erase block, and a zone of three blocks.
    fn card() -> (Layer, Nand) {
        let model = small_with(&[
            ("kind = \"page-mapped\"", "kind = \"block-mapped\"\nopen_units = 1"),
            ("[discard]", "[zone]\nunits = 3\nspare_units = 2\nextra_read_ns = 25\n[discard]"),
        ]);
        let model = model.unwrap();
        (Layer::new(&model), Nand::new(&model, RetentionPolicy::Nothing))
    }

    fn time(nand: &mut Nand, work: impl FnOnce(&mut Nand)) -> u64 {
        let start_ns = nand.finished_ns();
        nand.begin(start_ns);
        work(nand);
        nand.finished_ns() - start_ns
    }

    fn write(layer: &mut Layer, nand: &mut Nand, logical_page: u32) {
        layer.write(nand, PageWrite::whole(logical_page, 4096));
        layer.settle(nand);
    }

    #[test]
    fn no_blocks_are_opened_or_closed_in_the_zone() {
        let (mut layer, mut nand) = card();
        for page in 0..16 * UNIT {
            write(&mut layer, &mut nand, page);
        }
        let merges = layer.counters().merges;
        for number in 0..20 {
            write(&mut layer, &mut nand, number % 3 * UNIT + 9 - number / 3);
        }
        assert_eq!(layer.counters().merges, merges);
        for number in 0..6 {
            write(&mut layer, &mut nand, (3 + number % 3) * UNIT + 9);
        }
        assert_eq!(layer.counters().merges.full, merges.full + 5);
    }

    #[test]
    fn reads_of_the_zone_take_longer() {
        let (mut layer, mut nand) = card();
        for page in [2 * UNIT, 3 * UNIT] {
            write(&mut layer, &mut nand, page);
        }
        let mut read = |page| {
            time(&mut nand, |nand| {
                layer.read(nand, page);
            })
        };
        assert_eq!(read(2 * UNIT), 50 + 25);
        assert_eq!(read(3 * UNIT), 50);
        assert_eq!(read(2 * UNIT + 1), 0);
    }
}
