//! The target of an estimate, as a card model.

use std::path::Path;

use flashfit_card::catalog::NamedCard;
use flashfit_card::{CardModel, catalog};
use flashfit_catalog::is_toml_name;
use flashfit_device::{Bytes, Target};
use flashfit_user_error::ExitClass;
use flashfit_wear::device_class::{CLASS_FACTOR, MODEL_FACTOR};
use flashfit_wear::extrapolation::Uncertainty;
use flashfit_wear::replica::resized;
use flashfit_wear::{UsageModel, UsedLife};

use crate::command_error::CommandError;
use crate::rendering::wear::capacity;
use crate::wear::age_args::WearAgeArgs;
use crate::wear::device_model::{modeled_device, not_of_this_size};
use crate::wear::registers::Registers;

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
    Ok(simulated_card(target, catalog)?.model)
}

fn simulated_card(target: &str, catalog: Option<&Path>) -> Result<NamedCard, CommandError> {
    match Target::parse(target)? {
        Target::Simulated(name) => Ok(catalog::find(&name, catalog)?),
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
    let is_simulated = target.starts_with("sim:");
    let may_be_device = !is_simulated && !is_toml_name(target);
    let card = if may_be_device { card_without_mark(target, catalog) } else { None };
    if let Some(class) = choice.class.filter(|_| card.is_some() || !may_be_device) {
        return Err(CommandError::new(
            ExitClass::Usage,
            format!("`{target}` is a card model: it cannot be modeled as {class}"),
            Some("name a device, or leave out --class"),
        ));
    }
    let mut registers = Registers::default();
    let card = match card {
        None if is_simulated => Some(simulated_card(target, catalog)?),
        None if !may_be_device => Some(catalog::find(target, catalog)?),
        found => found,
    };
    let (model, own, model_factor, what) = if let Some(NamedCard { model, is_file }) = card {
        // A file describes one card, a name of the catalog a class of cards.
        let own = is_file.then_some(model.capacity);
        let (factor, what) = match (is_simulated, is_file) {
            (true, _) => (MODEL_FACTOR, format!("the simulated card {}", model.name)),
            (false, true) => (MODEL_FACTOR, format!("the card model {target}")),
            (false, false) => (CLASS_FACTOR, format!("the class {target}")),
        };
        (model, own, factor, what)
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
    let known = choice.capacity.or(own);
    let (scaled, size) = resized(&model, known, usage, choice.endurance)
        .map_err(|error| not_of_this_size(error, known))?;
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

/// The card of a target that neither `sim:` nor `.toml` marks as one; `None` for a device, an image
/// or anything else.
fn card_without_mark(target: &str, catalog: Option<&Path>) -> Option<NamedCard> {
    let is_readable = !target.contains('/') || Path::new(target).is_file();
    is_readable.then(|| catalog::find(target, catalog).ok())?
}

/// The model of a card to be aged, and its capacity with the part that is never written.
pub fn aged_model(
    args: &WearAgeArgs,
    usage: &UsageModel,
    catalog: Option<&Path>,
) -> Result<(CardModel, Bytes), CommandError> {
    let name = args.card.strip_prefix("sim:").unwrap_or(&args.card);
    let NamedCard { model, is_file } = catalog::find(name, catalog)?;
    let own = is_file.then_some(model.capacity);
    let known = args.capacity.or(own);
    resized(&model, known, usage, args.endurance).map_err(|error| not_of_this_size(error, known))
}

#[cfg(test)]
mod tests;
