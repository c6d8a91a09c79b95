//! A log of crash states, in its own format and in that of dm-log-writes.
#![no_main]

use flashfit_crash::log::{CrashLog, DmLogStart};
use flashfit_crash::state::{Enumeration, FlushFault, StateBuilder, enumerate};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let _ = CrashLog::from_bytes(bytes);
    let _ = CrashLog::from_dm_log(&mut &bytes[..], DmLogStart::default());
    let start = DmLogStart { mark: None, image: Some(&mut std::io::empty()) };
    let Ok(log) = CrashLog::from_dm_log(&mut &bytes[..], start) else { return };
    assert!(CrashLog::from_bytes(&log.to_bytes()).is_ok(), "what is read can be saved and loaded");
    let how = Enumeration {
        seed: 1,
        most: 20,
        unit_sectors: 8,
        flushes: FlushFault::None,
        by_card: false,
    };
    let (mut builder, mut pool) = (StateBuilder::new(&log), log.pool.clone());
    for state in enumerate(&log, &how) {
        assert_eq!(state.fault(&log), None);
        builder.build(&log, &mut pool, &state);
    }
});
