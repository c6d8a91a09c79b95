//! Tests of aging whole cards.

use flashfit_card::model::LayerKind;
use flashfit_card::trace::TracedRequest;
use flashfit_device::Bytes;

use super::*;
use crate::trace_file::{BLOCK_BYTES, RecordedTrace, TraceHeader};
use crate::usage;

const TILE: u64 = 4 << 20;

fn model(endurance_cycles: u32) -> CardModel {
    model_with_spares(endurance_cycles, 24)
}

fn model_with_spares(endurance_cycles: u32, spare_units: u32) -> CardModel {
    model_of(16, endurance_cycles, spare_units, "")
}

/// `layer` is added to the section of the translation layer.
pub fn model_of(
    capacity_mib: u32,
    endurance_cycles: u32,
    spare_units: u32,
    layer: &str,
) -> CardModel {
    let text = format!(
        "name = \"small\"\ntitle = \"a card for tests\"\nsource = \"none\"\n\
         capacity = \"{capacity_mib}MiB\"\n\
         sector_bytes = 512\n[nand]\npage = \"4KiB\"\nerase_unit = \"64KiB\"\nread_ns = 50\n\
         program_ns = 700\nerase_ns = 3000\nendurance_cycles = {endurance_cycles}\n\
         spare_units = {spare_units}\n[bus]\ncommand_ns = 10\nbytes_per_second = 1_000_000_000\n[layer]\n\
         kind = \"page-mapped\"\n{layer}"
    );
    CardModel::parse(&text, &Origin::BuiltIn("a test".to_owned())).unwrap()
}

/// Random writes to half of a tile.
pub fn setup(workloads: usize) -> SetupTraces {
    let header = TraceHeader {
        filesystem: "ext4".to_owned(),
        options: Vec::new(),
        workload: "database".to_owned(),
        card: "small".to_owned(),
        capacity: Bytes(TILE),
        fill_percent: 50,
        age_rounds: 0,
        data_size: Bytes(TILE / 2),
        written_by_programs: Bytes(512 * BLOCK_BYTES),
        kernel: String::new(),
        mkfs: String::new(),
        seed: 1,
    };
    let requests = (0..512_u64)
        .map(|n| TracedRequest::Write { offset: n * 331 % 512 * BLOCK_BYTES, length: BLOCK_BYTES });
    let trace = RecordedTrace {
        header,
        command: String::new(),
        initial: vec![(0, TILE / 2)],
        requests: requests.collect(),
    };
    SetupTraces { name: "ext4".to_owned(), traces: vec![trace; workloads] }
}

fn aged(model: &CardModel, years: f64) -> Result<AgedCard, EstimateError> {
    let usage = usage::load("kiosk", None).unwrap();
    let setup = setup(usage.writes.len());
    // In gibibytes, the smallest card is written over many times a day.
    let request = AgeRequest { model, usage: &usage, setup: &setup, years, points: 4, seed: 1 };
    age(&request, |_| ControlFlow::Continue(()))
}

#[test]
fn a_card_becomes_read_only_when_its_spare_blocks_are_used_up() {
    let aged = aged(&model(100), 1.0).unwrap();
    assert_eq!(aged.end, AgeEnd::ReadOnly);
    let last = aged.points.last().unwrap().spare_blocks;
    assert!(last.worn_out && last.left == 0 && last.retired > 10, "{last:?}");
    assert!(aged.years > 0.0 && aged.years < 1.0, "{}", aged.years);
    let mut card = aged.card;
    let write = CardRequest::Write { offset: 0, data: &[1; 512] };
    assert!(matches!(card.serve(write), Err(BlockDevError::WornOut)));
    assert!(card.serve(CardRequest::Read { offset: 0, buffer: &mut [0; 512] }).is_ok());
}

#[test]
fn a_card_that_dies_at_once_keeps_its_result() {
    let aged = aged(&model_with_spares(1, 24), 1000.0).unwrap();
    assert_eq!((aged.end, aged.points.len()), (AgeEnd::ReadOnly, 1));
    assert!(aged.years > 0.0 && aged.points[0].written_mb_per_s > 0.0, "{}", aged.years);
}

#[test]
fn the_fill_hardly_wears_a_card_that_maps_whole_erase_blocks() {
    let model = flashfit_card::catalog::load("usb-cheap", None).unwrap();
    let model = crate::replica::scaled(&model, Bytes(64 * TILE)).unwrap();
    assert_eq!(model.layer.kind, LayerKind::BlockMapped);
    let setup = setup(1);
    let shares = setup.shares(&usage::load("kiosk", None).unwrap(), 1);
    let options = ReplayOptions { tiles: 64, fill_percent: 50, trim: true, seed: 1 };
    let card = filled(&model, &mut Replay::new(&shares, options)).unwrap();
    let most = card.wear_by_block().iter().map(|block| block.erases).max();
    assert!(most <= Some(4), "{most:?}");
}

#[test]
fn a_card_that_lasts_has_a_point_for_each_share_of_the_years() {
    let aged = aged(&model(1_000_000), 0.01).unwrap();
    assert_eq!(aged.end, AgeEnd::YearsOver);
    assert_eq!(aged.points.len(), 4);
    assert!((aged.years - 0.01).abs() < 0.001, "{}", aged.years);
    assert!(aged.points.windows(2).all(|two| two[0].erases_mean < two[1].erases_mean));
}

#[test]
fn an_interrupt_ends_it_early() {
    let usage = usage::load("kiosk", None).unwrap();
    let (model, setup) = (model(1_000_000), setup(usage.writes.len()));
    let request =
        AgeRequest { model: &model, usage: &usage, setup: &setup, years: 5.0, points: 2, seed: 1 };
    let aged = age(&request, |_| ControlFlow::Break(())).unwrap();
    assert_eq!(aged.end, AgeEnd::Interrupted);
    assert_eq!(aged.points.len(), 1);
}

#[test]
fn a_card_smaller_than_the_recordings_is_rejected() {
    let mut model = model(100);
    model.capacity = Bytes(TILE / 2);
    assert!(matches!(aged(&model, 1.0), Err(EstimateError::TooSmall { .. })));
}

#[test]
fn a_card_without_blocks_to_spare_is_rejected() {
    let error = aged(&model_with_spares(100, 2), 1.0).unwrap_err();
    assert!(matches!(error, EstimateError::Model(_)), "{error}");
}
