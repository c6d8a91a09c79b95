//! Decodes the card identification register (CID): manufacturer, product and date.

use super::csd::CsdFamily;
use super::{BadRegister, Register};

/// The decoded fields. The manufacturer sets them all, and counterfeit cards copy them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cid {
    /// MID: manufacturer ID, assigned by the SD Association or JEDEC.
    pub manufacturer: u8,
    /// OID: OEM or application ID, as letters if it is printable, else in hexadecimal.
    pub oem: String,
    /// PNM: product name.
    pub name: String,
    /// PRV: product revision, as `major.minor`.
    pub revision: String,
    /// PSN: serial number.
    pub serial: u32,
    /// MDT: year and month of manufacture; `None` if the month is invalid.
    pub manufactured: Option<(u16, u8)>,
}

/// The first revision of EXT_CSD whose eMMC chips count years from 2013 (JESD84-B451).
const REVISION_OF_LATER_YEARS: u8 = 5;

impl Cid {
    /// Parses the sysfs attribute `cid`. `ext_csd_revision` selects the year range of an eMMC chip.
    pub fn parse(
        family: CsdFamily,
        text: &str,
        ext_csd_revision: Option<u8>,
    ) -> Result<Self, BadRegister> {
        let register = Register::<16>::parse(text)?;
        let byte = |low| u8::try_from(register.bits(low + 7, low)).expect("eight bits");
        let small = |high, low| u16::try_from(register.bits(high, low)).expect("a few bits");
        let letters_or_hex = |high, low| {
            let letters = register.text(high, low);
            let digits = (high - low + 1) / 4;
            let all = letters.len() == digits / 2;
            if all { letters } else { format!("0x{:0digits$x}", register.bits(high, low)) }
        };
        let (oem, name, revision, serial, year, month) = match family {
            CsdFamily::Sd => (
                letters_or_hex(119, 104),
                register.text(103, 64),
                byte(56),
                register.bits(55, 24),
                2000 + small(19, 12),
                small(11, 8),
            ),
            CsdFamily::Mmc => {
                let year = 1997 + small(11, 8);
                let later = ext_csd_revision.is_some_and(|r| r >= REVISION_OF_LATER_YEARS);
                let year = if later && year < 2010 { year + 16 } else { year };
                (
                    letters_or_hex(111, 104),
                    register.text(103, 56),
                    byte(48),
                    register.bits(47, 16),
                    year,
                    small(15, 12),
                )
            }
        };
        let month = u8::try_from(month).expect("four bits");
        Ok(Self {
            manufacturer: byte(120),
            oem,
            name,
            revision: format!("{}.{}", revision >> 4, revision & 0xf),
            serial: u32::try_from(serial).expect("32 bits"),
            manufactured: (1..=12).contains(&month).then_some((year, month)),
        })
    }

    /// All fields in one line, for people.
    pub fn summary(&self) -> String {
        let mut text = format!(
            "manufacturer 0x{:02x}, OEM {}, {} revision {}, serial 0x{:08x}",
            self.manufacturer, self.oem, self.name, self.revision, self.serial
        );
        if let Some((year, month)) = self.manufactured {
            text.push_str(&format!(", made {year}-{month:02}"));
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_manufacturer_and_date_of_an_sd_card_are_decoded() {
        let cid = Cid::parse(CsdFamily::Sd, "035344534c3332478076543210012b00", None).unwrap();
        assert_eq!((cid.manufacturer, cid.oem.as_str()), (3, "SD"));
        assert_eq!((cid.name.as_str(), cid.revision.as_str()), ("SL32G", "8.0"));
        assert_eq!(cid.serial, 0x7654_3210);
        assert_eq!(cid.manufactured, Some((2018, 11)));
        assert!(cid.summary().ends_with("made 2018-11"), "{}", cid.summary());
    }

    #[test]
    fn the_year_of_an_emmc_depends_on_its_revision() {
        let text = "150100384754463452011234567874 00".replace(' ', "");
        let cid = |revision| Cid::parse(CsdFamily::Mmc, &text, revision).unwrap();
        assert_eq!(cid(None).name, "8GTF4R");
        assert_eq!(cid(None).manufactured, Some((2001, 7)));
        assert_eq!(cid(Some(8)).manufactured, Some((2017, 7)));
        assert_eq!(cid(None).oem, "0x00");
    }

    #[test]
    fn unprintable_characters_of_a_name_are_dropped() {
        let cid = Cid::parse(
            CsdFamily::Sd,
            "0300ff534c1b3347807654321001200 0".replace(' ', "").as_str(),
            None,
        );
        let cid = cid.unwrap();
        assert_eq!(cid.name, "SL3G");
        assert_eq!((cid.oem.as_str(), cid.manufactured), ("0x00ff", None));
    }
}
