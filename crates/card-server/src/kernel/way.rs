//! What a request takes from a program to the card and back by itself.
//!
//! Measured while the card answers at once, with reads of one page past the kernel's cache. The
//! half of it is the way there, the other half the way back; that the first request of a burst
//! waits longer for a sleeping processor is not known here.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::time::{Duration, Instant};

const PAGE_BYTES: usize = 4096;
const READS: usize = 200;
/// More than this is another program's doing, not the way's.
const MOST: Duration = Duration::from_micros(100);

/// The median over some reads of `device`.
///
/// # Errors
/// When it cannot be read past the cache.
pub fn measure(device: &Path) -> std::io::Result<Duration> {
    let file = OpenOptions::new().read(true).custom_flags(libc::O_DIRECT).open(device)?;
    let mut bytes = vec![0_u8; 2 * PAGE_BYTES];
    let start = bytes.as_ptr().align_offset(PAGE_BYTES);
    let page = &mut bytes[start..start + PAGE_BYTES];
    median(&file, page).map(|way| way.min(MOST))
}

fn median(file: &File, page: &mut [u8]) -> std::io::Result<Duration> {
    let mut times = Vec::with_capacity(READS);
    for _ in 0..READS {
        let begun = Instant::now();
        file.read_exact_at(page, 0)?;
        times.push(begun.elapsed());
    }
    times.sort_unstable();
    Ok(times[READS / 2])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_read_has_no_way() {
        assert!(measure(Path::new("/nonexistent")).is_err());
    }
}
