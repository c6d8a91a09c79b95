//! Decodes the SD status register (SSR): allocation units, speed classes, discard support.
//!
//! An allocation unit (AU) is a multiple of the erase block, and the unit for which the card's
//! speed class is guaranteed. Many cards declare 4 MiB whatever their NAND, which the standard
//! allows.

use super::{BadRegister, Register};
use crate::units::Bytes;

/// Allocation unit sizes by code.
const AU_KIB: [u64; 16] = [
    0,
    16,
    32,
    64,
    128,
    256,
    512,
    1 << 10,
    2 << 10,
    4 << 10,
    8 << 10,
    12 << 10,
    16 << 10,
    24 << 10,
    32 << 10,
    64 << 10,
];

const SPEED_CLASSES: [u8; 5] = [0, 2, 4, 6, 10];

/// Smallest valid code of UHS_AU_SIZE: 1 MiB.
const MIN_UHS_CODE: usize = 7;

/// The decoded fields. A field that the card leaves undefined is `None`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SdStatus {
    /// AU_SIZE: the allocation unit.
    pub au: Option<Bytes>,
    /// UHS_AU_SIZE: the allocation unit on a UHS bus.
    pub uhs_au: Option<Bytes>,
    /// VSC_AU_SIZE: the allocation unit of the video speed class.
    pub video_au: Option<Bytes>,
    /// ERASE_SIZE: number of allocation units to which the erase timeout applies.
    pub erase_size_aus: Option<u16>,
    /// SPEED_CLASS: 2, 4, 6 or 10, in MB/s.
    pub speed_class: Option<u8>,
    /// UHS_SPEED_GRADE: 1 or 3, in units of 10 MB/s.
    pub uhs_grade: Option<u8>,
    /// VIDEO_SPEED_CLASS, in MB/s.
    pub video_class: Option<u8>,
    /// APP_PERF_CLASS: 1 or 2.
    pub app_class: Option<u8>,
    /// PERFORMANCE_ENHANCE: command queue depth.
    pub queue_depth: Option<u8>,
    pub discard: bool,
}

impl SdStatus {
    /// Parses the sysfs attribute `ssr`.
    pub fn parse(text: &str) -> Result<Self, BadRegister> {
        let register = Register::<64>::parse(text)?;
        let field = |high, low| usize::try_from(register.bits(high, low)).expect("a few bits");
        let small = |high, low| {
            let value = u8::try_from(register.bits(high, low)).expect("at most eight bits");
            (value > 0).then_some(value)
        };
        let au = |code: usize| (code > 0).then(|| Bytes::kib(AU_KIB[code]));
        let uhs_code = field(395, 392);
        let video_mib = register.bits(377, 368);
        let speed_code = field(447, 440);
        let Some(speed_class) = SPEED_CLASSES.get(speed_code) else {
            return Err(BadRegister::Field { field: "SPEED_CLASS", value: speed_code as u64 });
        };
        let erase_size = u16::try_from(register.bits(423, 408)).expect("sixteen bits");
        Ok(Self {
            au: au(field(431, 428)),
            uhs_au: au(uhs_code).filter(|_| uhs_code >= MIN_UHS_CODE),
            video_au: (video_mib > 0).then(|| Bytes::mib(video_mib)),
            erase_size_aus: (erase_size > 0).then_some(erase_size),
            speed_class: Some(*speed_class).filter(|class| *class > 0),
            uhs_grade: small(399, 396),
            video_class: small(391, 384),
            app_class: small(339, 336),
            queue_depth: small(332, 328).map(|depth| depth + 1),
            discard: register.bits(313, 313) == 1,
        })
    }

    /// The classes as printed on cards, such as `class 10, U3, V30, A2`.
    pub fn classes(&self) -> Option<String> {
        let parts = [
            self.speed_class.map(|class| format!("class {class}")),
            self.uhs_grade.map(|grade| format!("U{grade}")),
            self.video_class.map(|class| format!("V{class}")),
            self.app_class.map(|class| format!("A{class}")),
        ];
        let parts: Vec<String> = parts.into_iter().flatten().collect();
        (!parts.is_empty()).then(|| parts.join(", "))
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A register with these fields set, each `(highest bit, lowest bit, value)`.
    pub(crate) fn with(fields: &[(usize, usize, u64)]) -> String {
        let mut bytes = [0u8; 64];
        for (high, low, value) in fields {
            for bit in *low..=*high {
                if value >> (bit - low) & 1 == 1 {
                    bytes[63 - bit / 8] |= 1 << (bit % 8);
                }
            }
        }
        bytes.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    #[test]
    fn allocation_unit_codes_are_decoded() {
        let au = |code| SdStatus::parse(&with(&[(431, 428, code), (511, 510, 2)])).unwrap().au;
        assert_eq!(au(0), None);
        assert_eq!(au(1), Some(Bytes::kib(16)));
        assert_eq!(au(9), Some(Bytes::mib(4)));
        assert_eq!(au(0xb), Some(Bytes::mib(12)));
        assert_eq!(au(0xd), Some(Bytes::mib(24)));
        assert_eq!(au(0xf), Some(Bytes::mib(64)));
    }

    #[test]
    fn the_classes_and_units_of_a_fast_card_are_decoded() {
        let text = with(&[
            (511, 510, 2),
            (447, 440, 4),
            (431, 428, 9),
            (423, 408, 15),
            (399, 396, 3),
            (395, 392, 0xa),
            (391, 384, 30),
            (377, 368, 8),
            (339, 336, 2),
            (332, 328, 31),
            (313, 313, 1),
        ]);
        let status = SdStatus::parse(&text).unwrap();
        assert_eq!(status.au, Some(Bytes::mib(4)));
        assert_eq!(status.uhs_au, Some(Bytes::mib(8)));
        assert_eq!(status.video_au, Some(Bytes::mib(8)));
        assert_eq!(status.erase_size_aus, Some(15));
        assert_eq!(status.classes().as_deref(), Some("class 10, U3, V30, A2"));
        assert_eq!((status.queue_depth, status.discard), (Some(32), true));
    }

    #[test]
    fn reserved_values_are_rejected_or_ignored() {
        let error = SdStatus::parse(&with(&[(447, 440, 77)])).unwrap_err();
        assert_eq!(error, BadRegister::Field { field: "SPEED_CLASS", value: 77 });
        let status = SdStatus::parse(&with(&[(395, 392, 3), (511, 510, 2)])).unwrap();
        assert_eq!(status.uhs_au, None);
    }
}
