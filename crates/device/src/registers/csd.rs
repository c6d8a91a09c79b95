//! The card specific data register (CSD): capacity, erase sector, write protection.
//!
//! An SD card of more than 2 GB has fixed values in the erase fields, which say nothing of it; so
//! does an eMMC chip that is addressed by sectors in its capacity.

use super::{BadRegister, Register};
use crate::units::Bytes;

/// Whose layout the register has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CsdFamily {
    /// SD and microSD cards.
    Sd,
    /// MMC cards and eMMC chips.
    Mmc,
}

/// What is read of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Csd {
    /// The version of the layout: 1 to 3 for SD, 1 to 4 for MMC.
    pub version: u8,
    /// The size of the user area; `None` where another register has it.
    pub capacity: Option<Bytes>,
    /// What the card erases at the least; `None` where the field is fixed by the standard.
    pub erase_sector: Option<Bytes>,
    /// PERM_WRITE_PROTECT: it can never be written again.
    pub permanently_protected: bool,
    /// TMP_WRITE_PROTECT: it refuses writes until that is taken back.
    pub protected: bool,
}

/// C_SIZE of an eMMC chip whose capacity is in EXT_CSD.
const SIZE_IS_ELSEWHERE: u64 = 0xfff;

impl Csd {
    /// Reads what sysfs shows in `csd`.
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
                (Some(by_blocks(&register)), Some(if single { 512 } else { sector }))
            }
            (CsdFamily::Sd, 1) => (Some((register.bits(69, 48) + 1) << 19), None),
            (CsdFamily::Sd, _) => (Some((register.bits(75, 48) + 1) << 19), None),
            (CsdFamily::Mmc, _) => {
                let group = (register.bits(46, 42) + 1) * (register.bits(41, 37) + 1) * write_block;
                let here = register.bits(73, 62) != SIZE_IS_ELSEWHERE;
                (here.then(|| by_blocks(&register)), Some(group))
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

/// The capacity of a card of at most 2 GB, in bytes.
fn by_blocks(register: &Register<16>) -> u64 {
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
    fn a_large_card_has_its_capacity_in_units_of_512_kib() {
        // C_SIZE 0xedc8: 31,914,983,424 bytes, a card sold as 32 GB.
        let csd = parse(CsdFamily::Sd, "400e00325b590000edc87f800a404000");
        assert_eq!(csd.version, 2);
        assert_eq!(csd.capacity, Some(Bytes(31_914_983_424)));
        assert_eq!(csd.erase_sector, None);
        assert!(!csd.protected && !csd.permanently_protected);
    }

    #[test]
    fn a_small_card_has_its_capacity_in_blocks() {
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
    fn an_emmc_has_its_capacity_elsewhere() {
        let fields: [(u32, u128); 5] = [(126, 3), (62, 0xfff), (42, 31), (37, 31), (22, 9)];
        let value = fields.iter().fold(0u128, |sum, (low, value)| sum | value << low);
        let csd = parse(CsdFamily::Mmc, &format!("{value:032x}"));
        assert_eq!((csd.version, csd.capacity), (4, None));
        assert_eq!(csd.erase_sector, Some(Bytes::kib(512)));
    }

    #[test]
    fn a_layout_that_does_not_exist_is_refused() {
        let error = Csd::parse(CsdFamily::Sd, "c00e00325b590000edc87f800a404000").unwrap_err();
        assert_eq!(error, BadRegister::Field { field: "CSD_STRUCTURE", value: 3 });
    }
}
