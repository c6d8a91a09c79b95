//! The boards of a lab as places for trials: found by their tags, locked, given power, reached by
//! ssh, and given back whatever happens.
//!
//! Limit: a place that somebody gives back while a run is under way does not join it; the next
//! start with `--resume` takes it.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use flashfit_host::{ProgramError, Runner, SshAddress, SystemRunner};
use flashfit_lab::{Lab, LabError, LabSettings, LockState, LockedPlace, PowerState, Tags};
use flashfit_testbed::remote::SshLink;
use flashfit_testbed::{RemoteHost, TrialError};
use flashfit_tune::run::{BoardLock, LockedBoard};
use flashfit_tune::{RunSpec, TimeSpan};
use flashfit_user_error::ExitClass;

use crate::command_error::CommandError;
use crate::output::{note, warn};
use crate::state;
use crate::test_beds::ssh;
use crate::timeouts::shortened;

/// How long a free place is waited for where the user does not say.
pub const USUAL_WAIT: TimeSpan = TimeSpan(600_000_000_000);
/// How long a coordinator that does not answer is asked again; boards wait meanwhile.
const PATIENCE: Duration = Duration::from_secs(20);
/// How often it is looked whether a place is still ours.
const CONFIRM_INTERVAL: Duration = Duration::from_secs(30);
/// How long a board that was given power may take until ssh answers.
const BOOT_LIMIT: Duration = Duration::from_secs(180);
/// The same for one that should be there.
const REACH_LIMIT: Duration = Duration::from_secs(10);
const REACH_INTERVAL: Duration = Duration::from_secs(1);
/// After that a board whose connection is lost is given up: others do its work.
const LOST_PATIENCE: Duration = Duration::from_secs(60);

/// A locked place, given back when dropped.
#[derive(Debug)]
pub struct PlaceLease {
    lock: LockedPlace,
    /// Whether its power goes with it: it had none before, or the board is lost.
    power_off: bool,
    /// Whether it has become somebody else's.
    is_taken: bool,
    confirmed: Instant,
}

impl PlaceLease {
    fn new(lock: LockedPlace) -> Self {
        Self { lock, power_off: false, is_taken: false, confirmed: Instant::now() }
    }

    /// Gives power to a board that has none, where it has a switch; whether it has to boot.
    fn power_on(&mut self) -> Result<bool, LabError> {
        match self.lock.power() {
            Err(LabError::NoPower { .. }) | Ok(PowerState::On) => Ok(false),
            Err(error) => Err(error),
            Ok(state) => {
                self.lock.power_on()?;
                self.power_off = state == PowerState::Off;
                Ok(true)
            }
        }
    }
}

impl BoardLock for PlaceLease {
    fn still_ours(&mut self) -> Result<(), TrialError> {
        if self.confirmed.elapsed() < shortened(CONFIRM_INTERVAL) {
            return Ok(());
        }
        let confirmed = self.lock.confirm();
        self.confirmed = Instant::now();
        match confirmed {
            Ok(LockState::Kept) => Ok(()),
            Ok(LockState::Regained) => {
                note(&format!("{}: the lab had lost the lock; locked again", self.lock.name()));
                Ok(())
            }
            Err(error @ LabError::Program(ProgramError::Interrupted { .. })) => {
                Err(TrialError::stopped(&error))
            }
            Err(
                error @ (LabError::Taken { .. }
                | LabError::Reserved { .. }
                | LabError::NoSuchPlace { .. }),
            ) => {
                self.is_taken = true;
                Err(TrialError::stopped(&error))
            }
            // Boards are reached without the lab: it is asked again later.
            Err(error) => {
                note(&format!("{}: {error}; the run goes on", self.lock.name()));
                Ok(())
            }
        }
    }

    fn power_off(&mut self) {
        self.power_off = true;
    }
}

impl Drop for PlaceLease {
    fn drop(&mut self) {
        if self.power_off && !self.is_taken {
            // Where there is no switch, or none that answers, nothing can be done.
            let _ = self.lock.power_off();
        }
    }
}

