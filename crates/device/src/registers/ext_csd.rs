//! Decodes the extended CSD register (EXT_CSD) of eMMC: erase group, optimal sizes, cache, wear.
//!
//! The register is read from debugfs, which requires root. Limit: the life time estimate has steps
//! of 10 %, too coarse to measure the wear of one benchmark.

use super::{BadRegister, Register};
use crate::units::Bytes;

const CACHE_CTRL: usize = 33;
const ERASE_GROUP_DEF: usize = 175;
const REVISION: usize = 192;
const SECTOR_COUNT: usize = 212;
const HC_ERASE_GRP_SIZE: usize = 224;
const CACHE_SIZE: usize = 249;
const OPTIMAL_WRITE_SIZE: usize = 265;
const OPTIMAL_READ_SIZE: usize = 266;
const PRE_EOL_INFO: usize = 267;
const LIFE_TIME_A: usize = 268;
const LIFE_TIME_B: usize = 269;
const VENDOR_HEALTH: std::ops::Range<usize> = 270..302;

/// First revision (eMMC 5.0) that has optimal sizes and life time estimates.
const REVISION_OF_5_0: u8 = 7;

/// How much of the reserved blocks is consumed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PreEol {
    /// Less than 80 %.
    Normal,
    /// At least 80 %.
    Warning,
    /// At least 90 %.
    Urgent,
}

/// The decoded fields. A field that the chip leaves undefined is `None`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExtCsd {
    pub revision: u8,
    /// SEC_COUNT: size of the user area, for chips above 2 GB.
    pub capacity: Option<Bytes>,
    /// HC_ERASE_GRP_SIZE: the high-capacity erase group.
    pub erase_group: Option<Bytes>,
    /// ERASE_GROUP_DEF: whether the high-capacity erase group is in use.
    pub erase_group_in_use: bool,
    /// OPTIMAL_WRITE_SIZE: writes should be multiples of this.
    pub optimal_write: Option<Bytes>,
    /// OPTIMAL_READ_SIZE: reads should be multiples of this.
    pub optimal_read: Option<Bytes>,
    /// CACHE_SIZE: the volatile cache.
    pub cache: Option<Bytes>,
    /// CACHE_CTRL: whether the cache is on.
    pub cache_is_on: bool,
    /// DEVICE_LIFE_TIME_EST_TYP_A: tenths of the SLC area's life used, 1 to 11.
    pub life_used_a: Option<u8>,
    /// DEVICE_LIFE_TIME_EST_TYP_B: tenths of the MLC or TLC area's life used, 1 to 11.
    pub life_used_b: Option<u8>,
    pub pre_eol: Option<PreEol>,
    /// VENDOR_PROPRIETARY_HEALTH_REPORT: 32 bytes that only the manufacturer can decode; `None` if
    /// all are 0.
    pub vendor_health: Option<Vec<u8>>,
}

impl ExtCsd {
    /// Parses the debugfs attribute `ext_csd`.
    pub fn parse(text: &str) -> Result<Self, BadRegister> {
        let register = Register::<512>::parse(text)?;
        let byte = |index| register.byte(index);
        let word = |index: usize| {
            (0..4).rev().fold(0, |value, offset| value << 8 | u64::from(byte(index + offset)))
        };
        let times = |count: u64, unit: Bytes| (count > 0).then(|| Bytes(count * unit.0));
        let revision = byte(REVISION);
        let since_5_0 = |index| if revision >= REVISION_OF_5_0 { byte(index) } else { 0 };
        let life = |index| Some(since_5_0(index)).filter(|tenths| (1..=11).contains(tenths));
        let erase_group = u64::from(byte(HC_ERASE_GRP_SIZE));
        Ok(Self {
            revision,
            capacity: times(word(SECTOR_COUNT), Bytes(512)),
            erase_group: times(erase_group, Bytes::kib(512)),
            erase_group_in_use: byte(ERASE_GROUP_DEF) & 1 == 1,
            optimal_write: times(u64::from(since_5_0(OPTIMAL_WRITE_SIZE)), Bytes::kib(4)),
            optimal_read: times(u64::from(since_5_0(OPTIMAL_READ_SIZE)), Bytes::kib(4)),
            cache: times(word(CACHE_SIZE), Bytes::kib(1)),
            cache_is_on: byte(CACHE_CTRL) & 1 == 1,
            life_used_a: life(LIFE_TIME_A),
            life_used_b: life(LIFE_TIME_B),
            pre_eol: PreEol::from_code(since_5_0(PRE_EOL_INFO)),
            vendor_health: Some(VENDOR_HEALTH.map(since_5_0).collect())
                .filter(|report: &Vec<u8>| report.iter().any(|byte| *byte != 0)),
        })
    }
}

