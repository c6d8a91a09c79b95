//! Each class causes its damage and nothing else, and reports it.

use super::*;
use crate::card::CardRequest;
use crate::model::tests::small_with;

const PAGE: usize = 4096;

fn card(changes: &[(&str, &str)]) -> Card {
    let mut card = Card::new(&small_with(changes).unwrap());
    card.record_history(2000);
    card
}

fn write(card: &mut Card, page: u64, value: u8) {
    let offset = page * PAGE as u64;
    card.serve(CardRequest::Write { offset, data: &[value; PAGE] }).unwrap();
}

/// The first byte of each page; `None` if it is unreadable.
fn first_bytes(card: &Card, pages: std::ops::Range<u64>) -> Vec<Option<u8>> {
    let byte = |page| {
        let mut buffer = [0; PAGE];
        card.peek(page * PAGE as u64, &mut buffer).ok().map(|()| buffer[0])
    };
    pages.map(byte).collect()
}

fn cut(card: &mut Card, seed: u64, moment: CutMoment, fault: &str) -> CutReport {
    let report = card.power_cut(&CutOptions::honest(seed).at(moment).with(fault.parse().unwrap()));
    assert_eq!(report.seed, seed);
    report
}

/// A card whose last write of several pages was torn at random.
fn torn(changes: &[(&str, &str)], seed: u64, fault: Option<&str>) -> (Card, CutReport) {
    let mut card = card(changes);
    card.serve(CardRequest::Write { offset: 0, data: &[1; 8 * PAGE] }).unwrap();
    card.serve(CardRequest::Write { offset: 0, data: &[2; 8 * PAGE] }).unwrap();
    let mut options = CutOptions::honest(seed).at(CutMoment::DuringLast);
    options.faults.extend(fault.map(|fault| fault.parse::<EnabledFault>().unwrap()));
    let report = card.power_cut(&options);
    (card, report)
}

#[test]
fn a_torn_write_persists_up_to_some_page() {
    let mut lengths = std::collections::BTreeSet::new();
    for seed in 0..60 {
        let (card, report) = torn(&[], seed, None);
        let bytes = first_bytes(&card, 0..8);
        let new = bytes.iter().take_while(|&&byte| byte == Some(2)).count();
        assert!(bytes[new..].iter().all(|&byte| byte == Some(1)), "{bytes:?}");
        assert_eq!(report.count(FaultClass::TornWrite), 8 - new as u64);
        assert!(report.is_honest());
        lengths.insert(new);
    }
    assert!(lengths.len() >= 8, "{lengths:?}");
}

#[test]
fn pages_of_a_write_unit_persist_together_but_dies_independently() {
    let two = [("page = \"4KiB\"", "page = \"8KiB\"\ndies = 2"), ("[discard]", "[discard]\n")];
    let map = ("kind = \"page-mapped\"", "kind = \"page-mapped\"\nmap_unit = \"4KiB\"");
    let mut orders = std::collections::BTreeSet::new();
    for seed in 0..80 {
        let (card, _) = torn(&[two[0], map], seed, None);
        let bytes = first_bytes(&card, 0..8);
        assert!(bytes.chunks(2).all(|pair| pair[0] == pair[1]), "{bytes:?}");
        orders.insert(bytes);
    }
    let gap = |bytes: &Vec<Option<u8>>| bytes.is_sorted_by(|a, b| a >= b);
    assert!(orders.iter().any(|bytes| !gap(bytes)), "{orders:?}");
}

#[test]
fn a_torn_write_can_destroy_neighboring_sectors() {
    let mut card = card(&[]);
    write(&mut card, 0, 1);
    card.serve(CardRequest::Write { offset: 0, data: &[2; 512] }).unwrap();
    let end_ns = card.done_ns();
    let report = cut(&mut card, 1, CutMoment::At(end_ns - 1), "torn-write=1000");
    assert_eq!(report.collateral_sectors, 7);
    assert!(!report.is_honest());
    card.power_on().unwrap();
    assert!(card.serve(CardRequest::Read { offset: 3584, buffer: &mut [0; 512] }).is_err());
}

