//! Card files: what is accepted can be written down again, and built and used as a card.
//!
//! Only small cards are used, so that one input takes no longer than a few milliseconds.

#![no_main]

use flashfit_card::model::CacheOrder;
use flashfit_card::{Card, CardModel, CardRequest, CutMoment, CutOptions};
use flashfit_catalog::Origin;
use libfuzzer_sys::{fuzz_mutator, fuzz_target};

const MOST_PAGES: u64 = 1 << 12;
const MOST_BYTES: u64 = 16 << 20;

fuzz_mutator!(|data: &mut [u8], size: usize, max_size: usize, seed: u32| {
    flashfit_fuzz::mutate(&mut data[..max_size], size, seed)
});

fuzz_target!(|text: &str| {
    let origin = Origin::File("card.toml".into());
    let Ok(model) = CardModel::parse(text, &origin) else { return };
    if let Ok(written) = toml::to_string(&model) {
        let again = CardModel::parse(&written, &origin).expect("a model that was accepted before");
        assert_eq!(again, model);
    }
    let units = u64::from(model.total_blocks());
    let pages = units * u64::from(model.pages_per_block());
    if pages <= MOST_PAGES && units * model.erase_block_bytes() <= MOST_BYTES {
        use_card(&model);
    }
});

/// Fills it twice, so that the translation layer has to reclaim erase blocks, and reads it back.
fn use_card(model: &CardModel) {
    let mut card = Card::new(model);
    let sector = u64::from(model.sector_bytes);
    let capacity = card.description().capacity_bytes;
    for round in 1..=2 {
        for unit in 0..u64::from(model.capacity_blocks()) {
            write(&mut card, unit * model.erase_block_bytes(), model.erase_block_bytes(), round);
        }
    }
    write(&mut card, 0, sector, 3);
    write(&mut card, capacity - sector, sector, 4);
    card.serve(CardRequest::Flush).expect("a card with power");
    let expected = if capacity == sector { 4 } else { 3 };
    assert!(read(&mut card, 0, sector).iter().all(|byte| *byte == expected));
    assert!(read(&mut card, capacity - sector, sector).iter().all(|byte| *byte == 4));
    card.idle_until(card.done_ns() + 1_000_000_000);
    let mut card = reload(card);
    write(&mut card, 0, sector, 5);
    let report = card.power_cut(&CutOptions::honest(1).at(CutMoment::DuringLast));
    assert!(report.is_honest());
    card.power_on().expect("an honest cut breaks nothing");
    let barrier = model.cache.as_ref().is_some_and(|cache| cache.order == CacheOrder::Barrier);
    let first = read(&mut card, 0, sector);
    assert!(barrier || first.iter().all(|byte| *byte == expected || *byte == 5));
    if model.discard.is_some() {
        card.serve(CardRequest::Discard { offset: 0, length: capacity }).expect("within the card");
        assert!(read(&mut card, 0, sector).iter().all(|byte| *byte == 0));
    }
}

/// The card saved, loaded and saved again.
fn reload(card: Card) -> Card {
    let mut saved = Vec::new();
    card.save(&mut saved).expect("memory takes everything");
    let loaded = Card::load(&saved[..]).expect("a card that was just saved");
    let mut again = Vec::new();
    loaded.save(&mut again).expect("memory takes everything");
    assert!(again == saved);
    loaded
}

fn write(card: &mut Card, offset: u64, length: u64, byte: u8) {
    let data = vec![byte; usize::try_from(length).expect("a small card")];
    card.serve(CardRequest::Write { offset, data: &data }).expect("within the card");
}

fn read(card: &mut Card, offset: u64, length: u64) -> Vec<u8> {
    let mut buffer = vec![0xEE; usize::try_from(length).expect("a small card")];
    card.serve(CardRequest::Read { offset, buffer: &mut buffer }).expect("within the card");
    buffer
}
