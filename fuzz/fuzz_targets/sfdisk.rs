//! What sfdisk says of a device's partition table, which whoever wrote the device decides.

#![no_main]

use std::path::Path;

use flashfit_device::Bytes;
use flashfit_host::ProgramOutcome;
use flashfit_host::program::ScriptedRunner;
use libfuzzer_sys::{fuzz_mutator, fuzz_target};

fuzz_mutator!(|data: &mut [u8], size: usize, max_size: usize, seed: u32| {
    flashfit_fuzz::mutate(&mut data[..max_size], size, seed)
});

fuzz_target!(|text: &str| {
    let outcome =
        ProgramOutcome { code: Some(0), stdout: text.to_owned(), ..ProgramOutcome::default() };
    let runner = ScriptedRunner::new().answer("sfdisk --json", outcome);
    for partition in flashfit_device::partitions::read(&runner, Path::new("/dev/node")) {
        let _ = partition.starts_on(Bytes::mib(4));
    }
});
