//! What nvme and smartctl print: each counter has a name, a source and a step of at least 1.

#![no_main]

use std::sync::LazyLock;

use flashfit_device::{Device, DeviceKind, SystemRoots};
use flashfit_host::ProgramOutcome;
use flashfit_host::program::ScriptedRunner;
use flashfit_wear_counters::{AtaAttributes, WearSources};
use libfuzzer_sys::{fuzz_mutator, fuzz_target};

static ATTRIBUTES: LazyLock<AtaAttributes> =
    LazyLock::new(|| AtaAttributes::load(None).expect("the built-in catalog is valid"));
/// Any file will do as the device: it is not opened.
static DEVICE: LazyLock<Device> = LazyLock::new(|| {
    let program = std::env::current_exe().expect("this program is a file");
    let device = Device::from_image(&ScriptedRunner::new(), &program).expect("it can be read");
    Device { disk: "none0".to_owned(), ..device }
});

fuzz_mutator!(|data: &mut [u8], size: usize, max_size: usize, seed: u32| {
    flashfit_fuzz::mutate(&mut data[..max_size], size, seed)
});

fuzz_target!(|output: &str| {
    let code = output.len().try_into().ok().map(|length: i32| length % 256);
    let outcome = ProgramOutcome { code, stdout: output.to_owned(), ..ProgramOutcome::default() };
    let good = ProgramOutcome { code: Some(0), ..outcome.clone() };
    let runner = ScriptedRunner::new().answer("nvme", good).answer("smartctl", outcome);
    let system = SystemRoots { sys: "/nonexistent".into(), proc: "/nonexistent".into() };
    let sources = WearSources {
        system: &system,
        runner: &runner,
        attributes: &ATTRIBUTES,
        is_root: true,
        smartctl_type: None,
        unlisted_logs: true,
    };
    for kind in [DeviceKind::Nvme, DeviceKind::Ssd] {
        let reading = sources.read(&Device { kind, ..DEVICE.clone() });
        for counter in &reading.counters {
            assert!(counter.step >= 1 && !counter.id.is_empty() && !counter.source.is_empty());
        }
    }
});
