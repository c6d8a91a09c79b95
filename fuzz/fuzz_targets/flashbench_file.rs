//! What people say is flashbench's output; what is read of it gets an inference.

#![no_main]

use flashfit_geometry::flashbench::Imported;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let Ok(imported) = Imported::read(bytes) else { return };
    assert!(!imported.is_empty());
});
