//! Cards whose erase blocks fail: every translation layer goes on with spare blocks, keeps all
//! data, and ends read-only.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use flashfit_card::{Card, CardModel, CardRequest};
use flashfit_catalog::Origin;
use flashfit_device::BlockDevError;
use flashfit_device::random::Random;

const PAGE: usize = 4096;
const PAGES: u64 = 256;
/// More than an erase block.
const PAGES_MAX: u64 = 20;

const LAYERS: [(&str, &str); 8] = [
    ("cached", "kind = \"page-mapped\"\n[cache]\nbytes = \"32KiB\""),
    ("map cache", "kind = \"page-mapped\"\nmap_cache = \"4KiB\""),
    ("page-mapped", "kind = \"page-mapped\""),
    ("page-mapped, even wear", "kind = \"page-mapped\"\nwear_spread = 8"),
    ("block-mapped", "kind = \"block-mapped\"\nopen_units = 3"),
    ("log-block", "kind = \"log-block\"\nopen_units = 2\nlog_units = 2\nlog_request = \"4KiB\""),
    ("update-log", "kind = \"update-log\"\nopen_units = 2\nlog_units = 1\nlog_request = \"4KiB\""),
    ("zone", "kind = \"block-mapped\"\nopen_units = 2\n[zone]\nunits = 2\nspare_units = 2"),
];

fn model(layer: &str) -> CardModel {
    let text = format!(
        "name = \"small\"\ntitle = \"a card for tests\"\nsource = \"none\"\ncapacity = \"1MiB\"\n\
         sector_bytes = 4096\n[nand]\npage = \"4KiB\"\nerase_unit = \"64KiB\"\nread_ns = 50\n\
         program_ns = 700\nerase_ns = 3000\nendurance_cycles = 60\nspare_units = 12\n\
         [nand.wear_out]\nspread_thousandths = 150\nearly_thousandths = 50\n\
         [bus]\ncommand_ns = 10\nbytes_per_second = 1_000_000_000\n[layer]\n{layer}\n"
    );
    CardModel::parse(&text, &Origin::BuiltIn("a test".to_owned())).unwrap()
}

/// Writes up to `pages_max` pages at a time until the card refuses; returns the number of writes
/// and what it must contain.
fn wear_out(card: &mut Card, random: &mut Random, contents: &mut [u8], pages_max: u64) -> u64 {
    for count in 0..1_000_000_u64 {
        // Half of the writes go to an eighth of the card.
        let page = if random.below(2) == 0 { random.below(PAGES / 8) } else { random.below(PAGES) };
        let pages = if pages_max == 1 { 1 } else { 1 + random.below(pages_max) };
        let pages = pages.min(PAGES - page) as usize;
        let data = [count.to_le_bytes()[0] | 1; PAGE * PAGES_MAX as usize];
        let data = &data[..PAGE * pages];
        match card.serve(CardRequest::Write { offset: page * PAGE as u64, data }) {
            Ok(_) => contents[page as usize..][..pages].fill(data[0]),
            Err(BlockDevError::WornOut) => return count,
            Err(other) => panic!("{other}"),
        }
    }
    panic!("the card never wears out")
}

fn assert_contents(card: &mut Card, contents: &[u8], name: &str) {
    let mut buffer = [0; PAGE];
    for (page, &byte) in (0_u64..).zip(contents) {
        card.serve(CardRequest::Read { offset: page * PAGE as u64, buffer: &mut buffer }).unwrap();
        assert!(buffer.iter().all(|&found| found == byte), "{name}: page {page}");
    }
}

#[test]
fn every_layer_ends_read_only_with_all_data() {
    for (name, layer) in LAYERS {
        for seed in 0..10 {
            for pages_max in [1, PAGES_MAX] {
                end_read_only(name, &model(layer), seed, pages_max);
            }
        }
    }
}

fn end_read_only(name: &str, model: &CardModel, seed: u64, pages_max: u64) {
    let mut card = Card::new(model);
    let before = card.spare_blocks().unwrap();
    assert!(before.retired == 0 && !before.worn_out, "{name}");
    let mut contents = vec![0; PAGES as usize];
    let writes = wear_out(&mut card, &mut Random::new(seed), &mut contents, pages_max);
    let after = card.spare_blocks().unwrap();
    assert!(after.worn_out && writes > 100, "{name}: {after:?} after {writes}");
    assert_eq!(after.retired + after.left, before.left, "{name}");
    if !name.contains("zone") {
        assert_eq!(after.left, 0, "{name}");
    }
    assert_contents(&mut card, &contents, name);
    card.serve(CardRequest::Flush).unwrap();
    let write = CardRequest::Write { offset: 0, data: &[1; PAGE] };
    assert!(matches!(card.serve(write), Err(BlockDevError::WornOut)), "{name}");
}

#[test]
fn a_saved_card_fails_at_the_same_write() {
    let model = model(LAYERS[0].1);
    let (mut card, mut random) = (Card::new(&model), Random::new(7));
    let mut contents = vec![0; PAGES as usize];
    for _ in 0..2000 {
        let page = random.below(PAGES);
        let write = CardRequest::Write { offset: page * PAGE as u64, data: &[9; PAGE] };
        card.serve(write).unwrap();
        contents[page as usize] = 9;
    }
    let mut saved = Vec::new();
    card.save(&mut saved).unwrap();
    let mut loaded = Card::load(&saved[..]).unwrap();
    assert_eq!(card.spare_blocks(), loaded.spare_blocks());
    let mut copy = contents.clone();
    let first = wear_out(&mut card, &mut Random::new(3), &mut contents, 1);
    let second = wear_out(&mut loaded, &mut Random::new(3), &mut copy, 1);
    assert_eq!((first, card.spare_blocks()), (second, loaded.spare_blocks()));
    saved.clear();
    loaded.save(&mut saved).unwrap();
    assert!(Card::load(&saved[..]).unwrap().spare_blocks().unwrap().worn_out);
}

/// A failed block can be in use while spare blocks are left, or after the last one is used up.
#[test]
fn a_saved_card_has_the_same_spare_blocks_at_every_age() {
    for (name, layer) in LAYERS {
        let mut card = Card::new(&model(layer));
        let mut random = Random::new(11);
        let mut saved = Vec::new();
        for count in 0_u32.. {
            let page = random.below(PAGES);
            let write = CardRequest::Write { offset: page * PAGE as u64, data: &[5; PAGE] };
            let is_worn_out = card.serve(write).is_err();
            if count % 7 == 0 || is_worn_out {
                saved.clear();
                card.save(&mut saved).unwrap();
                let loaded = Card::load(&saved[..]).unwrap();
                assert_eq!(card.spare_blocks(), loaded.spare_blocks(), "{name}, write {count}");
            }
            if is_worn_out {
                break;
            }
        }
    }
}

#[test]
fn without_the_section_blocks_never_fail() {
    let text = model(LAYERS[0].1);
    let mut without = text.clone();
    without.nand.wear_out = None;
    assert_eq!(Card::new(&without).spare_blocks(), None);
    assert!(Card::new(&text).spare_blocks().is_some());
}
