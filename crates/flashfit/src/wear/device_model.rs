//! The card model of a device or an image file.

use std::path::Path;

use flashfit_card::{CardModel, catalog};
use flashfit_device::{Bytes, Device, DeviceKind, SystemRoots};
use flashfit_user_error::ExitClass;

use crate::command_error::CommandError;
use crate::wear::target::{CLASS_FACTOR, ModelChoice};

/// The model of a device or an image file, its capacity if it can be looked at, the factor of the
/// model's error, and how it was chosen.
pub fn modeled_device(
    choice: &ModelChoice<'_>,
    catalog: Option<&Path>,
) -> Result<(CardModel, Option<Bytes>, f64, String), CommandError> {
    let target = choice.target;
    let device = match (choice.is_elsewhere, choice.class) {
        (true, _) => None,
        (false, None) => Some(Device::from_sysfs(&SystemRoots::default(), Path::new(target))?),
        // An image file is not in sysfs; a class is enough.
        (false, Some(_)) => Device::from_sysfs(&SystemRoots::default(), Path::new(target)).ok(),
    };
    let kind = device.as_ref().map_or(DeviceKind::Other, |device| device.kind);
    let class = class_of(choice, kind)?;
    let kind = device.as_ref().map_or_else(String::new, |device| format!(" ({})", device.kind));
    let what = format!("{target}{kind}, modeled as {class}");
    let capacity = device.map(|device| device.capacity);
    Ok((catalog::load(class, catalog)?, capacity, CLASS_FACTOR, what))
}

/// The class that a device is modeled as.
fn class_of<'a>(choice: &ModelChoice<'a>, kind: DeviceKind) -> Result<&'a str, CommandError> {
    let unknown = |why: &str| {
        CommandError::new(
            ExitClass::Usage,
            format!("cannot tell what kind of flash {} is: {why}", choice.target),
            Some("name a card to model it as: --class CARD (flashfit card list)"),
        )
    };
    Ok(match (choice.class, kind) {
        (Some(class), _) => class,
        (None, _) if choice.is_elsewhere => {
            return Err(unknown("it is on another machine, or a record"));
        }
        (None, DeviceKind::SdCard) => "usd-a1-pagemap",
        (None, DeviceKind::Emmc) => "emmc-5.1",
        (None, DeviceKind::Usb) => "usb-cheap",
        (None, DeviceKind::Ssd | DeviceKind::Nvme) => "ssd-sata",
        (None, other) => return Err(unknown(&format!("it is a {other}"))),
    })
}
