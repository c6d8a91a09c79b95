//! The boards of a lab as test beds: found by their tags, locked, switched on, reached by ssh, and
//! released in the end.
//!
//! Limit: a board that becomes free during a run does not join it; the next start with `--resume`
//! uses it.

mod confirmed;
mod lease;
mod reach;
mod switch;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use flashfit_host::{Runner, SystemRunner};
use flashfit_lab::{Lab, LabError, LabSettings, Tags};
use flashfit_tune::TimeSpan;

use crate::command_error::CommandError;
use crate::output::{note, warn};
use crate::state;

pub use confirmed::{name_on_board, names_by_board};
pub use lease::PlaceLease;
pub use reach::{BoardAccess, LOST_PATIENCE, reach};
pub use switch::{LabSwitch, OwnSwitch};

/// How long a run waits for a free board by default.
pub const USUAL_WAIT: TimeSpan = TimeSpan(600_000_000_000);
/// How long a coordinator that does not answer is asked again; boards wait meanwhile.
const PATIENCE: Duration = Duration::from_secs(20);

/// The lab according to labgrid's environment variables.
pub fn settings() -> LabSettings {
    LabSettings { patience: PATIENCE, ..LabSettings::from_variables(records()) }
}

/// The directory of the records of locks: the system's for root, otherwise the user's.
fn records() -> PathBuf {
    let named = |name| std::env::var_os(name).filter(|name| !name.is_empty()).map(PathBuf::from);
    let own = || {
        let root = rustix::process::geteuid().is_root();
        let state = named("XDG_STATE_HOME").or_else(|| Some(named("HOME")?.join(".local/state")));
        state.filter(|_| !root).map(|folder| folder.join("flashfit"))
    };
    let folder = named(state::VARIABLE).or_else(own).unwrap_or_else(|| PathBuf::from(state::USUAL));
    folder.join("lab")
}

/// Describes the lab. Nothing is locked.
///
/// # Errors
/// If labgrid's client is missing or its coordinator does not answer.
pub fn look(runner: &SystemRunner) -> Result<String, LabError> {
    let settings = LabSettings { patience: Duration::ZERO, ..settings() };
    let coordinator = settings.coordinator.clone();
    let places = Lab::places(&settings, runner)?;
    Ok(format!("the coordinator {coordinator} answers; it has {} boards", places.len()))
}

/// Opens the lab, and reports what earlier runs left locked.
pub fn open(runner: &SystemRunner) -> Result<Lab, CommandError> {
    let work: Arc<dyn Runner> = Arc::new(SystemRunner::new(runner.interrupt().clone()));
    let lab = Lab::open(settings(), work, Arc::new(SystemRunner::default()))?;
    if !lab.recovered().is_empty() {
        note(&format!("released boards of an earlier run: {}", lab.recovered().join(", ")));
    }
    for held in lab.still_held() {
        warn(&format!(
            "{} may still lock boards of the lab {}, which does not answer; this is retried at \
             the next start",
            held.owner, held.coordinator
        ));
    }
    Ok(lab)
}

/// Locks all free boards with these tags; if none is free, waits for one.
pub fn lock(lab: &Lab, tags: &Tags, wait: Duration) -> Result<Vec<PlaceLease>, CommandError> {
    let mut locked = Vec::new();
    for place in lab.all_matching(tags)? {
        match lab.lock_now(&place.name) {
            Ok(lock) => locked.push(PlaceLease::new(lock)),
            Err(
                error @ (LabError::Taken { .. }
                | LabError::Reserved { .. }
                | LabError::ExporterAway { .. }),
            ) => note(&format!("left out: {error}")),
            Err(error) => return Err(error.into()),
        }
    }
    if locked.is_empty() {
        note(&format!("no board with {tags} is free; waiting for one for {} s", wait.as_secs()));
        locked.push(lock_one(lab, tags, wait)?);
    }
    Ok(locked)
}

/// Locks one board with these tags, and waits until one is free.
pub fn lock_one(lab: &Lab, tags: &Tags, wait: Duration) -> Result<PlaceLease, LabError> {
    Ok(PlaceLease::new(lab.reserve(tags)?.lock(wait)?))
}
