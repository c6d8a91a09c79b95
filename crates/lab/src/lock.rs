//! A place that is ours for now: its power, its address.

use std::sync::Arc;
use std::time::{Duration, Instant};

use flashfit_host::SshAddress;

use crate::address;
use crate::client::{RefusalReason, RpcReply};
use crate::error::LabError;
use crate::reservation::Reservation;
use crate::resource;
use crate::session::LabSession;

/// Between attempts to lock a place whose exporter is not back yet.
const PAUSE: Duration = Duration::from_secs(1);
/// What a power switch may take, its own delay apart.
const SWITCH_LIMIT: Duration = Duration::from_secs(60);

/// A locked place; unlocked when dropped, its reservation cancelled.
pub struct LockedPlace {
    session: Arc<LabSession>,
    name: String,
    reservation: Option<Reservation>,
    held: bool,
}

impl std::fmt::Debug for LockedPlace {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LockedPlace").field("name", &self.name).finish_non_exhaustive()
    }
}

/// What [`LockedPlace::confirm`] found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LockState {
    /// The lock has been ours throughout.
    Kept,
    /// It was lost (the coordinator forgets locks when it restarts) and is ours again. Somebody
    /// else may have used the board meanwhile.
    Regained,
}

/// Whether a board has power.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PowerState {
    /// It has.
    On,
    /// It has not.
    Off,
    /// Its switch cannot tell.
    Unknown,
}

impl LockedPlace {
    pub(crate) fn new(
        session: &Arc<LabSession>,
        name: &str,
        reservation: Option<Reservation>,
    ) -> Result<Self, LabError> {
        lock(session, name)?;
        Ok(Self { session: Arc::clone(session), name: name.to_owned(), reservation, held: true })
    }

    /// The place's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// How ssh reaches the board.
    ///
    /// # Errors
    /// Where it has no `NetworkService`, or several and none is named in the settings.
    pub fn ssh(&self) -> Result<SshAddress, LabError> {
        let text = self.session.done(self.session.call(&["-p", &self.name, "show"])?)?;
        let refused = |said: &str| LabError::Refused {
            command_line: format!("labgrid-client -p {} show", self.name),
            said: said.to_owned(),
        };
        let shown = resource::shown(&text).ok_or_else(|| refused("not understood"))?;
        if shown.place != self.name {
            return Err(refused("another place was shown"));
        }
        if !shown.orphaned.is_empty() {
            return Err(LabError::ExporterAway { place: self.name.clone() });
        }
        let settings = &self.session.client.settings;
        address::of_place(&shown, settings.resource.as_deref(), settings.proxy.as_deref())
    }

    /// Gives the board power.
    ///
    /// # Errors
    /// [`LabError::NoPower`] where nothing switches it, [`LabError::Taken`] where the lock was
    /// lost to somebody else, and as [`LabError`] tells. A lock that was merely lost is regained.
    pub fn power_on(&self) -> Result<(), LabError> {
        self.switch(&["on"], Duration::ZERO).map(drop)
    }

    /// Takes the board's power away.
    ///
    /// # Errors
    /// As [`LockedPlace::power_on`].
    pub fn power_off(&self) -> Result<(), LabError> {
        self.switch(&["off"], Duration::ZERO).map(drop)
    }

    /// Takes the board's power away and gives it back after `off`.
    ///
    /// # Errors
    /// As [`LockedPlace::power_on`].
    pub fn power_cycle(&self, off: Duration) -> Result<(), LabError> {
        let seconds = off.as_secs_f64().to_string();
        self.switch(&["cycle", "-t", &seconds], off).map(drop)
    }

    /// Whether the board has power, as far as its switch can tell.
    ///
    /// # Errors
    /// As [`LockedPlace::power_on`].
    pub fn power(&self) -> Result<PowerState, LabError> {
        let Some(text) = self.switch(&["get"], Duration::ZERO)? else {
            return Ok(PowerState::Unknown);
        };
        match text.split_whitespace().last() {
            Some("on") => Ok(PowerState::On),
            Some("off") => Ok(PowerState::Off),
            _ => Err(LabError::Refused {
                command_line: format!("labgrid-client -p {} power get", self.name),
                said: text,
            }),
        }
    }

