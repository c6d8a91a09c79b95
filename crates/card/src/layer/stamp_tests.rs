//! Both layers against a plain table: a page is always where its last write went.

use std::collections::HashMap;

use proptest::prelude::*;

use super::{Layer, PageWrite, TranslationLayer};
use crate::model::tests::small_but;
use crate::nand::Nand;
use crate::nand::contents::{Content, Keep};

#[derive(Debug, Clone)]
enum Step {
    Write { page: u32, whole: bool },
    Run { page: u32, count: u32 },
    Discard { page: u32, count: u32 },
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => (0..256_u32, any::<bool>()).prop_map(|(page, whole)| Step::Write { page, whole }),
        2 => (0..256_u32, 1..40_u32).prop_map(|(page, count)| Step::Run { page, count }),
        1 => (0..256_u32, 1..64_u32).prop_map(|(page, count)| Step::Discard { page, count }),
    ]
}

fn content_of(write: u64) -> Content {
    Content::from_bytes(&write.to_le_bytes().repeat(4096 / 8))
}

fn write(layer: &mut Layer, nand: &mut Nand, logical_page: u32, whole: bool, write: u64) {
    nand.load(content_of(write));
    layer.write(nand, PageWrite { logical_page, whole, request_bytes: 4096 });
    layer.settle(nand);
}

proptest! {
    #[test]
    fn a_page_is_where_its_last_write_went(
        block in any::<bool>(),
        spare in 2..5_u32,
        steps in prop::collection::vec(step(), 1..300),
    ) {
        let kind = format!("kind = \"block-mapped\"\nopen_units = {}", spare - 1);
        let kind = if block { kind.as_str() } else { "kind = \"page-mapped\"" };
        let spare = format!("spare_units = {spare}");
        let changes = [("kind = \"page-mapped\"", kind), ("spare_units = 4", spare.as_str())];
        let model = small_but(&changes).unwrap();
        let (mut layer, mut nand) = (Layer::new(&model), Nand::new(&model, Keep::InMemory));
        let mut latest = HashMap::new();
        let mut writes = 0_u64;
        for step in steps {
            match step {
                Step::Write { page, whole } => {
                    writes += 1;
                    write(&mut layer, &mut nand, page, whole, writes);
                    latest.insert(page, writes);
                }
                Step::Run { page, count } => for page in page..(page + count).min(256) {
                    writes += 1;
                    write(&mut layer, &mut nand, page, true, writes);
                    latest.insert(page, writes);
                },
                Step::Discard { page, count } => {
                    let pages = page..(page + count).min(256);
                    layer.discard(&mut nand, pages.clone());
                    for page in pages {
                        // A layer may keep what it cannot forget.
                        if layer.locate(&nand, page).is_none() {
                            latest.remove(&page);
                        }
                    }
                }
            }
        }
        for page in 0..256 {
            let at = layer.locate(&nand, page);
            let held = at.and_then(|at| nand.logical_page(at));
            prop_assert_eq!(held, latest.get(&page).map(|_| page));
            let content = at.map(|at| nand.content(at));
            prop_assert_eq!(content, latest.get(&page).map(|&write| content_of(write)));
        }
    }
}
