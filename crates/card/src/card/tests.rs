//! Requests and their times, the cache, discards, and bounds.

use super::*;
use crate::cut::{CutOptions, EnabledFault, FaultClass};
use crate::model::tests::{SMALL, parse, small_with};

const PAGE: usize = 4096;

fn cached() -> Card {
    let cache = ("[discard]", "[cache]\nbytes = \"8KiB\"\n[discard]");
    Card::new(&small_with(&[cache]).unwrap())
}

fn write(card: &mut Card, offset: u64, data: &[u8]) -> u64 {
    card.serve(CardRequest::Write { offset, data }).unwrap()
}

fn read(card: &mut Card, offset: u64, length: usize) -> (u64, Vec<u8>) {
    let mut buffer = vec![0xff; length];
    let time_ns = card.serve(CardRequest::Read { offset, buffer: &mut buffer }).unwrap();
    (time_ns, buffer)
}

#[test]
fn a_request_takes_command_transfer_and_nand_time() {
    let mut card = Card::new(&parse(SMALL).unwrap());
    assert_eq!(read(&mut card, 0, PAGE).0, 10 + 4096);
    assert_eq!(write(&mut card, 0, &[1; PAGE]), 10 + 4096 + 700);
    assert_eq!(write(&mut card, 512, &[2; 512]), 10 + 512 + 50 + 700);
    assert_eq!(read(&mut card, 0, PAGE).0, 10 + 4096 + 50);
    assert_eq!(card.serve(CardRequest::Flush).unwrap(), 10);
    assert_eq!(card.counters().busy_ns, 5 * 10 + 3 * 4096 + 512 + 2 * 700 + 2 * 50);
}

#[test]
fn a_read_across_an_erase_block_boundary_costs_a_lookup() {
    let layer = ("kind = \"page-mapped\"", "kind = \"page-mapped\"\nlookup_ns = 30");
    let mut card = Card::new(&small_with(&[layer]).unwrap());
    let unit = 64 << 10;
    assert_eq!(read(&mut card, unit, PAGE).0, 10 + 4096);
    assert_eq!(read(&mut card, unit - 512, 1024).0, 10 + 1024 + 30);
    assert_eq!(read(&mut card, unit - 512, 1024 + 64 * 1024).0, 10 + 65 * 1024 + 2 * 30);
    write(&mut card, unit - 4096, &[1; 2 * PAGE]);
    assert_eq!(read(&mut card, unit - 512, 1024).0, 10 + 1024 + 2 * 50 + 30);
}

#[test]
fn an_out_of_order_write_costs_a_jump_and_another_erase_block_a_switch() {
    let layer = ("kind = \"page-mapped\"", "kind = \"page-mapped\"\njump_ns = 30\nswitch_ns = 200");
    let mut card = Card::new(&small_with(&[layer]).unwrap());
    let plain = 10 + 4096 + 700;
    let (unit, page) = (64 << 10, 4096);
    assert_eq!(write(&mut card, 0, &[1; PAGE]), plain);
    assert_eq!(write(&mut card, page, &[1; PAGE]), plain);
    assert_eq!(write(&mut card, 5 * page, &[1; PAGE]), plain + 30);
    assert_eq!(write(&mut card, unit, &[1; PAGE]), plain + 200);
    // Each erase block is continued where its last write ended.
    assert_eq!(write(&mut card, 6 * page, &[1; PAGE]), plain + 200);
    assert_eq!(write(&mut card, unit + page, &[1; PAGE]), plain + 200);
    assert_eq!(write(&mut card, unit, &[1; PAGE]), plain);
    assert_eq!(write(&mut card, 2 * page, &[1; PAGE]), plain + 30 + 200);
}

#[test]
fn an_undeclared_buffer_collects_a_page_written_in_parts() {
    let cache = ("[discard]", "[cache]\nbytes = \"4KiB\"\nundeclared = true\n[discard]");
    let mut card = Card::new(&small_with(&[cache]).unwrap());
    assert!(!card.description().volatile_cache);
    for part in 0..7 {
        assert_eq!(write(&mut card, part * 512, &[part as u8; 512]), 10 + 512);
    }
    assert_eq!(read(&mut card, 3 * 512, 512).1, [3; 512]);
    assert_eq!(write(&mut card, 7 * 512, &[7; 512]), 10 + 512 + 700);
    // A non-consecutive write flushes the partial page in the buffer.
    write(&mut card, 8192, &[8; 512]);
    let before = card.counters().nand_programmed_bytes;
    write(&mut card, 16384, &[9; PAGE]);
    assert_eq!(card.counters().nand_programmed_bytes - before, 2 * 4096);
    assert_eq!(read(&mut card, 8192, 512).1, [8; 512]);
    assert_eq!(read(&mut card, 7 * 512, 512).1, [7; 512]);
    let other = ("[discard]", "[cache]\nbytes = \"8KiB\"\nundeclared = true\n[discard]");
    assert!(small_with(&[other]).unwrap_err().to_string().contains("cache.bytes"));
}

