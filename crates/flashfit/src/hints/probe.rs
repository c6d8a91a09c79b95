//! Hints for errors of a probe.

use flashfit_device::Bytes;
use flashfit_probe::ProbeRunError;

use crate::rendering::check::size_argument;

const MIB: u64 = 1 << 20;
/// The rest of a device is proposed if it is long enough for every kind of probe.
const LONG: u64 = 16 * MIB;

/// The hint for an error of a probe, where it needs a flag.
pub fn run(error: &ProbeRunError) -> Option<String> {
    match error {
        ProbeRunError::Region { .. } => {
            Some("a region is START+LENGTH, such as --region 1GiB+512MiB".to_owned())
        }
        ProbeRunError::RegionBeyondEnd { start, length, capacity, .. } => {
            Some(format!("use --region {}", within(start.0, length.0, *capacity)))
        }
        ProbeRunError::TooFewBytesForTwin { .. } => {
            let hint = "give a larger --max-write SIZE; at most half of it is for the twin";
            Some(hint.to_owned())
        }
        _ => None,
    }
}

/// A region like this one that lies on the device: from its start to the end, or as long as it.
fn within(start: u64, length: u64, Bytes(capacity): Bytes) -> String {
    let rounded = |bytes: u64| if bytes >= MIB { bytes / MIB * MIB } else { 0 };
    let end = rounded(capacity);
    let (start, length) = match end.checked_sub(start) {
        Some(rest) if rest >= LONG => (start, rest),
        _ => (rounded(end.saturating_sub(length)), length.min(end)),
    };
    format!("{}+{}", size_argument(start), size_argument(length))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_proposed_region_lies_on_the_device() {
        let odd = Bytes(100_000_001);
        assert_eq!(within(1 << 30, MIB, odd), "94MiB+1MiB");
        assert_eq!(within(32 * MIB, 1 << 30, odd), "32MiB+63MiB");
        assert_eq!(within(90 * MIB, 32 * MIB, odd), "63MiB+32MiB");
        assert_eq!(within(4 * MIB, 8 * MIB, Bytes(8 * MIB)), "0MiB+8MiB");
        assert_eq!(within(1 << 40, 1 << 40, odd), "0MiB+95MiB");
    }
}
