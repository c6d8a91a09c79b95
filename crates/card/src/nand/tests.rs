//! Costs of operations, and operations that flash does not allow.

use super::*;
use crate::model::tests::{SMALL, parse, small_with};

fn nand() -> Nand {
    Nand::new(&parse(SMALL).unwrap(), RetentionPolicy::InMemory)
}

fn time(nand: &mut Nand, work: impl FnOnce(&mut Nand)) -> u64 {
    let start = nand.finished_ns();
    nand.begin(start);
    work(nand);
    nand.finished_ns() - start
}

#[test]
fn operations_take_time_and_are_counted() {
    let mut nand = nand();
    assert_eq!(time(&mut nand, |nand| nand.program(0, 7)), 700);
    assert_eq!(time(&mut nand, |nand| nand.read(0)), 50);
    assert_eq!(time(&mut nand, |nand| nand.copy(0, 16)), 750);
    assert_eq!(nand.logical_page(16), Some(7));
    assert_eq!(time(&mut nand, |nand| nand.erase(0)), 3000);
    assert_eq!(nand.logical_page(0), None);
    assert_eq!(nand.counters(), NandCounters { reads: 2, programs: 2, erases: 1 });
    let spread = nand.erases_per_unit();
    assert_eq!((spread.least, spread.mean_thousandths, spread.most), (0, 50, 1));
}

#[test]
fn pages_of_one_write_unit_are_programmed_and_read_together() {
    let model = small_with(&[
        ("page = \"4KiB\"", "page = \"8KiB\"\nplanes = 2"),
        ("[discard]", "map_unit = \"4KiB\"\n[discard]"),
    ]);
    let mut nand = Nand::new(&model.unwrap(), RetentionPolicy::InMemory);
    let both = time(&mut nand, |nand| {
        nand.program(0, 1);
        nand.program(1, 2);
    });
    assert_eq!((both, nand.next_place(0)), (700, 2));
    nand.close_write_unit();
    assert_eq!(nand.next_place(0), 4);
    let reads = time(&mut nand, |nand| {
        nand.read(0);
        nand.read(1);
    });
    assert_eq!(reads, 50);
    assert_eq!(nand.counters(), NandCounters { reads: 1, programs: 1, erases: 0 });
}

#[test]
fn dies_operate_in_parallel() {
    let mut nand =
        Nand::new(&small_with(&[("[bus]", "dies = 2\n[bus]")]).unwrap(), RetentionPolicy::InMemory);
    let two = time(&mut nand, |nand| {
        nand.program(0, 1);
        nand.program(1, 2);
    });
    assert_eq!(two, 700);
    assert_eq!(time(&mut nand, |nand| nand.program(2, 3)), 700);
}

#[test]
fn contents_follow_their_page() {
    let mut nand = nand();
    nand.load(PageContent::from_bytes(&[5; 4096]));
    nand.program(0, 7);
    nand.program(1, 8);
    nand.copy(0, 16);
    nand.erase(0);
    assert_eq!(nand.content(16), PageContent::from_bytes(&[5; 4096]));
    assert_eq!(nand.content(1), PageContent::Zeros);
}

#[test]
#[should_panic(expected = "programmed again")]
fn a_page_cannot_be_programmed_twice() {
    let mut nand = nand();
    nand.program(3, 0);
    nand.program(3, 0);
}

#[test]
#[should_panic(expected = "behind one")]
fn pages_must_be_programmed_in_ascending_order() {
    let mut nand = nand();
    nand.program(3, 0);
    nand.program(2, 0);
}

#[test]
#[should_panic(expected = "while erased")]
fn an_erased_page_cannot_be_read() {
    nand().read(0);
}
