//! FNV-1a, 64 bits (Fowler, Noll, Vo; draft-eastlake-fnv). It tells a damaged copy from a whole
//! one; it does not tell a forged one.

const OFFSET_BASIS: u64 = 0xcbf2_9ce4_8422_2325;
const PRIME: u64 = 0x0000_0100_0000_01b3;

/// The checksum of `bytes`, as sixteen hexadecimal digits.
pub(crate) fn fnv1a(bytes: &[u8]) -> String {
    let mut hash = OFFSET_BASIS;
    for byte in bytes {
        hash = (hash ^ u64::from(*byte)).wrapping_mul(PRIME);
    }
    format!("{hash:016x}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_published_examples() {
        assert_eq!(fnv1a(b""), "cbf29ce484222325");
        assert_eq!(fnv1a(b"a"), "af63dc4c8601ec8c");
        assert_eq!(fnv1a(b"foobar"), "85944171f73967e8");
    }
}
