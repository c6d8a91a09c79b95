//! Requests and their times, the cache, discards, and bounds.

use super::*;
use crate::model::tests::{SMALL, parse, small_but};

const PAGE: usize = 4096;

fn cached() -> Card {
    let cache = ("[discard]", "[cache]\nbytes = \"8KiB\"\n[discard]");
    Card::new(&small_but(&[cache]).unwrap())
}

fn write(card: &mut Card, offset: u64, data: &[u8]) -> u64 {
    card.serve(Request::Write { offset, data }).unwrap()
}

fn read(card: &mut Card, offset: u64, length: usize) -> (u64, Vec<u8>) {
    let mut buffer = vec![0xff; length];
    let time_ns = card.serve(Request::Read { offset, buffer: &mut buffer }).unwrap();
    (time_ns, buffer)
}

#[test]
fn a_request_takes_command_transfer_and_nand_time() {
    let mut card = Card::new(&parse(SMALL).unwrap());
    assert_eq!(read(&mut card, 0, PAGE).0, 10 + 4096);
    assert_eq!(write(&mut card, 0, &[1; PAGE]), 10 + 4096 + 700);
    assert_eq!(write(&mut card, 512, &[2; 512]), 10 + 512 + 50 + 700);
    assert_eq!(read(&mut card, 0, PAGE).0, 10 + 4096 + 50);
    assert_eq!(card.serve(Request::Flush).unwrap(), 10);
    assert_eq!(card.counters().busy_ns, 5 * 10 + 3 * 4096 + 512 + 2 * 700 + 2 * 50);
}

#[test]
fn counters_tell_what_happened_and_reset_forgets_all_but_wear() {
    let mut card = Card::new(&parse(SMALL).unwrap());
    for round in 0..3000_u64 {
        write(&mut card, round * 37 % 256 * 4096, &[1; 512]);
    }
    let counters = card.counters();
    assert_eq!(counters.host_written_bytes, 3000 * 512);
    assert_eq!(counters.host_write_requests, 3000);
    assert!(counters.write_amplification_thousandths.unwrap() >= 8000);
    assert!(counters.garbage_collections > 0 && counters.merge_ns > 0);
    card.reset_counters();
    let reset = card.counters();
    assert_eq!(reset.erases_per_unit, counters.erases_per_unit);
    assert_eq!(
        reset,
        Counters { erases_per_unit: counters.erases_per_unit, ..Counters::default() }
    );
}

#[test]
fn a_cache_gathers_sectors_into_pages() {
    let mut card = cached();
    for sector in 0..8 {
        write(&mut card, sector * 512, &[3; 512]);
    }
    assert_eq!(card.counters().nand_programmed_bytes, 0);
    assert_eq!(read(&mut card, 0, PAGE), (10 + 4096, vec![3; PAGE]));
    assert_eq!(card.serve(Request::Flush).unwrap(), 10 + 700);
    assert_eq!(card.counters().write_amplification_thousandths, Some(1000));
}

#[test]
fn a_cut_loses_what_was_not_flushed() {
    let mut card = cached();
    write(&mut card, 0, &[1; 512]);
    card.serve(Request::Flush).unwrap();
    write(&mut card, 0, &[2; 1024]);
    assert_eq!(read(&mut card, 0, 512).1, [2; 512]);
    card.power_cut();
    assert!(matches!(card.serve(Request::Flush), Err(BlockDevError::Gone(_))));
    card.power_on();
    assert_eq!(read(&mut card, 0, 512).1, [1; 512]);
    assert_eq!(read(&mut card, 512, 512).1, [0; 512]);
}

#[test]
fn a_discard_reads_as_zeros_even_where_it_frees_nothing() {
    let mut card = cached();
    write(&mut card, 0, &[1; 2 * PAGE]);
    card.serve(Request::Flush).unwrap();
    write(&mut card, 512, &[2; 512]);
    card.serve(Request::Discard { offset: 512, length: 7680 }).unwrap();
    let (_, bytes) = read(&mut card, 0, 2 * PAGE);
    assert!(bytes[..512].iter().all(|&byte| byte == 1));
    assert!(bytes[512..].iter().all(|&byte| byte == 0));
    // Of the two pages only the second lay wholly in the range.
    assert_eq!(read(&mut card, 0, 512).0, 10 + 512 + 50);
    assert_eq!(read(&mut card, 4096, 512).0, 10 + 512);
}

#[test]
fn what_lies_outside_is_refused() {
    let mut card = Card::new(&small_but(&[("[discard]\ngranularity = \"4KiB\"", "")]).unwrap());
    for (offset, length) in [(1 << 20, 512), (0, 100), (100, 512), (u64::MAX - 511, 512)] {
        let data = vec![0; length];
        let refused = card.serve(Request::Write { offset, data: &data });
        assert!(matches!(refused, Err(BlockDevError::OutOfBounds { .. })), "{offset}");
    }
    let refused = card.serve(Request::Discard { offset: 0, length: 512 });
    assert!(matches!(refused, Err(BlockDevError::NoDiscard)));
    assert_eq!(card.counters(), Counters::default());
}
