//! The block that an SD card sends, and the kernel's attributes: a share of the life is at most 254 %.

#![no_main]

use flashfit_wear_counters::{file_systems, kernel, mmc, sd_card};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let mut block = [0; 512];
    let length = data.len().min(block.len());
    block[..length].copy_from_slice(&data[..length]);
    for counter in sd_card::decode_any(&block).unwrap_or_default() {
        assert!(counter.value <= 254);
    }
    let text = String::from_utf8_lossy(data);
    for counter in kernel::decode(&text) {
        assert!(counter.value % 512 == 0);
    }
    for tenths in [mmc::life_tenths(&text).a, mmc::life_tenths(&text).b].into_iter().flatten() {
        assert!((1..=11).contains(&tenths));
    }
    file_systems::decode(&text, "id", "source");
    sd_card::documented(&text);
});
