//! What a request takes from a program through the kernel to the card and back by itself.
//!
//! Measured with reads of one page past the kernel's cache.

use std::fs::OpenOptions;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::time::Duration;

use crate::way::{PAGE_BYTES, median};

/// The median over some reads of `device`.
///
/// # Errors
/// When it cannot be read past the cache.
pub fn measure(device: &Path) -> std::io::Result<Duration> {
    let file = OpenOptions::new().read(true).custom_flags(libc::O_DIRECT).open(device)?;
    let mut bytes = vec![0_u8; 2 * PAGE_BYTES];
    let start = bytes.as_ptr().align_offset(PAGE_BYTES);
    let page = &mut bytes[start..start + PAGE_BYTES];
    median(|| file.read_exact_at(page, 0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_read_has_no_way() {
        assert!(measure(Path::new("/nonexistent")).is_err());
    }
}
