//! What the years of each run rest on: its usage model and the model of its device.

use flashfit_tune::RunLife;
use flashfit_tune::compare::{ComparedRun, RunComparison};
use schemars::JsonSchema;
use serde::Serialize;

use super::letter;

/// The usage model and the modeled device of a run.
#[derive(Debug, PartialEq, JsonSchema, Serialize)]
pub(super) struct YearsModel {
    /// As the user named it.
    usage: String,
    gib_a_day: f64,
    /// How the device was modeled.
    device: String,
    rated_cycles: u64,
}

impl YearsModel {
    /// `None` without a usage model.
    pub(super) fn of(run: &ComparedRun) -> Option<Self> {
        let RunLife { usage, gib_a_day_thousandths, device, rated_cycles, .. } = run.estimates()?;
        let gib_a_day = gib_a_day_thousandths as f64 / 1000.0;
        Some(Self { usage, gib_a_day, device, rated_cycles })
    }

    /// Whether years under both can be compared: the name of the device does not matter.
    pub(super) fn is_like(&self, other: &Self) -> bool {
        let model = |device: &str| {
            device.split_once(", modeled as ").map_or(device, |(_, model)| model).to_owned()
        };
        let basis =
            |of: &Self| (of.usage.clone(), of.gib_a_day, model(&of.device), of.rated_cycles);
        basis(self) == basis(other)
    }
}

/// What the years rest on, run by run, and a warning if that differs.
pub(super) fn lines(comparison: &RunComparison) -> Vec<String> {
    let runs = comparison.runs.iter().enumerate();
    let models: Vec<(usize, YearsModel)> =
        runs.filter_map(|(index, run)| Some((index, YearsModel::of(run)?))).collect();
    let mut lines: Vec<String> = Vec::new();
    for (run, YearsModel { usage, gib_a_day, device, rated_cycles }) in &models {
        lines.push(format!(
            "Years of {}, simulated: usage model {usage} ({gib_a_day:.2} GiB a day); {device}, \
             rated for {rated_cycles} erase cycles.",
            letter(*run)
        ));
    }
    let Some(((_, first), others)) = models.split_first() else { return lines };
    if others.iter().any(|(_, model)| !model.is_like(first)) {
        lines.push(
            "The years of these runs are not comparable: their usage models or modeled devices \
             differ. To estimate a run again under others: flashfit analyze RUN --usage NAME --class \
             CARD --capacity SIZE."
                .to_owned(),
        );
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_of_the_device_does_not_matter() {
        let model = |device: &str, gib_a_day: f64| YearsModel {
            usage: "kiosk".to_owned(),
            gib_a_day,
            device: device.to_owned(),
            rated_cycles: 1500,
        };
        let first = model("/dev/sda (usb), modeled as usb-cheap (4 GiB)", 2.0);
        assert!(first.is_like(&model("/dev/sdb (usb), modeled as usb-cheap (4 GiB)", 2.0)));
        assert!(!first.is_like(&model("/dev/sdb (usb), modeled as usb-cheap (8 GiB)", 2.0)));
        assert!(!first.is_like(&model("/dev/sda (usb), modeled as usb-cheap (4 GiB)", 3.0)));
    }
}
