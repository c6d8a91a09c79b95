//! Hints for wear counters.

use flashfit_wear_counters::{KERNEL_WRITTEN, MeasureError};

pub fn measure(error: &MeasureError) -> Option<String> {
    match error {
        MeasureError::TooCoarse { .. } => Some(format!(
            "allow it with --max-write, or measure what the host writes: --counter {KERNEL_WRITTEN}"
        )),
        MeasureError::NothingWritten { .. } => {
            Some("let the command write to a file system on that device".to_owned())
        }
        other => super::of(other),
    }
}
