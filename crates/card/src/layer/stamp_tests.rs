//! Compares every layer with a plain table: a page is at its last write, and unwritten or discarded
//! pages are unmapped.

use std::collections::HashMap;

use proptest::prelude::*;

use super::{Layer, PageWrite, TranslationLayer};
use crate::model::tests::small_with;
use crate::nand::Nand;
use crate::nand::contents::{PageContent, RetentionPolicy};

const PAGES: u32 = 256;
const PAGE_BYTES: u64 = 4096;

/// Each kind of layer with each of its options, with the fewest spare blocks allowed.
const LAYERS: [(&str, u32); 16] = [
    ("page-mapped", 2),
    ("page-mapped\"\ncollection = \"cost-benefit", 3),
    ("page-mapped\"\ncollection = \"fifo\"\nmap_unit = \"1KiB\"\nwear_spread = 4 #", 4),
    ("block-mapped\"\nopen_units = 1 #", 2),
    ("block-mapped\"\nopen_units = 3 #", 4),
    ("block-mapped\"\nopen_units = 3\nopen_units_random = 0 #", 4),
    ("block-mapped\"\nopen_units = 3\nopen_units_random = 1\nscratch = true #", 5),
    ("block-mapped\"\nopen_units = 1\nopen_units_random = 0\nscratch = true #", 3),
    ("log-block\"\nopen_units = 1\nlog_units = 1\nlog_request = \"4KiB", 4),
    ("log-block\"\nopen_units = 2\nlog_units = 2\nlog_request = \"8KiB\"\nscratch = true #", 7),
    ("log-block\"\nopen_units = 2\nopen_units_random = 0\nlog_units = 1\nlog_request = \"4KiB", 5),
    ("log-block\"\nopen_units = 3\nopen_units_random = 1\nlog_units = 1\nlog_request = \"4KiB", 6),
    ("update-log\"\nopen_units = 1\nlog_units = 1\nlog_request = \"4KiB", 5),
    ("update-log\"\nopen_units = 3\nlog_units = 2\nlog_request = \"8KiB", 8),
    ("update-log\"\nopen_units = 2\nlog_units = 1\nlog_request = \"4KiB\"\nchunk = \"32KiB", 6),
    ("update-log\"\nopen_units = 2\nlog_units = 1\nlog_request = \"4KiB\"\nchunk = \"64KiB", 6),
];

#[derive(Debug, Clone)]
enum Step {
    Write { page: u32, whole: bool },
    Parts { page: u32, count: u32 },
    Run { page: u32, count: u32 },
    Discard { page: u32, count: u32 },
    Idle,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => (0..PAGES, any::<bool>()).prop_map(|(page, whole)| Step::Write { page, whole }),
        2 => (0..PAGES, 1..20_u32).prop_map(|(page, count)| Step::Parts { page, count }),
        3 => (0..PAGES, 1..40_u32).prop_map(|(page, count)| Step::Run { page, count }),
        1 => (0..PAGES, 1..64_u32).prop_map(|(page, count)| Step::Discard { page, count }),
        1 => Just(Step::Idle),
    ]
}

/// A layer with its flash, and the expected content of each page.
struct Stamped {
    layer: Layer,
    nand: Nand,
    /// The number of the last write of each page.
    latest: HashMap<u32, u64>,
    writes: u64,
}

fn content_of(write: u64) -> PageContent {
    PageContent::from_bytes(&write.to_le_bytes().repeat(1024 / 8))
}

impl Stamped {
    fn new(kind: &str, spare: u32, zone: bool) -> Self {
        let kind = format!("kind = \"{kind}\"");
        let zone_spare = if zone { 2 } else { 0 };
        let spare = format!("spare_units = {}", spare + zone_spare);
        let zone = if zone { "[zone]\nunits = 3\nspare_units = 2\n[discard]" } else { "[discard]" };
        let changes = [
            ("[discard]", zone),
            ("kind = \"page-mapped\"", kind.as_str()),
            ("spare_units = 4", spare.as_str()),
        ];
        let model = small_with(&changes).unwrap();
        Self {
            layer: Layer::new(&model),
            nand: Nand::new(&model, RetentionPolicy::InMemory),
            latest: HashMap::new(),
            writes: 0,
        }
    }

