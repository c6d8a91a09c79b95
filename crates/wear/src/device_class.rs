//! The card of the catalog that stands for a class of devices, and how far a device may be from
//! its model.

use flashfit_device::DeviceKind;

/// Factor of the error of the simulation, with 90 %: replay against runs through the kernel
/// (docs/wear.md).
pub const MODEL_FACTOR: f64 = 1.2;
/// The same where the model stands for a class: what devices of one class differ by, an assumption.
pub const CLASS_FACTOR: f64 = 1.6;

/// The card that stands for devices of this kind; `None` where the kind does not say what the flash
/// is like.
pub fn class_of(kind: DeviceKind) -> Option<&'static str> {
    match kind {
        DeviceKind::SdCard => Some("usd-a1-pagemap"),
        DeviceKind::Emmc => Some("emmc-5.1"),
        DeviceKind::Usb => Some("usb-cheap"),
        DeviceKind::Ssd | DeviceKind::Nvme => Some("ssd-sata"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_class_is_a_card_of_the_catalog() {
        use DeviceKind::{Emmc, Nvme, SdCard, Ssd, Usb};
        for kind in [SdCard, Emmc, Usb, Ssd, Nvme] {
            assert!(flashfit_card::catalog::load(class_of(kind).unwrap(), None).is_ok(), "{kind}");
        }
        assert_eq!(class_of(DeviceKind::Image), None);
    }
}
