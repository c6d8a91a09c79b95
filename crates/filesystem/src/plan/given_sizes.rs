//! Limits of an erase block and a write unit that the user gives for a device.
//!
//! A page of flash has 512 bytes or a larger power of two, today at least 4 KiB. A write unit is
//! one page or, where several are programmed together, a whole number of them.

use flashfit_device::Bytes;
use flashfit_user_error::{ExitClass, Hint, UserError};

const PAGE: Bytes = Bytes::kib(4);

/// Why a size that was given cannot be that of the device.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum GivenSizeError {
    #[error("an erase block of {} bytes is not made of sectors of {sector_bytes}", size.0)]
    EraseBlockSectors { size: Bytes, sector_bytes: u64 },
    #[error("an erase block of {size} is larger than the device of {capacity}")]
    AboveDevice { size: Bytes, capacity: Bytes },
    #[error("a write unit of {} bytes is not made of sectors of {sector_bytes}", size.0)]
    WriteUnitSectors { size: Bytes, sector_bytes: u64 },
    #[error("a write unit of {size} is neither a power of two nor a multiple of {PAGE}")]
    NoPages { size: Bytes },
    #[error("a write unit of {size} is larger than the erase block of {erase_block}")]
    AboveEraseBlock { size: Bytes, erase_block: Bytes },
}

impl UserError for GivenSizeError {
    fn class(&self) -> ExitClass {
        ExitClass::Usage
    }

    fn hint(&self) -> Option<Hint> {
        let text = match self {
            Self::EraseBlockSectors { .. } | Self::AboveDevice { .. } => {
                "use a size such as 4MiB, which is 4194304 bytes; 4MB is 4000000"
            }
            Self::WriteUnitSectors { .. } | Self::NoPages { .. } | Self::AboveEraseBlock { .. } => {
                "use the size of the pages that are programmed together, such as 16KiB"
            }
        };
        Some(text.into())
    }
}

/// Checks the sizes that were given for a device of `capacity`; `None` is a size that was not.
///
/// # Errors
/// See [`GivenSizeError`].
pub fn check_given_sizes(
    erase_block: Option<Bytes>,
    write_unit: Option<Bytes>,
    sector_bytes: u64,
    capacity: Bytes,
) -> Result<(), GivenSizeError> {
    let is_whole = |size: Bytes| size.0 > 0 && size.0 % sector_bytes.max(1) == 0;
    if let Some(size) = erase_block {
        if !is_whole(size) {
            return Err(GivenSizeError::EraseBlockSectors { size, sector_bytes });
        }
        if size > capacity {
            return Err(GivenSizeError::AboveDevice { size, capacity });
        }
    }
    let Some(size) = write_unit else { return Ok(()) };
    if !is_whole(size) {
        return Err(GivenSizeError::WriteUnitSectors { size, sector_bytes });
    }
    if !size.0.is_power_of_two() && size.0 % PAGE.0 != 0 {
        return Err(GivenSizeError::NoPages { size });
    }
    erase_block.map_or(Ok(()), |erase_block| check_within(size, erase_block))
}

/// Checks a write unit that was given against an erase block that was found otherwise.
///
/// # Errors
/// [`GivenSizeError::AboveEraseBlock`].
pub(super) fn check_within(write_unit: Bytes, erase_block: Bytes) -> Result<(), GivenSizeError> {
    if write_unit > erase_block {
        return Err(GivenSizeError::AboveEraseBlock { size: write_unit, erase_block });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(erase_block: Option<u64>, write_unit: Option<u64>) -> Result<(), GivenSizeError> {
        let capacity = Bytes::mib(256);
        check_given_sizes(erase_block.map(Bytes), write_unit.map(Bytes), 512, capacity)
    }

    #[test]
    fn impossible_sizes_are_refused() {
        for bytes in [0, 1000, u64::MAX] {
            let error = check(Some(bytes), None).unwrap_err();
            assert!(matches!(error, GivenSizeError::EraseBlockSectors { .. }), "{error}");
            let error = check(None, Some(bytes)).unwrap_err();
            assert!(matches!(error, GivenSizeError::WriteUnitSectors { .. }), "{error}");
        }
        let error = check(Some(512 << 20), None).unwrap_err();
        let expected = "an erase block of 512 MiB is larger than the device of 256 MiB";
        assert_eq!(error.to_string(), expected);
        let error = check(Some(4 << 20), Some(3 << 10)).unwrap_err();
        let expected = "a write unit of 3 KiB is neither a power of two nor a multiple of 4 KiB";
        assert_eq!(error.to_string(), expected);
        let error = check(Some(4 << 20), Some(8 << 20)).unwrap_err();
        let expected = "a write unit of 8 MiB is larger than the erase block of 4 MiB";
        assert_eq!(error.to_string(), expected);
    }

    #[test]
    fn sizes_of_real_devices_pass() {
        let sizes = [(4 << 20, 512), (1 << 20, 2 << 10), (6 << 20, 48 << 10), (256 << 20, 8 << 10)];
        for (erase_block, write_unit) in sizes {
            assert_eq!(check(Some(erase_block), Some(write_unit)), Ok(()));
        }
        assert_eq!(check(None, None), Ok(()));
    }
}
