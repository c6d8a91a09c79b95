//! The target of an estimate, as a card model.

use std::path::Path;

use flashfit_card::{CardModel, ModelError, catalog};
use flashfit_device::{Bytes, Target};
use flashfit_user_error::ExitClass;
use flashfit_wear::extrapolation::Uncertainty;
use flashfit_wear::{UsageModel, UsedLife, replica};

use crate::command_error::CommandError;
use crate::rendering::wear::capacity;
use crate::wear::age_args::WearAgeArgs;
use crate::wear::device_model::modeled_device;
use crate::wear::registers::Registers;

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

/// The model with this capacity, or that of the usage model, and with its unwritten share as spare
/// blocks; and that capacity.
fn resized(
    model: &CardModel,
    capacity: Option<Bytes>,
    usage: &UsageModel,
    endurance: Option<u64>,
) -> Result<(CardModel, Bytes), ModelError> {
    let of_usage = Bytes((usage.capacity_gib.value * (1_u64 << 30) as f64) as u64);
    let spare = (usage.spare_percent.value * 100.0) as u64;
    let mut scaled = replica::scaled(model, capacity.unwrap_or(of_usage))?;
    let size = scaled.capacity;
    if spare > 0 {
        // What is never written serves as spare blocks.
        let units = u64::from(scaled.capacity_units()) * spare / 10_000;
        scaled.capacity.0 -= units * scaled.erase_block_bytes();
        scaled.nand.spare_units += u32::try_from(units).unwrap_or(0);
    }
    if let Some(cycles) = endurance {
        if let Some(pslc) = &mut scaled.nand.pslc {
            // The same cells with one bit each: as many times as many cycles as before.
            let by = u128::from(pslc.endurance_cycles) * u128::from(cycles);
            let pslc_cycles = by / u128::from(model.nand.endurance_cycles.max(1));
            pslc.endurance_cycles = u64::try_from(pslc_cycles).unwrap_or(u64::MAX).max(1);
        }
        scaled.nand.endurance_cycles = cycles;
    }
    Ok((scaled, size))
}

#[cfg(test)]
mod tests {
    use flashfit_wear::usage;

    use super::*;

    fn choice(target: &str) -> ModelChoice<'_> {
        ModelChoice {
            target,
            is_elsewhere: false,
            capacity: None,
            endurance: None,
            class: None,
            used_percent: None,
        }
    }

    #[test]
    fn given_cycles_scale_the_rating_of_the_pslc_area() {
        let usage = usage::load("kiosk", None).unwrap();
        let rated = |endurance| {
            let choice = ModelChoice { endurance, ..choice("sim:emmc-5.1") };
            let nand = modeled(&choice, &usage, None).unwrap().model.nand;
            (nand.endurance_cycles, nand.pslc.unwrap().endurance_cycles)
        };
        assert_eq!(rated(None), (3000, 30_000));
        assert_eq!(rated(Some(1000)), (1000, 10_000));
        assert_eq!(rated(Some(1)), (1, 10));
    }

    #[test]
    fn a_class_is_refused_where_the_target_is_a_model() {
        let usage = usage::load("kiosk", None).unwrap();
        for target in ["sim:usd-a1-pagemap", "usd-a1-pagemap", "my-card.toml"] {
            let choice = ModelChoice { class: Some("emmc-5.1"), ..choice(target) };
            let error = modeled(&choice, &usage, None).unwrap_err();
            assert!(error.message().contains("cannot be modeled as emmc-5.1"), "{error:?}");
        }
    }

    #[test]
    fn the_capacity_is_that_of_the_device_with_what_is_never_written() {
        let mut usage = usage::load("phone", None).unwrap();
        let plain = modeled(&choice("sim:usd-a1-pagemap"), &usage, None).unwrap();
        let explained = "(64 GiB, the capacity of the usage model)";
        assert!(plain.explanation.contains(explained), "{}", plain.explanation);
        usage.spare_percent.value = 90.0;
        let target = modeled(&choice("sim:usd-a1-pagemap"), &usage, None).unwrap();
        assert_eq!(target.capacity, Bytes::mib(64 << 10));
        assert!(target.model.capacity.0 < target.capacity.0 / 9);
        let explained = "(64 GiB, 90 % of it never written; the capacity of the usage model)";
        assert!(target.explanation.contains(explained), "{}", target.explanation);
    }
}
