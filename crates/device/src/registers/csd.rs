//! Decodes the card-specific data register (CSD): capacity, erase sector, write protection.
//!
//! Limits: SD cards above 2 GB have constants in the erase fields; eMMC chips with sector
//! addressing have a constant in the capacity field. Both are reported as `None`.

use super::{BadRegister, Register};
use crate::units::Bytes;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CsdFamily {
    /// SD and microSD cards.
    Sd,
    /// MMC cards and eMMC chips.
    Mmc,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Csd {
    /// Layout version: 1 to 3 for SD, 1 to 4 for MMC.
    pub version: u8,
    /// Size of the user area; `None` if another register has it.
    pub capacity: Option<Bytes>,
    /// Smallest erasable size; `None` where the standard fixes the field.
    pub erase_sector: Option<Bytes>,
    /// PERM_WRITE_PROTECT: cannot be undone.
    pub permanently_protected: bool,
    /// TMP_WRITE_PROTECT: can be cleared.
    pub protected: bool,
}

/// C_SIZE of an eMMC chip whose capacity is in EXT_CSD.
const SIZE_IN_EXT_CSD: u64 = 0xfff;

impl Csd {
    /// Parses the sysfs attribute `csd`.
    pub fn parse(family: CsdFamily, text: &str) -> Result<Self, BadRegister> {
        let register = Register::<16>::parse(text)?;
        let structure = register.bits(127, 126);
        let version = match (family, structure) {
            (CsdFamily::Sd, 3) => {
                return Err(BadRegister::Field { field: "CSD_STRUCTURE", value: structure });
            }
            _ => u8::try_from(structure + 1).expect("two bits"),
        };
        let write_block = 1u64 << register.bits(25, 22);
        let (capacity, erase_sector) = match (family, structure) {
            (CsdFamily::Sd, 0) => {
                let sector = (register.bits(45, 39) + 1) * write_block;
                let single = register.bits(46, 46) == 1;
                (Some(capacity_in_blocks(&register)), Some(if single { 512 } else { sector }))
            }
            (CsdFamily::Sd, 1) => (Some((register.bits(69, 48) + 1) << 19), None),
            (CsdFamily::Sd, _) => (Some((register.bits(75, 48) + 1) << 19), None),
            (CsdFamily::Mmc, _) => {
                let group = (register.bits(46, 42) + 1) * (register.bits(41, 37) + 1) * write_block;
                let is_in_csd = register.bits(73, 62) != SIZE_IN_EXT_CSD;
                (is_in_csd.then(|| capacity_in_blocks(&register)), Some(group))
            }
        };
        Ok(Self {
            version,
            capacity: capacity.map(Bytes),
            erase_sector: erase_sector.map(Bytes),
            permanently_protected: register.bits(13, 13) == 1,
            protected: register.bits(12, 12) == 1,
        })
    }
}

/// The capacity in bytes of a card of at most 2 GB.
fn capacity_in_blocks(register: &Register<16>) -> u64 {
    let blocks = (register.bits(73, 62) + 1) << (register.bits(49, 47) + 2);
    blocks << register.bits(83, 80)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(family: CsdFamily, text: &str) -> Csd {
        Csd::parse(family, text).unwrap()
    }

    #[test]
    fn the_capacity_of_a_large_card_is_in_units_of_512_kib() {
        // C_SIZE 0xedc8: 31,914,983,424 bytes, a card sold as 32 GB.
        let csd = parse(CsdFamily::Sd, "400e00325b590000edc87f800a404000");
        assert_eq!(csd.version, 2);
        assert_eq!(csd.capacity, Some(Bytes(31_914_983_424)));
        assert_eq!(csd.erase_sector, None);
        assert!(!csd.protected && !csd.permanently_protected);
    }

    #[test]
    fn the_capacity_of_a_small_card_is_in_blocks() {
        // READ_BL_LEN 10, C_SIZE 3879, C_SIZE_MULT 7, SECTOR_SIZE 127, WRITE_BL_LEN 10.
        let bits = |fields: &[(u32, u128)]| {
            let value = fields.iter().fold(0u128, |sum, (low, value)| sum | value << low);
            format!("{value:032x}")
        };
        let fields = [(80, 10), (62, 3879), (47, 7), (39, 127), (22, 10)];
        let csd = parse(CsdFamily::Sd, &bits(&fields));
        assert_eq!(csd.capacity, Some(Bytes(3880 * 512 * 1024)));
        assert_eq!(csd.erase_sector, Some(Bytes::kib(128)));
        let one = parse(CsdFamily::Sd, &bits(&[&fields[..], &[(46, 1), (12, 1)]].concat()));
        assert_eq!(one.erase_sector, Some(Bytes(512)));
        assert!(one.protected);
    }

    #[test]
    fn an_emmc_with_sector_addressing_has_no_capacity_here() {
        let fields: [(u32, u128); 5] = [(126, 3), (62, 0xfff), (42, 31), (37, 31), (22, 9)];
        let value = fields.iter().fold(0u128, |sum, (low, value)| sum | value << low);
        let csd = parse(CsdFamily::Mmc, &format!("{value:032x}"));
        assert_eq!((csd.version, csd.capacity), (4, None));
        assert_eq!(csd.erase_sector, Some(Bytes::kib(512)));
    }

    #[test]
    fn an_unknown_layout_is_rejected() {
        let error = Csd::parse(CsdFamily::Sd, "c00e00325b590000edc87f800a404000").unwrap_err();
        assert_eq!(error, BadRegister::Field { field: "CSD_STRUCTURE", value: 3 });
    }
}
