//! A locked place: its SSH address and power switch.

use std::sync::Arc;
use std::time::{Duration, Instant};

use flashfit_host::SshAddress;

use crate::address;
use crate::client::{RefusalReason, RpcReply};
use crate::error::LabError;
use crate::reservation::Reservation;
use crate::resource;
use crate::session::LabSession;

/// Time between attempts to lock a place whose exporter is not back yet.
const PAUSE: Duration = Duration::from_secs(1);
/// How long a power switch may take, without the requested delay.
const SWITCH_LIMIT: Duration = Duration::from_secs(60);

/// A locked place. On drop, it is unlocked and its reservation canceled.
pub struct LockedPlace {
    session: Arc<LabSession>,
    name: String,
    reservation: Option<Reservation>,
    is_locked: bool,
}

impl std::fmt::Debug for LockedPlace {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LockedPlace").field("name", &self.name).finish_non_exhaustive()
    }
}

/// What [`LockedPlace::confirm`] found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LockState {
    /// The lock was never lost.
    Kept,
    /// The lock was lost, because the coordinator forgets locks when it restarts, and was taken
    /// again. Another user may have used the board in between.
    Regained,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PowerState {
    On,
    Off,
    /// The switch cannot report its state.
    Unknown,
}

impl LockedPlace {
    pub(crate) fn new(
        session: &Arc<LabSession>,
        name: &str,
        reservation: Option<Reservation>,
    ) -> Result<Self, LabError> {
        lock(session, name)?;
        Ok(Self {
            session: Arc::clone(session),
            name: name.to_owned(),
            reservation,
            is_locked: true,
        })
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    /// The SSH address of the board.
    ///
    /// # Errors
    /// If it has no `NetworkService`, or several and none is chosen in the settings.
    pub fn ssh(&self) -> Result<SshAddress, LabError> {
        let text = self.session.output(self.session.call(&["-p", &self.name, "show"])?)?;
        let refused = |reason: &str| LabError::Refused {
            command_line: format!("labgrid-client -p {} show", self.name),
            output: reason.to_owned(),
        };
        let view = resource::parse(&text).ok_or_else(|| refused("the output is not understood"))?;
        if view.place != self.name {
            return Err(refused("it printed another place"));
        }
        if !view.orphaned.is_empty() {
            return Err(LabError::ExporterAway { place: self.name.clone() });
        }
        let settings = &self.session.client.settings;
        address::of_place(&view, settings.resource.as_deref(), settings.proxy.as_deref())
    }

    /// Switches the board on. A lost lock is taken again if the place is free.
    ///
    /// # Errors
    /// [`LabError::NoPower`] without a power switch, [`LabError::Taken`] if another user has locked
    /// the place, or another [`LabError`].
    pub fn power_on(&self) -> Result<(), LabError> {
        self.switch(&["on"], Duration::ZERO).map(drop)
    }

    /// Switches the board off.
    ///
    /// # Errors
    /// See [`LockedPlace::power_on`].
    pub fn power_off(&self) -> Result<(), LabError> {
        self.switch(&["off"], Duration::ZERO).map(drop)
    }

    /// Switches the board off, and on again after `off`.
    ///
    /// # Errors
    /// See [`LockedPlace::power_on`].
    pub fn power_cycle(&self, off: Duration) -> Result<(), LabError> {
        let seconds = off.as_secs_f64().to_string();
        self.switch(&["cycle", "-t", &seconds], off).map(drop)
    }

    /// The state of the power switch.
    ///
    /// # Errors
    /// See [`LockedPlace::power_on`].
    pub fn power(&self) -> Result<PowerState, LabError> {
        let Some(text) = self.switch(&["get"], Duration::ZERO)? else {
            return Ok(PowerState::Unknown);
        };
        match text.split_whitespace().last() {
            Some("on") => Ok(PowerState::On),
            Some("off") => Ok(PowerState::Off),
            _ => Err(LabError::Refused {
                command_line: format!("labgrid-client -p {} power get", self.name),
                output: text,
            }),
        }
    }

    /// Checks that the place is still ours, and locks it again if it is free.
    ///
    /// # Errors
    /// [`LabError::Taken`] or [`LabError::Reserved`] if another user has it.
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
                // Exporters reconnect some time after the coordinator restarts.
                Err(LabError::ExporterAway { .. })
                    if started.elapsed() < self.session.client.settings.patience =>
                {
                    std::thread::sleep(PAUSE);
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Unlocks the place and cancels its reservation.
    ///
    /// # Errors
    /// If it may still be locked; the end of the session and the next start try again.
    pub fn release(mut self) -> Result<(), LabError> {
        self.release_once()
    }

    fn release_once(&mut self) -> Result<(), LabError> {
        if !std::mem::take(&mut self.is_locked) {
            return Ok(());
        }
        let unlocked = self.session.unlock(&self.name);
        let canceled = self.reservation.take().map_or(Ok(()), |mut made| made.cancel_once());
        unlocked.and(canceled)
    }

    /// The client's output; `None` if the switch cannot report its state.
    fn switch(&self, action: &[&str], extra: Duration) -> Result<Option<String>, LabError> {
        match self.switch_once(action, extra)? {
            RpcReply::No(no)
                if matches!(no.reason, RefusalReason::NotLocked | RefusalReason::Unreachable) =>
            {
                // Retries, and fails if another user has the place by now.
                self.confirm()?;
                let answer = self.switch_once(action, extra)?;
                self.switched(answer)
            }
            answer => self.switched(answer),
        }
    }

    fn switch_once(&self, action: &[&str], extra: Duration) -> Result<RpcReply, LabError> {
        let settings = &self.session.client.settings;
        let call = |args: &[&str], limit| match action {
            ["get"] => self.session.once(args, limit),
            _ => self.session.complete(args, limit),
        };
        let mut args = vec!["-p", &self.name, "power"];
        args.extend(action);
        if let Some(name) = &settings.resource {
            args.extend(["--name", name]);
        }
        let limit = SWITCH_LIMIT + extra;
        if let Some(file) = &settings.environment {
            let file = file.display().to_string();
            let with_file: Vec<&str> = ["-c", &file].into_iter().chain(args.clone()).collect();
            let answer = call(&with_file, limit)?;
            if !matches!(&answer, RpcReply::No(no) if no.reason == RefusalReason::NotInEnvironment)
            {
                return Ok(answer);
            }
        }
        call(&args, limit)
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
        // After an error, the end of the session tries again.
        let _ = self.release_once();
    }
}

/// Locks the place called `name`.
fn lock(session: &LabSession, name: &str) -> Result<(), LabError> {
    let place = || name.to_owned();
    match session.acquire(&["-p", name, "lock"])? {
        RpcReply::Done(text) => {
            let prefix = "acquired place ";
            let locked = text.lines().find_map(|line| line.strip_prefix(prefix));
            if locked == Some(name) {
                return Ok(());
            }
            // labgrid also accepts aliases and parts of names.
            if let Some(other) = locked {
                session.unlock(other)?;
            }
            Err(LabError::NoSuchPlace { place: place() })
        }
        RpcReply::No(no) => match no.reason {
            // An earlier attempt succeeded although its connection was lost.
            RefusalReason::LockedByUs => Ok(()),
            RefusalReason::LockedByOther => Err(taken(session, name)?),
            RefusalReason::ReservedForOther => Err(reserved(session, name)?),
            RefusalReason::NoSuchPlace => Err(LabError::NoSuchPlace { place: place() }),
            RefusalReason::ExporterAway => Err(LabError::ExporterAway { place: place() }),
            _ => Err(no.into_error(&session.client)),
        },
    }
}

/// The error that names the owner of the lock.
fn taken(session: &LabSession, name: &str) -> Result<LabError, LabError> {
    let place = session.places()?.into_iter().find(|place| place.name == name);
    let owner = place.and_then(|place| place.locked_by);
    let owner = owner.unwrap_or_else(|| "a user who has just released it".to_owned());
    Ok(LabError::Taken { place: name.to_owned(), owner })
}

/// The error that names the owner of the reservation.
fn reserved(session: &LabSession, name: &str) -> Result<LabError, LabError> {
    let made = session.reservations()?;
    let made = made.into_iter().find(|made| made.place.as_deref() == Some(name));
    let owner = made.map_or_else(|| "another user".to_owned(), |made| made.owner);
    Ok(LabError::Reserved { place: name.to_owned(), owner })
}
