//! The card model of a device or an image file.

use std::path::Path;

use flashfit_card::{CardModel, ModelError, catalog};
use flashfit_device::{Bytes, Device, DeviceKind, SystemRoots, Target};
use flashfit_user_error::ExitClass;
use flashfit_wear::device_class;

use crate::command_error::CommandError;
use crate::wear::device::disk_capacity;
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
    let device = if choice.is_elsewhere { None } else { attached(choice)? };
    let kind = device.as_ref().map_or(DeviceKind::Other, |device| device.kind);
    let class = class_of(choice, kind)?;
    let kind = device.as_ref().map_or_else(String::new, |device| format!(" ({})", device.kind));
    let explanation = format!("{target}{kind}, modeled as {class}");
    let registers = match &device {
        Some(device) => Registers::read(device, catalog)?,
        None => Registers::unknown(),
    };
    // A partition wears the blocks of its whole disk, whose registers are read, too.
    let of_disk = |device: Device| disk_capacity(&SystemRoots::default(), &device);
    let of_image = || match Target::parse(target) {
        Ok(Target::Image(path)) if !choice.is_elsewhere => {
            std::fs::metadata(path).ok().map(|found| Bytes(found.len()))
        }
        _ => None,
    };
    let capacity = device.map(of_disk).or_else(of_image);
    Ok(ModeledDevice { model: catalog::load(class, catalog)?, capacity, registers, explanation })
}

/// The device, if the target is not an image file, which is not in sysfs.
fn attached(choice: &ModelChoice<'_>) -> Result<Option<Device>, CommandError> {
    let target = choice.target;
    let absent = |error: CommandError| match choice.class {
        Some(class) => error.with_hint(&format!(
            "see the devices: flashfit list; of one that is not here, estimate the class: flashfit \
             wear estimate {class}"
        )),
        None => error,
    };
    match Target::parse(target).map_err(|error| absent(error.into()))? {
        // Nothing says what it will be copied to.
        Target::Image(_) if choice.class.is_none() => {
            Err(unknown_kind(target, "it is an image file"))
        }
        Target::Image(_) => Ok(None),
        Target::Node(_) | Target::Simulated(_) => {
            let device = Device::from_sysfs(&SystemRoots::default(), Path::new(target));
            Ok(Some(device.map_err(|error| absent(error.into()))?))
        }
    }
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
