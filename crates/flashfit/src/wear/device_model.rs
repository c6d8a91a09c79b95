//! The card model of a device or an image file.

use std::path::Path;

use flashfit_card::{CardModel, ModelError, catalog};
use flashfit_device::{Bytes, Device, DeviceKind, SystemRoots, Target};
use flashfit_user_error::ExitClass;
use flashfit_wear::device_class;

use crate::command_error::CommandError;
use crate::wear::registers::Registers;
use crate::wear::target::ModelChoice;

/// A device or an image file as a card.
#[derive(Debug)]
pub struct ModeledDevice {
    pub model: CardModel,
    /// If it can be looked at.
    pub capacity: Option<Bytes>,
    pub registers: Registers,
    /// How the model was chosen, for people.
    pub explanation: String,
}

pub fn modeled_device(
    choice: &ModelChoice<'_>,
    catalog: Option<&Path>,
) -> Result<ModeledDevice, CommandError> {
    let target = choice.target;
    if target.is_empty() {
        return Err(CommandError::new(
            ExitClass::Usage,
            "the name of the target is empty",
            Some("name a device, or a card: flashfit card list"),
        ));
    }
    let device = match (choice.is_elsewhere, choice.class) {
        (true, _) => None,
        // An image file is not in sysfs, and nothing says what it will be copied to.
        (false, None) if matches!(Target::parse(target)?, Target::Image(_)) => {
            return Err(unknown_kind(target, "it is an image file"));
        }
        (false, None) => Some(Device::from_sysfs(&SystemRoots::default(), Path::new(target))?),
        // A class is enough.
        (false, Some(_)) => Device::from_sysfs(&SystemRoots::default(), Path::new(target)).ok(),
    };
    let kind = device.as_ref().map_or(DeviceKind::Other, |device| device.kind);
    let class = class_of(choice, kind)?;
    let kind = device.as_ref().map_or_else(String::new, |device| format!(" ({})", device.kind));
    let explanation = format!("{target}{kind}, modeled as {class}");
    let registers = match &device {
        Some(device) => Registers::read(device, catalog)?,
        None => Registers::unknown(),
    };
    let of_image = || match Target::parse(target) {
        Ok(Target::Image(path)) if !choice.is_elsewhere => {
            std::fs::metadata(path).ok().map(|found| Bytes(found.len()))
        }
        _ => None,
    };
    let capacity = device.map(|device| device.capacity).or_else(of_image);
    Ok(ModeledDevice { model: catalog::load(class, catalog)?, capacity, registers, explanation })
}

/// The class that a device is modeled as.
fn class_of<'a>(choice: &ModelChoice<'a>, kind: DeviceKind) -> Result<&'a str, CommandError> {
    let unknown = |why: &str| unknown_kind(choice.target, why);
    Ok(match (choice.class, kind) {
        (Some(class), _) => class,
        (None, _) if choice.is_elsewhere => {
            return Err(unknown("it is on another machine, or a record"));
        }
        (None, kind) => {
            device_class::class_of(kind).ok_or_else(|| unknown(&format!("it is a {kind}")))?
        }
    })
}

/// An error of a model that was resized names the size, not the file that was resized.
pub fn not_of_this_size(error: ModelError, capacity: Option<Bytes>) -> CommandError {
    match (error, capacity) {
        (ModelError::Invalid { key, reason, .. }, Some(size)) => CommandError::new(
            ExitClass::Usage,
            format!("cannot model a device of {size}: {key} {reason}"),
            Some("name a capacity of many erase blocks, such as --capacity 16GiB"),
        ),
        (error, _) => error.into(),
    }
}

fn unknown_kind(target: &str, why: &str) -> CommandError {
    CommandError::new(
        ExitClass::Usage,
        format!("cannot tell what kind of flash {target} is: {why}"),
        Some("name a card to model it as: --class CARD (flashfit card list)"),
    )
}
