//! `--crash-states`: checks crash states of the recommended setup after the search.
//!
//! The check is `flashfit crash states` in another process, because it enters a mount namespace
//! before it starts threads. Limit: the file system is made on a device in memory with the options
//! of the setup, not with the layout of the device.

use std::path::Path;
use std::time::Duration;

use flashfit_host::{Program, Runner, SystemRunner, durable};
use flashfit_tune::{RunHeader, Space, TrialRecord};
use flashfit_user_error::ExitClass;
use serde_json::Value;

use crate::command_error::CommandError;
use crate::output::note;
use crate::rendering::RunView;
use crate::rendering::crash_test::{CrashTest, FILE, label};
use flashfit_tune::run::Catalogs;

/// A state takes milliseconds; a campaign that takes this long hangs.
const LIMIT: Duration = Duration::from_secs(24 * 3600);
const FOLDER: &str = "crash-states";

/// Checks `states` of the recommended setup, unless that was done, and stores the result in the run
/// directory. What cannot be checked is only noted: the recommendation does not depend on it.
pub fn run(
    (header, trials): (&RunHeader, &[TrialRecord]),
    catalogs: &Catalogs,
    catalog_dir: Option<&Path>,
    dir: &Path,
    states: u64,
) -> Result<(), CommandError> {
    let space = Space::of_run(header, &catalogs.filesystems)?;
    let view = RunView::new(header, trials, &catalogs.workloads, &space)?;
    let Some(found) = view.recommendation() else { return Ok(()) };
    let known = CrashTest::read(dir, found.recommended());
    if known.is_some_and(|known| known.not_tested.is_none() && known.states >= states) {
        return Ok(());
    }
    let setup = label(found.recommended());
    note(&format!("checking {states} crash states of {setup}"));
    let tested = match states_of(&setup, catalog_dir, dir, states) {
        Ok(tested) => tested,
        Err(error) if error.class() == ExitClass::Interrupted => return Err(error),
        Err(error) => {
            note(&format!("note: crash states of {setup} were not checked: {}", error.message()));
            CrashTest {
                setup,
                not_tested: Some(error.message().to_owned()),
                ..CrashTest::default()
            }
        }
    };
    let text = serde_json::to_string_pretty(&tested).expect("plain data");
    let path = dir.join(FILE);
    durable::write(&path, (text + "\n").as_bytes()).map_err(|error| {
        let message = format!("cannot write {}: {error}", path.display());
        CommandError::new(ExitClass::Environment, message, None)
    })
}

fn states_of(
    setup: &str,
    catalog_dir: Option<&Path>,
    dir: &Path,
    states: u64,
) -> Result<CrashTest, CommandError> {
    let failed = |message: String| CommandError::new(ExitClass::Environment, message, None);
    let program = std::env::current_exe()
        .map_err(|error| failed(format!("cannot find this program's own file: {error}")))?;
    let folder = dir.join(FOLDER);
    // A resumed run may recommend another setup.
    let _ = std::fs::remove_dir_all(&folder);
    let mut command = Program::new(program.display().to_string())
        .args(["crash", "states", "--json", "--fs", setup, "--states", &states.to_string()])
        .arg("--dir")
        .arg(folder)
        .timeout(LIMIT);
    if let Some(catalog_dir) = catalog_dir {
        command = command.arg("--catalog").arg(catalog_dir);
    }
    let outcome = SystemRunner::new(crate::signals::interrupt()?).run(&command)?;
    let document: Value = serde_json::from_slice(outcome.stdout.as_bytes())
        .map_err(|_| failed(outcome.stderr.lines().last().unwrap_or_default().to_owned()))?;
    let found = &document["data"]["setups"][0];
    if let (Some(states), Some(broken), Some(upper_bound)) =
        (found["states"].as_u64(), found["broken_promises"].as_u64(), found["upper_bound"].as_f64())
    {
        return Ok(CrashTest {
            setup: setup.to_owned(),
            states,
            broken,
            upper_bound_millionths: millionths(upper_bound),
            logs: found["logs"].as_u64(),
            runs_upper_bound_millionths: found["runs_upper_bound"].as_f64().map(millionths),
            workload: "files".to_owned(),
            kernel: rustix::system::uname().release().to_string_lossy().into_owned(),
            not_tested: None,
        });
    }
    let message = document["error"]["message"].as_str().unwrap_or("no result").to_owned();
    let class = match outcome.code {
        Some(code) => u8::try_from(code).map_or(ExitClass::Environment, ExitClass::of_code),
        None => ExitClass::Environment,
    };
    Err(CommandError::new(class, message, None))
}

fn millionths(share: f64) -> u64 {
    (share * 1e6).ceil() as u64
}
