//! Checksums of what is kept: CRC-32 (IEEE 802.3) for backups; FNV-1a, 64 bits (Fowler, Noll, Vo;
//! draft-eastlake-fnv), for markers, names of files and backups of version 1. They find a damaged
//! copy, not a forged one.

use serde::{Deserialize, Serialize};

/// The checksum of a kept part, in hexadecimal.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum PartChecksum {
    #[serde(rename = "crc32")]
    Crc32(String),
    #[serde(rename = "fnv1a64")]
    Fnv1a64(String),
}

impl PartChecksum {
    pub(crate) fn of(bytes: &[u8]) -> Self {
        Self::Crc32(crc32(bytes))
    }

    pub(crate) fn fits(&self, bytes: &[u8]) -> bool {
        match self {
            Self::Crc32(sum) => *sum == crc32(bytes),
            Self::Fnv1a64(sum) => *sum == fnv1a(bytes),
        }
    }
}

fn crc32(bytes: &[u8]) -> String {
    format!("{:08x}", crc32fast::hash(bytes))
}

/// FNV-1a of `bytes`, as sixteen hexadecimal digits.
pub(crate) fn fnv1a(bytes: &[u8]) -> String {
    format!("{:016x}", flashfit_numbers::fnv1a(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_published_examples() {
        assert_eq!(crc32(b"123456789"), "cbf43926");
        assert_eq!(fnv1a(b""), "cbf29ce484222325");
        assert_eq!(fnv1a(b"a"), "af63dc4c8601ec8c");
        assert_eq!(fnv1a(b"foobar"), "85944171f73967e8");
    }
}