    fn write(&mut self, page: u32, whole: bool, request_bytes: u64) {
        self.writes += 1;
        self.latest.insert(page, self.writes);
        self.nand.load(content_of(self.writes));
        self.layer.write(&mut self.nand, PageWrite { logical_page: page, whole, request_bytes });
    }

    fn play(&mut self, step: &Step) {
        self.nand.begin(self.nand.finished_ns());
        match *step {
            Step::Write { page, whole } => self.write(page, whole, PAGE_BYTES),
            Step::Parts { page, count } => {
                // Four parts per page, each a separate request.
                for part in page * 4..(page * 4 + count).min(PAGES * 4) {
                    self.write(part / 4, false, PAGE_BYTES / 4);
                    self.layer.settle(&mut self.nand);
                }
            }
            Step::Run { page, count } => {
                for page in page..(page + count).min(PAGES) {
                    self.write(page, true, u64::from(count) * PAGE_BYTES);
                }
            }
            Step::Discard { page, count } => {
                let pages = page..(page + count).min(PAGES);
                self.layer.discard(&mut self.nand, pages.clone());
                for page in pages {
                    // A layer may keep what it cannot unmap.
                    if self.layer.locate(&self.nand, page).is_none() {
                        self.latest.remove(&page);
                    }
                }
            }
            Step::Idle => {
                self.layer.work_in_background(&mut self.nand);
            }
        }
        self.layer.settle(&mut self.nand);
    }

    fn check(&self) {
        for page in 0..PAGES {
            let at = self.layer.locate(&self.nand, page);
            let stored = at.and_then(|at| self.nand.logical_page(at));
            let write = self.latest.get(&page);
            assert_eq!(stored, write.map(|_| page));
            let content = at.map(|at| self.nand.content(at));
            assert_eq!(content, write.map(|&write| content_of(write)), "page {page}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn a_page_is_at_its_last_write(
        kind in 0..LAYERS.len(),
        more_spare in 0..3_u32,
        zone in any::<bool>(),
        steps in prop::collection::vec(step(), 1..300),
    ) {
        let (kind, spare) = LAYERS[kind];
        let mut stamped = Stamped::new(kind, spare + more_spare, zone);
        for step in &steps {
            stamped.play(step);
        }
        stamped.check();
    }
}

/// The time of reading a page.
fn read_ns(stamped: &mut Stamped, page: u32) -> u64 {
    let start_ns = stamped.nand.finished_ns();
    stamped.nand.begin(start_ns);
    stamped.layer.read(&mut stamped.nand, page);
    stamped.nand.finished_ns() - start_ns
}

#[test]
fn unwritten_and_discarded_pages_take_no_time_to_read() {
    for (kind, spare) in LAYERS {
        for zone in [false, true] {
            let mut stamped = Stamped::new(kind, spare, zone);
            assert_eq!(read_ns(&mut stamped, 5), 0, "{kind}");
            for first in (0..PAGES).step_by(8) {
                stamped.play(&Step::Run { page: first, count: 8 });
            }
            assert!(read_ns(&mut stamped, 5) >= 50, "{kind}");
            stamped.play(&Step::Discard { page: 0, count: PAGES });
            assert_eq!(read_ns(&mut stamped, 5), 0, "{kind}");
            // Rewriting a page must not affect its neighbors.
            stamped.play(&Step::Write { page: 5, whole: true });
            stamped.play(&Step::Run { page: 64, count: 64 });
            assert!(read_ns(&mut stamped, 5) >= 50, "{kind}");
            assert_eq!(read_ns(&mut stamped, 4), 0, "{kind}");
            stamped.check();
        }
    }
}
