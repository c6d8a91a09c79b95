//! Sizes as people write them: one that is shown without a fraction is read as the same again.

#![no_main]

use flashfit_device::Bytes;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    let Ok(size) = text.parse::<Bytes>() else { return };
    assert_eq!(size.0.to_string().parse(), Ok(size));
    for shown in [size.to_string(), size.si()] {
        if !shown.contains('.') {
            assert_eq!(shown.parse(), Ok(size), "{shown}");
        }
    }
});