#[test]
fn a_torn_sector_is_finer_than_a_page() {
    let (card, report) = torn(&[], 3, Some("torn-sector"));
    assert!(report.count(FaultClass::TornSector) > 0 && !report.is_honest());
    let mut bytes = [0; 8 * PAGE];
    card.peek(0, &mut bytes).unwrap();
    let mixed = |page: &[u8]| page.contains(&1) && page.contains(&2);
    assert_eq!(bytes.chunks(PAGE).filter(|page| mixed(page)).count(), 1);
    assert!(bytes.chunks(512).all(|sector| !mixed(sector)));
}

#[test]
fn completed_requests_are_not_torn() {
    let mut card = card(&[]);
    write(&mut card, 0, 1);
    for (fault, reason) in [("torn-sector", "no write"), ("half-merge", "no merge")] {
        let report = cut(&mut card, 1, CutMoment::Now, fault);
        assert!(report.absent[0].reason.contains(reason) && report.happened.is_empty());
        card.power_on().unwrap();
    }
    assert_eq!(first_bytes(&card, 0..1), [Some(1)]);
}

#[test]
fn an_interrupted_upper_page_destroys_its_lower_page() {
    // The fifth page of an erase block is an upper page; its lower page is the second.
    let mut card = card(&[]);
    for page in 0..5 {
        write(&mut card, page, 1);
    }
    card.serve(CardRequest::Flush).unwrap();
    let during = card.done_ns() - 20;
    let report = cut(&mut card, 1, CutMoment::At(during), "paired-page");
    assert_eq!(report.count(FaultClass::PairedPage), 1);
    assert_eq!(first_bytes(&card, 1..4), [None, Some(1), Some(1)]);
}

#[test]
fn lower_pages_and_single_bit_cells_destroy_nothing() {
    for (cell, pages, reason) in [("mlc", 4, "no upper page"), ("slc", 5, "cells of one bit")] {
        let cell = format!("spare_units = 4\ncell = \"{cell}\"");
        let mut card = card(&[("spare_units = 4", &cell)]);
        for page in 0..pages {
            write(&mut card, page, 1);
        }
        let during = card.done_ns() - 20;
        let report = cut(&mut card, 1, CutMoment::At(during), "paired-page");
        assert!(report.absent[0].reason.contains(reason), "{report:?}");
    }
}

#[test]
fn a_rollback_undoes_flushed_data_within_its_time() {
    let mut card = card(&[("program_ns = 700", "program_ns = 100_000_000")]);
    for (page, value) in [(0, 1), (1, 2), (2, 3), (1, 4), (3, 5)] {
        write(&mut card, page, value);
        card.serve(CardRequest::Flush).unwrap();
    }
    let report = cut(&mut card, 1, CutMoment::Now, "rollback=250");
    assert_eq!(report.count(FaultClass::Rollback), 3);
    assert!(!report.is_honest());
    assert_eq!(first_bytes(&card, 0..4), [Some(1), Some(2), Some(0), Some(0)]);
}

#[test]
fn without_history_nothing_is_rolled_back() {
    let mut card = Card::new(&small_with(&[]).unwrap());
    write(&mut card, 0, 1);
    let report = cut(&mut card, 1, CutMoment::Now, "rollback");
    assert!(report.absent[0].reason.contains("history"));
    assert_eq!(first_bytes(&card, 0..1), [Some(1)]);
}

#[test]
fn a_half_merge_leaves_a_block_half_empty() {
    let block = ("kind = \"page-mapped\"", "kind = \"block-mapped\"\nopen_units = 1");
    let mut card = card(&[block]);
    for page in 0..32 {
        write(&mut card, page, 1);
    }
    write(&mut card, 15, 2);
    // Opening another erase block forces a merge of the first.
    write(&mut card, 31, 2);
    let report = cut(&mut card, 1, CutMoment::DuringLast, "half-merge");
    let lost = report.count(FaultClass::HalfMerge);
    assert!(lost > 0 && !report.is_honest(), "{report:?}");
    let bytes = first_bytes(&card, 0..16);
    assert_eq!(bytes.iter().filter(|&&byte| byte == Some(0)).count() as u64, lost);
}