#[test]
fn counters_are_correct_and_a_reset_clears_all_but_wear() {
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
fn a_cache_collects_sectors_into_pages() {
    let mut card = cached();
    for sector in 0..8 {
        write(&mut card, sector * 512, &[3; 512]);
    }
    assert_eq!(card.counters().nand_programmed_bytes, 0);
    assert_eq!(read(&mut card, 0, PAGE), (10 + 4096, vec![3; PAGE]));
    assert_eq!(card.serve(CardRequest::Flush).unwrap(), 10 + 700);
    assert_eq!(card.counters().write_amplification_thousandths, Some(1000));
}

#[test]
fn a_power_cut_loses_unflushed_data() {
    let mut card = cached();
    write(&mut card, 0, &[1; 512]);
    card.serve(CardRequest::Flush).unwrap();
    write(&mut card, 0, &[2; 1024]);
    assert_eq!(read(&mut card, 0, 512).1, [2; 512]);
    let nothing_kept = EnabledFault { class: FaultClass::LostCache, value: Some(0) };
    let report = card.power_cut(&CutOptions::honest(1).with(nothing_kept));
    assert_eq!((report.count(FaultClass::LostCache), report.lost_cache_bytes), (1, 1024));
    assert!(report.is_honest());
    assert!(matches!(card.serve(CardRequest::Flush), Err(BlockDevError::Disconnected(_))));
    card.power_on().unwrap();
    assert_eq!(read(&mut card, 0, 512).1, [1; 512]);
    assert_eq!(read(&mut card, 512, 512).1, [0; 512]);
}

#[test]
fn a_discarded_range_reads_as_zeros_even_if_nothing_is_freed() {
    let mut card = cached();
    write(&mut card, 0, &[1; 2 * PAGE]);
    card.serve(CardRequest::Flush).unwrap();
    write(&mut card, 512, &[2; 512]);
    card.serve(CardRequest::Discard { offset: 512, length: 7680 }).unwrap();
    let (_, bytes) = read(&mut card, 0, 2 * PAGE);
    assert!(bytes[..512].iter().all(|&byte| byte == 1));
    assert!(bytes[512..].iter().all(|&byte| byte == 0));
    // Only the second of the two pages lies completely in the range.
    assert_eq!(read(&mut card, 0, 512).0, 10 + 512 + 50);
    assert_eq!(read(&mut card, 4096, 512).0, 10 + 512);
}

#[test]
fn requests_out_of_bounds_are_refused() {
    let mut card = Card::new(&small_with(&[("[discard]\ngranularity = \"4KiB\"", "")]).unwrap());
    for (offset, length) in [(1 << 20, 512), (0, 100), (100, 512), (u64::MAX - 511, 512)] {
        let data = vec![0; length];
        let refused = card.serve(CardRequest::Write { offset, data: &data });
        assert!(matches!(refused, Err(BlockDevError::OutOfBounds { .. })), "{offset}");
    }
    let refused = card.serve(CardRequest::Discard { offset: 0, length: 512 });
    assert!(matches!(refused, Err(BlockDevError::NoDiscard)));
    assert_eq!(card.counters(), Counters::default());
}

#[test]
fn adjacent_dirty_pages_reach_the_layer_as_one_request() {
    let model = small_with(&[
        ("kind = \"page-mapped\"", "kind = \"block-mapped\"\nopen_units = 3"),
        ("[discard]", "[cache]\nbytes = \"64KiB\"\n[discard]"),
    ]);
    let mut card = Card::new(&model.unwrap());
    for page in (0..16).rev() {
        write(&mut card, page * 4096, &[1; PAGE]);
    }
    card.serve(CardRequest::Flush).unwrap();
    // Written backwards, but written back as one run in order: nothing is copied.
    assert_eq!(card.counters().merges, crate::Merges { switch: 1, ..Default::default() });
}

#[test]
fn a_cache_is_written_back_in_idle_time_and_a_flush_has_its_own_cost() {
    let sections = "[cache]\nbytes = \"8KiB\"\nflush_ns = 90\n[background]\nafter_ns = 1000\n";
    let mut card =
        Card::new(&small_with(&[("[discard]", &format!("{sections}[discard]"))]).unwrap());
    write(&mut card, 0, &[1; PAGE]);
    let done_ns = card.done_ns();
    card.idle_until(done_ns + 999);
    assert_eq!(card.counters().background_ns, 0);
    card.idle_until(done_ns + 1000);
    assert_eq!(card.counters().background_ns, 700);
    assert_eq!(card.serve(CardRequest::Flush).unwrap(), 10 + 90);
}

#[test]
fn a_barrier_flush_does_not_wait_for_the_flash() {
    let section = "[cache]\nbytes = \"8KiB\"\norder = \"barrier\"\n[discard]";
    let mut card = Card::new(&small_with(&[("[discard]", section)]).unwrap());
    write(&mut card, 0, &[1; PAGE]);
    assert_eq!(card.serve(CardRequest::Flush).unwrap(), 10);
    assert_eq!(card.counters().nand_programmed_bytes, 0);
    let report = card.power_cut(&CutOptions::honest(0).with("lost-cache=0".parse().unwrap()));
    assert_eq!(report.flushed_entries_lost, 1);
}

#[test]
fn noise_only_changes_times() {
    let noise = "[noise]\nseed = 5\njitter_thousandths = 100\nstall_every = 10\nstall_ns = 5000\n";
    let noisy = small_with(&[("[discard]", &format!("{noise}[discard]"))]).unwrap();
    let (mut calm, mut noisy) = (Card::new(&parse(SMALL).unwrap()), Card::new(&noisy));
    for round in 0..300 {
        for card in [&mut calm, &mut noisy] {
            write(card, round * 37 % 256 * 4096, &[1; 512]);
        }
    }
    let (calm, noisy) = (calm.counters(), noisy.counters());
    assert!((10..60).contains(&noisy.stalls), "{}", noisy.stalls);
    let stalled_ns = noisy.stalls * 5000;
    assert!(noisy.busy_ns > calm.busy_ns + stalled_ns);
    assert!(noisy.busy_ns < calm.busy_ns * 11 / 10 + stalled_ns);
    assert_eq!(Counters { busy_ns: calm.busy_ns, stalls: 0, ..noisy }, calm);
}

#[test]
fn unreadable_data_is_an_error_until_it_is_rewritten() {
    let mut card = cached();
    write(&mut card, 0, &[1; PAGE]);
    card.serve(CardRequest::Flush).unwrap();
    let page = card.layer.locate(&card.nand, 0).unwrap();
    card.nand.contents_mut().replace(page, crate::nand::contents::PageContent::lost(4096));
    let error = card.serve(CardRequest::Read { offset: 512, buffer: &mut [0; 512] }).unwrap_err();
    assert!(matches!(error, BlockDevError::Io { offset: 512, .. }), "{error}");
    write(&mut card, 0, &[2; 512]);
    // Served from the cache over the damaged page, and from the NAND.
    for _ in 0..2 {
        assert_eq!(read(&mut card, 0, 512).1, [2; 512]);
        assert!(card.serve(CardRequest::Read { offset: 0, buffer: &mut [0; PAGE] }).is_err());
        card.serve(CardRequest::Flush).unwrap();
    }
    card.serve(CardRequest::Discard { offset: 512, length: 3584 }).unwrap();
    assert_eq!(read(&mut card, 0, PAGE).1[511..514], [2, 0, 0]);
}

#[test]
fn a_full_disk_is_an_error_of_the_card() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let only_read = File::open(file.path()).unwrap();
    let mut card = Card::in_file(&parse(SMALL).unwrap(), only_read);
    let error = card.serve(CardRequest::Write { offset: 0, data: &[1; PAGE] }).unwrap_err();
    assert!(matches!(error, BlockDevError::Io { length: 4096, .. }), "{error}");
    card.serve(CardRequest::Write { offset: 4096, data: &[0; PAGE] }).unwrap();
}

