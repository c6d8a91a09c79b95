//! Which open erase block is closed when another is written and no more can be open, and what
//! that costs besides copying: the controller saves its map.
//!
//! With random replacement, rates decline gradually beyond the number of open erase blocks: of five
//! that are written in turn where four can be open, three in five writes still find theirs open;
//! with least-recent replacement, none does. Limit: what is drawn follows from the card's time, so
//! that two cards with other times differ. Source: inferred from the flashbench tables of two cards
//! (1 and 9), whose rates decline in about this proportion; not all of their rates are explained,
//! and the internals of such cards are not published.

use flashfit_device::random::Random;

use crate::model::{LayerModel, Replacement};
use crate::nand::Nand;

/// Not saved with a card: it follows from the model, except for the count.
#[derive(Debug, Default)]
pub struct Eviction {
    replacement: Replacement,
    close_ns: u64,
    count: u64,
}

impl Eviction {
    pub fn new(model: &LayerModel) -> Self {
        Self { replacement: model.replacement, close_ns: model.close_ns, count: 0 }
    }

    /// The index of the erase block to close, of `open` ones, the least recently written first. The
    /// card is busy for the time of closing.
    pub fn choose(&mut self, nand: &mut Nand, open: usize) -> usize {
        self.count += 1;
        if self.close_ns > 0 {
            nand.wait(self.close_ns);
        }
        match self.replacement {
            Replacement::LeastRecent => 0,
            Replacement::Random => {
                let mut random = Random::new(nand.finished_ns());
                usize::try_from(random.below(open as u64)).expect("below the number of open ones")
            }
        }
    }

    /// How many were closed since the card was made or loaded.
    pub fn count(&self) -> u64 {
        self.count
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layer::{BlockMapped, PageWrite, TranslationLayer, UpdateLog};
    use crate::model::tests::small_with;
    use crate::model::{CardModel, LayerKind};
    use crate::nand::contents::RetentionPolicy;

    const UNIT: u32 = 16;
    const ROUNDS: u32 = 400;
    const BLOCK_MAPPED: &str = "kind = \"block-mapped\"\nopen_units = 3\n";
    const UPDATE_LOG: &str = "kind = \"update-log\"\nopen_units = 3\nlog_units = 1\n\
                              log_request = \"512\"\nchunk = \"4KiB\"\n";
    const RANDOM: &str = "replacement = \"random\"";

    fn model(layer: &str) -> CardModel {
        small_with(&[("kind = \"page-mapped\"", layer), ("units = 4", "units = 12")]).unwrap()
    }

    /// The share of writes for which an erase block was closed, where so many are written in turn,
    /// page by page in order; the number of them, and the time of merges.
    fn evicted(model: &CardModel, blocks: u32) -> (f64, u64, u64) {
        let mut nand = Nand::new(model, RetentionPolicy::Nothing);
        let mut layer: Box<dyn TranslationLayer> = match model.layer.kind {
            LayerKind::UpdateLog => Box::new(UpdateLog::new(model, model.good_blocks())),
            _ => Box::new(BlockMapped::new(model, model.good_blocks())),
        };
        for round in 0..ROUNDS {
            for block in 0..blocks {
                nand.begin(nand.finished_ns());
                let write = PageWrite::whole(block * UNIT + round % UNIT, 4096);
                layer.write(&mut nand, write);
                layer.settle(&mut nand);
            }
        }
        let count = layer.evictions();
        (count as f64 / f64::from(ROUNDS * blocks), count, layer.counters().merge_ns)
    }

    #[test]
    fn random_replacement_hits_the_more_the_fewer_blocks_are_in_turn() {
        for kind in [BLOCK_MAPPED, UPDATE_LOG] {
            let random = model(&format!("{kind}{RANDOM}"));
            assert_eq!(evicted(&random, 3).1, 0);
            // Of four, the closed one is met again after two writes on average.
            let [four, six] = [4, 6].map(|blocks| evicted(&random, blocks).0);
            assert!((four - 0.5).abs() < 0.05, "{kind}: {four}");
            assert!(four + 0.2 < six && six < 0.9, "{kind}: {six}");
            assert!(evicted(&model(kind), 4).0 > 0.95, "{kind}");
        }
    }

    #[test]
    fn closing_for_another_takes_its_time() {
        for kind in [BLOCK_MAPPED, UPDATE_LOG] {
            let (_, count, plain_ns) = evicted(&model(kind), 4);
            let slow = evicted(&model(&format!("{kind}close_ns = 5000")), 4);
            assert_eq!((slow.1, slow.2), (count, plain_ns + count * 5000), "{kind}");
        }
    }

    #[test]
    fn page_mapped_layers_close_nothing() {
        for key in [RANDOM, "close_ns = 5"] {
            let layer = format!("kind = \"page-mapped\"\n{key}");
            let refused = small_with(&[("kind = \"page-mapped\"", &layer)]).unwrap_err();
            assert!(refused.to_string().contains("does not apply"), "{refused}");
        }
    }
}
