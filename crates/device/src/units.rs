//! Parses and formats sizes in bytes.
//!
//! `4k`, `4K`, `4KiB` and `4kib` are 4096; `4kB` and `4KB` are 4000 (the SI unit needs its B);
//! `63s` is 63 sectors of 512 bytes; a bare number is bytes. A lone `b` is refused, because it
//! means bits, bytes or blocks depending on who writes it.

use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Sector size of partition tables and of the kernel's sysfs, whatever the device uses.
pub const SECTOR_BYTES: u64 = 512;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, JsonSchema)]
pub struct Bytes(pub u64);

impl Bytes {
    pub const fn kib(count: u64) -> Self {
        Self(count << 10)
    }

    pub const fn mib(count: u64) -> Self {
        Self(count << 20)
    }

    /// As a decimal (SI) size, as printed on packages: `62.5 GB`.
    pub fn si(self) -> String {
        scaled(self.0, 1000, &["B", "kB", "MB", "GB", "TB", "PB"])
    }
}

impl fmt::Display for Bytes {
    /// In binary units: `4 MiB`, `58.2 GiB`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&scaled(self.0, 1024, &["B", "KiB", "MiB", "GiB", "TiB", "PiB"]))
    }
}

fn scaled(bytes: u64, base: u64, units: &[&str]) -> String {
    let (mut unit, mut divisor) = (0, 1);
    let tenths =
        |divisor: u64| (u128::from(bytes) * 10 + u128::from(divisor / 2)) / u128::from(divisor);
    // Compare the rounded value, so that 1023.96 KiB becomes 1.0 MiB.
    while unit + 1 < units.len() && tenths(divisor) >= u128::from(base) * 10 {
        divisor *= base;
        unit += 1;
    }
    if bytes % divisor == 0 {
        format!("{} {}", bytes / divisor, units[unit])
    } else {
        format!("{}.{} {}", tenths(divisor) / 10, tenths(divisor) % 10, units[unit])
    }
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is not a size: {reason} (write 4KiB, 4MiB, 512s or a number of bytes)")]
pub struct BadSize {
    text: String,
    reason: &'static str,
}

impl FromStr for Bytes {
    type Err = BadSize;

    fn from_str(text: &str) -> Result<Self, BadSize> {
        let bad = |reason| BadSize { text: text.to_owned(), reason };
        let trimmed = text.trim();
        let digits = trimmed.len() - trimmed.trim_start_matches(|c: char| c.is_ascii_digit()).len();
        let (number, unit) = trimmed.split_at(digits);
        if number.is_empty() {
            return Err(bad("it does not start with a whole number"));
        }
        if unit.starts_with(['.', ',']) {
            return Err(bad("a fraction is not allowed: use a smaller unit, 1536MiB for 1.5GiB"));
        }
        let number: u64 = number.parse().map_err(|_| bad("the number is too large"))?;
        let factor = factor(unit.trim()).ok_or_else(|| bad("the unit is unknown"))?;
        number.checked_mul(factor).map(Bytes).ok_or_else(|| bad("the number is too large"))
    }
}

fn factor(unit: &str) -> Option<u64> {
    if unit.is_empty() || unit == "B" {
        return Some(1);
    }
    if unit == "s" {
        return Some(SECTOR_BYTES);
    }
    let (prefix, rest) = unit.split_at_checked(1)?;
    let power = "kmgtp".find(&prefix.to_ascii_lowercase())? + 1;
    let power = u32::try_from(power).expect("five prefixes");
    match rest {
        "" | "i" => Some(1024u64.pow(power)),
        _ if rest.eq_ignore_ascii_case("ib") => Some(1024u64.pow(power)),
        "B" => Some(1000u64.pow(power)),
        _ => None,
    }
}

impl Serialize for Bytes {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_u64(self.0)
    }
}

impl<'de> Deserialize<'de> for Bytes {
    /// From an integer (bytes) or a text with a unit.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl serde::de::Visitor<'_> for Visitor {
            type Value = Bytes;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a size such as \"4MiB\" or a number of bytes")
            }

            fn visit_u64<E: serde::de::Error>(self, bytes: u64) -> Result<Bytes, E> {
                Ok(Bytes(bytes))
            }

            fn visit_i64<E: serde::de::Error>(self, bytes: i64) -> Result<Bytes, E> {
                u64::try_from(bytes).map(Bytes).map_err(|_| E::custom("a size is not negative"))
            }

            fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Bytes, E> {
                text.parse().map_err(E::custom)
            }
        }
        deserializer.deserialize_any(Visitor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn binary_decimal_sector_and_plain_sizes_are_parsed() {
        for (text, bytes) in [
            ("4k", 4096),
            ("4KiB", 4096),
            ("4kB", 4000),
            ("63s", 32256),
            ("7", 7),
            ("3 MiB", 3 << 20),
            ("1g", 1 << 30),
        ] {
            assert_eq!(text.parse(), Ok(Bytes(bytes)), "{text}");
        }
    }

    #[test]
    fn invalid_sizes_are_rejected() {
        for text in ["", "k", "4b", "-4k", "4 quarts", "99999999999T", "4kb"] {
            assert!(text.parse::<Bytes>().is_err(), "{text}");
        }
    }

    #[test]
    fn a_fraction_is_refused_with_what_to_write() {
        for text in ["1.5G", "1,5 GiB", "0.5MiB"] {
            let error = text.parse::<Bytes>().unwrap_err().to_string();
            assert!(error.contains("a fraction is not allowed: use a smaller unit"), "{error}");
        }
    }

    #[test]
    fn sizes_are_formatted_in_binary_and_decimal_units() {
        assert_eq!(Bytes::mib(4).to_string(), "4 MiB");
        assert_eq!(Bytes(62_500_000_000).si(), "62.5 GB");
        assert_eq!(Bytes(62_500_000_000).to_string(), "58.2 GiB");
        assert_eq!(Bytes(0).to_string(), "0 B");
        assert_eq!(Bytes((1 << 20) - 1).to_string(), "1.0 MiB");
    }
}
