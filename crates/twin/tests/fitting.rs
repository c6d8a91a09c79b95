//! Twins of simulated cards with known parameters: a twin behaves like its card, the same table
//! gives the same twin, and input that cannot be fitted is rejected.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::ops::ControlFlow;

use flashfit_card::CardModel;
use flashfit_catalog::Origin;
use flashfit_device::Bytes;
use flashfit_device::random::Random;
use flashfit_geometry::flashbench::{Comparison, OpenBlockProcedure, OpenBlockTable};
use flashfit_geometry::probed::{NoObserver, ProbeObserver};
use flashfit_twin::counts::precondition;
use flashfit_twin::{DeviceHints, Twin, TwinError, fit};

/// Small erase blocks, for a fast simulation.
const CARD: &str = r#"
name = "small"
title = "A small card"
source = "made up"
capacity = "8MiB"
sector_bytes = 512
[nand]
page = "8KiB"
erase_unit = "128KiB"
read_ns = 80_000
program_ns = 1_200_000
erase_ns = 4_000_000
copy_ns = 300_000
endurance_cycles = 1000
spare_units = 16
[bus]
command_ns = 250_000
bytes_per_second = 25_000_000
[layer]
"#;

fn table(layer: &str) -> OpenBlockTable {
    let origin = Origin::File("small.toml".into());
    let model = CardModel::parse(&format!("{CARD}{layer}"), &origin).unwrap();
    let mut device = precondition(&model).unwrap();
    let clock = device.clock().clone();
    let procedure = OpenBlockProcedure {
        erase_block: model.nand.erase_block,
        least_write: Bytes::kib(4),
        most_units: 4,
        seed: 9,
    };
    procedure.run(&mut device, &clock).unwrap()
}

fn twin(table: &OpenBlockTable) -> Twin {
    fit(
        std::slice::from_ref(table),
        None,
        DeviceHints::default(),
        ("my card/1", "a small card"),
        &mut NoObserver,
    )
    .unwrap()
}

/// How well a twin predicts half of the cells, which are hidden from the fit.
fn prediction(table: &OpenBlockTable) -> Comparison {
    let mut order: Vec<usize> = (0..table.cells.len()).collect();
    Random::new(3).shuffle(&mut order);
    let (hidden, visible) = order.split_at(order.len() / 2);
    let of = |cells: &[usize]| {
        let all = table.cells.iter().enumerate();
        let cells = all.filter(|(at, _)| cells.contains(at)).map(|(_, cell)| *cell);
        OpenBlockTable { cells: cells.collect() }
    };
    Comparison::of(&of(hidden), &twin(&of(visible)).rates).unwrap()
}

#[test]
fn twins_of_each_kind_of_layer_predict_hidden_cells() {
    let (mut cells, mut within_2) = (0, 0);
    for layer in [
        "kind = \"block-mapped\"\nopen_units = 3\njump_ns = 200_000",
        "kind = \"log-block\"\nopen_units = 2\nlog_units = 2\nlog_request = \"4KiB\"\nlog_ns = 2_000_000",
        "kind = \"page-mapped\"\nmap_unit = \"4KiB\"\nswitch_ns = 700_000",
    ] {
        let predicted = prediction(&table(layer));
        assert!(predicted.median_error_thousandths <= 1300, "{layer}: {predicted:?}");
        cells += predicted.cells;
        within_2 += predicted.within_2;
    }
    assert!(within_2 * 10 >= cells * 9, "{within_2} of {cells} within 2");
}

#[test]
fn the_same_table_gives_the_same_valid_card_file() {
    let table = table("kind = \"block-mapped\"\nopen_units = 2");
    let first = twin(&table).to_toml().unwrap();
    assert_eq!(first, twin(&table).to_toml().unwrap());
    // The kind of the bus is no result, that of the layer is.
    assert!(first.contains("kind = \"sd\"\n"), "{first}");
    assert!(first.contains("kind = \"block-mapped\"  # found"), "{first}");
    let model = CardModel::parse(&first, &Origin::File("twin.toml".into())).unwrap();
    assert_eq!((model.name.as_str(), model.layer.open_erase_blocks), ("my-card-1", Some(2)));
    assert!(model.source.contains("a small card"), "{}", model.source);
    assert!(first.contains("simulated") && first.contains("# fitted"), "{first}");
    // Nobody measured the erase block: it is the largest write of the table.
    assert!(first.contains("erase_unit = 131072  # assumed by the tables\n"), "{first}");
    // Without patterns, other numbers of dies are not tried.
    assert!(first.contains("dies = 1\n"), "{first}");
}

#[test]
fn an_erase_block_is_measured_only_if_it_was_found() {
    let twin = twin(&table("kind = \"block-mapped\"\nopen_units = 2"));
    for (found_kib, comment, is_warned) in
        [(128, "measured", false), (256, "assumed by the tables", true)]
    {
        let found_erase_block = Some(Bytes::kib(found_kib));
        let text = Twin { found_erase_block, ..twin.clone() }.to_toml().unwrap();
        assert!(text.contains(&format!("erase_unit = 131072  # {comment}\n")), "{text}");
        assert_eq!(text.contains("# of 256 KiB, so that"), is_warned, "{text}");
    }
}

#[test]
fn too_few_rates_and_an_interruption_are_reported() {
    let mut few = table("kind = \"block-mapped\"\nopen_units = 2");
    struct StopAtOnce;
    impl ProbeObserver for StopAtOnce {
        fn step(&mut self, _: f64, _: &str) -> ControlFlow<()> {
            ControlFlow::Break(())
        }
    }
    let error =
        fit(&[few.clone()], None, DeviceHints::default(), ("a", "b"), &mut StopAtOnce).unwrap_err();
    assert!(matches!(error, TwinError::Interrupted));
    few.cells.truncate(5);
    let error = fit(&[few], None, DeviceHints::default(), ("a", "b"), &mut NoObserver).unwrap_err();
    assert!(matches!(error, TwinError::TooFewRates));
    let error = fit(&[], None, DeviceHints::default(), ("a", "b"), &mut NoObserver).unwrap_err();
    assert!(matches!(error, TwinError::TooFewRates));
}
