//! The contract of every block device, checked on a simulated card and on an image file with direct
//! I/O: bounds, contents, and that refused requests change nothing.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use flashfit_card::{Card, CardModel, InProcessCard};
use flashfit_catalog::Origin;
use flashfit_device::{
    BlockDev, BlockDevError, ConsentMethod, Device, DirectDevice, SystemRoots, VirtualClock,
    WriteConsent,
};
use flashfit_host::SystemRunner;

const BYTES: u64 = 8 << 20;
const CARD: &str = r#"
name = "contract"
title = "a card for tests"
source = "none"
capacity = "8MiB"
sector_bytes = 512
[nand]
page = "16KiB"
erase_unit = "256KiB"
read_ns = 1000
program_ns = 2000
erase_ns = 10000
endurance_cycles = 100000
spare_units = 8
[bus]
command_ns = 1000
bytes_per_second = 1_000_000_000
[layer]
kind = "page-mapped"
"#;

/// Checks everything that the trait [`BlockDev`] promises.
fn check_contract(device: &mut dyn BlockDev) {
    let description = device.describe();
    let sector = description.sector_bytes as usize;
    assert_eq!(description.capacity_bytes, BYTES);
    assert!(sector.is_power_of_two() && (512..=4096).contains(&sector));

    let pattern: Vec<u8> = (0..3 * sector).map(|at| (at % 251) as u8).collect();
    let places = [0, 5 * sector as u64, (1 << 20) - sector as u64, BYTES - 3 * sector as u64];
    for place in places {
        device.write(place, &pattern).unwrap();
    }
    device.flush().unwrap();
    let mut read = vec![0xff; 3 * sector];
    for place in places {
        device.read(place, &mut read).unwrap();
        assert_eq!(read, pattern, "{place}");
    }
    let last = BYTES - sector as u64;
    for (offset, length) in [
        (1, sector),
        (0, sector - 1),
        (BYTES, sector),
        (last, 2 * sector),
        (u64::MAX - sector as u64 + 1, sector),
    ] {
        let refused = |result: Result<(), BlockDevError>| {
            matches!(result, Err(BlockDevError::OutOfBounds { .. }))
        };
        assert!(refused(device.read(offset, &mut vec![0; length])), "{offset} {length}");
        assert!(refused(device.write(offset, &vec![7; length])), "{offset} {length}");
    }
    device.read(last - 2 * sector as u64, &mut read).unwrap();
    assert_eq!(read, pattern);

    if description.discard_granularity_bytes == 0 {
        assert!(matches!(device.discard(0, 1 << 20), Err(BlockDevError::NoDiscard)));
        device.read(0, &mut read).unwrap();
        assert_eq!(read, pattern);
    } else {
        device.discard(0, 1 << 20).unwrap();
    }
    assert_eq!(device.describe(), description);
}

#[test]
fn a_simulated_card_fulfills_the_contract() {
    for more in ["", "[discard]\ngranularity = \"16KiB\"\n[cache]\nbytes = \"64KiB\"\n"] {
        let text = format!("{CARD}{more}");
        let model = CardModel::parse(&text, &Origin::File("contract.toml".into())).unwrap();
        check_contract(&mut InProcessCard::new(Card::new(&model), VirtualClock::default()));
    }
}

#[test]
fn an_image_with_direct_io_fulfills_the_contract() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("contract.img");
    std::fs::File::create(&path).unwrap().set_len(BYTES).unwrap();
    let (system, runner) = (SystemRoots::default(), SystemRunner::default());
    let shown = Device::from_image(&runner, &path).unwrap();
    let method = ConsentMethod::Named(shown.short_name());
    let consent = WriteConsent::ask(&system, &runner, &shown, &method).unwrap();
    check_contract(&mut DirectDevice::writable(&consent).unwrap());
}
