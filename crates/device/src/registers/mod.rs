//! Decodes registers of SD cards and eMMC chips from the hexadecimal text of sysfs and debugfs.
//!
//! Sources: SD Specifications Part 1, Physical Layer Simplified Specification (CID 5.2, CSD 5.3, SD
//! status 4.10.2), JESD84 (eMMC; CID, CSD, EXT_CSD), and `drivers/mmc/core` of Linux, which decodes
//! the same fields. Limit: checksums are not verified, because many hosts strip them.

pub mod cid;
pub mod csd;
pub mod ext_csd;
pub mod sd_status;

use std::fmt;

pub use cid::Cid;
pub use csd::Csd;
pub use ext_csd::ExtCsd;
pub use sd_status::SdStatus;

/// Why a register cannot be decoded.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadRegister {
    #[error("it has {found} hexadecimal digits, expected {expected}")]
    Length { found: usize, expected: usize },
    #[error("it is not hexadecimal")]
    NotHex,
    /// The host or the card did not provide the register.
    #[error("it is all zeros, so the card or its host did not provide it")]
    Zeros,
    /// Nothing drove the data line.
    #[error("it is all ones, so nothing answered")]
    Ones,
    #[error("{field} is {value}, which the standard reserves")]
    Field {
        /// Name of the field in the standard.
        field: &'static str,
        value: u64,
    },
}

/// The bytes of a register in transmission order.
#[derive(Clone, PartialEq, Eq)]
pub struct Register<const BYTES: usize>([u8; BYTES]);

impl<const BYTES: usize> Register<BYTES> {
    /// Parses the hexadecimal text of sysfs or debugfs.
    ///
    /// # Errors
    /// When the text is malformed or carries no information.
    pub fn parse(text: &str) -> Result<Self, BadRegister> {
        let digits = text.trim().as_bytes();
        if digits.len() != 2 * BYTES {
            return Err(BadRegister::Length { found: digits.len(), expected: 2 * BYTES });
        }
        let digit = |byte: u8| char::from(byte).to_digit(16).ok_or(BadRegister::NotHex);
        let mut bytes = [0; BYTES];
        for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
            let value = digit(pair[0])? << 4 | digit(pair[1])?;
            *byte = u8::try_from(value).expect("two digits are a byte");
        }
        if bytes.iter().all(|byte| *byte == 0) {
            return Err(BadRegister::Zeros);
        }
        if bytes.iter().all(|byte| *byte == 0xff) {
            return Err(BadRegister::Ones);
        }
        Ok(Self(bytes))
    }

    /// The field from bit `high` down to bit `low`, numbered as in the standards: bit 0 is sent
    /// last.
    ///
    /// # Panics
    /// When the field is wider than 64 bits or outside the register.
    pub fn bits(&self, high: usize, low: usize) -> u64 {
        assert!(high >= low && high - low < 64 && high < 8 * BYTES, "a field of the register");
        (low..=high).rev().fold(0, |value, bit| {
            let byte = self.0[BYTES - 1 - bit / 8];
            value << 1 | u64::from(byte >> (bit % 8) & 1)
        })
    }

    /// The byte at an index as EXT_CSD counts them: index 0 is sent first.
    pub fn byte(&self, index: usize) -> u8 {
        self.0[index]
    }

    /// An ASCII text field, without unprintable characters.
    fn text(&self, high: usize, low: usize) -> String {
        let letters = (low..high).step_by(8).rev().map(|bit| {
            let code = u8::try_from(self.bits(bit + 7, bit)).expect("eight bits");
            char::from(code)
        });
        letters.filter(char::is_ascii_graphic).collect()
    }
}

impl<const BYTES: usize> fmt::Debug for Register<BYTES> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_register_without_information_is_rejected_with_the_reason() {
        let parse = |text: &str| Register::<4>::parse(text).unwrap_err();
        assert_eq!(parse("00000000"), BadRegister::Zeros);
        assert_eq!(parse("FFffFFff"), BadRegister::Ones);
        assert_eq!(parse("0000000"), BadRegister::Length { found: 7, expected: 8 });
        assert_eq!(parse("000000zz"), BadRegister::NotHex);
        assert_eq!(parse("0000000é"), BadRegister::Length { found: 9, expected: 8 });
    }

    #[test]
    fn bits_count_from_the_end() {
        let register = Register::<4>::parse("8040 2001".replace(' ', "").as_str()).unwrap();
        assert_eq!(register.bits(31, 31), 1);
        assert_eq!(register.bits(31, 16), 0x8040);
        assert_eq!(register.bits(13, 0), 0x2001);
        assert_eq!(register.bits(0, 0), 1);
    }
}
