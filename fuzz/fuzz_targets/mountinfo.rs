//! The kernel's list of mounts; its mount points are named by whoever mounts.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &[u8]| {
    let entries = flashfit_host::mountinfo::parse(text);
    assert!(entries.len() <= text.split(|byte| *byte == b'\n').count());
    for entry in entries {
        assert!(![&entry.options, &entry.kind].iter().any(|field| field.contains([' ', '\n'])));
    }
});
