//! Whether a run can have a twin, and whether a twin may be one of its device.

use std::path::Path;

use flashfit_card::CardModel;
use flashfit_device::BlockDevInfo;
use flashfit_host::SystemRunner;
use flashfit_target::InspectedTarget;
use flashfit_testbed::TestBedSpec;
use flashfit_tune::{RunSpec, StrategyKind};
use flashfit_twin::{TwinDifference, difference_from, fitted_to};
use flashfit_user_error::ExitClass;

use crate::command_error::CommandError;
use crate::output::warn;
use crate::tune::args::TuneArgs;

/// Refuses what cannot be done with a twin, by the flag that asks for one.
pub fn refuse_unusable(args: &TuneArgs, spec: &RunSpec) -> Result<(), CommandError> {
    let flag = if args.twin.twin_first { "--twin-first" } else { "--twin" };
    let refused =
        |message: String, hint: &str| Err(CommandError::new(ExitClass::Usage, message, Some(hint)));
    if matches!(spec.on, TestBedSpec::Ssh { .. } | TestBedSpec::Lab { .. }) {
        return refused(
            format!("{flag} needs the device on this machine"),
            "tune it here: --on here; or run flashfit on the board",
        );
    }
    if spec.strategy != StrategyKind::Adaptive {
        let hint = format!("use --strategy adaptive, or leave {flag} out");
        return refused("only the adaptive strategy learns from a twin".to_owned(), &hint);
    }
    Ok(())
}

/// Warns if the card in `file` is not, or may not be, the twin of the run's device.
pub fn warn_of_another_device(file: &Path, model: &CardModel, spec: &RunSpec) {
    let (twin, target) = (file.display(), &spec.target);
    let catalog = spec.catalog_dir.as_deref();
    // A device that cannot be inspected is reported where it is opened.
    let found = InspectedTarget::inspect(target, &SystemRunner::default(), catalog).ok();
    let device = found.map(|found| BlockDevInfo {
        capacity_bytes: found.capacity().0,
        sector_bytes: u32::try_from(found.sector_bytes()).unwrap_or(u32::MAX),
        discard_granularity_bytes: 0,
        volatile_cache: false,
    });
    match device.and_then(|device| difference_from(model, device)) {
        Some(TwinDifference::Capacity { twin: theirs, device }) => {
            warn(&format!(
                "{twin} is a twin of another device: it has {theirs}, and {target} has {device}"
            ));
        }
        Some(TwinDifference::Sectors { twin: theirs, device }) => {
            warn(&format!(
                "{twin} is a twin of another device: its sectors have {theirs}, and those of \
                 {target} {device}"
            ));
        }
        None => match fitted_to(model) {
            Some(other) if other != target => {
                warn(&format!("{twin} was fitted to {other}: check that {target} is that device"));
            }
            _ => {}
        },
    }
}
