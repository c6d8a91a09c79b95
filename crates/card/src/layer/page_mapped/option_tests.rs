//! Compares page-mapped cards with any combination of options, and with the fewest spare blocks
//! allowed, with a plain table.

use std::collections::HashMap;

use proptest::prelude::*;

use super::*;
use crate::model::tests::small_with;
use crate::nand::contents::{PageContent, RetentionPolicy};

/// More than one piece of the map: 1024 entries for a write unit of one page.
const PAGES: u32 = 2048;

#[derive(Debug, Clone)]
enum Step {
    Write { page: u32, whole: bool },
    Run { page: u32, count: u32 },
    Discard { page: u32, count: u32 },
    Idle { pieces: u32 },
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => (0..PAGES, any::<bool>()).prop_map(|(page, whole)| Step::Write { page, whole }),
        4 => (0..PAGES, 1..700_u32).prop_map(|(page, count)| Step::Run { page, count }),
        1 => (0..PAGES, 1..500_u32).prop_map(|(page, count)| Step::Discard { page, count }),
        2 => (1..60_u32).prop_map(|pieces| Step::Idle { pieces }),
    ]
}

#[derive(Debug, Clone)]
struct Options {
    collection: &'static str,
    pslc_units: u32,
    cached: bool,
    wear: bool,
    /// Whether the write unit has two pages.
    wide: bool,
    more_spare: u32,
}

prop_compose! {
    fn options()(
        collection in prop::sample::select(vec!["greedy", "cost-benefit", "fifo"]),
        pslc_units in 0..4_u32,
        cached in any::<bool>(),
        wear in any::<bool>(),
        wide in any::<bool>(),
        more_spare in prop::sample::select(vec![0, 1, 20]),
    ) -> Options {
        Options { collection, pslc_units, cached, wear, wide, more_spare }
    }
}

impl Options {
    fn model(&self) -> CardModel {
        let pslc = format!(
            "[nand.pslc]\nunits = {}\nread_ns = 20\nprogram_ns = 200\nerase_ns = 2000
             endurance_cycles = 9000\n[bus]",
            self.pslc_units
        );
        let layer = format!(
            "map_unit = \"4KiB\"\ncollection = \"{}\"\n{}{}[discard]",
            self.collection,
            if self.cached { "map_cache = \"4KiB\"\n" } else { "" },
            if self.wear { "wear_spread = 2\n" } else { "" },
        );
        let spare = 2 + if self.cached { 3 } else { 0 } + self.more_spare;
        let planes = if self.wide { "erase_unit = \"64KiB\"\nplanes = 2" } else { ERASE_BLOCK };
        small_with(&[
            ("capacity = \"1MiB\"", "capacity = \"8MiB\""),
            (ERASE_BLOCK, planes),
            ("[bus]", if self.pslc_units > 0 { &pslc } else { "[bus]" }),
            ("spare_units = 4", &format!("spare_units = {spare}")),
            ("[discard]", &layer),
        ])
        .unwrap()
    }
}

const ERASE_BLOCK: &str = "erase_unit = \"64KiB\"";

/// A layer with its flash, and the expected content of each page.
struct Stamped {
    layer: PageMapped,
    nand: Nand,
    latest: HashMap<u32, u64>,
    writes: u64,
}

fn content_of(write: u64) -> PageContent {
    PageContent::from_bytes(&write.to_le_bytes())
}

impl Stamped {
    fn write(&mut self, logical_page: u32, whole: bool) {
        self.writes += 1;
        self.latest.insert(logical_page, self.writes);
        self.nand.load(content_of(self.writes));
        let write = PageWrite { logical_page, whole, request_bytes: 4096 };
        self.layer.write(&mut self.nand, write);
    }

    fn play(&mut self, step: &Step) {
        self.nand.begin(self.nand.finished_ns());
        let inside = |page: u32, count: u32| page..(page + count).min(PAGES);
        match *step {
            Step::Write { page, whole } => self.write(page, whole),
            Step::Run { page, count } => {
                inside(page, count).for_each(|page| self.write(page, true));
            }
            Step::Discard { page, count } => {
                self.layer.discard(&mut self.nand, inside(page, count));
                self.latest.retain(|latest, _| !inside(page, count).contains(latest));
            }
            Step::Idle { pieces } => {
                for _ in 0..pieces {
                    self.layer.work_in_background(&mut self.nand);
                }
            }
        }
        self.layer.settle(&mut self.nand);
    }
}

proptest! {
    #[test]
    fn a_page_is_at_its_last_write(
        options in options(),
        steps in prop::collection::vec(step(), 1..60),
    ) {
        let model = options.model();
        let mut stamped = Stamped {
            layer: PageMapped::new(&model),
            nand: Nand::new(&model, RetentionPolicy::InMemory),
            latest: HashMap::new(),
            writes: 0,
        };
        stamped.play(&Step::Run { page: 0, count: PAGES });
        for step in &steps {
            stamped.play(step);
        }
        for page in 0..PAGES {
            let at = stamped.layer.read(&mut stamped.nand, page);
            let content = at.map(|at| stamped.nand.content(at));
            let expected = stamped.latest.get(&page).map(|&write| content_of(write));
            prop_assert_eq!(content, expected, "page {}", page);
        }
    }
}