#[test]
fn a_power_cut_soon_after_a_write_can_destroy_a_block_or_the_card() {
    let (mut units, mut cards) = (0, 0);
    for seed in 0..40 {
        let mut card = card(&[]);
        (0..8).for_each(|page| write(&mut card, page, 1));
        card.serve(CardRequest::Flush).unwrap();
        let moment = CutMoment::At(card.done_ns() + 1_500_000_000);
        let report = cut(&mut card, seed, moment, "folding-window=1000");
        units += u64::from(report.count(FaultClass::FoldingWindow) > 0);
        cards += report.count(FaultClass::Brick);
        assert_eq!(card.power_on().is_err(), report.count(FaultClass::Brick) == 1);
        if card.power == Power::On {
            let lost = first_bytes(&card, 0..8).iter().filter(|byte| byte.is_none()).count();
            assert_eq!(lost as u64, report.count(FaultClass::FoldingWindow));
        }
    }
    assert!(units > 20 && cards > 3 && units + cards == 40, "{units} {cards}");
}

#[test]
fn after_the_window_nothing_is_lost() {
    let mut card = card(&[]);
    write(&mut card, 0, 1);
    let moment = CutMoment::At(card.done_ns() + 1_700_000_000);
    let report = cut(&mut card, 1, moment, "folding-window=1000");
    assert!(report.happened.is_empty() && report.absent.len() == 1);
}

#[test]
fn a_weak_page_can_be_read_a_limited_number_of_times() {
    let mut card = card(&[]);
    write(&mut card, 0, 1);
    write(&mut card, 1, 2);
    assert_eq!(cut(&mut card, 1, CutMoment::Now, "weak-page=2").count(FaultClass::WeakPage), 1);
    card.power_on().unwrap();
    let mut read = |offset| card.serve(CardRequest::Read { offset, buffer: &mut [0; 512] }).is_ok();
    assert_eq!([4096, 4096, 4096, 0].map(&mut read), [true, true, false, true]);
    write(&mut card, 1, 3);
    assert_eq!(first_bytes(&card, 0..2), [Some(1), Some(3)]);
}

#[test]
fn discarded_data_returns_old_or_corrupted() {
    let mut card = card(&[("granularity = \"4KiB\"", "granularity = \"8KiB\"")]);
    for value in [1, 2] {
        (0..64).for_each(|page| write(&mut card, page, value));
    }
    // The first and the last page are only marked as zeros.
    card.serve(CardRequest::Discard { offset: 4096, length: 62 * 4096 }).unwrap();
    card.serve(CardRequest::Flush).unwrap();
    assert!(first_bytes(&card, 1..63).iter().all(|&byte| byte == Some(0)));
    let report = cut(&mut card, 1, CutMoment::Now, "stale-discard");
    assert_eq!(report.count(FaultClass::StaleDiscard), 62);
    let bytes = first_bytes(&card, 1..63);
    let of = |value| bytes.iter().filter(|&&byte| byte == Some(value)).count();
    assert!(of(1) > 10 && of(2) > 10 && of(1) + of(2) < 60, "{bytes:?}");
}

#[test]
fn a_bricked_card_never_responds_again() {
    let mut card = card(&[]);
    write(&mut card, 0, 1);
    let report = cut(&mut card, 1, CutMoment::Now, "brick");
    assert_eq!(report.count(FaultClass::Brick), 1);
    assert!(card.power_on().is_err() && card.serve(CardRequest::Flush).is_err());
    assert!(card.peek(0, &mut [0; 512]).is_err());
    let mut bytes = Vec::new();
    card.save(&mut bytes).unwrap();
    assert!(Card::load(&bytes[..]).unwrap().power_on().is_err());
}

#[test]
fn a_fault_does_not_change_the_effects_of_others() {
    let cached = [("[discard]", "[cache]\nbytes = \"64KiB\"\n[discard]")];
    let lost = |fault: &str| {
        let mut card = card(&cached);
        (0..16).for_each(|page| write(&mut card, page, 1));
        cut(&mut card, 9, CutMoment::Now, fault);
        first_bytes(&card, 0..15)
    };
    assert_eq!(lost("weak-page=9"), lost("half-merge"));
}

#[test]
fn a_report_survives_serialization() {
    let (_, report) = torn(&[], 3, Some("half-merge"));
    let json = serde_json::to_string(&report).unwrap();
    assert!(json.contains("\"class\":\"half-merge\""), "{json}");
    assert_eq!(serde_json::from_str::<CutReport>(&json).unwrap(), report);
}
