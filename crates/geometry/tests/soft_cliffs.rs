//! The writing probe on cards that close any of their open erase blocks for another.

use flashfit_card::model::Replacement;
use flashfit_card::{Card, InProcessCard, catalog};
use flashfit_device::VirtualClock;
use flashfit_geometry::probed::{NoObserver, Probed};
use flashfit_geometry::writing::{self, WritingOptions};

fn probe(name: &str, open: u32, seed: u64) -> Probed {
    let mut model = catalog::load(name, None).expect("a card of the catalog");
    model.layer.open_erase_blocks = Some(open);
    model.layer.open_erase_blocks_random = None;
    model.layer.replacement = Replacement::Random;
    model.nand.spare_units = 30;
    let clock = VirtualClock::default();
    let mut device = InProcessCard::new(Card::counting(&model), clock.clone());
    let options = WritingOptions {
        check_capacity: false,
        compressible: true,
        ..WritingOptions::whole(model.capacity.0, seed)
    };
    writing::probe(&mut device, &clock, &options, None, &mut NoObserver).expect("it works")
}

/// Which one is closed is random, so the number that shows is often two less.
#[test]
fn no_number_of_open_erase_blocks_is_made_from_a_soft_cliff() {
    for name in ["sd-c4-block", "usb-cheap", "sd-c10-log"] {
        for open in [6, 8] {
            for seed in 1..4 {
                let probed = probe(name, open, seed);
                let found = &probed.findings.open_erase_blocks_linear;
                assert_eq!(found.value, None, "{name}, {open}, {seed}: {found:?}");
            }
        }
    }
}
