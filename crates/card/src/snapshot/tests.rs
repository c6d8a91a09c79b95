//! Saved cards load unchanged; damaged and foreign files are rejected.

use super::*;
use crate::card::CardRequest;
use crate::cut::{CutOptions, EnabledFault, FaultClass};
use crate::model::tests::small_with;

/// A card that uses every part of the format.
fn used() -> Card {
    let sections =
        "[cache]\nbytes = \"8KiB\"\n[noise]\nseed = 3\njitter_thousandths = 50\n[discard]";
    let mut card = Card::new(&small_with(&[("[discard]", sections)]).unwrap());
    for round in 0..300_u64 {
        let data = [u8::try_from(round % 7).unwrap(); 5 * 512];
        card.serve(CardRequest::Write { offset: round * 37 % 200 * 4096 + 512, data: &data })
            .unwrap();
    }
    card.serve(CardRequest::Flush).unwrap();
    card.serve(CardRequest::Discard { offset: 1024, length: 40960 }).unwrap();
    card.power_cut(&CutOptions::honest(1).with(EnabledFault::new(FaultClass::WeakPage)));
    card.power_on().unwrap();
    card.nand.contents_mut().replace(9, PageContent::lost(4096));
    card.serve(CardRequest::Write { offset: 0, data: &[9; 1024] }).unwrap();
    card
}

fn saved(card: &Card) -> Vec<u8> {
    let mut bytes = Vec::new();
    card.save(&mut bytes).unwrap();
    bytes
}

#[test]
fn a_loaded_card_continues_like_the_saved_one() {
    let mut card = used();
    let bytes = saved(&card);
    let mut loaded = Card::load(&bytes[..]).unwrap();
    assert_eq!(saved(&loaded), bytes);
    let mut in_file = Card::load_in_file(&bytes[..], tempfile::tempfile().unwrap()).unwrap();
    assert_eq!(saved(&in_file), bytes);
    for card in [&mut card, &mut loaded, &mut in_file] {
        for round in 0..500_u64 {
            let offset = round * 91 % 250 * 4096;
            card.serve(CardRequest::Write { offset, data: &[5; 4096] }).unwrap();
        }
    }
    assert_eq!(saved(&loaded), saved(&card));
    assert_eq!(saved(&in_file), saved(&card));
}

#[test]
fn a_truncated_or_changed_file_is_rejected() {
    let bytes = saved(&used());
    for length in (16..bytes.len()).step_by(bytes.len() / 23) {
        let refused = Card::load(&bytes[..length]).unwrap_err();
        assert!(matches!(refused, SnapshotError::Truncated), "{length}: {refused}");
    }
    for at in (28..bytes.len()).step_by(bytes.len() / 29) {
        let mut changed = bytes.clone();
        changed[at] ^= 4;
        assert!(Card::load(&changed[..]).is_err(), "{at}");
    }
    let mut longer = bytes;
    longer.push(0);
    assert!(matches!(Card::load(&longer[..]).unwrap_err(), SnapshotError::Damaged(_)));
}

#[test]
fn a_card_saved_in_version_2_is_still_loaded() {
    // Saved by flashfit before the checksum was a CRC-32.
    let old: &[u8] = include_bytes!("../../tests/corpus/saved-2.card");
    let card = Card::load(old).unwrap();
    assert_eq!(card.counters().host_written_bytes, 13 * 1024);
    let again = saved(&card);
    assert_eq!(again[16], 3);
    assert_eq!(again[20..again.len() - 8], old[20..old.len() - 8]);
    assert_eq!(saved(&Card::load(&again[..]).unwrap()), again);
    let mut damaged = old.to_vec();
    damaged[9000] ^= 1;
    assert!(matches!(Card::load(&damaged[..]).unwrap_err(), SnapshotError::Damaged(_)));
}

#[test]
fn foreign_files_and_other_versions_are_distinguished() {
    for foreign in [&b""[..], b"capacity = 7", &[0; 4096]] {
        assert!(matches!(Card::load(foreign).unwrap_err(), SnapshotError::Foreign));
    }
    let mut bytes = saved(&used());
    bytes[16] = 77;
    let refused = Card::load(&bytes[..]).unwrap_err();
    assert!(refused.to_string().contains("version 77"), "{refused}");
}

#[test]
fn saving_replaces_a_file_atomically_and_errors_name_it() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("card");
    let card = used();
    card.save_to(&path).unwrap();
    card.save_to(&path).unwrap();
    assert_eq!(saved(&Card::load_from(&path).unwrap()), saved(&card));
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
    let nowhere = folder.path().join("no/card");
    for error in [card.save_to(&nowhere).unwrap_err(), Card::load_from(&nowhere).unwrap_err()] {
        assert!(error.to_string().contains("no/card: "), "{error}");
    }
}

/// What follows from the model is not in the file.
#[test]
fn a_loaded_card_closes_open_blocks_as_before() {
    let layer = "kind = \"block-mapped\"\nopen_units = 2\nreplacement = \"random\"\nclose_ns = 700";
    let changes = [("kind = \"page-mapped\"", layer), ("units = 4", "units = 6")];
    let mut card = Card::new(&small_with(&changes).unwrap());
    let mut loaded = Card::load(&saved(&card)[..]).unwrap();
    for at in 0..60 {
        let offset = at * 7 % 5 * 65536 + at / 5 * 4096;
        for card in [&mut card, &mut loaded] {
            card.serve(CardRequest::Write { offset, data: &[1; 4096] }).unwrap();
        }
        assert_eq!(card.counters(), loaded.counters(), "{at}");
    }
    assert!(card.evictions() > 10);
}
