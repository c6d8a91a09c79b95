//! The used life that a device reports in its registers.

use std::path::Path;

use flashfit_device::{Device, SystemRoots};
use flashfit_host::SystemRunner;
use flashfit_wear::UsedLife;
use flashfit_wear_counters::{AtaAttributes, WearCounter};

use crate::command_error::CommandError;
use crate::wear::device::usual_sources;

#[derive(Debug)]
pub struct Registers {
    pub used: UsedLife,
    /// What they say, to be added to a description of the device.
    pub text: String,
}

impl Default for Registers {
    /// Those of a new device, and of a model.
    fn default() -> Self {
        Self { used: UsedLife::NEW, text: String::new() }
    }
}

impl Registers {
    /// Asks the device; reading only.
    pub fn read(device: &Device, catalog: Option<&Path>) -> Result<Self, CommandError> {
        let (system, runner) = (SystemRoots::default(), SystemRunner::default());
        let attributes = AtaAttributes::load(catalog)?;
        let reading = usual_sources(&system, &runner, &attributes).read(device);
        Ok(reading.life_used().map_or_else(Self::unknown, Self::of))
    }

    /// Those of a device that reports nothing or cannot be asked.
    pub fn unknown() -> Self {
        let text = "; how much of its life is used is not known, so it is taken as new";
        Self { used: UsedLife::NEW, text: text.to_owned() }
    }

    fn of(counter: &WearCounter) -> Self {
        let used = UsedLife::from_step(counter.value, counter.step);
        let text = format!(
            "; {} to {} % of its life used, according to the device ({})",
            counter.value,
            counter.value.saturating_add(counter.step),
            counter.source
        );
        Self { used, text }
    }
}

#[cfg(test)]
mod tests {
    use flashfit_wear_counters::{CountSpan, CounterUnit, WearQuantity};

    use super::*;

    #[test]
    fn a_step_of_an_emmc_is_an_interval() {
        let registers = Registers::of(&WearCounter {
            id: "emmc.life_used_b".to_owned(),
            measures: WearQuantity::LifeUsedB,
            value: 20,
            unit: CounterUnit::Percent,
            step: 10,
            since: CountSpan::Made,
            source: "EXT_CSD[269]".to_owned(),
            is_saturated: false,
            is_simulated: false,
        });
        assert_eq!(registers.used, UsedLife { low: 0.2, high: 0.3 });
        assert_eq!(
            registers.text,
            "; 20 to 30 % of its life used, according to the device (EXT_CSD[269])"
        );
    }
}
