//! What devices declare, read from copies of sysfs and debugfs in `fixtures/`: an SD card with all
//! registers, one whose host hides them, eMMC chips with and without debugfs. The registers were
//! constructed from the tables of the standards, not copied from products.

use std::path::Path;

use flashfit_device::queue::QueueAttributes;
use flashfit_device::{Bytes, DeclaredBytes, DeclaredFacts, DeviceKind, SystemRoots};

fn declared(fixture: &str, disk: &str, kind: DeviceKind) -> DeclaredFacts {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(fixture);
    let system = SystemRoots { sys: root.join("sys"), proc: root.join("proc") };
    DeclaredFacts::read(&system, disk, kind, &QueueAttributes::read(&system, disk))
}

fn erase_blocks(declared: &DeclaredFacts) -> Vec<(u64, bool, &str)> {
    let one = |one: &'_ DeclaredBytes| (one.bytes.0 >> 10, one.is_guess);
    let units = declared.erase_block.iter();
    units.map(|unit| (one(unit).0, one(unit).1, unit.source.as_str())).collect()
}

fn fact<'a>(declared: &'a DeclaredFacts, name: &str) -> Option<&'a str> {
    declared.facts.iter().find(|fact| fact.name == name).map(|fact| fact.text.as_str())
}

#[test]
fn an_sd_card_states_its_allocation_units_with_their_fields() {
    let declared = declared("sd-u3", "mmcblk0", DeviceKind::SdCard);
    assert_eq!(
        erase_blocks(&declared),
        [
            (4096, false, "SD status register, AU_SIZE"),
            (8192, false, "SD status register, UHS_AU_SIZE"),
            (8192, false, "SD status register, VSC_AU_SIZE"),
            (4096, false, "preferred_erase_size, from the SD status register"),
            (4096, true, "queue/discard_granularity"),
        ]
    );
    let best = declared.best_erase_block().expect("one is stated");
    assert_eq!(best.source, "SD status register, UHS_AU_SIZE");
    assert_eq!(declared.capacity[0].bytes, Bytes(31_914_983_424));
    assert_eq!(fact(&declared, "speed classes"), Some("class 10, U3, V30, A1"));
    assert!(fact(&declared, "identification").is_some_and(|text| text.contains("SL32G")));
    assert!(declared.rejected.is_empty());
}

#[test]
fn empty_registers_are_reported_and_the_kernels_value_is_a_guess() {
    let declared = declared("sd-silent", "mmcblk0", DeviceKind::SdCard);
    assert!(declared.erase_block.iter().all(|unit| unit.is_guess), "{declared:?}");
    assert_eq!(declared.best_erase_block().map(|best| best.bytes), Some(Bytes::mib(4)));
    let rejected: Vec<_> = declared
        .rejected
        .iter()
        .map(|rejected| (rejected.register.as_str(), rejected.reason.split(',').next()))
        .collect();
    let reasons =
        [("SD status register", Some("it is all zeros")), ("CSD", Some("it is all ones"))];
    assert_eq!(rejected, reasons);
}

#[test]
fn an_sd_card_without_an_allocation_unit_gets_a_guess() {
    let declared = declared("sd-undefined-au", "mmcblk0", DeviceKind::SdCard);
    assert_eq!(
        erase_blocks(&declared)[0],
        (2048, true, "preferred_erase_size, the kernel's guess from the capacity")
    );
    assert_eq!(fact(&declared, "speed classes"), Some("class 4"));
}

#[test]
fn an_emmc_chip_states_its_erase_group_cache_and_life() {
    let declared = declared("emmc", "mmcblk1", DeviceKind::Emmc);
    assert_eq!(erase_blocks(&declared)[0], (512, false, "EXT_CSD, HC_ERASE_GRP_SIZE"));
    assert_eq!(erase_blocks(&declared)[1], (512, false, "preferred_erase_size, from EXT_CSD"));
    assert_eq!(declared.write_unit[0].bytes, Bytes::kib(16));
    assert_eq!(declared.cache[0].bytes, Bytes::mib(64));
    assert_eq!(declared.capacity[0].bytes, Bytes(0x00e9_0000 * 512));
    assert_eq!(declared.capacity.len(), 1, "C_SIZE of its CSD is not a capacity");
    assert_eq!(fact(&declared, "life of the SLC area"), Some("10 to 20 % used"));
    assert!(fact(&declared, "identification").is_some_and(|text| text.contains("made 2017-07")));
}

#[test]
fn without_debugfs_a_value_other_than_the_guess_is_stated_by_the_chip() {
    let stated = declared("emmc-no-debugfs", "mmcblk1", DeviceKind::Emmc);
    assert_eq!(erase_blocks(&stated)[0], (8192, false, "preferred_erase_size, the erase group"));
    assert_eq!(fact(&stated, "life of the MLC area"), Some("0 to 10 % used"));
    let guessed = declared("emmc-guess", "mmcblk1", DeviceKind::Emmc);
    assert!(erase_blocks(&guessed)[0].1, "4 MiB may be the kernel's");
    assert_eq!(guessed.rejected[0].register, "EXT_CSD");
}

#[test]
fn a_device_without_registers_declares_nothing() {
    let nothing = declared("sd-u3", "sdz", DeviceKind::Usb);
    assert_eq!(nothing, DeclaredFacts::default());
}

proptest::proptest! {
    #[test]
    fn arbitrary_register_text_does_not_panic(text in "\\PC{0,40}", bytes in proptest::collection::vec(0u8..=255, 512)) {
        use flashfit_device::registers::csd::CsdFamily;
        use flashfit_device::registers::{Cid, Csd, ExtCsd, SdStatus};
        let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        for text in [text.as_str(), &hex, &hex[..128], &hex[..32]] {
            let _ = (SdStatus::parse(text), ExtCsd::parse(text));
            for family in [CsdFamily::Sd, CsdFamily::Mmc] {
                let _ = Csd::parse(family, text);
                let _ = Cid::parse(family, text, Some(8)).map(|cid| cid.summary());
            }
        }
    }
}
