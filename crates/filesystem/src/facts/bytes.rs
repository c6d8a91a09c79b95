//! Little-endian numbers at fixed places of a superblock.

pub(super) fn array<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..at.checked_add(N)?)?.try_into().ok()
}

/// A number of 16 bits.
pub(super) fn le16(bytes: &[u8], at: usize) -> Option<u64> {
    array(bytes, at).map(|found| u64::from(u16::from_le_bytes(found)))
}

/// A number of 32 bits.
pub(super) fn le32(bytes: &[u8], at: usize) -> Option<u64> {
    array(bytes, at).map(|found| u64::from(u32::from_le_bytes(found)))
}

/// Two to the power of a number that was read, up to 2^40.
pub(super) fn power(exponent: u64) -> Option<u64> {
    (exponent <= 40).then(|| 1 << exponent)
}
