//! Compares the cards of the catalog with real ones: flashbench's tables of open erase blocks, and
//! published figures.

use std::process::Command;

use serde_json::Value;

const CARDS: [&str; 11] = [
    "emmc-4.5",
    "emmc-5.1",
    "sd-c10-linear",
    "sd-c10-log",
    "sd-c4-block",
    "sd-industrial-pslc",
    "sd-sandisk-c4",
    "ssd-sata",
    "usb-cheap",
    "usd-a1-pagemap",
    "usd-a2-cq",
];

/// Tolerance around the published figure or range.
const TOLERANCE_THOUSANDTHS: u64 = 1100;

/// Card, the median and the ninth decile of the factor between it and the real one, in thousandths,
/// and whether its open erase blocks end where the real one's do.
///
/// The soft cliff of the SanDisk kind is too soft in the model for requests of a chunk and more.
const AGREEMENTS: [(&str, u64, u64, bool); 3] = [
    ("sd-c4-block", 1200, 1800, true),
    ("sd-c10-log", 1100, 1400, true),
    ("sd-sandisk-c4", 1400, 3000, false),
];

fn bench(args: &[&str]) -> Value {
    let output = Command::new(env!("CARGO_BIN_EXE_flashfit"))
        .args(["card", "bench", "--json"])
        .args(args)
        .output()
        .expect("the binary was built");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    let document: Value = serde_json::from_slice(&output.stdout).expect("one JSON document");
    document["data"][0].clone()
}

#[test]
fn the_catalog_has_every_class_of_card() {
    let known = flashfit_card::catalog::all(None).expect("a valid catalog");
    let names: Vec<&str> = known.iter().map(|card| card.name.as_str()).collect();
    assert_eq!(names, CARDS);
}

#[test]
fn cards_with_a_counterpart_behave_like_it() {
    for (card, median, ninth_decile, same_cliff) in AGREEMENTS {
        let measured = bench(&[card]);
        let counterpart = &measured["counterpart"];
        let number = |key: &str| counterpart["comparison"][key].as_u64().expect("a number");
        let (of_median, of_decile) =
            (number("median_error_thousandths"), number("ninth_decile_error_thousandths"));
        println!("{card}: {of_median}, {of_decile}");
        assert!(of_median <= median && of_decile <= ninth_decile, "{card}");
        let seen = |access| {
            (&measured["open_units_seen"][access], &counterpart["open_units_seen"][access])
        };
        let (linear, random) = (seen("linear"), seen("random"));
        assert!(linear.1.is_u64() && random.1.is_u64(), "{card}");
        let same = linear.0 == linear.1 && random.0 == random.1;
        assert_eq!(same, same_cliff, "{card}: {linear:?} {random:?}");
    }
}

#[test]
fn published_figures_are_reproduced_and_queued_reads_overlap() {
    let mut compared = 0;
    for card in CARDS {
        // The table is not needed here, so it is kept small.
        let measured = bench(&[card, "--units", "1", "--least", "1MiB"]);
        assert_reads_overlap(card, &measured["figures"]["random"]);
        for beside in measured["published"].as_array().expect("a list") {
            let simulated = beside["simulated"].as_u64().expect("a figure");
            let published = &beside["published"];
            let least = published["least"].as_u64().expect("a figure");
            let most = published["most"].as_u64().unwrap_or(u64::MAX / TOLERANCE_THOUSANDTHS);
            println!("{card}: {simulated} beside {least} to {most}");
            assert!(simulated * TOLERANCE_THOUSANDTHS >= least * 1000, "{card}: {beside}");
            assert!(simulated * 1000 <= most * TOLERANCE_THOUSANDTHS, "{card}: {beside}");
            compared += 1;
        }
    }
    assert!(compared >= 12, "only {compared}");
}

fn assert_reads_overlap(card: &str, random: &Value) {
    let rate = |way: &str| {
        let found = random.as_array()?.iter().find(|random| random["way"] == way)?;
        found["read_rate_thousandths"].as_u64()
    };
    let single = rate("single").expect("it is measured of every card");
    if let Some(queued) = rate("queued") {
        assert!(queued > single * 3 / 2, "{card}: {queued} beside {single}");
    }
}
