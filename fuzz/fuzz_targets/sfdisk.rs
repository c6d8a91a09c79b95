//! What sfdisk says of a medium's partition table, which whoever wrote the medium decides.

#![no_main]

use std::path::Path;

use flashfit_host::Outcome;
use flashfit_host::program::ScriptedRunner;
use flashfit_medium::Bytes;
use libfuzzer_sys::{fuzz_mutator, fuzz_target};

fuzz_mutator!(|data: &mut [u8], size: usize, max_size: usize, seed: u32| {
    flashfit_fuzz::mutate(&mut data[..max_size], size, seed)
});

fuzz_target!(|text: &str| {
    let outcome = Outcome { code: Some(0), stdout: text.to_owned(), ..Outcome::default() };
    let runner = ScriptedRunner::new().answer("sfdisk --json", outcome);
    for partition in flashfit_medium::partitions::read(&runner, Path::new("/dev/node")) {
        let _ = partition.starts_on(Bytes::mib(4));
    }
});
