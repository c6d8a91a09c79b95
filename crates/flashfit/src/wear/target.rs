//! The target of an estimate, as a card model.

use std::path::Path;

use flashfit_card::{CardModel, catalog};
use flashfit_device::{Bytes, Target};
use flashfit_user_error::ExitClass;
use flashfit_wear::extrapolation::Uncertainty;
use flashfit_wear::{UsageModel, UsedLife};

use crate::command_error::CommandError;
use crate::rendering::wear::capacity;
use crate::wear::age_args::WearAgeArgs;
use crate::wear::device_model::modeled_device;
use crate::wear::registers::Registers;
use crate::wear::resized::resized;

/// Factor of the error of the simulation, with 90 %: replay against runs through the kernel
/// (docs/wear.md), and in addition for a class what cards of one class differ by (assumption).
const MODEL_FACTOR: f64 = 1.2;
const CLASS_FACTOR: f64 = 1.6;

#[derive(Debug)]
pub struct ModeledTarget {
    /// With the part that is never written as spare blocks.
    pub model: CardModel,
    /// Of the device.
    pub capacity: Bytes,
    /// How the model was chosen for the target, for people.
    pub explanation: String,
    pub uncertainty: Uncertainty,
    pub used: UsedLife,
}

/// What a target is modeled by.
#[derive(Debug, Clone, Copy)]
pub struct ModelChoice<'a> {
    pub target: &'a str,
    /// Whether the target is on another machine, where it cannot be looked at.
    pub is_elsewhere: bool,
    /// If not that of the target.
    pub capacity: Option<Bytes>,
    /// Rated erase cycles, if not those of the model.
    pub endurance: Option<u64>,
    /// The card that a device is modeled as.
    pub class: Option<&'a str>,
    /// Life that is used already, in percent of the rating, if not what the device reports.
    pub used_percent: Option<u32>,
}

/// The model of a simulated card, `sim:NAME`.
pub fn simulated(target: &str, catalog: Option<&Path>) -> Result<CardModel, CommandError> {
    match Target::parse(target)? {
        Target::Simulated(name) => Ok(catalog::load(&name, catalog)?),
        _ => Err(CommandError::new(
            ExitClass::Usage,
            format!("`{target}` is not a simulated card: expected sim:NAME"),
            Some("flashfit card list"),
        )),
    }
}

/// The model of any target, with its true capacity.
pub fn modeled(
    choice: &ModelChoice<'_>,
    usage: &UsageModel,
    catalog: Option<&Path>,
) -> Result<ModeledTarget, CommandError> {
    let target = choice.target;
    let is_file = target.ends_with(".toml") && !target.starts_with("sim:");
    let is_class = catalog::load(target, catalog).is_ok() && !is_file;
    let is_simulated = target.starts_with("sim:");
    if let Some(class) = choice.class.filter(|_| is_class || is_file || is_simulated) {
        return Err(CommandError::new(
            ExitClass::Usage,
            format!("`{target}` is a card model: it cannot be modeled as {class}"),
            Some("name a device, or leave out --class"),
        ));
    }
    let mut registers = Registers::default();
    let (model, own, model_factor, what) = if is_class || is_file {
        let model = catalog::load(target, catalog)?;
        let own = is_file.then_some(model.capacity);
        let factor = if is_class { CLASS_FACTOR } else { MODEL_FACTOR };
        let what = if is_class { "the class" } else { "the card model" };
        (model, own, factor, format!("{what} {target}"))
    } else if is_simulated {
        let model = simulated(target, catalog)?;
        let own = target.ends_with(".toml").then_some(model.capacity);
        let what = format!("the simulated card {}", model.name);
        (model, own, MODEL_FACTOR, what)
    } else {
        let device = modeled_device(choice, catalog)?;
        registers = device.registers;
        (device.model, device.capacity, CLASS_FACTOR, device.explanation)
    };
    let (used, used_text) = match choice.used_percent {
        Some(percent) => (
            UsedLife::from_step(percent.into(), 0),
            format!("; {percent} % of its life used, as given"),
        ),
        None => (registers.used, registers.text),
    };
    let (scaled, size) = resized(&model, choice.capacity.or(own), usage, choice.endurance)?;
    let shown = capacity(size, Bytes(size.0 - scaled.capacity.0));
    let from = match (choice.capacity, own) {
        (None, None) if size == scaled.capacity => {
            format!(" ({shown}, the capacity of the usage model)")
        }
        (None, None) => format!(" ({shown}; the capacity of the usage model)"),
        _ => format!(" ({shown})"),
    };
    let uncertainty = Uncertainty {
        volume_factor: usage.volume_factor.value,
        model_factor,
        ..Uncertainty::default()
    };
    let explanation = what + &from + &used_text;
    Ok(ModeledTarget { model: scaled, capacity: size, explanation, uncertainty, used })
}

/// The model of a card to be aged, with its true capacity, and that capacity with the part that is
/// never written.
pub fn aged_model(
    args: &WearAgeArgs,
    usage: &UsageModel,
    catalog: Option<&Path>,
) -> Result<(CardModel, Bytes), CommandError> {
    let name = args.card.strip_prefix("sim:").unwrap_or(&args.card);
    let model = catalog::load(name, catalog)?;
    // A file describes one card, a name of the catalog a class of cards.
    let own = (name.ends_with(".toml") || name.contains('/')).then_some(model.capacity);
    Ok(resized(&model, args.capacity.or(own), usage, args.endurance)?)
}

#[cfg(test)]
mod tests;
