//! Saved cards: what was not saved is refused, and what was is saved as the same bytes again.

#![no_main]

use flashfit_card::Card;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    if let Ok(card) = Card::load(data) {
        let mut again = Vec::new();
        card.save(&mut again).expect("memory takes it");
        assert_eq!(again, data);
    }
});
