//! Both layers against a plain table: a page is always where its last write went.

use std::collections::HashMap;

use proptest::prelude::*;

use super::new;
use crate::model::tests::small_but;
use crate::nand::Nand;

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
        let (mut layer, mut nand) = (new(&model), Nand::new(&model));
        let mut latest = HashMap::new();
        let mut writes = 0_u64;
        for step in steps {
            match step {
                Step::Write { page, whole } => {
                    layer.write(&mut nand, page, whole);
                    writes += 1;
                    latest.insert(page, writes);
                }
                Step::Run { page, count } => for page in page..(page + count).min(256) {
                    layer.write(&mut nand, page, true);
                    writes += 1;
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
            let found = layer.locate(&nand, page).and_then(|at| nand.stamp(at));
            prop_assert_eq!(found.map(|stamp| stamp.logical_page), latest.get(&page).map(|_| page));
            prop_assert_eq!(found.map(|stamp| stamp.sequence()), latest.get(&page).copied());
        }
    }
}
