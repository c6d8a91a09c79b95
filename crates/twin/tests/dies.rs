//! Times from counts on one die agree with the simulated times of cards with several dies.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use flashfit_card::model::{Collection, Replacement};
use flashfit_device::Bytes;
use flashfit_geometry::flashbench::{AccessOrder, OpenBlockTable, TableCell};
use flashfit_twin::counts::{self, FitBus};
use flashfit_twin::fit_target::FitTarget;
use flashfit_twin::predict::predict;
use flashfit_twin::structure::{CardStructure, OrderedLayerKind};
use flashfit_twin::times::Times;

const ERASE_BLOCK: u64 = 256 << 10;
const BUS: FitBus = FitBus { bytes_per_second: 50_000_000, limits: false };
const TIMES: Times = Times {
    command_s: 250e-6,
    program_s: 1.4e-3,
    read_s: 80e-6,
    copy_s: 200e-6,
    erase_s: 4e-3,
    log_s: 0.0,
    jump_s: 0.0,
    switch_s: 0.0,
    flush_s: 0.0,
    close_s: 0.0,
};

/// A table whose rates do not matter, only what is written for it.
fn target() -> FitTarget {
    let orders = [AccessOrder::Linear, AccessOrder::Random];
    let cells = orders.iter().flat_map(|&access| {
        (1..=4).flat_map(move |units| {
            (0..6).map(move |halved| TableCell {
                units,
                access,
                write: Bytes(ERASE_BLOCK >> halved),
                bytes_per_second: 1 << 20,
            })
        })
    });
    FitTarget::from_tables(&[OpenBlockTable { cells: cells.collect() }]).unwrap()
}

fn structure(kind: OrderedLayerKind, dies: u32) -> CardStructure {
    CardStructure {
        kind,
        page_bytes: 8 << 10,
        dies,
        open_erase_blocks: 2,
        open_erase_blocks_random: 1,
        replacement: Replacement::default(),
        random_pages: 0,
        scratch: false,
        buffer: false,
        log_blocks: 2,
        log_request_bytes: 4096,
        chunk_bytes: if kind == OrderedLayerKind::PageMapped { 8 << 10 } else { 64 << 10 },
        spare_blocks: 6,
        collection: Collection::default(),
        cache_bytes: 0,
        was_full: true,
        zone_blocks: 0,
        logged_pages: 0,
    }
    .normalized()
}

#[test]
fn counts_on_one_die_give_the_times_of_several() {
    let target = target();
    for kind in
        [OrderedLayerKind::BlockMapped, OrderedLayerKind::UpdateLog, OrderedLayerKind::PageMapped]
    {
        let counted = counts::count(&target, &structure(kind, 1)).unwrap();
        for dies in [1, 2, 4] {
            let model = structure(kind, dies).model(&target, BUS.bytes_per_second, &TIMES);
            let simulated = predict(&model, &target, &structure(kind, dies)).unwrap().rates;
            let (mut near, mut all) = (0, 0);
            for ((units, access, write), work) in &counted.cells {
                let bytes = f64::from(*units) * ERASE_BLOCK as f64;
                let rate = simulated.rate(*units, *access, *write).unwrap() as f64;
                let ratio = TIMES.duration_s(&work.on(BUS, dies)) / (bytes / rate);
                near += usize::from((0.8..1.25).contains(&ratio));
                all += 1;
            }
            assert!(near * 10 >= all * 9, "{kind:?}, {dies} dies: {near} of {all} near");
        }
    }
}
