//! Registers of SD cards and eMMC chips: bit fields of what the kernel shows in hexadecimal.
//!
//! Sources: SD Specifications Part 1, Physical Layer Simplified Specification (CID 5.2, CSD 5.3, SD
//! status 4.10.2), JESD84 (eMMC; CID, CSD, EXT_CSD), and `drivers/mmc/core` of Linux, which decodes
//! the same fields. Limit: checksums are not looked at, since many hosts take them off.

pub mod cid;
pub mod csd;
pub mod ext_csd;
pub mod sd_status;

use std::fmt;

pub use cid::Cid;
pub use csd::Csd;
pub use ext_csd::ExtCsd;
pub use sd_status::SdStatus;

/// Why a register says nothing.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadRegister {
    /// Not the number of hexadecimal digits that it has.
    #[error("it has {found} hexadecimal digits, not {wanted}")]
    Length {
        found: usize,
        /// Digits there must be.
        wanted: usize,
    },
    /// Something that is no hexadecimal digit.
    #[error("it is not hexadecimal")]
    NotHex,
    /// Zeros throughout: the host or the card did not give it.
    #[error("it is all zeros, so the card or its host did not give it")]
    Zeros,
    /// Ones throughout: nothing drove the line.
    #[error("it is all ones, so nothing answered")]
    Ones,
    /// A field holds what its standard does not allow.
    #[error("{field} is {value}, which the standard does not allow")]
    Field {
        /// The field's name in the standard.
        field: &'static str,
        value: u64,
    },
}

/// The bytes of a register in the order in which they are sent.
#[derive(Clone, PartialEq, Eq)]
pub struct Register<const BYTES: usize>([u8; BYTES]);

impl<const BYTES: usize> Register<BYTES> {
    /// Reads what sysfs or debugfs shows.
    ///
    /// # Errors
    /// As [`BadRegister`] tells; also where it is empty of information.
    pub fn parse(text: &str) -> Result<Self, BadRegister> {
        let digits = text.trim().as_bytes();
        if digits.len() != 2 * BYTES {
            return Err(BadRegister::Length { found: digits.len(), wanted: 2 * BYTES });
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

    /// The field from bit `high` down to bit `low`, as standards count: bit 0 is sent last.
    ///
    /// # Panics
    /// When it is wider than 64 bits or lies outside.
    pub fn bits(&self, high: usize, low: usize) -> u64 {
        assert!(high >= low && high - low < 64 && high < 8 * BYTES, "a field of the register");
        (low..=high).rev().fold(0, |value, bit| {
            let byte = self.0[BYTES - 1 - bit / 8];
            value << 1 | u64::from(byte >> (bit % 8) & 1)
        })
    }

    /// The byte at that index, as the EXT_CSD register is counted.
    pub fn byte(&self, index: usize) -> u8 {
        self.0[index]
    }

    /// Letters of a name; what is none is left out.
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
    fn a_register_without_information_is_refused_with_the_reason() {
        let parse = |text: &str| Register::<4>::parse(text).unwrap_err();
        assert_eq!(parse("00000000"), BadRegister::Zeros);
        assert_eq!(parse("FFffFFff"), BadRegister::Ones);
        assert_eq!(parse("0000000"), BadRegister::Length { found: 7, wanted: 8 });
        assert_eq!(parse("000000zz"), BadRegister::NotHex);
        assert_eq!(parse("0000000é"), BadRegister::Length { found: 9, wanted: 8 });
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
