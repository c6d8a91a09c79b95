//! What the user sees before the trials begin.

use flashfit_host::path_text::to_text;
use flashfit_tune::Problem;
use flashfit_tune::run::{RunRequest, TrialTarget};

use crate::output::note;
use crate::rendering::run_preview::{extent, forecast_text, geometry_text, workload_commands};

/// The geometry of the device, or that it is unknown.
pub fn geometry(target: &TrialTarget) {
    note(&geometry_text(target));
    target.disagreements.iter().for_each(|text| note(&format!("note: {text}")));
    note(&format!("layout: {}", target.layout.reason));
}

/// What the run may take and write, before anybody is asked for the device.
pub fn forecast(request: RunRequest<'_>, target: &TrialTarget) {
    note(&forecast_text(request, target));
    workload_commands(&request.catalogs.workloads).iter().for_each(|text| note(text));
}

/// How many trials are planned. Their time is forecast once there are trials to forecast from.
pub fn run(request: RunRequest<'_>, problem: &Problem, made: usize) {
    let RunRequest { spec, dir, .. } = request;
    let made = match made {
        0 => String::new(),
        1 => " (1 was made)".to_owned(),
        _ => format!(" ({made} were made)"),
    };
    note(&format!(
        "{}{made}; under {}; kept in {}",
        extent(spec, problem),
        spec.workloads.join(", "),
        to_text(dir)
    ));
}
