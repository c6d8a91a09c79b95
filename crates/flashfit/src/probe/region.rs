//! The value of `--region`.

use flashfit_probe::DeviceRegion;

use crate::cli::size;

/// Parses `START+LENGTH` for clap.
pub fn region(text: &str) -> Result<DeviceRegion, String> {
    let (start, length) = text
        .split_once('+')
        .ok_or_else(|| "expected START+LENGTH, such as 1GiB+512MiB".to_owned())?;
    let (start, length) = (size(start)?, size(length)?);
    if length.0 == 0 {
        return Err("a region must be longer than 0 bytes".to_owned());
    }
    if start.0.checked_add(length.0).is_none() {
        return Err("a region must end below 16 EiB".to_owned());
    }
    Ok(DeviceRegion { start, length })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_region_is_a_start_and_a_length() {
        let parsed = region("1MiB+512KiB").unwrap();
        assert_eq!(parsed.range(), (1 << 20)..(1 << 20) + (512 << 10));
        assert_eq!(region("0+4096").unwrap().range(), 0..4096);
        for wrong in ["1MiB", "1MiB+0", "x+1MiB", "1MiB-2MiB", "18446744073709551615+1", ""] {
            assert!(region(wrong).is_err(), "{wrong}");
        }
    }
}
