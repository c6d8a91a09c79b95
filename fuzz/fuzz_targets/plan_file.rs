//! Plan files, which strangers hand around: what is read can be made again or is refused, and what
//! was made again is made the same once more.

#![no_main]

use std::sync::LazyLock;

use flashfit_filesystem::FileSystemCatalog;
use flashfit_filesystem::plan::file;
use libfuzzer_sys::{fuzz_mutator, fuzz_target};

static CATALOG: LazyLock<FileSystemCatalog> =
    LazyLock::new(|| FileSystemCatalog::load(None).expect("the built-in files are sound"));

fuzz_mutator!(|data: &mut [u8], size: usize, max_size: usize, seed: u32| {
    flashfit_fuzz::mutate(&mut data[..max_size], size, seed)
});

fuzz_target!(|text: &str| {
    let Ok(plan) = file::read(text) else { return };
    let Ok(made) = plan.rebuild(&CATALOG) else { return };
    assert_eq!(made.rebuild(&CATALOG).expect("as it was made"), made);
});
