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
        let (used, share) = if counter.is_saturated {
            (UsedLife::at_end(counter.value), format!("{} % or more", counter.value))
        } else {
            let end = counter.value.saturating_add(counter.step);
            (
                UsedLife::from_step(counter.value, counter.step),
                format!("{} to {end} %", counter.value),
            )
        };
        let source = &counter.source;
        let text = format!("; {share} of its life used, according to the device ({source})");
        Self { used, text }
    }
}

#[cfg(test)]
mod tests {
    use flashfit_wear_counters::{CountSpan, CounterUnit, WearQuantity};

    use super::*;

    fn life_used(value: u64, is_saturated: bool) -> Registers {
        Registers::of(&WearCounter {
            id: "emmc.life_used_b".to_owned(),
            measures: WearQuantity::LifeUsedB,
            value,
            unit: CounterUnit::Percent,
            step: 10,
            since: CountSpan::Made,
            source: "EXT_CSD[269]".to_owned(),
            is_saturated,
            is_simulated: false,
        })
    }

    #[test]
    fn a_step_of_an_emmc_is_an_interval() {
        let registers = life_used(20, false);
        assert_eq!(registers.used, UsedLife { low: 0.2, high: Some(0.3) });
        assert_eq!(
            registers.text,
            "; 20 to 30 % of its life used, according to the device (EXT_CSD[269])"
        );
    }

    #[test]
    fn a_register_at_its_largest_value_is_the_end() {
        let registers = life_used(100, true);
        assert_eq!(registers.used, UsedLife { low: 1.0, high: None });
        assert_eq!(
            registers.text,
            "; 100 % or more of its life used, according to the device (EXT_CSD[269])"
        );
    }
}