    /// Looks whether the place is still ours, and locks it again if nobody has it.
    ///
    /// # Errors
    /// [`LabError::Taken`] or [`LabError::Reserved`] where it is somebody else's now.
    pub fn confirm(&self) -> Result<LockState, LabError> {
        let places = self.session.places()?;
        let place = places.into_iter().find(|place| place.name == self.name);
        let place = place.ok_or_else(|| LabError::NoSuchPlace { place: self.name.clone() })?;
        if place.locked_by == Some(self.session.client.owner.to_string()) {
            return Ok(LockState::Kept);
        }
        let started = Instant::now();
        loop {
            match lock(&self.session, &self.name) {
                Ok(()) => return Ok(LockState::Regained),
                // After a coordinator, exporters come back a little later.
                Err(LabError::ExporterAway { .. })
                    if started.elapsed() < self.session.client.settings.patience =>
                {
                    std::thread::sleep(PAUSE);
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Unlocks it and cancels its reservation.
    ///
    /// # Errors
    /// When it may still be locked. It is then tried again at the end and at the next start.
    pub fn release(mut self) -> Result<(), LabError> {
        self.release_once()
    }

    fn release_once(&mut self) -> Result<(), LabError> {
        if !std::mem::take(&mut self.held) {
            return Ok(());
        }
        let unlocked = self.session.unlock(&self.name);
        let cancelled = self.reservation.take().map_or(Ok(()), |mut made| made.cancel_once());
        unlocked.and(cancelled)
    }

    /// What the client printed; `None` where the switch cannot tell.
    fn switch(&self, action: &[&str], extra: Duration) -> Result<Option<String>, LabError> {
        match self.switch_once(action, extra)? {
            RpcReply::No(no)
                if matches!(no.reason, RefusalReason::NotLocked | RefusalReason::Unreachable) =>
            {
                // Patient, and an error if the place is somebody else's by now.
                self.confirm()?;
                let answer = self.switch_once(action, extra)?;
                self.switched(answer)
            }
            answer => self.switched(answer),
        }
    }

    fn switch_once(&self, action: &[&str], extra: Duration) -> Result<RpcReply, LabError> {
        let settings = &self.session.client.settings;
        let mut args = vec!["-p", &self.name, "power"];
        args.extend(action);
        if let Some(name) = &settings.resource {
            args.extend(["--name", name]);
        }
        let limit = SWITCH_LIMIT + extra;
        if let Some(file) = &settings.environment {
            let file = file.display().to_string();
            let with_file: Vec<&str> = ["-c", &file].into_iter().chain(args.clone()).collect();
            let answer = self.session.once(&with_file, limit)?;
            if !matches!(&answer, RpcReply::No(no) if no.reason == RefusalReason::NotInEnvironment)
            {
                return Ok(answer);
            }
        }
        self.session.once(&args, limit)
    }

    fn switched(&self, answer: RpcReply) -> Result<Option<String>, LabError> {
        let place = || self.name.clone();
        match answer {
            RpcReply::Done(text) => Ok(Some(text)),
            RpcReply::No(no) => match no.reason {
                RefusalReason::PowerUnknown => Ok(None),
                RefusalReason::NoPower => Err(LabError::NoPower { place: place() }),
                RefusalReason::ExporterAway => Err(LabError::ExporterAway { place: place() }),
                RefusalReason::LockedByOther => Err(taken(&self.session, &self.name)?),
                _ => Err(no.into_error(&self.session.client)),
            },
        }
    }
}

impl Drop for LockedPlace {
    fn drop(&mut self) {
        // What failed is tried again when the session ends.
        let _ = self.release_once();
    }
}

/// Locks the place called `name`.
fn lock(session: &LabSession, name: &str) -> Result<(), LabError> {
    let place = || name.to_owned();
    match session.take(&["-p", name, "lock"])? {
        RpcReply::Done(text) => {
            let prefix = "acquired place ";
            let locked = text.lines().find_map(|line| line.strip_prefix(prefix));
            if locked == Some(name) {
                return Ok(());
            }
            // labgrid takes parts of names and aliases too.
            if let Some(other) = locked {
                session.unlock(other)?;
            }
            Err(LabError::NoSuchPlace { place: place() })
        }
        RpcReply::No(no) => match no.reason {
            // An attempt that was cut off had done it.
            RefusalReason::LockedByUs => Ok(()),
            RefusalReason::LockedByOther => Err(taken(session, name)?),
            RefusalReason::ReservedForOther => Err(reserved(session, name)?),
            RefusalReason::NoSuchPlace => Err(LabError::NoSuchPlace { place: place() }),
            RefusalReason::ExporterAway => Err(LabError::ExporterAway { place: place() }),
            _ => Err(no.into_error(&session.client)),
        },
    }
}

/// The error that names who has the place.
fn taken(session: &LabSession, name: &str) -> Result<LabError, LabError> {
    let place = session.places()?.into_iter().find(|place| place.name == name);
    let owner = place.and_then(|place| place.locked_by);
    let owner = owner.unwrap_or_else(|| "somebody who has just released it".to_owned());
    Ok(LabError::Taken { place: name.to_owned(), owner })
}

/// The error that names whom the place is kept for.
fn reserved(session: &LabSession, name: &str) -> Result<LabError, LabError> {
    let made = session.reservations()?;
    let made = made.into_iter().find(|made| made.place.as_deref() == Some(name));
    let owner = made.map_or_else(|| "somebody".to_owned(), |made| made.owner);
    Ok(LabError::Reserved { place: name.to_owned(), owner })
}
