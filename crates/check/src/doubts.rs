//! What a device says of itself that cannot be trusted.
//!
//! Sources: the Linux kernel's `Documentation/driver-api/mmc` (identity registers),
//! `drivers/mmc/core` (`preferred_erase_size` is guessed where the card states nothing), and F3's
//! documentation on counterfeit cards, whose registers are copied from genuine ones.

use flashfit_device::{Device, DeviceKind};

/// A sentence for each doubt.
pub fn of(device: &Device) -> Vec<String> {
    let mut doubts = Vec::new();
    match device.kind {
        DeviceKind::Usb => doubts.push(
            "name and serial number are those of the USB reader or stick; a card in a reader does \
             not show its own"
                .to_owned(),
        ),
        DeviceKind::SdCard | DeviceKind::Emmc if device.identity.cid.is_some() => doubts.push(
            "a counterfeit card can carry the name and the CID register of a genuine one"
                .to_owned(),
        ),
        _ => {}
    }
    if let Some(declared) = device.declared_erase_block.as_ref().filter(|found| found.is_guess) {
        doubts.push(format!(
            "the erase block of {} is a guess of the kernel ({}), not a statement of the device",
            declared.bytes, declared.source
        ));
    }
    for rejected in &device.declared.rejected {
        doubts.push(format!("{}: {}", rejected.register, rejected.reason));
    }
    doubts
}
