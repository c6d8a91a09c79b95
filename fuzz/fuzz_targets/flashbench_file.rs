//! What people say is flashbench's output. What is read of it gets an inference, whose answers are
//! sizes that erase blocks have.

#![no_main]

use flashfit_geometry::QuantityValue;
use flashfit_geometry::flashbench::Imported;
use flashfit_geometry::flashbench::inference::infer;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let Ok(imported) = Imported::read(bytes) else { return };
    assert!(!imported.is_empty());
    if let Some(QuantityValue::Bytes(bytes)) = infer(&imported).findings.erase_block.value {
        assert!((64 << 10..=64 << 20).contains(&bytes));
    }
});