/// What boards are reached with.
#[derive(Clone, Copy)]
pub struct BoardAccess<'a> {
    pub runner: &'a SystemRunner,
    pub spec: &'a RunSpec,
    /// The run directory.
    pub dir: &'a std::path::Path,
}

/// Where and how the lab is, as labgrid's own variables say.
pub fn settings() -> LabSettings {
    LabSettings { patience: PATIENCE, ..LabSettings::from_variables(records()) }
}

/// The folder of the records of what is held: the system's for root, else the user's own.
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

/// Whether there is a lab, and what it is. Nothing is taken.
///
/// # Errors
/// When labgrid's client is not there, or its coordinator does not answer.
pub fn look(runner: &SystemRunner) -> Result<String, LabError> {
    let settings = LabSettings { patience: Duration::ZERO, ..settings() };
    let coordinator = settings.coordinator.clone();
    let places = Lab::places(&settings, runner)?;
    Ok(format!("the coordinator {coordinator} answers; it has {} boards", places.len()))
}

/// Enters the lab, and says what earlier starts had left.
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

/// Locks all places with these tags that are free; waits for one where none is.
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
        locked.push(PlaceLease::new(lab.reserve(tags)?.lock(wait)?));
    }
    Ok(locked)
}

/// Gives the boards power, waits until they can be reached, and starts an agent on each. Those that
/// cannot be reached are named and given back.
pub fn reach(
    leases: Vec<PlaceLease>,
    with: BoardAccess<'_>,
) -> Result<Vec<LockedBoard>, CommandError> {
    let links: Vec<(PlaceLease, Result<SshLink, CommandError>)> = std::thread::scope(|scope| {
        let link = |mut lease: PlaceLease| {
            let link = link(&mut lease, with);
            (lease, link)
        };
        let threads: Vec<_> =
            leases.into_iter().map(|lease| scope.spawn(move || link(lease))).collect();
        threads.into_iter().map(|thread| thread.join().expect("it does not panic")).collect()
    });
    let mut berths = Vec::new();
    let mut last = None;
    for (lease, link) in links {
        let name = lease.lock.name().to_owned();
        // Connected here and not beside: a connection ends with the thread that made it.
        match link.and_then(|link| {
            Ok(RemoteHost::new(
                link,
                &with.spec.on.to_string(),
                with.runner.interrupt(),
                env!("CARGO_PKG_VERSION"),
                with.spec.catalog_dir.as_deref(),
            )?)
        }) {
            Ok(host) => {
                let (host, lock) = (Box::new(host), Box::new(lease));
                berths.push(LockedBoard { name, host, lock });
            }
            Err(error) if error.class() == ExitClass::Interrupted => return Err(error),
            Err(error) => {
                note(&format!("left out: {name}: {}", error.message()));
                last = Some(error.at(&name));
            }
        }
    }
    match last {
        Some(error) if berths.is_empty() => Err(error),
        _ => Ok(berths),
    }
}

fn link(lease: &mut PlaceLease, with: BoardAccess<'_>) -> Result<SshLink, CommandError> {
    let found = lease.lock.ssh()?;
    let limit = if lease.power_on()? { BOOT_LIMIT } else { REACH_LIMIT };
    let mut options = ssh::configured();
    options.extend(found.options);
    let address = SshAddress { host: found.host, options };
    let name = lease.lock.name().to_owned();
    let token = ssh::token(&with.dir.join(&name));
    let began = Instant::now();
    loop {
        match ssh::link(address.clone(), &token, with.runner) {
            Ok(link) => return Ok(link.one_of_several(&name, shortened(LOST_PATIENCE))),
            Err(error) if !error.is_transient || began.elapsed() > limit => {
                return Err(error.into());
            }
            Err(_) => std::thread::sleep(shortened(REACH_INTERVAL)),
        }
    }
}
