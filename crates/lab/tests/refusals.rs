//! Errors without a lab: no client program, a client older than labgrid 25.0, no coordinator.

#![expect(clippy::unwrap_used, reason = "a step that fails is a test that fails")]

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use flashfit_host::Runner;
use flashfit_host::program::{ProgramOutcome, ScriptedRunner};
use flashfit_lab::{Lab, LabError, LabSettings};
use flashfit_user_error::{ExitClass, UserError};

fn error_with(folder: &Path, runner: ScriptedRunner) -> LabError {
    let mut settings = LabSettings::from_variables(folder.join("records"));
    settings.coordinator = "lab.example:20408".to_owned();
    settings.patience = Duration::from_millis(100);
    let runner: Arc<dyn Runner> = Arc::new(runner);
    let lab = Lab::open(settings, Arc::clone(&runner), runner).unwrap();
    lab.all_matching(&"board=imx8".parse().unwrap()).unwrap_err()
}

fn printing(code: i32, stderr: &str) -> ScriptedRunner {
    let outcome =
        ProgramOutcome { code: Some(code), stderr: stderr.to_owned(), ..ProgramOutcome::default() };
    ScriptedRunner::new().answer("labgrid-client --coordinator lab.example:20408 ", outcome)
}

#[test]
fn a_missing_client_has_an_install_hint() {
    let folder = tempfile::tempdir().unwrap();
    let error = error_with(folder.path(), ScriptedRunner::new());
    assert!(matches!(error, LabError::ClientMissing { .. }), "{error}");
    assert_eq!(error.class(), ExitClass::Environment);
    assert!(error.hint().unwrap().contains("pip install labgrid"));
}

#[test]
fn an_old_client_is_recognized() {
    let folder = tempfile::tempdir().unwrap();
    let output =
        "usage: labgrid-client [-h] [-x URL]\nlabgrid-client: error: unrecognized arguments";
    let error = error_with(folder.path(), printing(2, output));
    assert!(matches!(error, LabError::ClientTooOld { .. }), "{error}");
}

#[test]
fn a_coordinator_that_does_not_answer_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let output = "Server error: Error: Could not connect to coordinator";
    let error = error_with(folder.path(), printing(1, output));
    assert!(matches!(error, LabError::Unreachable { .. }), "{error}");
    assert!(error.to_string().contains("lab.example:20408"), "{error}");
    assert!(error.hint().unwrap().contains("LG_COORDINATOR"));
}

#[test]
fn listing_places_leaves_no_record() {
    let folder = tempfile::tempdir().unwrap();
    error_with(folder.path(), ScriptedRunner::new());
    let names = std::fs::read_dir(folder.path().join("records")).unwrap();
    let names: Vec<_> = names.map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names, ["lock"]);
}