#[test]
fn an_image_equals_what_a_host_reads() {
    let mut card = cached();
    write(&mut card, 4096, &[1; PAGE]);
    write(&mut card, 1 << 19, &[2; 512]);
    let counters = card.counters();
    let image = tempfile::tempfile().unwrap();
    assert_eq!(card.write_image(&image).unwrap(), 0);
    assert_eq!(card.counters(), counters);
    let mut bytes = vec![7; 1 << 20];
    std::os::unix::fs::FileExt::read_exact_at(&image, &mut bytes, 0).unwrap();
    assert!(bytes == read(&mut card, 0, 1 << 20).1);
    let mut peeked = [0; 1024];
    card.peek(1 << 19, &mut peeked).unwrap();
    assert_eq!(peeked, bytes[1 << 19..(1 << 19) + 1024]);
    assert!(card.peek(1 << 20, &mut [0; 512]).is_err());
}

#[test]
fn queued_reads_overlap_in_the_dies() {
    let time = |depth: &str| {
        let queue = format!("dies = 2\n[queue]\ndepth = {depth}\n[bus]");
        let mut card = Card::new(&small_with(&[("[bus]", queue.as_str())]).unwrap());
        write(&mut card, 0, &[1; 2 * PAGE]);
        let begin_ns = card.done_ns();
        for offset in [0, PAGE as u64] {
            card.submit(begin_ns, CardRequest::Read { offset, buffer: &mut [0; 512] }).unwrap();
        }
        card.done_ns() - begin_ns
    };
    let (single, queued) = (time("1"), time("32"));
    let read_ns = 50;
    assert!(queued + read_ns / 2 < single, "{queued} beside {single}");
}

#[test]
fn a_full_cache_is_written_back_one_write_unit_at_a_time() {
    let model = small_with(&[
        ("page = \"4KiB\"", "page = \"8KiB\"\nplanes = 2"),
        ("[discard]", "map_unit = \"4KiB\"\n[cache]\nbytes = \"16KiB\"\n[discard]"),
    ]);
    let mut card = Card::new(&model.unwrap());
    for number in 0..8 {
        write(&mut card, number * 3 * PAGE as u64, &[1; PAGE]);
    }
    assert_eq!(card.counters().nand_programmed_bytes, 16 << 10);
}
