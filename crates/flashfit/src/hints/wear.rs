//! Hints for wear counters.

use flashfit_host::ProgramError;
use flashfit_wear_counters::{KERNEL_WRITTEN, MeasureError};

pub fn measure(error: &MeasureError) -> Option<String> {
    match error {
        MeasureError::TooCoarse { counter, needed, .. } => {
            let allow = format!("allow it: --max-write {}MiB", needed.bytes.div_ceil(1 << 20));
            Some(match counter == KERNEL_WRITTEN {
                true => allow,
                false => {
                    format!("{allow}; or measure what the host writes: --counter {KERNEL_WRITTEN}")
                }
            })
        }
        MeasureError::Command(error @ ProgramError::Missing { .. }) => {
            let hint = "name the command after --, as in: -- cp -r /data /mnt/card";
            super::of(error).or_else(|| Some(hint.to_owned()))
        }
        MeasureError::NothingWritten { .. } => {
            Some("let the command write to a file system on that device".to_owned())
        }
        other => super::of(other),
    }
}
