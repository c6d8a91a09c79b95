//! Without a lab: no client program, one from before labgrid 25.0, nobody at the coordinator.

#![expect(clippy::unwrap_used, reason = "a step that fails is a test that fails")]

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use flashfit_host::Runner;
use flashfit_host::program::{ProgramOutcome, ScriptedRunner};
use flashfit_lab::{Lab, LabError, LabSettings};
use flashfit_user_error::{ExitClass, UserError};

fn refused(folder: &Path, runner: ScriptedRunner) -> LabError {
    let mut settings = LabSettings::from_variables(folder.join("records"));
    settings.coordinator = "lab.example:20408".to_owned();
    settings.patience = Duration::from_millis(100);
    let runner: Arc<dyn Runner> = Arc::new(runner);
    let lab = Lab::open(settings, Arc::clone(&runner), runner).unwrap();
    lab.all_matching(&"board=imx8".parse().unwrap()).unwrap_err()
}

fn saying(code: i32, stderr: &str) -> ScriptedRunner {
    let outcome =
        ProgramOutcome { code: Some(code), stderr: stderr.to_owned(), ..ProgramOutcome::default() };
    ScriptedRunner::new().answer("labgrid-client --coordinator lab.example:20408 ", outcome)
}

#[test]
fn a_missing_client_comes_with_the_way_to_install_it() {
    let folder = tempfile::tempdir().unwrap();
    let error = refused(folder.path(), ScriptedRunner::new());
    assert!(matches!(error, LabError::ClientMissing { .. }), "{error}");
    assert_eq!(error.class(), ExitClass::Environment);
    assert!(error.hint().unwrap().contains("pip install labgrid"));
}

#[test]
fn an_old_client_is_told_from_one_that_refuses() {
    let folder = tempfile::tempdir().unwrap();
    let said = "usage: labgrid-client [-h] [-x URL]\nlabgrid-client: error: unrecognized arguments";
    let error = refused(folder.path(), saying(2, said));
    assert!(matches!(error, LabError::ClientTooOld { .. }), "{error}");
}

#[test]
fn a_coordinator_that_does_not_answer_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let said = "Server error: Error: Could not connect to coordinator";
    let error = refused(folder.path(), saying(1, said));
    assert!(matches!(error, LabError::Unreachable { .. }), "{error}");
    assert!(error.to_string().contains("lab.example:20408"), "{error}");
    assert!(error.hint().unwrap().contains("LG_COORDINATOR"));
}

#[test]
fn looking_leaves_no_record() {
    let folder = tempfile::tempdir().unwrap();
    refused(folder.path(), ScriptedRunner::new());
    let names = std::fs::read_dir(folder.path().join("records")).unwrap();
    let names: Vec<_> = names.map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names, ["lock"]);
}
