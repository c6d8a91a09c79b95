//! Decoders never panic, whatever devices and programs send, and what they accept is consistent.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use flashfit_device::{Device, DeviceKind, SystemRoots};
use flashfit_host::ProgramOutcome;
use flashfit_host::SystemRunner;
use flashfit_host::program::ScriptedRunner;
use flashfit_wear_counters::{
    AtaAttributes, WearReading, WearSources, file_systems, kernel, mmc, sd_card,
};
use proptest::prelude::*;

/// A device of a kind on a system without sysfs.
fn device(kind: DeviceKind) -> Device {
    let file = tempfile::NamedTempFile::new().unwrap();
    file.as_file().set_len(1 << 20).unwrap();
    let device = Device::from_image(&SystemRunner::default(), file.path()).unwrap();
    Device { kind, disk: "none0".to_owned(), ..device }
}

/// What is read if both programs print this.
fn reading(kind: DeviceKind, said: &str, code: i32) -> WearReading {
    let outcome =
        ProgramOutcome { code: Some(code), stdout: said.to_owned(), ..ProgramOutcome::default() };
    let runner = ScriptedRunner::new().answer("nvme", outcome.clone()).answer("smartctl", outcome);
    let folder = tempfile::tempdir().unwrap();
    let system = SystemRoots { sys: folder.path().to_owned(), proc: folder.path().to_owned() };
    let attributes = AtaAttributes::load(None).unwrap();
    let sources = WearSources {
        system: &system,
        runner: &runner,
        attributes: &attributes,
        is_root: true,
        smartctl_type: None,
        unlisted_logs: true,
    };
    let reading = sources.read(&device(kind));
    for counter in &reading.counters {
        assert!(counter.step >= 1 && !counter.id.is_empty() && !counter.source.is_empty());
    }
    assert!(
        reading
            .asked
            .iter()
            .all(|asked| asked.counters > 0 || asked.reason.is_some() || !reading.facts.is_empty())
    );
    reading
}

/// A number as programs write it, often an extreme one.
fn number() -> impl Strategy<Value = String> {
    prop_oneof![
        any::<u64>().prop_map(|number| number.to_string()),
        any::<u64>().prop_map(|number| format!("\"{number}\"")),
        any::<i64>().prop_map(|number| number.to_string()),
        Just("1e300".to_owned()),
        Just("null".to_owned()),
        Just("\"x\"".to_owned()),
        Just("340282366920938463463374607431768211455".to_owned()),
        (any::<u64>(), any::<u64>()).prop_map(|(hi, lo)| format!("{{\"hi\":{hi},\"lo\":{lo}}}")),
    ]
}

const FIXTURES: [(&str, DeviceKind); 9] = [
    (include_str!("data/recorded-qemu-nvme-smart-log.json"), DeviceKind::Nvme),
    (include_str!("data/recorded-qemu-ata-smartctl.json"), DeviceKind::Ssd),
    (include_str!("data/constructed-sata-7.3.json"), DeviceKind::Ssd),
    (include_str!("data/constructed-sata-7.5.json"), DeviceKind::Usb),
    (include_str!("data/constructed-micron.json"), DeviceKind::Ssd),
    (include_str!("data/constructed-unknown-drive.json"), DeviceKind::Disk),
    (include_str!("data/constructed-nvme-numbers.json"), DeviceKind::Nvme),
    (include_str!("data/constructed-nvme-endurance.json"), DeviceKind::Nvme),
    (include_str!("data/constructed-nvme-ocp.json"), DeviceKind::Nvme),
];

/// The text with its n-th run of digits replaced.
fn with_number(text: &str, n: usize, number: &str) -> String {
    let starts: Vec<usize> = text
        .char_indices()
        .filter(|(at, c)| {
            c.is_ascii_digit() && !text[..*at].ends_with(|c: char| c.is_ascii_digit())
        })
        .map(|(at, _)| at)
        .collect();
    let start = starts[n % starts.len()];
    let length = text[start..].chars().take_while(char::is_ascii_digit).count();
    format!("{}{number}{}", &text[..start], &text[start + length..])
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn arbitrary_output_is_survived(said in ".{0,200}", code in 0..256i32) {
        for kind in [DeviceKind::Nvme, DeviceKind::Ssd, DeviceKind::Usb] {
            reading(kind, &said, code);
        }
    }

    #[test]
    fn extreme_numbers_are_survived(
        which in 0..FIXTURES.len(),
        n in any::<usize>(),
        number in number(),
    ) {
        let (text, kind) = FIXTURES[which];
        reading(kind, &with_number(text, n, &number), 0);
    }

    #[test]
    fn arbitrary_attributes_of_the_kernel_are_survived(text in "[ 0-9a-fx.-]{0,80}") {
        kernel::decode(&text);
        mmc::life_tenths(&text);
        file_systems::decode(&text, "id", "source");
        sd_card::documented(&text);
    }

    #[test]
    fn arbitrary_blocks_of_cards_are_survived(
        start in prop_oneof![Just(*b"DS"), Just(*b"DW"), Just(*b"Sw"), any::<[u8; 2]>()],
        fill in any::<u8>(),
    ) {
        let mut block = [fill; 512];
        block[..2].copy_from_slice(&start);
        for counter in sd_card::decode_any(&block).unwrap_or_default() {
            prop_assert!(counter.value <= 254);
        }
    }
}

#[test]
fn every_fixture_is_understood() {
    for (text, kind) in FIXTURES {
        assert!(!reading(kind, text, 0).counters.is_empty(), "{kind}");
    }
}

#[test]
fn without_root_no_device_is_asked() {
    let runner = ScriptedRunner::new();
    let attributes = AtaAttributes::load(None).unwrap();
    let system = SystemRoots { sys: "/nonexistent".into(), proc: "/nonexistent".into() };
    let sources = WearSources {
        system: &system,
        runner: &runner,
        attributes: &attributes,
        is_root: false,
        smartctl_type: None,
        unlisted_logs: false,
    };
    for kind in [DeviceKind::Nvme, DeviceKind::Ssd, DeviceKind::Usb, DeviceKind::SdCard] {
        assert!(sources.read(&device(kind)).counters.is_empty());
    }
    assert!(runner.calls().is_empty(), "{:?}", runner.calls());
}