impl PreEol {
    pub fn text(self) -> &'static str {
        match self {
            Self::Normal => "less than 80 % used",
            Self::Warning => "80 % used or more",
            Self::Urgent => "90 % used or more",
        }
    }

    /// Decodes PRE_EOL_INFO; `None` for values that the standard reserves.
    pub fn from_code(code: u8) -> Option<Self> {
        match code {
            1 => Some(Self::Normal),
            2 => Some(Self::Warning),
            3 => Some(Self::Urgent),
            _ => None,
        }
    }
}

/// A life time estimate in tenths, for people.
pub fn life_text(tenths: u8) -> String {
    match tenths {
        11 => "exceeded".to_owned(),
        _ => format!("{} to {} % used", (tenths - 1) * 10, tenths * 10),
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// The text of a register with these `(index, value)` bytes set.
    pub(crate) fn with(bytes: &[(usize, u8)]) -> String {
        let mut register = [0u8; 512];
        bytes.iter().for_each(|(index, value)| register[*index] = *value);
        register.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    #[test]
    fn sizes_are_decoded_in_the_units_of_the_standard() {
        // 15,269,888 sectors; 512 KiB erase group; 4 x 4 KiB optimal write; 64 MiB of cache.
        let fields = [
            (192, 8),
            (212, 0),
            (213, 0),
            (214, 0xe9),
            (215, 0),
            (224, 1),
            (175, 1),
            (265, 4),
            (266, 1),
            (250, 0),
            (251, 1),
            (33, 1),
            (267, 2),
            (268, 1),
            (269, 11),
        ];
        let ext_csd = ExtCsd::parse(&with(&fields)).unwrap();
        assert_eq!(ext_csd.capacity, Some(Bytes(0x00e9_0000 * 512)));
        assert_eq!(ext_csd.erase_group, Some(Bytes::kib(512)));
        assert!(ext_csd.erase_group_in_use && ext_csd.cache_is_on);
        assert_eq!(ext_csd.optimal_write, Some(Bytes::kib(16)));
        assert_eq!(ext_csd.optimal_read, Some(Bytes::kib(4)));
        assert_eq!(ext_csd.cache, Some(Bytes::mib(64)));
        assert_eq!(ext_csd.pre_eol, Some(PreEol::Warning));
        assert_eq!(ext_csd.life_used_a.map(life_text).as_deref(), Some("0 to 10 % used"));
        assert_eq!(ext_csd.life_used_b.map(life_text).as_deref(), Some("exceeded"));
    }

    #[test]
    fn fields_newer_than_the_chip_are_ignored() {
        let ext_csd = ExtCsd::parse(&with(&[(192, 6), (265, 4), (268, 3), (224, 8)])).unwrap();
        assert_eq!((ext_csd.optimal_write, ext_csd.life_used_a), (None, None));
        assert_eq!(ext_csd.erase_group, Some(Bytes::mib(4)));
    }

    #[test]
    fn a_life_time_outside_the_standard_is_unknown() {
        let ext_csd = ExtCsd::parse(&with(&[(192, 8), (268, 0xff), (269, 0)])).unwrap();
        assert_eq!((ext_csd.life_used_a, ext_csd.life_used_b), (None, None));
    }
}
