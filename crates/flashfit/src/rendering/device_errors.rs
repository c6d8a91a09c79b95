//! Errors of the device in trials that were completed all the same: the file system tried again, or
//! the request was one that nobody waited for.
//!
//! Limit: requests that a driver repeats until they succeed do not count as failed.

use flashfit_testbed::ErrorSource;
use flashfit_tune::TrialRecord;
use schemars::JsonSchema;
use serde::Serialize;

use super::RunView;

#[derive(Debug, PartialEq, Eq, JsonSchema, Serialize)]
pub struct DeviceErrorsParts {
    /// Completed trials with failed requests of the device.
    trials: usize,
    /// Those of them that are of the recommended setup or of the baseline.
    compared_trials: usize,
    /// Failed requests in all of them. From the kernel log, which leaves lines out, it may be too
    /// low.
    requests: u64,
    text: String,
}

/// `None` if the kernel counted no errors.
pub fn parts(view: &RunView<'_>) -> Option<DeviceErrorsParts> {
    let compared = view.recommendation().map(|found| [found.recommended(), &found.baseline]);
    of(view.trials, |trial| compared.is_some_and(|setups| setups.contains(&&trial.key.setup)))
}

/// For a reader of the answer.
pub fn sentence(view: &RunView<'_>) -> Option<String> {
    parts(view).map(|found| found.text)
}

fn of(
    trials: &[TrialRecord],
    is_compared: impl Fn(&TrialRecord) -> bool,
) -> Option<DeviceErrorsParts> {
    let completed = || trials.iter().filter(|trial| trial.points().is_some());
    let found: Vec<(&TrialRecord, u64, bool)> = completed()
        .filter_map(|trial| {
            let errors = trial.device_errors.filter(|errors| errors.count > 0)?;
            Some((trial, errors.count, errors.source == ErrorSource::Tracepoint))
        })
        .collect();
    if found.is_empty() {
        return None;
    }
    let requests = found.iter().fold(0, |sum: u64, (_, count, _)| sum.saturating_add(*count));
    let compared_trials = found.iter().filter(|(trial, ..)| is_compared(trial)).count();
    let least = if found.iter().all(|(.., is_exact)| *is_exact) { "" } else { "at least " };
    let of_compared = match compared_trials {
        0 => String::new(),
        count => format!(", {count} of them with the recommended setup or the baseline"),
    };
    let text = format!(
        "The device returned I/O errors in {} of {} completed trials ({least}{requests} failed \
         requests{of_compared}). Figures of these trials include the time of the errors, so they \
         may be too slow. The card, its contacts or its reader may be failing: look at dmesg, try \
         another reader, and do not trust the device with data.",
        found.len(),
        completed().count(),
    );
    Some(DeviceErrorsParts { trials: found.len(), compared_trials, requests, text })
}
